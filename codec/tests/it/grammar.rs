//! GRAMMAR.md, row by row: what is accepted and how it is then written, what is refused and where.
//!
//! Every row goes through the codec whole and cut at every byte, and through the model.

use sluice_codec::{Fault, Limit, Outcome};

use crate::support::generate::REFUSED;
use crate::support::model::Settings;
use crate::support::{Chunking, assert_like_model, drop_rule, parser, pod, pod_with, run, settings};

/// What a pod without injected labels comes to, the synthetic families left out.
fn written(body: &[u8], settings: &Settings) -> (String, Outcome) {
    let shown = body.escape_ascii();
    let alone = [pod_with(&[], body)];
    let output = assert_like_model(&alone, settings, &Chunking::Whole);
    let whole = run(&alone, settings, &Chunking::Whole);
    assert_eq!(run(&alone, settings, &Chunking::Every(1)), whole, "{shown}");
    for cut in 0..body.len() {
        assert_eq!(run(&alone, settings, &Chunking::At(&[cut])), whole, "{shown} cut at {cut}");
    }
    // Lines without injected labels take their own way through the codec.
    assert_like_model(&[pod("etcd-0", body)], settings, &Chunking::Every(1));
    if let Err(error) = parser::parse(&output, settings.utf8) {
        panic!("{error} in what became of {shown}");
    }
    let output = String::from_utf8(output).unwrap();
    let tail = output.rfind("# HELP metrics_aggregator_pod_scrape_errors_total ").unwrap();
    (output[..tail].to_string(), whole.1[0].clone())
}

fn accepted(settings: &Settings, rows: &[(&[u8], &str)]) {
    for (body, expected) in rows {
        let (output, outcome) = written(body, settings);
        assert_eq!((output.as_str(), outcome.error), (*expected, None), "{}", body.escape_ascii());
    }
}

/// The line and the offset are those within the row; a good line stands before it and another behind.
fn refused(settings: &Settings, rows: &[(&[u8], Fault, u64, u64)]) {
    for (row, fault, line, offset) in rows {
        let (output, outcome) = written(&[b"ok 1\n", *row, b"\nlate 1\n"].concat(), settings);
        let error = outcome.error.unwrap_or_else(|| panic!("accepted: {}", row.escape_ascii()));
        assert_eq!((error.fault, error.line, error.offset), (*fault, line + 1, offset + 5), "{}", row.escape_ascii());
        assert_eq!(output, "ok 1\n", "{}", row.escape_ascii());
    }
}

#[test]
fn lines() {
    let rows: &[(&[u8], &str)] = &[
        (b"", ""),
        (b"foo 1", "foo 1\n"),
        (b"\n \t\nfoo 1\n\n\t", "foo 1\n"),
        (b"# a comment\n#\n##\n#foo 2\n# EOF\n# UNIT foo seconds\nfoo 1\n", "foo 1\n"),
        (b"#HELP foo x\n# HELP\n# TYPE\n# help foo x\n# HELPER foo x\n# TYPED foo x\nfoo 1\n", "foo 1\n"),
        (b"# NUL \0, no UTF-8 \xff, an open quote \"\nfoo 1\n", "foo 1\n"),
        (b" \tfoo 1\n", "foo 1\n"),
        (b"\t # HELP foo x\n # TYPE foo gauge\n \t# y\nfoo 1\n", "# HELP foo x\n# TYPE foo gauge\nfoo 1\n"),
        (b"foo 1 \nfoo 2\t \nfoo 3 4 \t\n", "foo 1\nfoo 2\nfoo 3 4\n"),
    ];
    accepted(&settings(), rows);
    let rows: &[(&[u8], Fault, u64, u64)] = &[
        (b"foo 1\r", Fault::Value, 1, 4),
        (b"foo 1 2\r", Fault::Timestamp, 1, 6),
        (b"# TYPE foo gauge\r", Fault::TypeKeyword, 1, 11),
        (b"\r", Fault::MetricName, 1, 0),
        (b" \r", Fault::MetricName, 1, 1),
        (b"\xef\xbb\xbffoo 1", Fault::MetricName, 1, 0),
        (b"\xef\xbb\xbf# TYPE foo gauge", Fault::MetricName, 1, 0),
    ];
    refused(&settings(), rows);
}

