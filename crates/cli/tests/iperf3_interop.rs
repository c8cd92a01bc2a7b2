//! longfat's client with iperf3's server and vice versa, flag by flag, over loopback. Compares the JSON of
//! both ends.

use crate::common;
use std::{
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use common::{
    binary,
    iperf3::{Running, document, free_port, has_iperf3, wait_for_listener},
};
use serde_json::Value;

/// Number of parallel tests; the machine has at least two processors.
const PARALLEL_TESTS: usize = 3;

/// A test: flags of both clients. `exact` is the number of bytes sent.
struct Case {
    flags: &'static str,
    exact: Option<u64>,
}

const fn case(flags: &'static str) -> Case {
    Case { flags, exact: None }
}

const fn exact(flags: &'static str, bytes: u64) -> Case {
    Case { flags, exact: Some(bytes) }
}

/// Most cases limit the number of bytes, because iperf3's minimum duration is a second.
const CASES: &[Case] = &[
    case("-t 1"),
    case("-t 1 -R -i 0.5"),
    case("-t 1 --bidir"),
    case("-t 1 -O 1"),
    case("-t 1 -b 40M"),
    case("-t 1 -b 40M/4 -R"),
    exact("-n 20M", 20 << 20),
    case("-n 20M -R"),
    exact("-n 20M -P 3", 20 << 20),
    case("-n 20M -P 3 -R"),
    exact("-k 64", 64 * 131_072),
    case("-k 64 -R"),
    exact("-n 8M -l 16K", 8 << 20),
    case("-n 8M -w 256K"),
    case("-n 8M -w 256K -R"),
    case("-n 8M -M 1000"),
    case("-n 8M -M 1000 -R"),
    case("-n 8M -N"),
    case("-n 8M -C reno"),
    case("-n 8M -C reno -R"),
    case("-n 8M --fq-rate 400M"),
    case("-n 8M --fq-rate 400M -R"),
    case("-n 20M -Z"),
    case("-n 20M -Z -R"),
    case("-n 8M -S 0x10"),
    case("-n 8M -4"),
    case("-n 8M -B 127.0.0.1"),
    case("-n 8M -T titled --extra-data more"),
    case("-n 8M --repeating-payload --snd-timeout 5000"),
    case("-n 8M --repeating-payload -R"),
    case("-n 8M -A 0,1"),
    case("-n 8M --get-server-output"),
    case("-n 8M --connect-timeout 3000 -P 20"),
    case("-u -t 1 -b 20M"),
    case("-u -t 1 -b 20M -R"),
    case("-u -t 1 -b 10M --bidir -P 2"),
    case("-u -n 1M -b 50M -l 1000"),
    case("-u -k 200 -b 50M --udp-counters-64bit"),
    case("-u -n 1M -b 50M -R"),
];

/// Maximum share of datagrams lost: loopback itself loses none, a full buffer of a busy machine does.
const MAX_LOST_PERCENT: f64 = 20.0;

/// The documents that both ends of a test printed.
struct Both {
    what: String,
    client: Value,
    server: Value,
}

/// Runs a test; repeats it if its client fails or loses datagrams: on a busy machine a connection may time
/// out, and a receiver may read too late.
fn run(flags: &str, ours_is_client: bool) -> Both {
    let mut failed = String::new();
    for _ in 0..3 {
        match try_run(flags, ours_is_client) {
            Ok(both) if lost_percent(&both) < MAX_LOST_PERCENT => return both,
            Ok(both) => failed = format!("loopback lost {} %", lost_percent(&both)),
            Err(reason) => failed = reason,
        }
        eprintln!("repeated because: {failed}");
    }
    panic!("{flags}: {failed}")
}

/// The share of lost datagrams; 0 for TCP.
fn lost_percent(both: &Both) -> f64 {
    both.client["end"]["sum"]["lost_percent"].as_f64().unwrap_or(0.0)
}

/// Runs a test. The error is the output of the failed client; its server is killed, because it would wait for
/// another client.
fn try_run(flags: &str, ours_is_client: bool) -> Result<Both, String> {
    let port = free_port().to_string();
    let ours = |command: &str| {
        let mut ours = Command::new(binary());
        ours.arg(command);
        ours
    };
    let what = format!("{} {flags}", if ours_is_client { "longfat test" } else { "iperf3 -c" });
    let mut server = if ours_is_client { Command::new("iperf3") } else { ours("serve") };
    if ours_is_client {
        server.arg("-s");
    }
    let server = Running::start(server.args(["-1", "-J", "-p", &port]));
    wait_for_listener(port.parse().unwrap());
    let mut client = if ours_is_client { ours("test") } else { Command::new("iperf3") };
    if ours_is_client {
        client.args(["127.0.0.1", "--no-record"]);
    } else {
        client.args(["-c", "127.0.0.1"]);
    }
    let client = Running::start(client.args(["-J", "-p", &port]).args(flags.split_whitespace()));
    let client = client.output();
    if !client.status.success() {
        return Err(format!("{what}: {client:?}"));
    }
    let server = server.output();
    assert!(server.status.success(), "{what}: {server:?}");
    Ok(Both { client: document(&what, &client), server: document(&what, &server), what })
}

fn bytes(of: &Value, key: &str) -> u64 {
    of["end"][key]["bytes"].as_u64().unwrap_or_else(|| panic!("no end.{key}.bytes in {of:#}"))
}

/// Bytes that iperf3 sends but may not report, per stream: since 3.16 its threads send another block while it
/// counts.
fn uncounted() -> u64 {
    static UNCOUNTED: LazyLock<u64> = LazyLock::new(|| {
        let output = Command::new("iperf3").arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1).unwrap_or_default();
        let minor = version.split(['.', '+', '-']).nth(1).and_then(|minor| minor.parse::<u32>().ok());
        if minor.unwrap_or_else(|| panic!("{text}")) >= 16 { 128 << 10 } else { 0 }
    });
    *UNCOUNTED
}

