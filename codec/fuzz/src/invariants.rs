//! What holds whatever the bytes: each function takes a fuzzer's input and panics where a promise is broken.
//!
//! An input of `rewrite` and `merge` is a line of knobs (one byte each, see [`Case::read`]), then the body or the bodies, those with
//! the byte 0x1e between them. So a seed can be read and written by hand, a mutation of the text stays one, and
//! no test needs the fuzzer's own crates. In every input the byte 0x1d stands for 4090 letters, since no fuzzer
//! comes to the limit of a name's length by itself.

#![allow(unreachable_pub, reason = "public in the fuzz crate, private in the test that includes it")]

use std::borrow::Cow;

use bytes::Bytes;
use sluice_codec::{
    FRAME_BYTES, Fault, Format, Merge, OpenMetricsFault, Outcome, PodError, Step, Synthetic, TargetLabels,
};

use crate::support::model::{self, ModelRule, PodInput, Settings};
use crate::support::{drop_rule, explained, options, parser, pod_with, settings};

/// Between the bodies of a `merge` input: printable nowhere and of no meaning to any parser.
const BETWEEN_BODIES: u8 = 0x1e;

const LETTERS: u8 = 0x1d;

/// Lines around the line under test. What stands before it decides what a `le` or a name may be, whether its family is
/// declared, and what the reader of canonical lines remembers.
const SURROUNDINGS: [(&[u8], &[u8]); 7] = [
    (b"", b""),
    (b"", b"\n"),
    (b"first{x=\"1\"} 1\n", b"\nlast 2\n"),
    (b"# HELP a text\n# TYPE a histogram\na_bucket{le=\"1\"} 1\n", b"\na_bucket{le=\"+Inf\"} 2\n"),
    (b"# TYPE a summary\n", b"\na{quantile=\"1\"} 2"),
    (b"a{b=\"c\",d=\"e\"} 1\n", b"\na{b=\"c\",d=\"f\"} 2\n"),
    (b"# TYPE up gauge\n\t# x\n", b"\r\nb 1"),
];

/// One line, alone and among others: it is accepted if and only if the model accepts it, and written as
/// the model writes it.
pub fn line(input: &[u8]) {
    let line = &*with_letters(input.split(|byte| *byte == b'\n').next().unwrap_or_default());
    let twice = [line, b"\n"].concat();
    // What it is repaired to, if it is a sample: nearly the same, and read in another way.
    let repaired = drive(&[pod_with(&[], line)], &[Format::Text], &settings(), &Feeding::default());
    let repaired = &repaired.response[..repaired.merged];
    let itself = [(twice.as_slice(), &b"\n"[..]), (repaired, b"\n"), (repaired, &twice)];
    for (index, (before, after)) in SURROUNDINGS.iter().chain(&itself).enumerate() {
        let body = [before, line, after].concat();
        // All four combinations with each surrounding would be four times the work for little.
        let settings = Settings { honor_labels: index % 2 == 1, utf8: index % 3 == 0, ..settings() };
        let pods = [pod_with(target(index), body)];
        let formats = [Format::Text];
        let whole = drive(&pods, &formats, &settings, &Feeding::default());
        whole.check(&formats, &settings);
        let inside = before.len() + line.len() / 2;
        for gaps in [&[1][..], &[inside.max(1), usize::MAX]] {
            let pieces = drive(&pods, &formats, &settings, &Feeding { gaps, ..Feeding::default() });
            whole.assert_same(&pieces);
        }
    }
}

/// One pod, whatever it sends and however it arrives.
pub fn rewrite(input: &[u8]) {
    let (knobs, body) = split_knobs(input);
    Case::read(knobs, &[body]).check();
}

/// Two to four pods: each is read as if it were alone, whatever the others send and whenever one is given up.
pub fn merge(input: &[u8]) {
    let (knobs, bodies) = split_knobs(input);
    let mut bodies: Vec<&[u8]> = bodies.splitn(4, |byte| *byte == BETWEEN_BODIES).collect();
    if bodies.len() == 1 {
        bodies.push(b"");
    }
    Case::read(knobs, &bodies).check();
}

fn split_knobs(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

/// The letters for the first few of their bytes: more would only take time.
fn with_letters(input: &[u8]) -> Cow<'_, [u8]> {
    if !input.contains(&LETTERS) {
        return Cow::Borrowed(input);
    }
    let parts: Vec<&[u8]> = input.splitn(4, |byte| *byte == LETTERS).collect();
    Cow::Owned(parts.join(&[b'n'; 4090][..]))
}