#[test]
fn lines_and_their_limits() {
    let line = Settings { line_bytes: 8, ..settings() };
    let too_long = Fault::Limit { limit: Limit::LineBytes, value: 8 };
    accepted(&line, &[(b"foo 1234\nfoo 5678", "foo 1234\nfoo 5678\n")]);
    let rows: &[(&[u8], Fault, u64, u64)] = &[
        (b"foo 12345", too_long, 1, 0),
        (b"\r\xff{\"not even a line", too_long, 1, 0),
        (b"# a comment", too_long, 1, 0),
    ];
    refused(&line, rows);

    let body = Settings { body_bytes: 11, ..settings() };
    let too_big = Fault::Limit { limit: Limit::BodyBytes, value: 11 };
    accepted(&body, &[(b"foo 1\nbar 1", "foo 1\nbar 1\n")]);
    refused(&body, &[(b"foo 123", too_big, 1, 0)]);

    let samples = Settings { samples: 2, rules: vec![drop_rule(&["__name__"], "dropped")], ..settings() };
    let too_many = Fault::Limit { limit: Limit::Samples, value: 2 };
    accepted(&samples, &[(b"foo 1\ndropped 1\n# no sample\n", "foo 1\n")]);
    refused(&samples, &[(b"dropped 1\n# no sample\n \tdropped 2", too_many, 3, 22)]);

    let labels = |count: usize| {
        let labels: Vec<String> = (0..count).map(|number| format!("l{number}=\"\"")).collect();
        format!("foo{{{}}} 1", labels.join(","))
    };
    let (most, over) = (labels(1024), labels(1025));
    accepted(&settings(), &[(most.as_bytes(), &format!("{most}\n"))]);
    let too_many = Fault::Limit { limit: Limit::Labels, value: 1024 };
    refused(&settings(), &[(over.as_bytes(), too_many, 1, over.find("l1024").unwrap() as u64)]);
}

#[test]
fn metadata() {
    let rows: &[(&[u8], &str)] = &[
        (b"# HELP x\nx 1", "x 1\n"),
        (b"# HELP x \nx 1\n# HELP y \t  \ny 1", "x 1\ny 1\n"),
        (b"#\t HELP \t x\tone  blank\t\nx 1", "# HELP x one  blank\t\nx 1\n"),
        (b"# HELP x   more blanks\nx 1", "# HELP x   more blanks\nx 1\n"),
        (b"# HELP x NUL \0 \xc3\xa9 # {\" CR\r\nx 1", "# HELP x NUL \0 é # {\" CR\r\nx 1\n"),
        (b"# HELP x \\t\\\\t\\n\\\"\\\nx 1", "# HELP x \\\\t\\\\t\\n\\\\\"\\\\\nx 1\n"),
        (b"# HELP \"x\" quoted\n# TYPE \"x\" gauge\nx 1", "# HELP x quoted\n# TYPE x gauge\nx 1\n"),
        (b"# TYPE x counter\nx 1", "# TYPE x counter\nx 1\n"),
        (b"# TYPE x gauge\nx 1", "# TYPE x gauge\nx 1\n"),
        (b"# TYPE x histogram\nx_sum 1", "# TYPE x histogram\nx_sum 1\n"),
        (b"# TYPE x summary\nx_sum 1", "# TYPE x summary\nx_sum 1\n"),
        (b"#  TYPE\t\tx\tuntyped\nx 1", "# TYPE x untyped\nx 1\n"),
        (b"# HELP x a\n# TYPE x gauge\n# HELP x b\n# TYPE x counter\nx 1", "# HELP x b\n# TYPE x counter\nx 1\n"),
        (b"# HELP x a\n# HELP x\n# TYPE x gauge\nx 1", "# TYPE x gauge\nx 1\n"),
        (b"# HELP x a\n# TYPE x gauge\ny 1\n# TYPE z gauge\n", "y 1\n"),
        (b"# TYPE d gauge\nd 1\ny 1\n", "y 1\n"),
    ];
    accepted(&Settings { rules: vec![drop_rule(&["__name__"], "d")], ..settings() }, rows);
    let rows: &[(&[u8], Fault, u64, u64)] = &[
        (b"# HELP ", Fault::MetadataName, 1, 7),
        (b"# HELP \t ", Fault::MetadataName, 1, 9),
        (b"# TYPE ", Fault::MetadataName, 1, 7),
        (b" # HELP 1x text", Fault::MetadataName, 1, 8),
        (b"# HELP {} text", Fault::MetadataName, 1, 7),
        (b"# HELP x{} text", Fault::MetadataName, 1, 8),
        (b"# HELP x.y text", Fault::MetadataName, 1, 8),
        (b"# HELP x\r", Fault::MetadataName, 1, 8),
        (b"# HELP \"x\"y text", Fault::MetadataName, 1, 10),
        (b"# HELP \"\" text", Fault::QuotedName, 1, 7),
        (b"# TYPE \"x\0\" gauge", Fault::QuotedName, 1, 7),
        (b"# HELP \"x text", Fault::UnterminatedString, 1, 7),
        (b"# HELP \"x\xff\" text", Fault::Utf8, 1, 9),
        (b"# HELP x ab\xff", Fault::Utf8, 1, 11),
        (b"# TYPE x", Fault::TypeKeyword, 1, 8),
        (b"# TYPE x ", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x  gauge", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x gauge ", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x gauge x", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x Gauge", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x unknown", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x info", Fault::TypeKeyword, 1, 9),
        (b"# TYPE x \xff", Fault::TypeKeyword, 1, 9),
    ];
    refused(&settings(), rows);
}

