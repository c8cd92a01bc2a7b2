//! Latency under load (`longfat test --latency`): as a flow of the record, as a line of text, and as JSON.

use std::time::Duration;

use iperf3::report::{Latency, LatencyProbe, Start};
use schema::{Event, EventKind, FlowKind, FlowSample, FlowSummary};
use serde_json::{Value, json};
use verdict::{FlowContext, FlowTimes};

/// The flow's name in a record.
const FLOW: &str = "latency";

/// Rows and events of the probes sent during the test, in the form of a ping flow.
pub fn rows(latency: &Latency) -> (Vec<FlowSample>, Vec<Event>) {
    let (mut rows, mut events) = (Vec::new(), Vec::new());
    for (number, probe) in (1..).zip(latency.loaded()) {
        let time_us = (probe.at_s * 1e6) as i64;
        match probe.rtt {
            Some(rtt) => rows.push(FlowSample {
                time_us,
                flow: FLOW.into(),
                srtt_us: i64::try_from(rtt.as_micros()).ok(),
                ..FlowSample::default()
            }),
            None => {
                events.push(Event {
                    time_us,
                    subject: FLOW.into(),
                    kind: EventKind::PingLost,
                    value: number,
                });
            }
        }
    }
    (rows, events)
}

/// The flow's summary.
pub fn summary(rows: &[FlowSample], events: &[Event], start: &Start, local_name: String) -> FlowSummary {
    let context = FlowContext {
        name: FLOW.into(),
        from: local_name,
        to: start.peer_name.clone(),
        ..FlowContext::default()
    };
    let times = FlowTimes { kind: FlowKind::Ping, ..FlowTimes::default() };
    verdict::summarize(rows, events, &times, &context)
}

/// `latency: idle 0.21 ms, under load 4.80 ms (median), 9.21 ms (99 %), 0 of 200 probes lost`.
pub fn text(latency: &Latency) -> String {
    let (idle, loaded) = (Spread::of(latency.idle()), Spread::of(latency.loaded()));
    let ms = |time: Option<Duration>| match time {
        Some(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        None => "unknown".into(),
    };
    format!(
        "latency: idle {}, under load {} (median), {} (99 %), {} of {} probes lost",
        ms(idle.quantile(0.5)),
        ms(loaded.quantile(0.5)),
        ms(loaded.quantile(0.99)),
        loaded.lost,
        loaded.sent()
    )
}

/// `{"idle": {...}, "loaded": {...}}`, times in microseconds.
pub fn json(latency: &Latency) -> Value {
    let spread = |spread: Spread| {
        let us = |q| spread.quantile(q).map(|time| time.as_secs_f64() * 1e6);
        json!({
            "sent": spread.sent(), "lost": spread.lost,
            "min_us": us(0.0), "p50_us": us(0.5), "p90_us": us(0.9), "p99_us": us(0.99), "max_us": us(1.0),
        })
    };
    json!({ "idle": spread(Spread::of(latency.idle())), "loaded": spread(Spread::of(latency.loaded())) })
}

/// Round-trip times of a set of probes.
struct Spread {
    /// The times of the probes with replies, sorted.
    times: Vec<Duration>,
    lost: usize,
}

impl Spread {
    fn of<'a>(probes: impl Iterator<Item = &'a LatencyProbe>) -> Spread {
        let all: Vec<Option<Duration>> = probes.map(|probe| probe.rtt).collect();
        let mut times: Vec<Duration> = all.iter().flatten().copied().collect();
        times.sort_unstable();
        Spread { lost: all.len() - times.len(), times }
    }

    fn sent(&self) -> usize {
        self.times.len() + self.lost
    }

    /// The quantile `q` of the round-trip times; `None` without replies.
    fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q * self.times.len() as f64).ceil() as usize;
        self.times.get(rank.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Latency {
        let probe = |(n, rtt_ms): (i32, Option<u64>)| LatencyProbe {
            at_s: f64::from(n) * 0.05,
            rtt: rtt_ms.map(Duration::from_millis),
        };
        let probes = [(-2, Some(3)), (-1, Some(1)), (0, Some(10)), (1, None), (2, Some(30)), (3, Some(20))];
        Latency(probes.map(probe).into())
    }

    #[test]
    fn idle_and_loaded_probes_are_summarized_separately() {
        let expected =
            "latency: idle 1.00 ms, under load 20.00 ms (median), 30.00 ms (99 %), 1 of 4 probes lost";
        assert_eq!(text(&latency()), expected);
        let json = json(&latency());
        assert_eq!((&json["idle"]["sent"], &json["loaded"]["lost"]), (&json!(2), &json!(1)));
        assert_eq!(
            (&json["loaded"]["min_us"], &json["loaded"]["max_us"]),
            (&json!(10_000.0), &json!(30_000.0))
        );
    }

    #[test]
    fn without_replies_quantiles_are_unknown() {
        let lost = Latency(vec![LatencyProbe { at_s: 1.0, rtt: None }]);
        assert!(text(&lost).ends_with("under load unknown (median), unknown (99 %), 1 of 1 probes lost"));
        assert_eq!(json(&lost)["loaded"]["p50_us"], Value::Null);
    }

    #[test]
    fn rows_and_events_have_the_form_of_a_ping_flow() {
        let (rows, events) = rows(&latency());
        assert_eq!(rows.iter().map(|row| row.srtt_us.unwrap()).collect::<Vec<_>>(), [10_000, 30_000, 20_000]);
        assert_eq!(
            events.iter().map(|event| (event.time_us, event.value)).collect::<Vec<_>>(),
            [(50_000, 2)]
        );
    }
}
