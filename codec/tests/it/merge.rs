//! Several pods become one response: family by family, no sample lost, nobody read ahead of their turn.

use bytes::Bytes;
use sluice_codec::{FRAME_CAPACITY, Fault, Merge, MergeOptions, Outcome, Step, Synthetic, TargetLabels};

use crate::support::model::{PodInput, Settings};
use crate::support::{Chunking, assert_like_model, parser, pod_with, run, settings};

/// Pods called `a`, `b`, … with nothing but that label.
fn pods(bodies: &[&str]) -> Vec<PodInput> {
    bodies.iter().zip('a'..).map(|(body, name)| pod_with(&[("pod", &name.to_string())], *body)).collect()
}

/// The response without the synthetic families, the same as the model's and for every chunking.
fn merged(pods: &[PodInput]) -> (String, Vec<Outcome>) {
    let output = assert_like_model(pods, &settings(), &Chunking::Whole);
    for size in 1..20 {
        assert_eq!(assert_like_model(pods, &settings(), &Chunking::Every(size)), output);
    }
    parser::parse(&output, false).unwrap();
    let output = String::from_utf8(output).unwrap();
    let tail = output.rfind("# HELP metrics_aggregator_pod_scrape_errors_total ").unwrap_or(0);
    (output[..tail].to_string(), run(pods, &settings(), &Chunking::Whole).1)
}

#[test]
fn without_pods_the_response_is_empty() {
    assert_eq!(run(&[], &settings(), &Chunking::Whole), (Vec::new(), Vec::new()));
    let mut merge = Merge::new([], &MergeOptions::default());
    let mut out = b"before".to_vec();
    assert_eq!(merge.step(&mut out), Step::Done);
    merge.finish(&mut out, Synthetic { component: "etcd", proxy: "sluice-0", emit_up: true }, |_, _| 0);
    assert_eq!(out, b"before");
}

/// (bodies of pods a, b, …; the response)
#[test]
fn families_come_once_with_one_help_and_one_type() {
    let rows: &[(&[&str], &str)] = &[
        (&["# HELP x text\n# TYPE x gauge\nx 1\n"], "# HELP x text\n# TYPE x gauge\nx{pod=\"a\"} 1\n"),
        (
            &["# TYPE x gauge\nx 1\nz 1\n", "# TYPE x gauge\nx 2\ny 2\n", "w 3\n# TYPE x gauge\nx 3\n"],
            "w{pod=\"c\"} 3\n# TYPE x gauge\nx{pod=\"a\"} 1\nx{pod=\"b\"} 2\nx{pod=\"c\"} 3\n\
             # TYPE y untyped\ny{pod=\"b\"} 2\nz{pod=\"a\"} 1\n",
        ),
        // HELP that differs: the first pod's that has one.
        (
            &["x 1\n", "# HELP x two\nx 2\n", "# HELP x three\nx 3\n"],
            "# HELP x two\nx{pod=\"a\"} 1\nx{pod=\"b\"} 2\nx{pod=\"c\"} 3\n",
        ),
        // TYPE that differs: one group each, in the order of their first pods; the HELP is the first group's.
        (
            &["# TYPE x gauge\nx 1\n", "# HELP x b\n# TYPE x counter\nx 2\n", "# HELP x c\n# TYPE x gauge\nx 3\n"],
            "# HELP x c\n# TYPE x gauge\nx{pod=\"a\"} 1\nx{pod=\"c\"} 3\n# TYPE x counter\nx{pod=\"b\"} 2\n",
        ),
        (
            &["x 1\n", "# TYPE x gauge\nx 2\n", "# TYPE x untyped\nx 3\n"],
            "# TYPE x untyped\nx{pod=\"a\"} 1\nx{pod=\"c\"} 3\n# TYPE x gauge\nx{pod=\"b\"} 2\n",
        ),
        // No TYPE behind a typed family: Prometheus 3 would take it for that type.
        (
            &["# TYPE h histogram\nh_sum 1\nx{le=\"1\"} 1\ny 1\n"],
            "# TYPE h histogram\nh_sum{pod=\"a\"} 1\n# TYPE x untyped\nx{pod=\"a\",le=\"1\"} 1\ny{pod=\"a\"} 1\n",
        ),
    ];
    for (bodies, expected) in rows {
        assert_eq!(merged(&pods(bodies)).0, *expected, "{bodies:?}");
    }
}