#[test]
fn samples_accepted_and_repaired() {
    let rows: &[(&[u8], &str)] = &[
        (b"foo \t1\t 2", "foo 1 2\n"),
        (b"foo+1\nfoo.5\nfoo-Inf", "foo +1\nfoo .5\nfoo -Inf\n"),
        (b"foo{a=\"b\"}1\nfoo{}1", "foo{a=\"b\"} 1\nfoo 1\n"),
        (b"foo{} 1\nfoo{ } 1\nfoo {\t} 1", "foo 1\nfoo 1\nfoo 1\n"),
        (b"foo {a=\"b\"} 1\nfoo\t{ a\t= \"b\" , c =\"d\" }\t1", "foo{a=\"b\"} 1\nfoo{a=\"b\",c=\"d\"} 1\n"),
        (b"foo{a=\"1\",} 1\nfoo{a=\"1\" , } 1", "foo{a=\"1\"} 1\nfoo{a=\"1\"} 1\n"),
        (b"foo{a=\"1\" b=\"2\"c=\"3\"} 1", "foo{a=\"1\",b=\"2\",c=\"3\"} 1\n"),
        (b"foo{_a9=\"1\",\"B\"=\"2\",le=\"x\"} 1", "foo{_a9=\"1\",B=\"2\",le=\"x\"} 1\n"),
        (b"foo{a=\"\\\\ \\\" \\n\"} 1", "foo{a=\"\\\\ \\\" \\n\"} 1\n"),
        (b"foo{a=\"\\t \\\\t \\' \\\xc3\xa9\"} 1", "foo{a=\"\\\\t \\\\t \\\\' \\\\é\"} 1\n"),
        (b"foo{a=\"{}},#=\0\xc3\xa9\xf0\x9f\x92\xa7\t\r\"} 1", "foo{a=\"{}},#=\0é💧\t\r\"} 1\n"),
        (b"foo{a=\"\",b=\"\"} 1", "foo{a=\"\",b=\"\"} 1\n"),
        (b"a:b_9 1\n:c 1\n_ 1", "a:b_9 1\n:c 1\n_ 1\n"),
        (b"foo 0\nfoo -007\nfoo +1.5e+3\nfoo 5.\nfoo .5E-3", "foo 0\nfoo -007\nfoo +1.5e+3\nfoo 5.\nfoo .5E-3\n"),
        (b"foo nan\nfoo NAN\nfoo Inf\nfoo +INFINITY\nfoo -inf", "foo nan\nfoo NAN\nfoo Inf\nfoo +INFINITY\nfoo -inf\n"),
        (b"foo 1e-999\nfoo 1.7976931348623157e308", "foo 1e-999\nfoo 1.7976931348623157e308\n"),
        (b"foo 1 0\nfoo 1 9223372036854775807\nfoo 1 007", "foo 1 0\nfoo 1 9223372036854775807\nfoo 1 007\n"),
        (
            b"# TYPE h histogram\nh_bucket{le=\"1e-5\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_bucket{quantile=\"x\"} 1",
            "# TYPE h histogram\nh_bucket{le=\"1e-5\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_bucket{quantile=\"x\"} 1\n",
        ),
        (
            b"# TYPE s summary\ns{quantile=\"0.5\"} 1\ns{quantile=\"NaN\",le=\"x\"} 1",
            "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns{quantile=\"NaN\",le=\"x\"} 1\n",
        ),
        (
            b"# TYPE h histogram\nh_max{le=\"x\"} 1\n# TYPE g gauge\ng{le=\"x\"} 1",
            "h_max{le=\"x\"} 1\n# TYPE g gauge\ng{le=\"x\"} 1\n",
        ),
    ];
    accepted(&settings(), rows);
}

