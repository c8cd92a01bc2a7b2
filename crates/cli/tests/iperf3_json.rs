//! Import and export of iperf3's JSON; manual pages and completions.

use crate::common;
use std::path::{Path, PathBuf};

use common::{CommandOutput, SMALL, TestDir};
use serde_json::Value;

/// A file written by Debian's iperf3 3.12.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iperf3/tests/documents").join(name)
}

fn import(test_dir: &TestDir, name: &str) -> Value {
    let file = fixture(name);
    test_dir.run(&["import", "iperf3", file.to_str().unwrap(), "--json"]).json()
}

fn theirs(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

#[test]
fn imported_tests_are_listed_and_shown_like_other_runs() {
    let test_dir = TestDir::new(SMALL);
    let printed = import(&test_dir, "tcp-two.client.json");
    assert_eq!(printed["schema"], "longfat.imported/1");
    let record = printed["records"][0]["record"].as_str().unwrap();
    assert_eq!(printed["records"][0]["partial"], false);
    import(&test_dir, "tcp-reverse.client.json");
    let listed = test_dir.run(&["ls"]).stdout;
    assert!(listed.contains("tcp-two.client") && listed.contains("iperf3"), "{listed}");
    let iperf3 = theirs("tcp-two.client.json");
    let shown = test_dir.run(&["show", record, "--json"]).json();
    let run = &shown["runs"][0];
    assert_eq!(run["engine"], "iperf3");
    let flows = run["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    for (flow, stream) in flows.iter().zip(iperf3["end"]["streams"].as_array().unwrap()) {
        assert_eq!(flow["bytes"], stream["receiver"]["bytes"]);
        assert_eq!(flow["retransmitted_segs"], stream["sender"]["retransmits"]);
        assert_eq!(flow["mean_rtt_us"].as_f64(), stream["sender"]["mean_rtt"].as_f64());
        let rate =
            flow["goodput_bps"].as_f64().unwrap() / stream["receiver"]["bits_per_second"].as_f64().unwrap();
        assert!((rate - 1.0).abs() < 1e-4, "{flow}");
    }
    for args in [
        &["show", record][..],
        &["compare", record, "last"],
        &["plot", record, "--metric", "goodput,cwnd,rtt"],
        &["report", record],
    ] {
        let ran = test_dir.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(!ran.stdout.is_empty(), "{args:?}");
    }
    assert!(test_dir.run(&["plot", record]).stdout.contains("stream-3"), "a curve for each stream");
}

#[test]
fn rows_match_iperf3s_intervals() {
    let test_dir = TestDir::new(SMALL);
    let record =
        import(&test_dir, "tcp-omit.client.json")["records"][0]["record"].as_str().unwrap().to_owned();
    let rows = record::Run::open(&test_dir.path(&record)).unwrap().flows().unwrap();
    let iperf3 = theirs("tcp-omit.client.json");
    let intervals = iperf3["intervals"].as_array().unwrap();
    // One additional row at the start of the first interval.
    assert_eq!(rows.len(), intervals.len() + 1);
    let (mut last_us, mut retransmits) = (0, 0);
    for (row, interval) in rows[1..].iter().zip(intervals) {
        let stream = &interval["streams"][0];
        assert!(row.time_us > last_us, "the omitted part comes first, and the time continues after it");
        last_us = row.time_us;
        retransmits += stream["retransmits"].as_i64().unwrap();
        let cwnd = row.snd_cwnd_segs.unwrap() * row.snd_mss_bytes.unwrap();
        assert_eq!(cwnd, stream["snd_cwnd"].as_i64().unwrap(), "the segment size is found");
        assert_eq!((row.srtt_us, row.total_retrans_segs), (stream["rtt"].as_i64(), Some(retransmits)));
        let number = |key: &str| stream[key].as_f64().unwrap();
        // iperf3 divides the first counted interval by too long a time.
        let mistaken = (number("end") - number("start") - number("seconds")).abs() > 1e-3;
        let seconds = if mistaken { number("end") } else { number("seconds") };
        let rate = row.goodput_bps.unwrap() as f64 * seconds / (number("bytes") * 8.0);
        assert!((rate - 1.0).abs() < 1e-3, "{row:?} {stream}");
    }
    let columns = (rows[1].limited_by, rows[1].bytes_acked, rows[1].rcv_wnd_bytes);
    assert_eq!(columns, (None, None, None), "values that iperf3 does not report are empty");
}

#[test]
fn datagrams_are_counted_at_both_ends() {
    let test_dir = TestDir::new(SMALL);
    let printed = import(&test_dir, "udp-reverse.client.json");
    let shown = test_dir.run(&["show", printed["records"][0]["record"].as_str().unwrap(), "--json"]).json();
    let flow = &shown["runs"][0]["flows"][0];
    let end = theirs("udp-reverse.client.json")["end"].clone();
    assert_eq!((&flow["name"], &flow["kind"]), (&"stream-1".into(), &"udp".into()));
    assert_eq!(flow["datagrams_sent"], end["sum_sent"]["packets"]);
    assert_eq!(flow["datagrams_lost"], end["sum"]["lost_packets"]);
    assert_eq!(flow["bytes"], end["sum_received"]["bytes"]);
    let jitter_us = end["sum"]["jitter_ms"].as_f64().unwrap() * 1e3;
    assert!((flow["jitter_us"].as_f64().unwrap() - jitter_us).abs() < 0.01, "{flow}");
}

#[test]
fn exported_imports_equal_the_original() {
    let test_dir = TestDir::new(SMALL);
    let printed = import(&test_dir, "tcp-bidir.server.json");
    let record = printed["records"][0]["record"].as_str().unwrap();
    let exported = test_dir.run(&["export", "iperf3", record]).json();
    let original = theirs("tcp-bidir.server.json");
    for key in ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"] {
        assert_eq!(exported["end"][key]["bytes"], original["end"][key]["bytes"], "{key}");
    }
    let stream = test_dir.run(&["export", "iperf3", record, "--format", "json-stream"]).stdout;
    let events: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let intervals = original["intervals"].as_array().unwrap().len();
    assert_eq!(events.len(), intervals + 2);
    assert_eq!((&events[0]["event"], &events[events.len() - 1]["event"]), (&"start".into(), &"end".into()));
    let text = test_dir.run(&["export", "iperf3", record, "--format", "text"]).stdout;
    assert!(text.contains("[RX-S]") && text.contains("Accepted connection from 127.0.0.1"), "{text}");
}

