//! Ping flows: round-trip times are exact, and the first includes address resolution.

use crate::support;
use schema::EventKind;
use sim::{HostDefaults, Outcome};
use support::Path;
use units::Time;

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
    assert_eq!(outcome.flow_totals[0].started, Some(Time(0)));
    assert!(outcome.duration < Time(600_000_000), "ends with the last reply: {}", outcome.duration);
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
