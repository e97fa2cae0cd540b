//! From a path to a component.

use std::sync::Arc;

use crate::component::Component;
use crate::fault::Refusal;
use crate::tenant::Tenant;

/// The component that `/metrics/<component>` asks for; a slash at the end is forgiven.
pub(crate) fn component(tenant: &Tenant, path: &str) -> Result<Arc<Component>, Refusal> {
    let name = component_name(path).ok_or(Refusal::Path)?;
    tenant.components.get(name).cloned().ok_or_else(|| Refusal::UnknownComponent(name.into()))
}

fn component_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/metrics/")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    // No component has any other character in its name, so nothing has to be decoded.
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (!name.is_empty() && name.bytes().all(allowed)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_one_component() {
        assert_eq!(component_name("/metrics/etcd"), Some("etcd"));
        assert_eq!(component_name("/metrics/kube-apiserver/"), Some("kube-apiserver"));
        for bad in
            ["/", "/metrics", "/metrics/", "/metrics//", "/metrics/a/b", "/metrics/%65tcd", "/etcd", "/metrics/a b", ""]
        {
            assert_eq!(component_name(bad), None, "{bad}");
        }
    }
}
