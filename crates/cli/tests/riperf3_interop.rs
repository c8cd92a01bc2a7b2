//! longfat's client with riperf3's server and vice versa (crates.io `riperf3-cli`, tested with 0.8.0), flag
//! by flag over loopback. LONGFAT_RIPERF3 or PATH locates riperf3.

use std::process::Command;

use serde_json::Value;

use crate::common::{
    binary,
    iperf3::{Running, document, free_port, wait_for_listener},
};

/// Flags of both clients.
const CASES: &[&str] = &[
    "-t 1",
    "-t 1 -R",
    "-t 1 --bidir",
    "-t 1 -O 1",
    "-t 1 -b 40M -R",
    "-n 8M",
    "-n 8M -R",
    "-n 8M -P 3",
    "-k 64 -R",
    "-n 8M -l 16K",
    "-n 8M -w 256K -R",
    "-n 8M --get-server-output",
    "-u -t 1 -b 20M",
    "-u -t 1 -b 5M -P 4 -R",
    "-u -n 1M -b 50M -l 1000",
];

/// The path of riperf3, if it is installed.
fn riperf3() -> Option<String> {
    let program = std::env::var("LONGFAT_RIPERF3").unwrap_or_else(|_| "riperf3".into());
    if Command::new(&program).arg("--version").output().is_ok() {
        return Some(program);
    }
    testing::skip(testing::Missing::Feature, "riperf3 is neither in PATH nor named by LONGFAT_RIPERF3");
    None
}

/// Runs a case; returns the client's document.
fn run(program: &str, flags: &str, ours_is_client: bool) -> Value {
    let port = free_port().to_string();
    let (server, client) = if ours_is_client { (program, binary()) } else { (binary(), program) };
    let role = |program: &str, ours: &str, theirs: &str| {
        let mut command = Command::new(program);
        command.arg(if program == binary() { ours } else { theirs });
        command
    };
    let server = Running::start(role(server, "serve", "-s").args(["-1", "-p", &port]));
    wait_for_listener(port.parse().unwrap());
    let mut command = role(client, "test", "-c");
    command.arg("127.0.0.1").args(ours_is_client.then_some("--no-record"));
    let client = Running::start(command.args(["-J", "-p", &port]).args(flags.split_whitespace())).output();
    let server = server.output();
    assert!(client.status.success() && server.status.success(), "{flags}: {client:?} {server:?}");
    document(flags, &client)
}

fn check(flags: &str, document: &Value) {
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let number = |path: &str| document.pointer(path).and_then(Value::as_f64).unwrap_or(-1.0);
    let received = number(if has("-u") { "/end/sum/bytes" } else { "/end/sum_received/bytes" });
    assert!(received > 0.0, "{flags}: {document:#}");
    if flags.starts_with("-n 8M") {
        assert_eq!(number("/end/sum_sent/bytes"), f64::from(8 << 20), "{flags}");
    }
    if has("-u") {
        assert!(number("/end/sum/lost_percent") < 20.0, "{flags}: {document:#}");
    }
}

#[test]
fn our_client_and_riperf3s_server_agree() {
    let Some(program) = riperf3() else { return };
    for flags in CASES {
        let document = run(&program, flags, true);
        check(flags, &document);
        if flags.contains("-b 5M -P 4") {
            // The rate is per stream. riperf3's client would show more, also with iperf3's server: it counts
            // data that arrive within 0.1 s after the end.
            let rate = document["end"]["sum"]["bits_per_second"].as_f64().unwrap();
            assert!((15e6..22e6).contains(&rate), "{rate} bit/s of 20 Mb/s");
        }
    }
}

#[test]
fn riperf3s_client_and_our_server_agree() {
    let Some(program) = riperf3() else { return };
    for flags in CASES {
        check(flags, &run(&program, flags, false));
    }
}
