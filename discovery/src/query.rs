//! What a component asks for: which pods, and which of their ports.

/// The pods of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The control plane's namespace.
    pub namespace: String,
    /// Which pods.
    pub pods: Pods,
    /// Which port of theirs.
    pub port: Port,
}

/// How pods are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Those in the slices of this Service.
    OfService(String),
    /// Those with these labels.
    Selected(Selector),
}

/// What has to be watched for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Slices,
    Pods,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slices => "endpointslices",
            Self::Pods => "pods",
        }
    }
}

impl Query {
    pub(crate) fn kind(&self) -> Kind {
        match self.pods {
            Pods::OfService(_) => Kind::Slices,
            Pods::Selected(_) => Kind::Pods,
        }
    }

    /// The labels it looks at.
    pub(crate) fn label_keys(&self) -> impl Iterator<Item = &str> {
        let requirements = match &self.pods {
            Pods::OfService(_) => &[][..],
            Pods::Selected(selector) => &selector.requirements,
        };
        requirements.iter().map(Requirement::key)
    }
}

/// A port by name, where the empty name is the port without one, or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// By name.
    Name(String),
    /// By number, whether or not anybody lists it.
    Number(u16),
}

/// A Kubernetes label selector: all of its requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label has one of these values.
    In(String, Vec<String>),
    /// It has none of them, or there is no such label.
    NotIn(String, Vec<String>),
    /// There is such a label.
    Exists(String),
    /// There is none.
    DoesNotExist(String),
}

impl Requirement {
    fn key(&self) -> &str {
        match self {
            Self::In(key, _) | Self::NotIn(key, _) | Self::Exists(key) | Self::DoesNotExist(key) => key,
        }
    }
}

impl Selector {
    /// A selector of these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        Self { requirements: requirements.into_iter().collect() }
    }

    /// Whether something with these labels, each once, is selected.
    pub(crate) fn matches(&self, labels: &[(String, String)]) -> bool {
        let value_of = |key: &str| labels.iter().find(|(known, _)| known == key).map(|(_, value)| value);
        let is_one_of = |key: &str, values: &[String]| value_of(key).is_some_and(|value| values.contains(value));
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => is_one_of(key, values),
            Requirement::NotIn(key, values) => !is_one_of(key, values),
            Requirement::Exists(key) => value_of(key).is_some(),
            Requirement::DoesNotExist(key) => value_of(key).is_none(),
        })
    }
}
