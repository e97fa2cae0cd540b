//! Go's regular expressions, which is what rules are written in, as the `regex` crate's.
//!
//! The two dialects agree on nearly everything. Where they do not, a pattern must not silently come to mean something
//! else: what can be said in both is translated, what only one of them knows is refused.
//!
//! | pattern | Go | here |
//! |---|---|---|
//! | `\d \w \s \b` and their negations | ASCII | translated; Unicode otherwise |
//! | `[a&&b]`, `[a--b]`, `[a~~b]`, `[[a]b]` | plain characters | refused; set operations otherwise |
//! | `\Q…\E`, `a{,3}`, `\C` | known | refused |
//! | `.` | any character but newline, with `s` any | any, as in Prometheus 3 |

use regex_syntax::ast::{self, Ast, ClassPerlKind, ClassSetItem, Span, Visitor};

/// The pattern as the `regex` crate would say it, or what is wrong with it in one line.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let ast = ast::parse::Parser::new().parse(pattern).map_err(|error| explain(error.kind(), error.span()))?;
    let edits = ast::visit(&ast, Edits::default())?;
    let mut translated = String::with_capacity(pattern.len());
    let mut at = 0;
    for (span, text) in edits {
        translated.push_str(&pattern[at..span.start.offset]);
        translated.push_str(text);
        at = span.end.offset;
    }
    translated.push_str(&pattern[at..]);
    Ok(translated)
}

/// One line: what, and at which byte of the pattern as it was written.
fn explain(what: impl std::fmt::Display, span: &Span) -> String {
    format!("{what} at byte {}", span.start.offset)
}

/// What has to be replaced, in order.
#[derive(Default)]
struct Edits(Vec<(Span, &'static str)>);

impl Edits {
    fn class(&mut self, class: &ast::ClassPerl) {
        let text = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.0.push((class.span, text));
    }
}

impl Visitor for Edits {
    type Output = Vec<(Span, &'static str)>;
    type Err = String;

    fn finish(self) -> Result<Self::Output, String> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::ClassPerl(class) => self.class(class),
            Ast::Assertion(assertion) => match assertion.kind {
                ast::AssertionKind::WordBoundary => self.0.push((assertion.span, r"(?-u:\b)")),
                ast::AssertionKind::NotWordBoundary => self.0.push((assertion.span, r"(?-u:\B)")),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            // Inside a class a class of its own is a union here, which is what Go means.
            ClassSetItem::Perl(class) => self.class(class),
            ClassSetItem::Bracketed(class) => {
                return Err(explain("'[' in a class must be escaped", &class.span));
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ast::ClassSetBinaryOp) -> Result<(), String> {
        Err(explain("'&&', '--' and '~~' in a class must be escaped", &operation.span))
    }
}