#[test]
fn samples_refused() {
    let rows: &[(&[u8], Fault, u64, u64)] = &[
        (b"foo{,a=\"1\"} 1", Fault::LabelName, 1, 4),
        (b"foo{a=\"1\",,b=\"2\"} 1", Fault::LabelName, 1, 10),
        (b"foo{,} 1", Fault::LabelName, 1, 4),
        (b"foo{1a=\"1\"} 1", Fault::LabelName, 1, 4),
        (b"foo{a.b=\"1\"} 1", Fault::LabelEquals, 1, 5),
        (b"foo{a:b=\"1\"} 1", Fault::LabelEquals, 1, 5),
        (b"foo{a} 1", Fault::LabelEquals, 1, 5),
        (b"foo{a=1} 1", Fault::LabelValue, 1, 6),
        (b"foo{a=\"1\"", Fault::LabelName, 1, 9),
        (b"foo{__name__=\"x\"} 1", Fault::ReservedLabel, 1, 4),
        (b"foo{\"__name__\"=\"\"} 1", Fault::ReservedLabel, 1, 4),
        (b"foo{a=\"1\",b=\"\",a=\"1\"} 1", Fault::DuplicateLabel, 1, 15),
        (b"foo{a=\"\",\"a\"=\"\"} 1", Fault::DuplicateLabel, 1, 10),
        (b"foo{\"x\\t\"=\"1\",\"x\\\\t\"=\"2\"} 1", Fault::DuplicateLabel, 1, 15),
        (b"foo{a=\"line\nbreak\"} 1", Fault::UnterminatedString, 1, 6),
        (b"foo{a=\"\\", Fault::UnterminatedString, 1, 6),
        (b"foo{a=\"b\xffc\"} 1", Fault::Utf8, 1, 8),
        (b"foo{a=\"\xc3\"} 1", Fault::Utf8, 1, 7),
        (b"foo{a=\"\xed\xa0\x80\"} 1", Fault::Utf8, 1, 7),
        // The byte behind a backslash is part of the string, too.
        (b"foo{a=\"\\\xc3\"} 1", Fault::Utf8, 1, 8),
        (b"foo{a=\"\\\xff\"} 1", Fault::Utf8, 1, 8),
        (b"foo", Fault::Value, 1, 3),
        (b"foo{} ", Fault::Value, 1, 6),
        (b"foo 0x1p3", Fault::Value, 1, 4),
        (b"foo 1_000", Fault::Value, 1, 4),
        (b"foo +nan", Fault::Value, 1, 4),
        (b"foo infinit", Fault::Value, 1, 4),
        (b"foo .", Fault::Value, 1, 4),
        (b"foo 1e+", Fault::Value, 1, 4),
        (b"foo 1,5", Fault::Value, 1, 4),
        (b"foo\0 1", Fault::Value, 1, 3),
        (b"foo 1e999", Fault::ValueRange, 1, 4),
        (b"foo -1e309 5", Fault::ValueRange, 1, 4),
        (b"foo 1 -1", Fault::Timestamp, 1, 6),
        (b"foo 1 +1", Fault::Timestamp, 1, 6),
        (b"foo 1 1.5", Fault::Timestamp, 1, 6),
        (b"foo 1 9223372036854775808", Fault::Timestamp, 1, 6),
        (b"foo 1 # {a=\"b\"} 1", Fault::Timestamp, 1, 6),
        (b"foo 1 2 3", Fault::TrailingText, 1, 8),
        (b"# TYPE h histogram\nh_bucket{le=\"x\"} 1", Fault::Bound, 2, 32),
        (b"# TYPE h histogram\nh_sum{a=\"b\",le=\"\"} 1", Fault::Bound, 2, 35),
        (b"# TYPE s summary\n s{\"quantile\"=\"1e999\"} 1", Fault::Bound, 2, 32),
    ];
    refused(&settings(), rows);
}

