//! Import and export of iperf3's JSON; manual pages and completions.

use crate::common;
use std::path::{Path, PathBuf};

use common::{CommandOutput, SMALL, TestDir};
use serde_json::Value;

/// A file written by Debian's iperf3 3.12.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../iperf3/tests/documents").join(name)
}

fn import(place: &TestDir, name: &str) -> Value {
    let file = fixture(name);
    place.run(&["import", "iperf3", file.to_str().unwrap(), "--json"]).json()
}

fn theirs(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

#[test]
fn imported_tests_are_ordinary_runs() {
    let place = TestDir::new(SMALL);
    let printed = import(&place, "tcp-two.client.json");
    assert_eq!(printed["schema"], "longfat.imported/1");
    let record = printed["records"][0]["record"].as_str().unwrap();
    assert_eq!(printed["records"][0]["partial"], false);
    import(&place, "tcp-reverse.client.json");
    let listed = place.run(&["ls"]).stdout;
    assert!(listed.contains("tcp-two.client") && listed.contains("iperf3"), "{listed}");
    let iperf3 = theirs("tcp-two.client.json");
    let shown = place.run(&["show", record, "--json"]).json();
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
        let ran = place.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(!ran.stdout.is_empty(), "{args:?}");
    }
    assert!(place.run(&["plot", record]).stdout.contains("stream-3"), "a curve for each stream");
}

#[test]
fn rows_match_iperf3s_intervals() {
    let place = TestDir::new(SMALL);
    let record = import(&place, "tcp-omit.client.json")["records"][0]["record"].as_str().unwrap().to_owned();
    let rows = record::Run::open(&place.path(&record)).unwrap().flows().unwrap();
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
    let place = TestDir::new(SMALL);
    let printed = import(&place, "udp-reverse.client.json");
    let shown = place.run(&["show", printed["records"][0]["record"].as_str().unwrap(), "--json"]).json();
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
    let place = TestDir::new(SMALL);
    let printed = import(&place, "tcp-bidir.server.json");
    let record = printed["records"][0]["record"].as_str().unwrap();
    let exported = place.run(&["export", "iperf3", record]).json();
    let original = theirs("tcp-bidir.server.json");
    for key in ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"] {
        assert_eq!(exported["end"][key]["bytes"], original["end"][key]["bytes"], "{key}");
    }
    let stream = place.run(&["export", "iperf3", record, "--format", "json-stream"]).stdout;
    let events: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let intervals = original["intervals"].as_array().unwrap().len();
    assert_eq!(events.len(), intervals + 2);
    assert_eq!((&events[0]["event"], &events[events.len() - 1]["event"]), (&"start".into(), &"end".into()));
    let text = place.run(&["export", "iperf3", record, "--format", "text"]).stdout;
    assert!(text.contains("[RX-S]") && text.contains("Accepted connection from 127.0.0.1"), "{text}");
}

#[test]
fn simulations_export_as_iperf3_json() {
    let place = TestDir::new(SMALL);
    let ran = place.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let flow = &ran["runs"][0]["flows"][0];
    let out = place.path("out.json");
    let args = ["export", "iperf3", "last", "--interval", "250ms", "-o", out.to_str().unwrap()];
    assert_eq!(place.run(&args).code, 0);
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
    let back = place.run(&["import", "iperf3", out.to_str().unwrap(), "--json"]).json();
    let again = place.run(&["show", back["records"][0]["record"].as_str().unwrap(), "--json"]).json();
    assert_eq!(again["runs"][0]["flows"][0]["bytes"], flow["bytes"]);
}

#[test]
fn invalid_imports_are_reported_and_write_nothing() {
    let place = TestDir::new(SMALL);
    std::fs::write(place.path("text.json"), "iperf 3.12\n").unwrap();
    std::fs::write(place.path("other.json"), r#"{"a": 1}"#).unwrap();
    std::fs::write(place.path("empty.json"), "").unwrap();
    std::fs::write(place.path("binary.json"), [0xff, 0xfe, 0]).unwrap();
    let whole = std::fs::read_to_string(fixture("tcp.client.json")).unwrap();
    std::fs::write(place.path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::copy(fixture("refused.client.json"), place.path("refused.json")).unwrap();
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
        let ran = place.run(&["import", "iperf3", file]);
        assert_eq!(ran.code, 2, "{file}: {ran:?}");
        assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{file}: {ran:?}");
    }
    assert!(!place.path("runs").exists(), "no files may remain");
}

#[test]
fn interrupted_tests_are_imported_as_partial() {
    let place = TestDir::new(SMALL);
    let mut document = theirs("tcp.client.json");
    document["end"] = serde_json::json!({});
    document["error"] = "interrupt - the client has terminated".into();
    std::fs::write(place.path("cut.json"), document.to_string()).unwrap();
    let printed = place.run(&["import", "iperf3", "cut.json", "--json"]).json();
    assert_eq!(printed["records"][0]["partial"], true);
    let shown = place.run(&["show", printed["records"][0]["record"].as_str().unwrap()]).stdout;
    assert!(shown.contains("the client has terminated") && shown.contains("partial"), "{shown}");
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let place = TestDir::new(SMALL);
    let help = place.run(&["--help"]).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' '))?.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).stdout;
        assert!(script.contains("LONGFAT_COMPLETE"), "{script}");
        let mut requested = place.longfat(&["--", "longfat", ""]);
        // The index of the completed word, as the scripts of bash and zsh pass it.
        requested.env("LONGFAT_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1");
        let words = CommandOutput::from(requested.output().unwrap()).stdout;
        for command in &commands {
            assert!(words.contains(command), "{shell} has no {command}: {words}");
        }
    }
    assert_eq!(place.run(&["completions", "tcsh"]).code, 2);
    let page = place.run(&["man"]).stdout;
    assert!(page.contains(".TH longfat 1"), "{page}");
    assert_eq!(place.run(&["man", "-o", "pages"]).code, 0);
    for command in commands.iter().filter(|command| **command != "help") {
        let page = place.path("pages").join(format!("longfat-{command}.1"));
        assert!(std::fs::read_to_string(&page).unwrap().contains(".SH SYNOPSIS"), "{}", page.display());
    }
}
