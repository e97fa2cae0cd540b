//! In which form objects are shown: whole, or their metadata alone.

use std::sync::Arc;

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Map, Value, json};

use super::resource::Resource;
use super::storage::Page;

/// What the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Objects as they are.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
}

impl View {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
        let first = accept.split(',').next().unwrap_or("");
        if first.contains("as=PartialObjectMetadata") { Self::Metadata } else { Self::Whole }
    }

    pub(super) fn object(self, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
            }
        }
    }

    /// `selected`: a selector was given, with which Kubernetes does not count what is left.
    pub(super) fn list(self, resource: &Resource, page: &Page, selected: bool) -> Value {
        let mut metadata = json!({"resourceVersion": page.version.to_string()});
        if let Some((next, left)) = &page.next {
            metadata["continue"] = json!(next);
            if !selected {
                metadata["remainingItemCount"] = json!(left);
            }
        }
        let items: Vec<Value> = page.items.iter().map(|item| self.item(resource, item)).collect();
        let (kind, api_version) = match self {
            Self::Whole => (format!("{}List", resource.kind), resource.api_version()),
            Self::Metadata => ("PartialObjectMetadataList".into(), "meta.k8s.io/v1".into()),
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
    }

    /// Items of lists of built-in kinds do not say their kind.
    fn item(self, resource: &Resource, item: &Arc<Value>) -> Value {
        match (self, item.as_object()) {
            (Self::Whole, Some(fields)) if !resource.custom => {
                let fields = fields.iter().filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
                Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
            }
            _ => self.object(item),
        }
    }
}