/// Label sets that clash with what the seeds have, one that does not, and none at all.
fn target(number: usize) -> &'static [(&'static str, &'static str)] {
    match number % 4 {
        0 => &[("pod", "a-0"), ("namespace", "ns"), ("job", "j"), ("instance", "10.0.0.1:1")],
        1 => &[("pod", "b\"\\\n1"), ("exported_pod", "x"), ("namespace", "ns")],
        2 => &[("unclashing", "c-2")],
        _ => &[],
    }
}

/// A few are enough: what rules do has tests of its own, here they are one more way for a sample to vanish.
fn rules(number: usize) -> Vec<ModelRule> {
    let keep = |rule: ModelRule| ModelRule { keep: true, ..rule };
    match number % 8 {
        1 => vec![drop_rule(&["__name__"], "a.*|.*_bucket")],
        2 => vec![keep(drop_rule(&["__name__", "le"], "[^;]*;(|1|0\\.5)"))],
        3 => vec![drop_rule(&["exported_pod", "pod"], ".+;.*"), keep(drop_rule(&[], ""))],
        4 => vec![drop_rule(&["a", "b"], "(?i:c);.*|;")],
        // The other half without rules: compiling them is most of such an execution's time.
        _ => Vec::new(),
    }
}

/// Everything but the bytes of the bodies.
struct Case {
    pods: Vec<PodInput>,
    formats: Vec<Format>,
    settings: Settings,
    gaps: Vec<usize>,
    frame_room: Option<usize>,
    abandon: Option<(usize, usize)>,
}

impl Case {
    /// The knobs in order; one that is missing counts as `0`, and so does the digit `0` (48 is divided by all that is asked for).
    ///
    /// | knob | |
    /// |---|---|
    /// | 1 | `honor_labels` if odd |
    /// | 2 | UTF-8 names if odd |
    /// | 3 | which rules, of eight |
    /// | 4 | bytes of a line, the default if divisible by four |
    /// | 5 | bytes of a body in fours, unlimited if divisible by four |
    /// | 6 | samples, modulo 16, 0 for unlimited |
    /// | 7 | which pods send OpenMetrics, one bit each |
    /// | 8 | which pods are cut short at their end, one bit each |
    /// | 9 | bytes of output until a frame is full, as in the product if divisible by four |
    /// | 10 | which pod is given up, of four |
    /// | 11 | before which step that happens, never if divisible by 16 |
    /// | 12 | label set of the first pod, of four |
    /// | 13… | sizes of the pods' frames, modulo 48, over and over; whole bodies if there are none or all are 0 |
    fn read(knobs: &[u8], bodies: &[&[u8]]) -> Self {
        let knob = |number: usize| usize::from(knobs.get(number - 1).copied().unwrap_or(b'0'));
        let unless_divisible = |number: usize, by: usize| Some(knob(number)).filter(|value| value % by != 0);
        let bit = |number: usize, pod: usize| (knob(number) % 16) >> pod & 1 == 1;
        let base = settings();
        let pod = |(pod, body): (usize, &&[u8])| PodInput {
            truncated: bit(8, pod),
            ..pod_with(target(knob(12) + pod), with_letters(body))
        };
        let format = |pod| if bit(7, pod) { Format::OpenMetrics } else { Format::Text };
        Self {
            pods: bodies.iter().enumerate().map(pod).collect(),
            formats: (0..bodies.len()).map(format).collect(),
            settings: Settings {
                honor_labels: knob(1) % 2 == 1,
                utf8: knob(2) % 2 == 1,
                rules: rules(knob(3)),
                line_bytes: unless_divisible(4, 4).unwrap_or(base.line_bytes),
                body_bytes: unless_divisible(5, 4).map_or(0, |fours| fours * 4),
                samples: knob(6) % 16,
                ..base
            },
            gaps: knobs.iter().skip(12).map(|gap| usize::from(gap % 48)).collect(),
            frame_room: unless_divisible(9, 4),
            abandon: unless_divisible(11, 16).map(|step| (knob(10) % 4, step)).filter(|(pod, _)| *pod < bodies.len()),
        }
    }

    fn check(&self) {
        let Self { pods, formats, settings, gaps, frame_room, abandon } = self;
        let feeding = Feeding { gaps, frame_room: *frame_room, abandon: *abandon };
        let driven = drive(pods, formats, settings, &feeding);
        driven.check(formats, settings);
        // A pod that was given up is from here on one whose body ended early at that byte.
        let given = &driven.given;
        for gaps in [&[][..], &[1], &[3, 0, 61]] {
            let other = drive(given, formats, settings, &Feeding { gaps, ..Feeding::default() });
            driven.assert_same(&other);
        }
        if given.len() > 1 {
            driven.assert_each_as_if_alone(formats, settings);
        }
    }
}

