//! `longfat test`: its record, its documents and its errors.

use crate::common;
use std::process::Command;

use common::{
    TestDir, binary, eventually,
    iperf3::{Running, free_port, wait_for_listener},
};
use serde_json::Value;

fn serve() -> (Running, String) {
    let port = free_port();
    let server = Running::start(Command::new(binary()).args(["serve", "-i", "0", "-p", &port.to_string()]));
    wait_for_listener(port);
    (server, port.to_string())
}

#[test]
fn a_test_writes_a_record() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    for direction in [&[][..], &["-R"]] {
        let args = ["test", "127.0.0.1", "-p", &port, "-t", "0.6", "-i", "0.2", "--json"];
        let document = test_dir.run(&[&args[..], direction].concat()).json();
        assert_eq!(document["schema"], "longfat.test/1");
        let flow = &document["flows"][0];
        assert_eq!(flow["name"], "stream-1");
        assert!(flow["goodput_bps"].as_f64().unwrap() > 1e6, "{document:#}");
        assert!(flow["verdict"].is_string(), "both ends were sampled: {document:#}");
        // Values that only the sender's or only the receiver's socket has, in either direction.
        for known in ["min_rtt_us", "max_cwnd_bytes", "window_share"] {
            assert!(flow[known].is_number(), "{direction:?}: {known}: {flow:#}");
        }
        let record = document["record"].as_str().unwrap();
        assert!(test_dir.path(record).join("iperf3.json").is_file());
        let shown = test_dir.run(&["show", "last", "--json"]).json();
        assert_eq!(shown["runs"][0]["flows"][0]["bytes"], flow["bytes"]);
        assert_eq!(shown["runs"][0]["partial"], false);
        assert_eq!(test_dir.run(&["plot", "last", "-o", "plot.svg"]).code, 0);
    }
}

/// longfat's traffic generator is never reported as the limiting application.
#[test]
fn processor_time_is_not_an_application_limit() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    let flows = |options: &[&str]| {
        let args = ["test", "127.0.0.1", "-p", &port, "--no-record", "--json"];
        test_dir.run(&[&args[..], options].concat()).json()["flows"].as_array().unwrap().clone()
    };
    let share = |flow: &Value, cause: &str| flow["limited"][cause].as_f64().unwrap();
    for options in [
        &["-t", "1"][..],
        &["-t", "1", "-R"],
        &["-t", "1", "-P", "2"],
        &["-n", "20M"],
        &["-t", "1", "-b", "900gbit"],
    ] {
        for flow in flows(options) {
            assert_eq!(
                (share(&flow, "application"), share(&flow, "path_rate")),
                (0.0, 0.0),
                "{options:?}: {flow:#}"
            );
        }
    }
    for options in [&["-t", "1", "-b", "10M"][..], &["-t", "1", "-b", "10M", "-R"]] {
        let flow = &flows(options)[0];
        assert_eq!(share(flow, "application"), 0.0, "{options:?}: {flow:#}");
        assert_eq!(flow["verdict"], "pacing", "{options:?}: {flow:#}");
        let evidence = flow["evidence"][0].as_str().unwrap();
        assert!(evidence.contains("requested rate of 10 Mb/s (-b)"), "{evidence}");
    }
}

#[test]
fn latency_under_load_is_a_flow_of_the_record() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    for direction in [&[][..], &["-R"]] {
        let args = ["test", "127.0.0.1", "-p", &port, "-t", "0.6", "--latency", "--json"];
        let document = test_dir.run(&[&args[..], direction].concat()).json();
        let (idle, loaded) = (&document["latency"]["idle"], &document["latency"]["loaded"]);
        assert!(idle["sent"].as_u64().unwrap() >= 10 && idle["lost"] == 0, "{document:#}");
        // 20 echoes a second; a busy machine may send fewer.
        assert!((2..=14).contains(&loaded["sent"].as_u64().unwrap()), "{loaded}");
        let times = ["min_us", "p50_us", "p99_us", "max_us"].map(|key| loaded[key].as_f64().unwrap());
        assert!(times.is_sorted() && times[0] > 0.0, "{loaded}");
        let flow = &document["flows"][1];
        assert_eq!((flow["name"].as_str(), flow["kind"].as_str()), (Some("latency"), Some("ping")));
        assert_eq!(flow["pings_sent"], loaded["sent"], "{flow:#}");
        // The record has a resolution of a microsecond.
        let (kept, printed) = (flow["max_rtt_us"].as_f64().unwrap(), times[3]);
        assert!((kept - printed).abs() <= 1.0, "{kept} {printed}");
    }
}

#[test]
fn packets_carry_the_requested_flow_label() {
    // The kernel holds the lease during the test (ip6_flowlabel.c).
    let leased = || std::fs::read_to_string("/proc/net/ip6_flowlabel").is_ok_and(|all| all.contains("12345"));
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    let test = ["test", "::1", "-p", &port, "-t", "30", "-L", "0x12345", "--no-record"];
    let test = Running::start(&mut test_dir.longfat(&test));
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        assert!(eventually(leased), "no lease of the label");
    }
    test.interrupt();
    assert_eq!(test.output().status.code(), Some(1));
}

#[test]
fn a_udp_test_writes_a_record() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    for direction in [&[][..], &["-R"]] {
        let args = ["test", "127.0.0.1", "-p", &port, "-u", "-b", "20M", "-l", "1000", "-t", "0.5", "--json"];
        let document = test_dir.run(&[&args[..], direction].concat()).json();
        let flow = &document["flows"][0];
        assert_eq!((flow["kind"].as_str(), flow["name"].as_str()), (Some("udp"), Some("stream-1")));
        let goodput = flow["goodput_bps"].as_f64().unwrap();
        assert!((15e6..22e6).contains(&goodput), "{direction:?}: {goodput}");
        // 20 Mb/s for half a second; delays are known if the receiver was sampled.
        let sent = flow["datagrams_sent"].as_u64().unwrap();
        assert!((1000..1400).contains(&sent), "{direction:?}: {sent}");
        assert!(flow["mean_owd_us"].is_number() && flow["jitter_us"].is_number(), "{direction:?}: {flow:#}");
    }
}

