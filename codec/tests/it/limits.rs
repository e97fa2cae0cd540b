//! What a pod may not send: the error says which limit, where, and shows a line that is safe to log.

use sluice_codec::{Excerpt, Fault, Limit, Limits, PodError};

use crate::support::model::Settings;
use crate::support::{Chunking, assert_like_model, pod_with, run, settings};

/// The error of a pod beside a good one, which is whole, for every chunking.
fn error_of(body: &[u8], settings: &Settings) -> PodError {
    let good = pod_with(&[("pod", "good")], "a 2\nz 2\n");
    let pods = [good, pod_with(&[("pod", "bad")], body)];
    let (output, outcomes) = run(&pods, settings, &Chunking::Whole);
    assert_eq!(assert_like_model(&pods, settings, &Chunking::Every(1)), output);
    for size in (1..30).chain([100, 1000]) {
        let (other, others) = run(&pods, settings, &Chunking::Every(size));
        assert_eq!((other.escape_ascii().to_string(), &others), (output.escape_ascii().to_string(), &outcomes));
    }
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("\na{pod=\"good\"} 2\n") || output.starts_with("a{pod=\"good\"} 2\n"), "{output}");
    assert!(output.contains("z{pod=\"good\"} 2\n"), "{output}");
    assert!(output.ends_with("up{pod=\"good\"} 1\nup{pod=\"bad\"} 0\n"), "{output}");
    assert_eq!(outcomes[0].error, None);
    outcomes[1].error.clone().unwrap()
}

#[test]
fn the_error_names_the_limit_its_value_and_the_place() {
    let body = b"a 0\na 1\na{x=\"0123456789\"} 1\na 3\n";
    let rows = [
        (Settings { line_bytes: 16, ..settings() }, Limit::LineBytes, 16, "a{x=\\\"0123456789\\\"}"),
        (Settings { body_bytes: 9, ..settings() }, Limit::BodyBytes, 9, "a"),
        (Settings { samples: 2, ..settings() }, Limit::Samples, 2, "a{x=\\\"0123456789\\\"} 1"),
    ];
    for (settings, limit, value, excerpt) in rows {
        let error = error_of(body, &settings);
        assert_eq!(error.fault, Fault::Limit { limit, value });
        assert_eq!((error.pod, error.line, error.offset), (1, 3, 8), "{limit:?}");
        assert_eq!(error.excerpt.as_str(), excerpt, "{limit:?}");
        assert!(error.fault.reason().ends_with("_limit"));
    }
}

#[test]
fn a_limit_that_is_met_exactly_is_kept() {
    let body = "a 1\nb 22\nc 3";
    let exact = Settings { line_bytes: 4, body_bytes: 12, samples: 3, ..settings() };
    for size in 1..=body.len() {
        let (_, outcomes) = run(&[pod_with(&[], body)], &exact, &Chunking::Every(size));
        assert_eq!((&outcomes[0].error, outcomes[0].counts.samples), (&None, 3), "frames of {size}");
    }
    for (settings, line) in [
        (Settings { line_bytes: 3, ..exact.clone() }, 2),
        (Settings { body_bytes: 11, ..exact.clone() }, 3),
        (Settings { samples: 2, ..exact.clone() }, 3),
    ] {
        assert_eq!(error_of(body.as_bytes(), &settings).line, line, "{settings:?}");
    }
}

#[test]
fn a_line_that_never_ends_is_refused_without_being_kept() {
    let settings = Settings { line_bytes: 100, ..settings() };
    let error = error_of(&[b"a 1\n", &[b'x'; 5000][..]].concat(), &settings);
    assert_eq!(error.fault, Fault::Limit { limit: Limit::LineBytes, value: 100 });
    assert_eq!((error.line, error.offset), (2, 4));
    assert_eq!(error.excerpt.as_str(), format!("{}...", "x".repeat(96)));
}

/// Both limits are broken by the same line; which of them is said must not depend on how the bytes arrive.
#[test]
fn a_line_past_both_the_line_and_the_body_limit_is_the_same_error_in_every_chunking() {
    let body = [b"a 1\n", &[b'x'; 200][..], b"\n"].concat();
    for (line_bytes, body_bytes) in [(50, 100), (100, 50), (100, 104), (100, 105), (100, 106)] {
        let error = error_of(&body, &Settings { line_bytes, body_bytes, ..settings() });
        assert_eq!((error.line, error.offset), (2, 4), "{line_bytes} {body_bytes}");
        assert!(error.fault.reason().ends_with("_limit"), "{line_bytes} {body_bytes}");
    }
}