/// How the bodies arrive and the response leaves.
#[derive(Default)]
struct Feeding<'a> {
    /// Sizes of frames, over and over; the whole body if there is nothing but 0.
    gaps: &'a [usize],
    /// A frame is full after this many bytes.
    frame_room: Option<usize>,
    /// This pod is given up before this step.
    abandon: Option<(usize, usize)>,
}

/// What came of it.
struct Driven {
    response: Vec<u8>,
    /// Length of the response without what `finish` wrote.
    merged: usize,
    outcomes: Vec<Outcome>,
    /// The pods as the merge saw them: what was not fed to one given up, it never sent.
    given: Vec<PodInput>,
}

fn drive(pods: &[PodInput], formats: &[Format], settings: &Settings, feeding: &Feeding<'_>) -> Driven {
    let labels =
        |pod: &PodInput| TargetLabels::new(pod.labels.iter().map(|(name, value)| (&**name, &**value))).unwrap();
    let mut merge = Merge::new(pods.iter().map(labels), &options(settings));
    for (pod, format) in formats.iter().enumerate() {
        merge.set_format(pod, *format);
    }
    // A buffer that is nearly full when handed in makes small frames of a small response.
    let padding = feeding.frame_room.map_or(0, |room| FRAME_BYTES - room.clamp(1, FRAME_BYTES));
    let mut frame = vec![b'~'; padding];
    let mut response = Vec::new();
    let mut given = pods.to_vec();
    let mut fed = vec![0; pods.len()];
    let mut pieces = vec![feeding.gaps.iter().cycle(); pods.len()];
    let whole = feeding.gaps.iter().all(|gap| *gap == 0);
    let mut over = vec![false; pods.len()];
    let mut failed = vec![false; pods.len()];
    for step in 0.. {
        if let Some((pod, when)) = feeding.abandon
            && when == step
        {
            merge.fail(pod);
            if !over[pod] {
                given[pod].body.truncate(fed[pod]);
                given[pod].truncated = true;
                over[pod] = true;
            }
        }
        match merge.step(&mut frame) {
            Step::Frame => {
                assert!(frame.len() >= FRAME_BYTES, "a frame is handed out when it is full");
                response.extend(frame.drain(padding..));
            }
            Step::Need(pod) => {
                assert!(!over[pod], "a pod that is over is not asked for more");
                let body = &pods[pod].body[fed[pod]..];
                if !body.is_empty() {
                    let gap = pieces[pod].next().filter(|_| !whole).copied().unwrap_or(usize::MAX);
                    let frame = &body[..gap.min(body.len())];
                    fed[pod] += frame.len();
                    merge.feed(pod, Bytes::copy_from_slice(frame));
                    continue;
                }
                over[pod] = true;
                if pods[pod].truncated {
                    merge.fail(pod);
                } else {
                    merge.end(pod);
                }
            }
            Step::Failed(pod) => {
                assert!(!failed[pod], "a failure is said once");
                (over[pod], failed[pod]) = (true, true);
            }
            Step::Done => break,
        }
    }
    response.extend(frame.drain(padding..));
    let merged = response.len();
    let Settings { component, proxy, emit_up, errors_before, .. } = settings;
    merge.finish(&mut response, Synthetic { component, proxy, emit_up: *emit_up }, |_, outcome| {
        errors_before + u64::from(outcome.error.is_some())
    });
    let outcomes: Vec<Outcome> = (0..pods.len()).map(|pod| merge.outcome(pod)).collect();
    for (outcome, failed) in outcomes.iter().zip(failed) {
        assert_eq!(outcome.error.is_some(), failed, "every failure is said");
    }
    Driven { response, merged, outcomes, given }
}

impl Driven {
    /// Everything that can be said of one run.
    fn check(&self, formats: &[Format], settings: &Settings) {
        let parsed = match parser::parse(&self.response, settings.utf8) {
            Ok(parsed) => parsed,
            Err(error) => panic!("{error}\nin {}", self.response.escape_ascii()),
        };
        let written = |outcome: &Outcome| {
            let counts = outcome.counts;
            counts.samples - counts.dropped_by_rule - counts.dropped_reserved - counts.dropped_names
        };
        let synthetic = self.given.len() * (1 + usize::from(settings.emit_up));
        let expected = self.outcomes.iter().map(written).sum::<u64>() + synthetic as u64;
        assert_eq!(parsed.samples.len() as u64, expected, "samples written in {}", self.response.escape_ascii());
        for ((pod, outcome), format) in self.given.iter().zip(&self.outcomes).zip(formats) {
            outcome.error.iter().for_each(|error| assert_sound(error, &pod.body));
            if *format == Format::OpenMetrics {
                assert_ends_with_eof(outcome, &pod.body);
            }
        }
        if formats.iter().all(|format| *format == Format::Text) {
            self.assert_like_model(settings);
        }
        self.assert_read_again(settings);
    }