/// Many labels are compared in another way than few; the error is the same.
#[test]
fn of_many_labels_the_first_that_repeats_is_named() {
    for others in [0, 50] {
        let others: Vec<String> = (0..others).map(|number| format!("l{number}=\"\"")).collect();
        let line = format!("foo{{z=\"\",z=\"\",a=\"\",a=\"\",{}}} 1", others.join(","));
        refused(&settings(), &[(line.as_bytes(), Fault::DuplicateLabel, 1, 9)]);
    }
}

#[test]
fn names() {
    let utf8 = Settings { utf8: true, ..settings() };
    let both: &[(&[u8], &str)] = &[
        (b"{\"foo\",a=\"b\"} 1\n{\"foo\"} 1", "foo{a=\"b\"} 1\nfoo 1\n"),
        (b"{a=\"b\" \"foo\"} 1\n{ a=\"b\" , \"foo\" , c=\"d\" } 1", "foo{a=\"b\"} 1\nfoo{a=\"b\",c=\"d\"} 1\n"),
        (b"{\"a:b\",\"c\"=\"d\",} 1", "a:b{c=\"d\"} 1\n"),
    ];
    accepted(&settings(), both);
    accepted(&utf8, both);

    let quoted: &[u8] = b"{a=\"b\",\"my.metric\",\"c.\\t\"=\"d\"} 1\n{\"my.metric\"} 2\nfoo{\"a:b\"=\"c\"} 3\nfoo 4\n";
    let kept = "{\"my.metric\",a=\"b\",\"c.\\\\t\"=\"d\"} 1\n{\"my.metric\"} 2\nfoo{\"a:b\"=\"c\"} 3\nfoo 4\n";
    accepted(&utf8, &[(quoted, kept), (b"{\"\\\"\\\\\\n0\"} 1", "{\"\\\"\\\\\\n0\"} 1\n")]);
    let (output, outcome) = written(quoted, &settings());
    assert_eq!((output.as_str(), outcome.error), ("foo 4\n", None));
    assert_eq!((outcome.counts.samples, outcome.counts.dropped_names), (4, 3));

    let rows: &[(&[u8], Fault, u64, u64)] = &[
        (b"{\"my.metric\" a=\"b\"} 1", Fault::LabelEquals, 1, 13),
        (b"{\"\"} 1", Fault::QuotedName, 1, 1),
        (b"foo{\"\"=\"1\"} 1", Fault::QuotedName, 1, 4),
        (b"{\"a\0b\"} 1", Fault::QuotedName, 1, 1),
        (b"foo{\"b\0\"=\"1\"} 1", Fault::QuotedName, 1, 4),
        (b"{\"ab\xff\"} 1", Fault::Utf8, 1, 4),
        (b"foo{\"\\\xff\"=\"1\"} 1", Fault::Utf8, 1, 6),
        (b"{\"foo} 1", Fault::UnterminatedString, 1, 1),
        (b"{} 1", Fault::NoMetricName, 1, 0),
        (b"{a=\"b\"} 1", Fault::NoMetricName, 1, 0),
        (b"{\"foo\",\"bar\"} 1", Fault::TwoMetricNames, 1, 7),
        (b"foo{a=\"b\",\"bar\"} 1", Fault::TwoMetricNames, 1, 10),
        (b"my.metric 1", Fault::Value, 1, 2),
        (b"9foo 1", Fault::MetricName, 1, 0),
    ];
    refused(&settings(), rows);
    refused(&utf8, rows);
}

