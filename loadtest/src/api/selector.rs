//! Label and field selectors.

use serde_json::Value;

use super::status::Failure;

/// Which objects a list or a watch is about, besides their namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(Vec<String>, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// An object without the label passes, as in Kubernetes.
    NotIn(Vec<String>),
}

impl Selector {
    /// `kind` decides which fields may be selected by.
    pub(super) fn parse(labels: Option<&str>, fields: Option<&str>, kind: &str) -> Result<Self, Failure> {
        let labels = labels.map(parse_labels).transpose()?.unwrap_or_default();
        let fields = fields.map(|fields| parse_fields(fields, kind)).transpose()?.unwrap_or_default();
        Ok(Self { labels, fields })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        let labels = self.labels.iter().all(|requirement| requirement.passes(label(&requirement.key)));
        labels && self.fields.iter().all(|(path, equal, value)| (field(object, path) == value.as_str()) == *equal)
    }
}

impl Requirement {
    fn passes(&self, label: Option<&str>) -> bool {
        match &self.test {
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
            Test::In(values) => label.is_some_and(|label| values.iter().any(|value| value == label)),
            Test::NotIn(values) => label.is_none_or(|label| values.iter().all(|value| value != label)),
        }
    }
}

fn field<'a>(object: &'a Value, path: &[String]) -> &'a str {
    path.iter().fold(object, |value, part| &value[part.as_str()]).as_str().unwrap_or("")
}

fn parse_fields(text: &str, kind: &str) -> Result<Vec<(Vec<String>, bool, String)>, Failure> {
    let known: &[&str] = match kind {
        "Pod" => &["spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase", "status.podIP"],
        "Secret" => &["type"],
        "Namespace" => &["status.phase"],
        "Event" => &["involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "reason", "type"],
        _ => &[],
    };
    let parse = |term: &str| {
        let (path, equal, value) = if let Some((path, value)) = term.split_once("!=") {
            (path, false, value)
        } else {
            let (path, value) = term.split_once("==").or_else(|| term.split_once('=')).ok_or_else(|| {
                Failure::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            (path, true, value)
        };
        if !["metadata.name", "metadata.namespace"].contains(&path) && !known.contains(&path) {
            return Err(Failure::bad_request(format!("field label not supported: {path}")));
        }
        Ok((path.split('.').map(str::to_owned).collect(), equal, value.to_owned()))
    };
    text.split(',').map(str::trim).filter(|term| !term.is_empty()).map(parse).collect()
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Failure> {
    split_terms(text)
        .into_iter()
        .map(|term| parse_term(term.trim()).ok_or_else(|| unparsable(term)))
        .collect::<Result<Vec<_>, _>>()
}

fn unparsable(term: &str) -> Failure {
    Failure::bad_request(format!("unable to parse requirement: found '{term}'"))
}

/// At the commas that are not between parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .filter(|term| !term.trim().is_empty())
    .collect()
}

fn parse_term(term: &str) -> Option<Requirement> {
    let requirement = |key: &str, test| {
        let key = key.trim();
        let letters = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
        (!key.is_empty() && letters).then(|| Requirement { key: key.into(), test })
    };
    if let Some(key) = term.strip_prefix('!') {
        return requirement(key, Test::Absent);
    }
    if let Some((head, values)) = term.split_once('(') {
        let values = values.trim_end().strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next()?, words.next()?, words.next()) {
            (key, "in", None) => requirement(key, Test::In(values)),
            (key, "notin", None) => requirement(key, Test::NotIn(values)),
            _ => None,
        };
    }
    let value = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, text)) = term.split_once("!=") {
        return requirement(key, Test::NotIn(value(text)));
    }
    if let Some((key, text)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return requirement(key, Test::In(value(text)));
    }
    requirement(term, Test::Exists)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn selects(selector: &str, labels: &Value) -> bool {
        Selector::parse(Some(selector), None, "Pod").unwrap().matches(&json!({"metadata": {"labels": labels}}))
    }

    #[test]
    fn labels_are_tested_one_by_one() {
        let labels = json!({"app": "etcd", "tier": "b", "empty": ""});
        for selector in
            ["app=etcd", "app == etcd", "app", "!gone", "app!=x", "gone!=x", "app in (x, etcd)", "gone notin (a)", ""]
        {
            assert!(selects(selector, &labels), "{selector}");
        }
        for selector in ["app=x", "gone", "!app", "app!=etcd", "app in (x)", "app notin (etcd,x)", "gone in (a)"] {
            assert!(!selects(selector, &labels), "{selector}");
        }
        assert!(selects("app in (etcd,x),tier=b,!gone,empty=", &labels));
        assert!(!selects("app in (etcd,x),tier=c", &labels));
        assert!(!selects("app", &Value::Null));
    }

    #[test]
    fn what_is_no_selector_is_a_bad_request() {
        for selector in ["app in etcd", "a b", "=x", "app in (x", "!"] {
            let failure = Selector::parse(Some(selector), None, "Pod").unwrap_err();
            assert_eq!(failure.code, 400, "{selector}");
        }
        assert_eq!(Selector::parse(None, Some("spec.port=1"), "Pod").unwrap_err().code, 400);
        assert_eq!(Selector::parse(None, Some("metadata.name"), "Pod").unwrap_err().code, 400);
    }

    #[test]
    fn fields_are_those_of_the_kind() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running"}});
        let selects = |fields| Selector::parse(None, Some(fields), "Pod").unwrap().matches(&pod);
        assert!(selects("metadata.name=a,metadata.namespace==n") && selects("status.phase!=Pending"));
        assert!(!selects("metadata.name=b") && !selects("metadata.name!=a"));
    }
}