    /// What was written is read without a complaint, and there is nothing left to repair or to drop.
    fn assert_read_again(&self, settings: &Settings) {
        let body = &self.response[..self.merged];
        let lenient = Settings { utf8: settings.utf8, ..crate::support::settings() };
        let again = drive(&[pod_with(&[], body)], &[Format::Text], &lenient, &Feeding::default());
        assert_eq!(again.outcomes[0].error, None, "in {}", body.escape_ascii());
        assert_same_bytes(&again.samples().concat(), &self.samples().concat(), "what was read again");
    }

    fn assert_like_model(&self, settings: &Settings) {
        let (response, results) = model::run(&self.given, settings);
        assert_same_bytes(&self.response, &response, "the model");
        for pod in &self.given {
            explained::assert_like_merged(pod, settings);
        }
        for (pod, (result, outcome)) in results.iter().zip(&self.outcomes).enumerate() {
            let (counts, error) = (outcome.counts, &outcome.error);
            assert_eq!(error.is_none(), result.ok, "pod {pod}: {error:?}");
            assert_eq!(
                (counts.samples, counts.dropped_by_rule, counts.dropped_reserved, counts.dropped_names),
                (result.samples, result.dropped_by_rule, result.dropped_reserved, result.dropped_names),
                "pod {pod}"
            );
            if let Some(line) = result.failed_line {
                assert_eq!(error.as_ref().map(|error| error.line), Some(line), "pod {pod}: {error:?}");
            }
        }
    }

    fn assert_same(&self, other: &Self) {
        assert_same_bytes(&self.response, &other.response, "another chunking");
        assert_eq!(self.outcomes, other.outcomes, "another chunking");
    }

    /// The samples of all pods are those each has alone, no more and no fewer, and each ends as it does alone.
    fn assert_each_as_if_alone(&self, formats: &[Format], settings: &Settings) {
        let mut expected = Vec::new();
        for (index, pod) in self.given.iter().enumerate() {
            let alone = drive(std::slice::from_ref(pod), &formats[index..=index], settings, &Feeding::default());
            let mut outcome = self.outcomes[index].clone();
            outcome.error.iter_mut().for_each(|error| error.pod = 0);
            assert_eq!(outcome, alone.outcomes[0], "pod {index} alone");
            let samples = alone.samples().into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
            // In the order they came, whoever else's samples came between.
            let mut rest = self.samples().into_iter();
            for sample in &samples {
                assert!(rest.any(|line| line == sample), "pod {index} lost {}", sample.escape_ascii());
            }
            expected.extend(samples);
        }
        let mut all: Vec<Vec<u8>> = self.samples().into_iter().map(<[u8]>::to_vec).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_same_bytes(&all.concat(), &expected.concat(), "the pods one by one");
    }

    fn samples(&self) -> Vec<&[u8]> {
        self.response[..self.merged].split_inclusive(|byte| *byte == b'\n').filter(|line| line[0] != b'#').collect()
    }
}

fn assert_same_bytes(got: &[u8], expected: &[u8], whose: &str) {
    assert!(got == expected, "got {}\n{whose}: {}", got.escape_ascii(), expected.escape_ascii());
}

/// Whoever reads the error finds the line, and the log it stands in stays a log.
fn assert_sound(error: &PodError, body: &[u8]) {
    let text = error.to_string();
    assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{text}");
    let offset = error.offset as usize;
    assert!(offset <= body.len(), "{error:?}");
    // What is missing at the end is missing behind the last line, which may lack its newline.
    if error.fault != Fault::OpenMetrics(OpenMetricsFault::MissingEof) {
        let line = body[..offset].split(|byte| *byte == b'\n').count() as u64;
        assert_eq!(line, error.line, "{error:?}");
    }
}

/// There is no model of OpenMetrics, but this much can be said of a body's end without one.
fn assert_ends_with_eof(outcome: &Outcome, body: &[u8]) {
    let found = body.split(|byte| *byte == b'\n').any(|line| line == b"# EOF");
    match &outcome.error {
        None => assert!(found && body.strip_suffix(b"\n").unwrap_or(body).ends_with(b"# EOF")),
        Some(error) if error.fault == Fault::OpenMetrics(OpenMetricsFault::MissingEof) => assert!(!found, "{error:?}"),
        Some(_) => {}
    }
}