#[test]
fn a_block_is_a_run_of_samples_of_one_family() {
    let rows: &[(&str, &str)] = &[
        (
            "# TYPE h histogram\nh_bucket 1\nh_sum 1\nh_count 1\nh 1\nh_max 1\n",
            "# TYPE h histogram\nh_bucket 1\nh_sum 1\nh_count 1\nh 1\n# TYPE h_max untyped\nh_max 1\n",
        ),
        ("# TYPE s summary\ns_bucket 1\ns_sum 1\n", "s_bucket 1\n# TYPE s summary\ns_sum 1\n"),
        ("# HELP x text\nx_sum 1\n", "x_sum 1\n"),
        ("# TYPE x gauge\nx 1\n# TYPE x gauge\nx 2\n", "# TYPE x gauge\nx 1\nx 2\n"),
        ("# TYPE x gauge\nx 1\n# HELP x text\nx 2\n", "# TYPE x gauge\nx 1\n# HELP x text\n# TYPE x gauge\nx 2\n"),
        ("# TYPE x gauge\nx 1\n# TYPE x counter\nx 2\n", "# TYPE x gauge\nx 1\n# TYPE x counter\nx 2\n"),
        ("# TYPE x gauge\nx 1\n# TYPE y gauge\nx 2\n", "# TYPE x gauge\nx 1\n# TYPE x untyped\nx 2\n"),
        ("x 1\n# TYPE x gauge\nx 2\n", "x 1\n# TYPE x gauge\nx 2\n"),
        ("# TYPE z gauge\nx 1\n# HELP z text\nx 2\n# TYPE y gauge\nx 3\n", "x 1\nx 2\nx 3\n"),
        ("# HELP x text\nx 1\ny 1\nx 2\n", "# HELP x text\nx 1\ny 1\nx 2\n"),
        (
            "# HELP x text\n# TYPE x gauge\nx 1\ny 1\nx 2\n",
            "# HELP x text\n# TYPE x gauge\nx 1\n# TYPE y untyped\ny 1\n# TYPE x gauge\nx 2\n",
        ),
        ("# HELP x text\n# HELP y text\n# TYPE x gauge\nx 1\n", "# TYPE x gauge\nx 1\n"),
    ];
    for (body, expected) in rows {
        assert_eq!(merged(&[pod_with(&[], *body)]).0, *expected, "{body}");
    }
}

#[test]
fn a_hundred_pods_stand_side_by_side_in_every_family() {
    let body = |pod: usize| format!("# TYPE a counter\na {pod}\n# TYPE b gauge\nb{{x=\"y\"}} {pod}\n");
    let pods: Vec<PodInput> =
        (0..100).map(|number| pod_with(&[("pod", &format!("p-{number:02}"))], body(number))).collect();
    let samples = |write: &dyn Fn(usize) -> String| (0..100).map(write).collect::<String>();
    let expected = samples(&|pod| format!("a{{pod=\"p-{pod:02}\"}} {pod}\n"));
    let expected = format!("# TYPE a counter\n{expected}# TYPE b gauge\n");
    let expected = expected + &samples(&|pod| format!("b{{pod=\"p-{pod:02}\",x=\"y\"}} {pod}\n"));
    assert_eq!(merged(&pods).0, expected);
}

/// haproxy's order is its own, but every haproxy's.
#[test]
fn unsorted_pods_in_the_same_order_merge_family_by_family() {
    let body = "# TYPE c gauge\nc 1\n# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n";
    let expected = "# TYPE c gauge\nc{pod=\"a\"} 1\nc{pod=\"b\"} 1\n# TYPE a gauge\na{pod=\"a\"} 1\na{pod=\"b\"} 1\n\
                    # TYPE b gauge\nb{pod=\"a\"} 1\nb{pod=\"b\"} 1\n";
    assert_eq!(merged(&pods(&[body, body])).0, expected);
}

#[test]
fn a_late_block_repeats_its_metadata_and_loses_no_sample() {
    let plain = "# TYPE c gauge\nc 1\n# TYPE a gauge\na 1\n";
    let extra = "# TYPE c gauge\nc 2\n# TYPE b gauge\nb 2\n# TYPE a gauge\na 2\n";
    let expected = "# TYPE c gauge\nc{pod=\"a\"} 1\nc{pod=\"b\"} 2\n# TYPE a gauge\na{pod=\"a\"} 1\n\
                    # TYPE b gauge\nb{pod=\"b\"} 2\n# TYPE a gauge\na{pod=\"b\"} 2\n";
    assert_eq!(merged(&pods(&[plain, extra])).0, expected);
}

#[test]
fn no_two_pods_share_a_histogram_s_lines() {
    let buckets = |series: &str| {
        let bucket = |le: &str| format!("h_bucket{{s=\"{series}\",le=\"{le}\"}} 1\n");
        format!("{}{}h_sum{{s=\"{series}\"}} 1\nh_count{{s=\"{series}\"}} 1\n", bucket("0.5"), bucket("+Inf"))
    };
    let body = format!("# TYPE h histogram\n{}{}", buckets("1"), buckets("2"));
    let (output, _) = merged(&pods(&[&body, &body, &body]));
    let owners: Vec<_> =
        output.lines().skip(1).map(|line| line.split("pod=\"").nth(1).unwrap().as_bytes()[0]).collect();
    assert_eq!(owners, [[b'a'; 8], [b'b'; 8], [b'c'; 8]].concat());
}

