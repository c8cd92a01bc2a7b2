//! The record of a measurement of delay by packets that the other end returns (STAMP): a flow of pings.

use std::path::{Path, PathBuf};

use probe::RoundTripTimes;
use schema::{
    EngineName, Event, EventKind, FlowKind, FlowSample, FlowSummary, RunSummary, SUMMARY_SCHEMA, Summary,
};
use verdict::{FlowContext, FlowTimes};

use crate::{Result, record::create};

/// The flow's name in the record.
const FLOW: &str = "latency";

/// Packets that were sent to a reflector.
#[derive(Debug, Clone, Copy)]
pub struct DelayPackets<'a> {
    /// The packets whose replies arrived.
    pub trips: &'a [RoundTripTimes],
    /// When the packets without reply were sent, UTC, ns.
    pub lost: &'a [i64],
}

/// The sender and the reflector, for the record.
#[derive(Debug, Clone)]
pub struct DelayTest {
    /// The record's name, instead of a scenario's name.
    pub name: String,
    /// The title.
    pub title: String,
    /// The sender.
    pub from: String,
    /// The reflector.
    pub to: String,
}

/// A record of a measurement of delay.
pub struct RecordedDelay {
    /// The run's summary.
    pub run: RunSummary,
    /// The record's directory.
    pub path: PathBuf,
}

/// Writes the record.
///
/// # Errors
/// If the record cannot be written.
pub fn record(runs_dir: &Path, test: &DelayTest, packets: DelayPackets<'_>) -> Result<RecordedDelay> {
    let sent = packets.trips.iter().map(|trip| trip.sent_ns).chain(packets.lost.iter().copied());
    let begin_ns = sent.min().unwrap_or_else(os::realtime_ns);
    let started = jiff::Timestamp::from_nanosecond(i128::from(begin_ns)).unwrap_or_default();
    let mut run = RunSummary::begun(EngineName::Test, experiment::rfc3339(started));
    let (rows, events) = rows(packets, begin_ns);
    let last_us = rows.iter().map(|row| row.time_us).chain(events.iter().map(|event| event.time_us)).max();
    run.duration_s = last_us.unwrap_or(0) as f64 * 1e-6;
    run.wall_s = run.duration_s;
    run.flows = vec![summary(&rows, &events, test)];
    let mut summary = Summary {
        schema: SUMMARY_SCHEMA.into(),
        scenario: test.name.clone(),
        title: test.title.clone(),
        host: lab::host_info(),
        runs: vec![run],
        published: Vec::new(),
    };
    let writer = create(runs_dir, "A measurement of delay between real hosts", &summary)?;
    summary.runs[0].id = writer.id().to_string();
    let path = writer.finish(&summary, &rows, &[], &events)?;
    let run = summary.runs.remove(0);
    Ok(RecordedDelay { run, path })
}

/// Rows of the replies and events of the losses, by the time at which the packets were sent.
fn rows(packets: DelayPackets<'_>, begin_ns: i64) -> (Vec<FlowSample>, Vec<Event>) {
    let time_us = |sent_ns: i64| sent_ns.saturating_sub(begin_ns) / 1000;
    let mut rows: Vec<FlowSample> = packets
        .trips
        .iter()
        .map(|trip| {
            let away_ns = trip.returned_ns.saturating_sub(trip.sent_ns);
            let held_ns = trip.reflected_ns.saturating_sub(trip.received_ns);
            FlowSample {
                time_us: time_us(trip.sent_ns),
                flow: FLOW.into(),
                srtt_us: Some(away_ns.saturating_sub(held_ns) / 1000),
                ..FlowSample::default()
            }
        })
        .collect();
    rows.sort_by_key(|row| row.time_us);
    let lost = (1..).zip(packets.lost).map(|(number, sent_ns)| Event {
        time_us: time_us(*sent_ns),
        subject: FLOW.into(),
        kind: EventKind::PingLost,
        value: number,
    });
    (rows, lost.collect())
}

fn summary(rows: &[FlowSample], events: &[Event], test: &DelayTest) -> FlowSummary {
    let context = FlowContext {
        name: FLOW.into(),
        from: test.from.clone(),
        to: test.to.clone(),
        ..FlowContext::default()
    };
    let times = FlowTimes { kind: FlowKind::Ping, ..FlowTimes::default() };
    verdict::summarize(rows, events, &times, &context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_losses_and_round_trips_without_the_reflectors_time() {
        let directory = std::env::temp_dir().join(format!("longfat-delay-{}", std::process::id()));
        let begin = 1_800_000_000_000_000_000;
        let trip = |at_ms: i64, rtt_ms: i64| RoundTripTimes {
            sent_ns: begin + at_ms * 1_000_000,
            received_ns: begin + (at_ms + 1) * 1_000_000,
            reflected_ns: begin + (at_ms + 6) * 1_000_000,
            returned_ns: begin + (at_ms + 5 + rtt_ms) * 1_000_000,
        };
        let trips = [trip(0, 10), trip(10, 30), trip(30, 20)];
        let test =
            DelayTest { name: "test-b".into(), title: "latency".into(), from: "a".into(), to: "b".into() };
        let packets = DelayPackets { trips: &trips, lost: &[begin + 20_000_000] };
        let recorded = record(&directory, &test, packets).unwrap();
        let flow = &recorded.run.flows[0];
        assert_eq!((flow.pings_sent, flow.pings_lost), (Some(4), Some(1)));
        assert_eq!((flow.min_rtt_us, flow.median_rtt_us), (Some(10_000.0), Some(20_000.0)));
        assert_eq!(recorded.run.duration_s, 0.03);
        assert!(recorded.path.join("summary.json").exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
