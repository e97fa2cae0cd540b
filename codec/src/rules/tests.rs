use super::*;

fn rule(action: Action, sources: &[&str], regex: &str) -> Rule {
    Rule {
        action,
        source_labels: sources.iter().map(ToString::to_string).collect(),
        separator: ";".into(),
        regex: regex.into(),
    }
}

fn drop_name(regex: &str) -> Rule {
    rule(Action::Drop, &["__name__"], regex)
}

fn is_set(regex: &str) -> bool {
    matches!(Pattern::compile(regex).unwrap(), Pattern::Set { .. })
}

#[test]
fn the_usual_patterns_need_no_regex() {
    for regex in [
        "apiserver_request_total",
        "(apiserver_storage_objects|apiserver_request_total)",
        "etcd_(debugging|disk|server).*",
        ".*",
        "(.*)",
        "rest_client_request_latency_seconds_(bucket|count|sum)",
        "network_plugin_operations|sync_proxy_rules|rest_client",
        "a[bc]d?(\\.0)?",
    ] {
        assert!(is_set(regex), "{regex}");
    }
    for regex in ["a.c", ".*x", "a+", "[a-z]", "a{3}", "a\\b", "(?i)abcdefghijklmnopqrstuvw"] {
        assert!(!is_set(regex), "{regex}");
    }
}

#[test]
fn a_set_matches_what_its_regex_matches() {
    let patterns = ["(a|bc)?d", "a(b|c.*)", "x|", "[ab][cd]", "a.*|b", "(?:a|ab)(c|bcd)", "", "é|b.*", "(?i)ab"];
    let texts = ["", "a", "b", "d", "ad", "bcd", "ab", "ac", "acx", "x", "abcd", "aéb", "é", "AB", "a\nb", "bc"];
    for pattern in patterns {
        let regex = regex::bytes::Regex::new(&format!("^(?s:{pattern})$")).unwrap();
        let compiled = Pattern::compile(pattern).unwrap();
        for text in texts {
            assert_eq!(compiled.matches(text.as_bytes()), regex.is_match(text.as_bytes()), "{pattern} on {text:?}");
        }
    }
}

#[test]
fn names_are_judged_once_for_all_their_samples() {
    let buckets = rule(Action::Drop, &["__name__", "le"], "req_bucket;(0.15|0.3)(\\.0)?");
    let rules = Rules::compile(&[drop_name("etcd_.*"), buckets]).unwrap();
    assert_eq!(rules.judge(b"etcd_x"), Verdict::Drop);
    assert_eq!(rules.judge(b"up"), Verdict::Keep);
    assert_eq!(rules.judge(b"req"), Verdict::Keep);
    assert_eq!(rules.judge(b"req_bucket"), Verdict::Check(smallvec::smallvec![1]));
}

#[test]
fn decisions_name_the_rule() {
    let keep = rule(Action::Keep, &["__name__"], "a|b");
    let labels = rule(Action::Drop, &["x", "y"], "1;2");
    let rules = Rules::compile(&[keep, labels]).unwrap();
    let decide = |name, x: Option<&str>, y: Option<&str>| {
        rules.decide(name, |label| match label {
            "x" => x.map(String::from),
            "y" => y.map(String::from),
            _ => None,
        })
    };
    assert_eq!(decide("c", None, None), Decision { keep: false, rule: Some(0) });
    assert_eq!(decide("a", Some("1"), Some("2")), Decision { keep: false, rule: Some(1) });
    assert_eq!(decide("a", Some("1"), None), Decision { keep: true, rule: None });
}

#[test]
fn an_answer_is_remembered_for_its_values_only() {
    struct Le(&'static str);
    impl Labels for Le {
        fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
            (name == b"le").then_some(Cow::Borrowed(self.0.as_bytes()))
        }
    }
    let rules = Rules::compile(&[rule(Action::Drop, &["__name__", "le"], "b;(0.1|2)")]).unwrap();
    let (mut answers, mut scratch) = (Answers::default(), Scratch::default());
    for _ in 0..2 {
        for (le, passes) in [("0.1", false), ("2", false), ("3", true), ("", true), ("0x1", false)] {
            assert_eq!(answers.passes(&rules, &[0], b"b", &Le(le), &mut scratch), passes, "{le}");
        }
    }
    for n in 0..2 * Answers::MOST {
        let le: &'static str = format!("v{n}").leak();
        assert!(answers.passes(&rules, &[0], b"b", &Le(le), &mut scratch));
    }
    let long: &'static str = "x".repeat(100_000).leak();
    assert!(answers.passes(&rules, &[0], b"b", &Le(long), &mut scratch));
    assert!(answers.known.len() <= Answers::MOST);
    assert!(scratch.joined.capacity() + scratch.key.capacity() <= 2 * Scratch::KEPT_BYTES);
}

#[test]
fn a_rule_that_does_not_compile_is_an_error_with_its_place() {
    for (regex, reason) in [
        ("a(", "unclosed group at byte 1"),
        ("*", "repetition operator missing expression at byte 0"),
        ("a)|(b", "unopened group at byte 1"),
        ("\\C", "unrecognized escape sequence at byte 0"),
        ("[a&&b]", "'&&', '--' and '~~' in a class must be escaped at byte 1"),
        ("[[a]b]", "'[' in a class must be escaped at byte 1"),
    ] {
        let error = Rules::compile(&[drop_name("ok"), drop_name(regex)]).unwrap_err();
        assert_eq!((error.rule, error.regex.as_str(), error.reason.as_str()), (1, regex, reason));
    }
    let error = Rules::compile(&[drop_name("(a{1000}){1000}")]).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}

/// Go's classes are ASCII.
#[test]
fn patterns_mean_what_go_means_by_them() {
    for (pattern, matching, other) in [
        (r"\d+", "42", "\u{663}"),
        (r"[\d.]+", "4.2", "\u{663}"),
        (r"[^\d]", "x", "4"),
        (r"[\D]", "\u{663}", "4"),
        (r"\w\W", "a-", "é-"),
        (r"\s\S", " x", "\u{a0}x"),
        (r"é\b.*", "éa", "é-"),
        (r"[[:alpha:]]", "a", "é"),
    ] {
        let compiled = Pattern::compile(pattern).unwrap();
        assert!(compiled.matches(matching.as_bytes()), "{pattern} {matching}");
        assert!(!compiled.matches(other.as_bytes()), "{pattern} {other}");
    }
}