#[test]
fn a_pod_that_fails_midway_keeps_its_lines_and_is_down() {
    let bodies = ["x 1\ny 1\n", "x 2\ny two\nz 2\n", "x 3\ny 3\nz 3\n"];
    let settings = Settings { errors_before: 4, ..settings() };
    let output = assert_like_model(&pods(&bodies), &settings, &Chunking::Every(3));
    let expected = "x{pod=\"a\"} 1\nx{pod=\"b\"} 2\nx{pod=\"c\"} 3\ny{pod=\"a\"} 1\ny{pod=\"c\"} 3\nz{pod=\"c\"} 3\n\
        # HELP metrics_aggregator_pod_scrape_errors_total Total number of pod scrape errors per component and pod.\n\
        # TYPE metrics_aggregator_pod_scrape_errors_total counter\n\
        metrics_aggregator_pod_scrape_errors_total{pod=\"a\",component=\"etcd\",proxy=\"sluice-0\"} 4\n\
        metrics_aggregator_pod_scrape_errors_total{pod=\"b\",component=\"etcd\",proxy=\"sluice-0\"} 5\n\
        metrics_aggregator_pod_scrape_errors_total{pod=\"c\",component=\"etcd\",proxy=\"sluice-0\"} 4\n\
        # HELP up 1 if the pod was scraped successfully, 0 if the scrape failed.\n\
        # TYPE up gauge\nup{pod=\"a\"} 1\nup{pod=\"b\"} 0\nup{pod=\"c\"} 1\n";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
    let (_, outcomes) = run(&pods(&bodies), &settings, &Chunking::Whole);
    let error = outcomes[1].error.as_ref().unwrap();
    assert_eq!((error.pod, error.line, error.offset, error.fault), (1, 2, 6, Fault::Value));
}