#[test]
fn what_is_written() {
    type Labels<'a> = &'a [(&'a str, &'a str)];
    let one = [("pod", "p-0")];
    let two = [("pod", "p-0"), ("namespace", "ns")];
    let rows: &[(Labels<'_>, bool, &str, &str)] = &[
        (&one, false, "foo{ b=\"1\" , a=\"2\" }\t1.50  7", "foo{pod=\"p-0\",b=\"1\",a=\"2\"} 1.50 7\n"),
        (&one, false, "foo{} 1\nfoo 2", "foo{pod=\"p-0\"} 1\nfoo{pod=\"p-0\"} 2\n"),
        (&one, false, "{a=\"b\",\"my.metric\"} 1", "{\"my.metric\",pod=\"p-0\",a=\"b\"} 1\n"),
        (&[], false, "foo{} 1\n{\"my.metric\"} 1", "foo 1\n{\"my.metric\"} 1\n"),
        (&one, false, "foo{a=\"1\",pod=\"x\",b=\"\"} 1", "foo{pod=\"p-0\",a=\"1\",exported_pod=\"x\",b=\"\"} 1\n"),
        (&one, false, "foo{pod=\"\",a=\"1\"} 1", "foo{pod=\"p-0\",a=\"1\"} 1\n"),
        (
            &two,
            true,
            "foo{a=\"1\",pod=\"\"} 1\nfoo{namespace=\"x\",pod=\"y\"} 1",
            "foo{namespace=\"ns\",a=\"1\",pod=\"\"} 1\nfoo{namespace=\"x\",pod=\"y\"} 1\n",
        ),
        (
            &one,
            false,
            "# HELP \"foo\" x\n# TYPE \"my.\\tm\" gauge\n# HELP \"my.\\tm\" y\n{\"my.\\tm\"} 1",
            "# HELP \"my.\\\\tm\" y\n# TYPE \"my.\\\\tm\" gauge\n{\"my.\\\\tm\",pod=\"p-0\"} 1\n",
        ),
    ];
    for (labels, honor_labels, body, expected) in rows {
        let settings = Settings { utf8: true, honor_labels: *honor_labels, ..settings() };
        for chunking in [Chunking::Whole, Chunking::Every(1)] {
            let output = assert_like_model(&[pod_with(labels, *body)], &settings, &chunking);
            assert!(output.starts_with(expected.as_bytes()), "{body}: {}", output.escape_ascii());
            assert!(output[expected.len()..].starts_with(b"# HELP metrics_aggregator_"), "{body}");
            parser::parse(&output, true).unwrap();
        }
    }
}

/// Whatever the line, it costs its own pod the rest of its body, and no other pod anything.
#[test]
fn every_refused_line_ends_its_own_pod_and_no_other() {
    let good = "# TYPE before gauge\nbefore 2\n# TYPE z_later gauge\nz_later 2\n";
    for line in REFUSED {
        let bad = [b"# TYPE before gauge\nbefore 1\n", *line, b"\nz_later 1\n"].concat();
        let pods = [pod_with(&[("pod", "bad")], bad), pod_with(&[("pod", "good")], good)];
        for (utf8, chunking) in [(false, Chunking::Whole), (true, Chunking::Every(1))] {
            let settings = Settings { utf8, ..settings() };
            let output = assert_like_model(&pods, &settings, &chunking);
            parser::parse(&output, utf8).unwrap_or_else(|error| panic!("{error}: {}", line.escape_ascii()));
            let output = String::from_utf8(output).unwrap();
            let expected = "# TYPE before gauge\nbefore{pod=\"bad\"} 1\nbefore{pod=\"good\"} 2\n\
                            # TYPE z_later gauge\nz_later{pod=\"good\"} 2\n";
            assert!(output.starts_with(expected), "{}: {output}", line.escape_ascii());
            assert!(output.ends_with("up{pod=\"bad\"} 0\nup{pod=\"good\"} 1\n"), "{}: {output}", line.escape_ascii());
        }
    }
}