#[test]
fn an_interrupted_test_keeps_its_samples() {
    let (server, port) = serve();
    let test_dir = TestDir::new("");
    let test =
        Running::start(&mut test_dir.longfat(&["test", "127.0.0.1", "-p", &port, "-t", "30", "-i", "0.1"]));
    let partial = || {
        let found = std::fs::read_dir(test_dir.path("runs/test-127.0.0.1")).into_iter().flatten().flatten();
        found.filter(|entry| entry.file_name().to_string_lossy().ends_with(".partial")).count()
    };
    assert!(eventually(|| partial() == 1), "the record starts with the data");
    std::thread::sleep(std::time::Duration::from_millis(300));
    test.interrupt();
    let output = test.output();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let listed = test_dir.run(&["ls", "--json"]).json();
    let shown = test_dir.run(&["show", listed[0]["path"].as_str().unwrap(), "--json"]).json();
    let run = &shown["runs"][0];
    assert_eq!(run["partial"], true, "{run:#}");
    assert!(run["flows"][0]["bytes"].as_u64().unwrap() > 1_000_000, "{run:#}");
    // The server was notified, and serves the next client immediately.
    let next = test_dir.run(&["test", "127.0.0.1", "-p", &port, "-n", "1M", "--no-record"]);
    assert_eq!(next.code, 0, "{next:?}");
    server.interrupt();
    let printed = server.output();
    assert!(String::from_utf8_lossy(&printed.stderr).contains("the client ended the test"), "{printed:?}");
}

#[test]
fn each_output_format_is_as_documented() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    let run = |args: &[&str]| {
        let all = ["test", "127.0.0.1", "-p", &port, "-t", "0.3", "-i", "0.1", "--no-record"];
        let ran = test_dir.run(&[&all[..], args].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    let iperf3: Value = serde_json::from_str(&run(&["-J"])).unwrap();
    // On a busy machine the test may end late, with an additional short interval.
    assert!((3..=4).contains(&iperf3["intervals"].as_array().unwrap().len()), "{iperf3:#}");
    let stream = run(&["--json-stream"]);
    let events: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let (first, rest) = names.split_first().unwrap();
    let (last, between) = rest.split_last().unwrap();
    assert_eq!((*first, *last), ("start", "end"), "{names:?}");
    assert!((3..=4).contains(&between.len()) && between.iter().all(|name| *name == "interval"), "{names:?}");
    let text = run(&["-T", "mine", "--get-server-output"]);
    assert!(text.contains("mine:  [ ID] Interval"), "{text}");
    assert_eq!(text.matches("Server output:").count(), 1, "{text}");
    assert!(!test_dir.path("runs").exists(), "--no-record");
}

#[test]
fn auto_ends_or_reports_no_steady_state() {
    let (_server, port) = serve();
    let test_dir = TestDir::new("");
    let run = |args: &[&str]| {
        let all = ["test", "127.0.0.1", "-p", &port, "-t", "auto", "--json", "--no-record"];
        test_dir.run(&[&all[..], args].concat()).json()
    };
    // A paced flow is steady immediately: ten epochs of 100 ms after the start.
    let steady = run(&["-b", "80M", "-l", "8K", "--max-time", "20"]);
    assert_eq!(steady["steady"]["known"], true, "{steady:#}");
    let goodput = steady["steady"]["goodput_bps"].as_f64().unwrap();
    assert!((0.95..1.05).contains(&(goodput / 80e6)), "{goodput}");
    assert!(steady["streams"][0]["sent"]["duration_s"].as_f64().unwrap() < 19.0);
    let short = run(&["--max-time", "0.5"]);
    // A busy machine may lose packets, which also begin epochs; that is too short to be precise.
    assert_ne!(short["steady"]["is_precise"], true, "{short:#}");
}

#[test]
fn mistakes_are_reported_before_connecting() {
    let test_dir = TestDir::new("");
    for (args, word) in [
        (&["-P", "129"][..], "129"),
        (&["-t", "0"], "above zero"),
        (&["-n", "0"], "above zero"),
        (&["-k", "0"], "above zero"),
        (&["-t", "1", "-n", "1M"], "cannot be used with"),
        (&["-l", "2M"], "len"),
        (&["-w", "1G"], "window"),
        (&["-i", "0.1ms"], "1 ms"),
        (&["-R", "--bidir"], "cannot be used with"),
        (&["-u", "-l", "10"], "len"),
        (&["--max-time", "5"], "auto"),
        (&["--username", "me"], "rsa-public-key-path"),
        (&["-J", "--json"], "longfat's document"),
    ] {
        let ran = test_dir.run(&[&["test", "127.0.0.1", "-p", "1"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(word), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_refused_connection_is_reported() {
    let test_dir = TestDir::new("");
    let port = free_port().to_string();
    let ran = test_dir.run(&["test", "127.0.0.1", "-p", &port]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("refused"), "{}", ran.stderr);
    let json = test_dir.run(&["test", "127.0.0.1", "-p", &port, "--json"]).parsed();
    assert_eq!((&json["schema"], &json["error"]["exit_code"]), (&"longfat.error/1".into(), &1.into()));
    let json = test_dir.run(&["test", "no.such.host.invalid", "-J"]);
    assert_eq!(json.code, 1);
    assert!(json.parsed()["error"].as_str().unwrap().contains("no.such.host.invalid"), "{json:?}");
}