#[test]
fn the_synthetic_families_are_escaped_and_up_is_optional() {
    let settings = Settings { component: "c\"\\\n".into(), proxy: "p".into(), emit_up: false, ..settings() };
    let pods = [pod_with(&[], ""), pod_with(&[("pod", "a\"")], "up 1\n")];
    let output = assert_like_model(&pods, &settings, &Chunking::Whole);
    let expected = "\
        # HELP metrics_aggregator_pod_scrape_errors_total Total number of pod scrape errors per component and pod.\n\
        # TYPE metrics_aggregator_pod_scrape_errors_total counter\n\
        metrics_aggregator_pod_scrape_errors_total{component=\"c\\\"\\\\\\n\",proxy=\"p\"} 0\n\
        metrics_aggregator_pod_scrape_errors_total{pod=\"a\\\"\",component=\"c\\\"\\\\\\n\",proxy=\"p\"} 0\n";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

#[test]
fn a_pod_s_own_up_and_error_counter_are_dropped_and_counted() {
    let body = "a 1\nmetrics_aggregator_pod_scrape_errors_total 7\n# TYPE up summary\nup 1\nup_sum 1\nupper 1\n\
                # TYPE z gauge\nup_sum 2\n";
    let (output, outcomes) = merged(&[pod_with(&[], body)]);
    // Without the declaration `up_sum` is a name like any other.
    assert_eq!(output, "a 1\nupper 1\nup_sum 2\n");
    assert_eq!((outcomes[0].counts.samples, outcomes[0].counts.dropped_reserved), (6, 3));
}

#[test]
fn the_response_is_the_same_byte_for_byte_from_scrape_to_scrape() {
    let body = crate::support::corpus("etcd");
    let pods = ["a", "b", "c"].map(|name| pod_with(&[("pod", name), ("namespace", "ns")], body.clone()));
    let first = run(&pods, &settings(), &Chunking::Every(16 * 1024));
    assert_eq!(run(&pods, &settings(), &Chunking::Every(16 * 1024)), first);
    assert_eq!(run(&pods, &settings(), &Chunking::Every(1000)), first);
}

/// A merge, what it asked for, and the frames it handed out.
struct Session {
    merge: Merge,
    steps: Vec<Step>,
    frames: Vec<Vec<u8>>,
}

impl Session {
    fn new(pods: usize) -> Self {
        let names = ["a", "b", "c"];
        let target = |name| TargetLabels::new([("pod", name)]).unwrap();
        let merge = Merge::new(names[..pods].iter().copied().map(target), &MergeOptions::default());
        Self { merge, steps: Vec::new(), frames: Vec::new() }
    }

    /// Goes on until the caller says so or all is done; each pod gets its next frame when it is asked.
    fn drive(&mut self, bodies: &mut [std::vec::IntoIter<Bytes>], mut until: impl FnMut(&Step) -> bool) {
        let mut out = Vec::with_capacity(FRAME_CAPACITY);
        loop {
            let step = self.merge.step(&mut out);
            self.steps.push(step);
            match step {
                _ if until(&step) => break,
                Step::Need(pod) => match bodies[pod].next() {
                    Some(frame) => self.merge.feed(pod, frame),
                    None => self.merge.end(pod),
                },
                Step::Frame => self.frames.push(std::mem::replace(&mut out, Vec::with_capacity(FRAME_CAPACITY))),
                Step::Failed(_) => {}
                Step::Done => break,
            }
        }
        self.frames.push(out);
    }

    fn output(&self) -> String {
        String::from_utf8(self.frames.concat()).unwrap()
    }
}

fn frames(lines: &[&'static str]) -> std::vec::IntoIter<Bytes> {
    lines.iter().map(|line| Bytes::from_static(line.as_bytes())).collect::<Vec<_>>().into_iter()
}

/// This, and nothing else, is what keeps the pod's connection from filling our memory.
#[test]
fn a_pod_that_is_ahead_is_not_read_until_its_family_s_turn() {
    let mut session = Session::new(2);
    session.drive(&mut [frames(&["a 1\n", "b 1\n", "c 1\n"]), frames(&["y 2\n", "z 2\n"])], |_| false);
    let expected = [0, 1, 0, 0, 0, 1, 1].map(Step::Need);
    assert_eq!(session.steps, [&expected[..], &[Step::Done]].concat());
    assert_eq!(session.output(), "a{pod=\"a\"} 1\nb{pod=\"a\"} 1\nc{pod=\"a\"} 1\ny{pod=\"b\"} 2\nz{pod=\"b\"} 2\n");
}

#[test]
fn a_pod_given_up_while_it_is_ahead_keeps_its_whole_lines() {
    let mut session = Session::new(2);
    let mut bodies = [frames(&["a 1\n", "b 1\n"]), frames(&["y 2\nz 2\nzz 2"])];
    // Both have been read once, and the first is asked again.
    let mut asked = 0;
    session.drive(&mut bodies, |step| {
        asked += usize::from(*step == Step::Need(0));
        asked == 2
    });
    session.merge.fail(1);
    session.merge.feed(0, bodies[0].next().unwrap());
    session.drive(&mut bodies, |_| false);
    assert_eq!(session.output(), "a{pod=\"a\"} 1\nb{pod=\"a\"} 1\ny{pod=\"b\"} 2\nz{pod=\"b\"} 2\n");
    assert_eq!(session.steps[3..], [Step::Need(0), Step::Failed(1), Step::Done]);
    let error = session.merge.outcome(1).error.unwrap();
    assert_eq!((error.fault, error.line, error.offset, error.excerpt.as_str()), (Fault::Abandoned, 3, 8, "zz 2"));
    assert_eq!(session.merge.outcome(0).error, None);
}

#[test]
fn a_failed_pod_is_said_once_and_not_asked_again() {
    let mut session = Session::new(2);
    session.drive(&mut [frames(&["a 1\n", "b 1\n"]), frames(&["a 2\nb two\n", "c 2\n"])], |_| false);
    // Asked, and found to have failed only when its next block is looked for.
    let expected = [Step::Need(0), Step::Need(1), Step::Need(0), Step::Failed(1), Step::Need(0), Step::Done];
    assert_eq!(session.steps, expected);
    // Late to the funeral: a frame that was on its way.
    session.merge.feed(1, Bytes::from_static(b"z 2\n"));
    session.merge.fail(1);
    assert_eq!(session.merge.step(&mut Vec::new()), Step::Done);
    assert_eq!(session.output(), "a{pod=\"a\"} 1\na{pod=\"b\"} 2\nb{pod=\"a\"} 1\n");
}

#[test]
fn frames_are_neither_crumbs_nor_longer_than_the_buffer_reserved_for_them() {
    let body = Bytes::from(crate::support::corpus("kube-controller-manager"));
    for size in [1000, 16 * 1024, body.len()] {
        let frames: Vec<Bytes> =
            (0..body.len()).step_by(size).map(|at| body.slice(at..body.len().min(at + size))).collect();
        let mut session = Session::new(3);
        session.drive(&mut [(); 3].map(|()| frames.clone().into_iter()), |_| false);
        let (last, full) = session.frames.split_last().unwrap();
        assert!(full.len() > 10);
        for frame in full {
            assert!((16 * 1024..=FRAME_CAPACITY).contains(&frame.len()), "{}", frame.len());
            assert_eq!((frame.capacity(), frame.last()), (FRAME_CAPACITY, Some(&b'\n')));
        }
        assert!(last.len() <= FRAME_CAPACITY);
    }
}