#[test]
fn a_pod_cut_short_before_a_limit_is_abandoned_and_behind_it_over_the_limit() {
    let settings = Settings { line_bytes: 10, ..settings() };
    let fault = |body: &str| {
        let mut pods = [pod_with(&[], body)];
        pods[0].truncated = true;
        let (_, outcomes) = run(&pods, &settings, &Chunking::Every(3));
        assert_like_model(&pods, &settings, &Chunking::Whole);
        outcomes[0].error.clone().unwrap().fault
    };
    assert_eq!(fault("a 1\nb 2"), Fault::Abandoned);
    assert_eq!(fault("a 1\nb 2345678"), Fault::Abandoned);
    assert_eq!(fault("a 1\nb 234567890"), Fault::Limit { limit: Limit::LineBytes, value: 10 });
}

fn assert_safe(excerpt: &Excerpt) {
    let text = excerpt.as_str();
    assert!(text.len() <= 96 * 4 + 3, "{text}");
    assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{text}");
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        // A quote of the pod's own would end the quotes around the excerpt.
        assert_ne!(byte, b'"', "{text}");
        if byte == b'\\' {
            bytes.next();
        }
    }
}

#[test]
fn an_excerpt_of_hostile_bytes_is_short_and_printable() {
    let hostile: Vec<Vec<u8>> = vec![
        (0..=255).filter(|byte| *byte != b'\n').collect(),
        b"\x1b[2J\x1b]0;owned\x07".to_vec(),
        b"\"} level=info msg=\"all is well".to_vec(),
        "\u{202e}\u{2028}\u{85}é".repeat(100).into_bytes(),
        vec![0xff; 100_000],
        vec![b'"'; 97],
        b"a 1\r".to_vec(),
        vec![0],
    ];
    for line in hostile {
        let body = [b"good 1\n", line.as_slice(), b"\n"].concat();
        let (_, outcomes) = run(&[pod_with(&[], body.as_slice())], &settings(), &Chunking::Every(1000));
        let error = outcomes[0].error.as_ref().unwrap();
        assert_safe(&error.excerpt);
        assert_eq!(error.excerpt.as_str().ends_with("..."), line.len() > 96, "{}", error.excerpt);
        assert!(!error.to_string().contains('\n'));
        assert_eq!(run(&[pod_with(&[], body)], &settings(), &Chunking::Whole).1, outcomes);
    }
}

#[test]
fn a_metric_name_may_have_4096_bytes() {
    let name = "n".repeat(Limits::NAME_BYTES);
    let quoted = format!("{}\\n", "é".repeat(Limits::NAME_BYTES / 2));
    for (body, good) in [
        (format!("{name} 1\n"), true),
        (format!("{name}n 1\n"), false),
        (format!("# HELP {name} x\n"), true),
        (format!("# TYPE {name}n gauge\n"), false),
        (format!("{{\"{quoted}\"}} 1\n"), false),
        (format!("# HELP \"{quoted}\" x\n"), false),
        (format!("{name}{{long_{name}=\"1\"}} 1\n"), true),
    ] {
        let pods = [pod_with(&[("pod", "a")], body.as_str())];
        let settings = Settings { utf8: true, ..settings() };
        assert_like_model(&pods, &settings, &Chunking::Every(1000));
        let (_, outcomes) = run(&pods, &settings, &Chunking::Whole);
        let fault = outcomes[0].error.as_ref().map(|error| error.fault);
        let expected = Fault::Limit { limit: Limit::NameBytes, value: 4096 };
        assert_eq!(fault, (!good).then_some(expected), "{}", &body[..20]);
    }
}

#[test]
fn errors_read_like_sentences_in_a_log() {
    let rows: &[(&[u8], &str)] = &[
        (b"good 1\nbad{x=\"\xff\"} 1\n", r#"line 2, byte 14: invalid UTF-8: "bad{x=\"\xff\"} 1""#),
        (b"good 1\ngood 2\ngood 3\n", r#"line 3, byte 14: over the limit of 2 samples in a body: "good 3""#),
        (
            b"good 1\nbad 1 12:30\n",
            "line 2, byte 13: expected a whole number of milliseconds as timestamp: \"bad 1 12:30\"",
        ),
    ];
    for (body, expected) in rows {
        let error = error_of(body, &Settings { samples: 2, ..settings() });
        assert_eq!(error.to_string(), *expected);
    }
    let mut cut = pod_with(&[], "good 1\n");
    cut.truncated = true;
    let (_, outcomes) = run(&[cut], &settings(), &Chunking::Whole);
    assert_eq!(outcomes[0].error.as_ref().unwrap().to_string(), "line 2, byte 7: the pod's body ended early");
}