fn check(case: &Case, both: &Both) {
    let Both { what, client, server } = both;
    for (side, of) in [("client", client), ("server", server)] {
        assert_eq!(of.get("error"), None, "{what}: the {side}: {of:#}");
    }
    let has = |flag: &str| case.flags.split_whitespace().any(|word| word == flag);
    if has("-u") {
        return check_udp(case, both);
    }
    let directions: &[&str] = if has("--bidir") { &["", "_bidir_reverse"] } else { &[""] };
    for direction in directions {
        let (sent, received) = (format!("sum_sent{direction}"), format!("sum_received{direction}"));
        let (sent_bytes, received_bytes) = (bytes(client, &sent), bytes(client, &received));
        assert!(received_bytes > 0, "{what}: nothing received: {client:#}");
        let slack = client["end"]["streams"].as_array().map_or(0, Vec::len) as u64 * uncounted();
        // Data in the kernel's buffers at the end are sent and not received. Each end determines the omitted
        // part separately.
        assert!(
            received_bytes <= sent_bytes + slack || has("-O"),
            "{what}: {received_bytes} received of {sent_bytes}"
        );
        // The ends exchange their counters, so both documents have the same figures.
        let client_sends = !has("-R") && direction.is_empty();
        let (printed, key) = if client_sends { (received_bytes, &received) } else { (sent_bytes, &sent) };
        assert!(
            bytes(server, key).abs_diff(printed) <= slack,
            "{what}: {key} at both ends: {printed} received"
        );
        let retransmits = &client["end"][&sent]["retransmits"];
        assert!(retransmits.is_u64(), "{what}: retransmits of {sent}: {retransmits}");
    }
    if let Some(exact) = case.exact {
        let sent = bytes(client, "sum_sent");
        assert!(sent >= exact && sent < exact + (4 << 17), "{what}: {sent} of {exact}");
    }
    if has("-O") {
        let intervals = client["intervals"].as_array().unwrap();
        assert!(intervals.iter().any(|i| i["sum"]["omitted"] == true), "{what}: {client:#}");
        let seconds = client["end"]["sum_sent"]["seconds"].as_f64().unwrap();
        assert!((0.9..1.5).contains(&seconds), "{what}: {seconds} s count");
    }
    if has("-b") {
        let rate = client["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
        assert!((20e6..48e6).contains(&rate), "{what}: {rate} bit/s of 40 Mb/s");
    }
    if has("--get-server-output") {
        let output = client.get("server_output_json").or(client.get("server_output_text"));
        assert!(output.is_some(), "{what}: {client:#}");
    }
    if has("reno") {
        assert_eq!(client["end"]["sender_tcp_congestion"], "reno", "{what}");
    }
    if has("-M") {
        assert_eq!(client["start"]["tcp_mss"], 1000, "{what}");
    }
    if has("-P") {
        let streams = client["end"]["streams"].as_array().unwrap().len();
        assert!(case.flags.contains(&format!("-P {streams}")), "{what}: {streams} streams");
    }
}

fn check_udp(case: &Case, both: &Both) {
    let Both { what, client, server } = both;
    let sum = &client["end"]["sum"];
    let packets = sum["packets"].as_u64().unwrap_or_else(|| panic!("{what}: {client:#}"));
    assert!(packets > 10, "{what}: {sum}");
    assert!(sum["jitter_ms"].is_number() && sum["lost_packets"].is_number(), "{what}: {sum}");
    assert!(server["end"]["sum"]["packets"].as_u64().is_some_and(|n| n > 10), "{what}: {server:#}");
    if case.flags.contains("-b 20M") {
        let rate = sum["bits_per_second"].as_f64().unwrap();
        assert!((15e6..22e6).contains(&rate), "{what}: {rate} bit/s of 20 Mb/s");
    }
}

/// Runs all cases, some in parallel; the first failure is reported with its case.
fn run_all(ours_is_client: bool) {
    if !has_iperf3() {
        return;
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_TESTS {
            scope.spawn(|| {
                while let Some(case) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(case, &run(case.flags, ours_is_client));
                }
            });
        }
    });
}

#[test]
fn our_client_and_iperf3s_server_agree() {
    run_all(true);
}

#[test]
fn iperf3s_client_and_our_server_agree() {
    run_all(false);
}

/// Each end's document must have all keys of iperf3's document with the same flags.
#[test]
fn our_json_has_all_keys_of_iperf3() {
    if !has_iperf3() {
        return;
    }
    for flags in ["-n 4M", "-n 4M -R", "-n 4M --bidir", "-u -n 200K -b 20M"] {
        let ours = run(flags, true);
        let theirs = run(flags, false);
        for (side, ours, theirs) in
            [("client", &ours.client, &theirs.client), ("server", &theirs.server, &ours.server)]
        {
            let mut missing = Vec::new();
            lacks(ours, theirs, "", &mut missing);
            assert!(missing.is_empty(), "{flags}: our {side} lacks {missing:?}");
        }
    }
}

/// Paths of the values in `theirs` that are missing in `ours`. Lists are compared by their first element.
fn lacks(ours: &Value, theirs: &Value, path: &str, missing: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                match ours.get(key) {
                    Some(own) => lacks(own, value, &format!("{path}.{key}"), missing),
                    None => missing.push(format!("{path}.{key}")),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(own), Some(value)) = (ours.first(), theirs.first()) {
                lacks(own, value, &format!("{path}[]"), missing);
            }
        }
        _ => {}
    }
}