#[test]
fn simulations_export_as_iperf3_json() {
    let test_dir = TestDir::new(SMALL);
    let ran = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let flow = &ran["runs"][0]["flows"][0];
    let out = test_dir.path("out.json");
    let args = ["export", "iperf3", "last", "--interval", "250ms", "-o", out.to_str().unwrap()];
    assert_eq!(test_dir.run(&args).code, 0);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let intervals = document["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), 4);
    let sum: u64 = intervals.iter().map(|i| i["sum"]["bytes"].as_u64().unwrap()).sum();
    let bytes = flow["bytes"].as_u64().unwrap();
    assert!(sum.abs_diff(bytes) * 100 < bytes, "{sum} in intervals, {bytes} in all");
    assert_eq!(document["end"]["sum_received"]["bytes"], bytes);
    assert_eq!(document["end"]["sum_sent"]["retransmits"], flow["retransmitted_segs"]);
    assert_eq!(document["start"]["connected"][0]["remote_host"], "10.0.0.2");
    assert_eq!(document["end"]["sender_tcp_congestion"], "cubic");
    assert!(intervals[3]["streams"][0]["snd_cwnd"].as_u64().unwrap() > 14_480, "{intervals:?}");
    // The export can be imported as a run.
    let back = test_dir.run(&["import", "iperf3", out.to_str().unwrap(), "--json"]).json();
    let again = test_dir.run(&["show", back["records"][0]["record"].as_str().unwrap(), "--json"]).json();
    assert_eq!(again["runs"][0]["flows"][0]["bytes"], flow["bytes"]);
}

#[test]
fn invalid_imports_are_reported_and_write_nothing() {
    let test_dir = TestDir::new(SMALL);
    std::fs::write(test_dir.path("text.json"), "iperf 3.12\n").unwrap();
    std::fs::write(test_dir.path("other.json"), r#"{"a": 1}"#).unwrap();
    std::fs::write(test_dir.path("empty.json"), "").unwrap();
    std::fs::write(test_dir.path("binary.json"), [0x80, 0xff, 0]).unwrap();
    let whole = std::fs::read_to_string(fixture("tcp.client.json")).unwrap();
    std::fs::write(test_dir.path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::copy(fixture("refused.client.json"), test_dir.path("refused.json")).unwrap();
    for (file, message) in [
        ("text.json", "expected value"),
        ("other.json", "no start, no intervals, no end and no error"),
        ("empty.json", "no test in this file"),
        ("binary.json", "UTF-8"),
        ("cut.json", "EOF"),
        ("refused.json", "Connection refused"),
        ("none.json", "No such file"),
        (".", "not a regular file"),
    ] {
        let ran = test_dir.run(&["import", "iperf3", file]);
        assert_eq!(ran.code, 2, "{file}: {ran:?}");
        assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{file}: {ran:?}");
    }
    assert!(!test_dir.path("runs").exists(), "no files may remain");
}

#[test]
fn interrupted_tests_are_imported_as_partial() {
    let test_dir = TestDir::new(SMALL);
    let mut document = theirs("tcp.client.json");
    document["end"] = serde_json::json!({});
    document["error"] = "interrupt - the client has terminated".into();
    std::fs::write(test_dir.path("cut.json"), document.to_string()).unwrap();
    let printed = test_dir.run(&["import", "iperf3", "cut.json", "--json"]).json();
    assert_eq!(printed["records"][0]["partial"], true);
    let shown = test_dir.run(&["show", printed["records"][0]["record"].as_str().unwrap()]).stdout;
    assert!(shown.contains("the client has terminated") && shown.contains("partial"), "{shown}");
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let test_dir = TestDir::new(SMALL);
    let help = test_dir.run(&["--help"]).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' '))?.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = test_dir.run(&["completions", shell]).stdout;
        assert!(script.contains("LONGFAT_COMPLETE"), "{script}");
        let mut requested = test_dir.longfat(&["--", "longfat", ""]);
        // The index of the completed word, as the scripts of bash and zsh pass it.
        requested.env("LONGFAT_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1");
        let words = CommandOutput::from(requested.output().unwrap()).stdout;
        for command in &commands {
            assert!(words.contains(command), "{shell} has no {command}: {words}");
        }
    }
    assert_eq!(test_dir.run(&["completions", "tcsh"]).code, 2);
    let page = test_dir.run(&["man"]).stdout;
    assert!(page.contains(".TH longfat 1"), "{page}");
    assert_eq!(test_dir.run(&["man", "-o", "pages"]).code, 0);
    for command in commands.iter().filter(|command| **command != "help") {
        let page = test_dir.path("pages").join(format!("longfat-{command}.1"));
        assert!(std::fs::read_to_string(&page).unwrap().contains(".SH SYNOPSIS"), "{}", page.display());
    }
}
