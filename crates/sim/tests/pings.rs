//! Ping flows: round-trip times are exact, and the first includes address resolution.

use crate::support;
use schema::EventKind;
use sim::{HostDefaults, Outcome, UnresolvedDrops};
use support::Path;
use units::{Instant, Time};

fn round_trips(outcome: &Outcome) -> Vec<i64> {
    outcome.flows.iter().filter_map(|row| row.srtt_us).collect()
}

fn switched(forward: &str) -> Outcome {
    let flows = &["kind = \"ping\"\ninterval = \"100ms\"\ncount = 5"];
    Path { top: "duration = \"2s\"", forward, flows, ..Path::default() }.run()
}

#[test]
fn the_first_echo_includes_address_resolution() {
    let outcome = switched("delay = \"20ms\"");
    assert_eq!(round_trips(&outcome), [40_000, 20_000, 20_000, 20_000, 20_000]);
    assert_eq!(outcome.flow_totals[0].started, Some(Instant::ZERO));
    assert!(outcome.duration < Time::from_millis(600), "ends with the last reply: {}", outcome.duration);
}

#[test]
fn routers_reply_to_address_resolution() {
    let text = r#"
duration = "2s"
[hosts]
h1.address = "10.0.1.1/24"
h2.address = "10.0.2.1/24"
[routers]
names = ["r1"]
[[links]]
ends = ["h1", "r1"]
forward = { delay = "5ms" }
[[links]]
ends = ["r1", "h2"]
forward = { delay = "10ms" }
[[flows]]
name = "p"
from = "h1"
to = "h2"
kind = "ping"
interval = "100ms"
count = 3
"#;
    let outcome = support::run(text, &HostDefaults::default());
    // Each host resolves its router; routers have all neighbours resolved.
    assert_eq!(round_trips(&outcome), [30_000, 15_000, 15_000]);
}

#[test]
fn lost_echoes_are_events() {
    let outcome = switched("delay = \"20ms\", loss = { at = [\"200ms\"], count = 1 }");
    let lost: Vec<_> = outcome.events.iter().filter(|e| e.kind == EventKind::PingLost).collect();
    assert_eq!(lost.len(), 1, "{:?}", outcome.events);
    assert_eq!((lost[0].value, round_trips(&outcome).len()), (3, 4));
}

/// Two hosts; the link has these keys, and the flow too.
fn linked(link: &str, flow: &str) -> Outcome {
    let text = format!(
        "duration = \"10s\"\n[hosts]\nh1.address = \"10.0.0.1/24\"\nh2.address = \"10.0.0.2/24\"\n[[links]]\n\
         ends = [\"h1\", \"h2\"]\n{link}\n[[flows]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\n{flow}\n"
    );
    support::run(&text, &HostDefaults::default())
}

#[test]
fn echoes_that_wait_for_an_address_are_dropped_after_three_requests() {
    let link =
        "both = { delay = \"10ms\", down = true }\nchanges = [{ at = \"5.5s\", both = { down = false } }]";
    let outcome = linked(link, "kind = \"ping\"\ninterval = \"200ms\"\ncount = 40");
    // Requests at 0, 1 and 2 s, and at 3, 4 and 5 s: the echoes until 6 s are dropped, and the next one is
    // resolved.
    let dropped = UnresolvedDrops { host: "h1".into(), queue_full: 0, no_reply: 30 };
    assert_eq!(outcome.unresolved, [dropped]);
    assert_eq!(round_trips(&outcome), [&[40_000][..], &[20_000; 9]].concat());
    assert!(outcome.flows.iter().filter(|row| row.srtt_us.is_some()).all(|row| row.time_us > 6_000_000));
}

#[test]
fn a_limited_number_of_datagrams_waits_for_an_address() {
    let flow = "kind = \"udp\"\nrate = \"10mbit\"\npacket = \"1250B\"";
    let outcome = linked("both = { delay = \"200ms\" }", flow);
    // 400 datagrams in 400 ms, each of 2304 B of memory: 92 wait.
    let dropped = UnresolvedDrops { host: "h1".into(), queue_full: 400 - 92, no_reply: 0 };
    assert_eq!(outcome.unresolved, [dropped]);
}
