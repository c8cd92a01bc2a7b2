//! Requests of a peer that is not `longfat run`, to a server without a token.

use std::{sync::atomic::AtomicBool, time::Duration};

use iperf3::{
    ClientOptions,
    report::{Amount, Protocol, TestSpec},
    service::Channel,
};
use serde_json::{Value, json};

use crate::common::with_server;

static NEVER: AtomicBool = AtomicBool::new(false);
const TIMEOUT: Duration = Duration::from_secs(60);

fn session(port: u16) -> Channel<'static> {
    let spec = TestSpec::new(Protocol::Tcp, Amount::Time(Duration::ZERO));
    let options = ClientOptions { port, ..ClientOptions::new("127.0.0.1", spec) };
    Channel::connect(&options, "longfat-hosts-1-", &NEVER, |_| ()).unwrap().expect("a longfat server")
}

fn inspect(channel: &mut Channel<'_>, settings: &[&str]) -> Value {
    channel.send(&json!({ "request": "inspect", "settings": settings })).unwrap();
    channel.receive("description", TIMEOUT).unwrap()
}

/// Requests a flow with these values instead of valid ones; returns why the server refuses it.
fn refusal(channel: &mut Channel<'_>, changes: &Value, traffic: &Value) -> String {
    let mut flow = json!({
        "name": "bulk", "to": "127.0.0.1", "port": 9, "session": null, "reverse": false, "bind": null,
        "duration_us": 1_000_000, "sample_us": 10_000, "traffic": traffic,
    });
    for (name, value) in changes.as_object().unwrap() {
        flow[name] = value.clone();
    }
    channel.send(&json!({ "request": "run", "number": 0, "flow": flow })).unwrap();
    let reply: Value = channel.receive("end of the flow", TIMEOUT).unwrap();
    assert_eq!(reply["reply"], "done", "{flow}: {reply}");
    reply["end"]["error"].as_str().unwrap_or_else(|| panic!("{flow}: {reply}")).into()
}

fn ping(interval_us: u64, payload: u64) -> Value {
    json!({ "kind": "ping", "interval_us": interval_us, "count": null, "payload": payload, "timeout_us": 1 })
}

fn tcp(write_size: u64) -> Value {
    json!({ "kind": "tcp", "write_size": write_size })
}

fn udp(payload: u64) -> Value {
    json!({ "kind": "udp", "rate": 1_000_000, "payload": payload, "size": null })
}

#[test]
fn arbitrary_values_in_a_request_do_not_stop_the_server() {
    with_server(|port| {
        for traffic in [
            ping(1000, 65_508),
            ping(1000, 1 << 40),
            ping(1000, u64::MAX),
            ping(0, 56),
            ping(999, 56),
            tcp(0),
            tcp((1 << 20) + 1),
            tcp(1 << 40),
            tcp(u64::MAX),
            udp(0),
            udp(65_508),
            udp(1 << 40),
            udp(u64::MAX),
        ] {
            let mut channel = session(port);
            let reason = refusal(&mut channel, &json!({}), &traffic);
            assert!(!reason.is_empty(), "{traffic}");
            drop(channel);
            let host = inspect(&mut session(port), &[]);
            assert_eq!(host["reply"], "host", "the next session after {traffic}: {host}");
        }
        let name = "x".repeat(500_000);
        assert!(refusal(&mut session(port), &json!({ "name": name }), &ping(1000, 56)).contains("name"));
    });
}

/// A name could have the client's address when the server checks it, and another one when the flow connects.
#[test]
fn a_server_without_a_token_does_not_resolve_names() {
    with_server(|port| {
        for to in ["localhost", "127.0.0.2", "::1", ""] {
            for traffic in [ping(1000, 56), tcp(1000), udp(1000)] {
                let reason = refusal(&mut session(port), &json!({ "to": to }), &traffic);
                assert!(reason.contains("--token"), "{to}: {reason}");
            }
        }
        // This flow is permitted; it fails because no server listens there.
        let reason = refusal(&mut session(port), &json!({ "to": "127.0.0.1" }), &tcp(1000));
        assert!(reason.contains("refused") && !reason.contains("--token"), "{reason}");
    });
}

#[test]
fn settings_that_only_root_may_read_are_not_disclosed() {
    let secrets = ["net.ipv4.tcp_fastopen_key", "net.ipv6.conf.all.stable_secret"];
    with_server(|port| {
        let host = inspect(&mut session(port), &[secrets[0], "net.ipv4.tcp_rmem", secrets[1]]);
        let settings = host["settings"].as_object().unwrap();
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["net.ipv4.tcp_rmem"], "{host}");
    });
}
