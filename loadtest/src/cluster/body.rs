//! What the pods of a component serve: the same series, and now and then another value.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::options::ApiServerBody;
use crate::corpus;

/// So many pods of a component differ from each other; the next is again like the first. There are no more of a kind in a
/// control plane, and the bodies of hundreds of clusters must fit into memory.
const DISTINCT: usize = 3;

/// What each process has a value of its own for.
const VARYING: &[u8] = b"process_start_time_seconds ";
/// Some time in 2026, for the first pod of each component.
const FIRST_START: usize = 1_794_786_106;
/// One pod is rolled out after the other.
const SECONDS_BETWEEN: usize = 47;

/// The body of a component's pod of this number. All clusters share them.
pub(super) fn body(component: &'static str, size: ApiServerBody, number: usize) -> Bytes {
    type Key = (&'static str, ApiServerBody, usize);
    static BODIES: Mutex<BTreeMap<Key, Bytes>> = Mutex::new(BTreeMap::new());
    let number = number % DISTINCT;
    let mut bodies = BODIES.lock().unwrap_or_else(PoisonError::into_inner);
    bodies.entry((component, size, number)).or_insert_with(|| varied(&original(component, size), number)).clone()
}

fn original(component: &str, size: ApiServerBody) -> Bytes {
    match size {
        ApiServerBody::Bytes(bytes) if component == "kube-apiserver" => corpus::repeated(bytes),
        _ => corpus::of(component),
    }
}

/// A body that is cut before the varying line stays as it is.
fn varied(body: &Bytes, number: usize) -> Bytes {
    let mut start = 0;
    for line in body.split_inclusive(|&b| b == b'\n') {
        if line.starts_with(VARYING) {
            let value = format!("{}\n", FIRST_START + number * SECONDS_BETWEEN);
            return [&body[..start], VARYING, value.as_bytes(), &body[start + line.len()..]].concat().into();
        }
        start += line.len();
    }
    body.clone()
}
