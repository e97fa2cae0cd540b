//! What can be typed while the demo runs.

use std::collections::BTreeMap;

use sluice_loadtest::cluster::{HostedCluster, NoSuchPod};
use sluice_loadtest::pod::Behaviour;

use super::{guide, say};

/// Whether the demo goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Quit,
}

/// Pods that do not behave, and what is wrong with them.
pub(super) type Troubles = BTreeMap<String, &'static str>;

pub(super) fn print_help() {
    say("\nAnd make something go wrong. Type here, then Enter:\n");
    for (command, what) in [
        ("kill etcd-1", "its process dies: scrape etcd again, and its `up` is 0 while the others are complete"),
        ("break etcd-2", "it answers with garbage after its first sample"),
        ("restore etcd-1", "it is well again"),
        ("replace etcd-0", "it is deleted; another pod, with another name and address, takes its place"),
        ("rotate", "sluice's certificate is renewed, and used for the next connection"),
        ("pods", "all pods"),
        ("help", "these lines"),
        ("quit", "the end, as with Ctrl-C"),
    ] {
        say(format_args!("    {command:<16} {what}"));
    }
}

/// Does what was typed.
pub(super) fn perform(line: &str, cluster: &mut HostedCluster, troubles: &mut Troubles) -> Next {
    let words: Vec<&str> = line.split_whitespace().collect();
    let done = match words.as_slice() {
        [] => Ok(()),
        ["quit" | "exit"] => return Next::Quit,
        ["help"] => {
            print_help();
            Ok(())
        }
        ["pods"] => {
            print_pods(cluster, troubles);
            Ok(())
        }
        ["rotate"] => {
            cluster.renew_serving_certificate();
            say("The serving certificate is renewed; sluice sees it within a second.");
            Ok(())
        }
        ["kill", pod] => cluster.kill(pod).map(|()| {
            note(troubles, pod, "refuses connections");
            say(format_args!("{pod} refuses connections: scrape {} again.", component_of(pod)));
        }),
        ["break", pod] => cluster.pod(pod).map(|running| running.behave(Behaviour::Garbage)).map(|()| {
            note(troubles, pod, "answers with garbage");
            say(format_args!("{pod} answers with garbage: scrape {} again.", component_of(pod)));
        }),
        ["restore", pod] => cluster.restore(pod).map(|()| {
            troubles.remove(*pod);
            say(format_args!("{pod} is well again."));
        }),
        ["replace", pod] => cluster.replace(pod).map(|new| {
            troubles.remove(*pod);
            say(format_args!("{pod} is gone; in its place there is {}", guide::place(cluster, &new)));
        }),
        [command @ ("kill" | "break" | "restore" | "replace"), ..] => {
            say(format_args!("Which pod? For example: {command} etcd-1"));
            Ok(())
        }
        _ => {
            say(format_args!("There is no {:?}; `help` says what there is.", line.trim()));
            Ok(())
        }
    };
    if let Err(NoSuchPod(pod)) = done {
        say(format_args!("There is no pod {pod:?}; `pods` says which there are."));
    }
    Next::Continue
}

fn note(troubles: &mut Troubles, pod: &str, trouble: &'static str) {
    troubles.insert(pod.to_owned(), trouble);
}

fn print_pods(cluster: &HostedCluster, troubles: &Troubles) {
    for component in cluster.components() {
        for pod in cluster.pods_of(component) {
            let trouble = troubles.get(pod).map(|trouble| format!("  {trouble}")).unwrap_or_default();
            say(format_args!("    {}{trouble}", guide::place(cluster, pod)));
        }
    }
}

/// A pod's name is its component's and a number.
fn component_of(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(component, _)| component)
}
