//! Bursts of datagrams over a path, to `longfat serve` or iperf3, and what came of them.

use std::time::Duration;

use diagnosis::{Burst, DatagramPlan, is_busy};
use perf::report::{Amount, Protocol, StreamEnd};
use schema::FlowSample;
use units::Bytes;

use crate::path_test::{PathTest, Tests};

/// The rate is what arrived after this share of the time, when the queue on the way is full.
const SETTLED: f64 = 0.4;

/// Sends a burst; `None` where the other end takes none.
pub fn send(tests: &mut Tests, plan: &DatagramPlan) -> anyhow::Result<Option<Burst>> {
    let test = PathTest {
        protocol: Protocol::Udp,
        amount: Amount::Time(Duration::from_nanos(plan.time.0)),
        rate: Some(plan.rate),
        block: Some(Bytes(plan.payload.into())),
        is_even: plan.is_even,
        congestion: None,
    };
    let Some(done) = tests.run(&test)? else { return Ok(None) };
    let Some(end) = done.report.end.as_ref().and_then(|end| end.streams.first()) else { return Ok(None) };
    let (sent, received) = (end.sent.udp.unwrap_or_default(), end.received.udp.unwrap_or_default());
    let lost = u64::try_from(received.lost)
        .unwrap_or(0)
        .max(sent.packets.saturating_sub(received.packets).min(sent.packets));
    Ok(Some(Burst {
        sent_bps: end.sent.bytes as f64 * 8.0 / (end.sent.end_s - end.sent.start_s).max(1e-3),
        sent: sent.packets,
        lost,
        arrived_bps: settled(&done.kept.rows, plan.payload).unwrap_or_else(|| mean(end)),
        receiver_was_busy: is_busy(done.peer_busy),
    }))
}

/// Payload that arrived over the whole burst, for peers that report no more.
fn mean(end: &StreamEnd) -> f64 {
    end.received.bytes as f64 * 8.0 / (end.received.end_s - end.received.start_s).max(1e-3)
}

/// What arrived while the burst was in full flow.
fn settled(rows: &[FlowSample], payload: u32) -> Option<f64> {
    let received: Vec<(i64, i64)> =
        rows.iter().filter_map(|row| Some((row.time_us, row.datagrams_received?))).collect();
    let begin = received.iter().find(|(_, count)| *count > 0)?;
    // Afterwards nothing came any more.
    let last = received.last()?.1;
    let end = received.iter().find(|(_, count)| *count == last)?;
    let from = begin.0 + ((end.0 - begin.0) as f64 * SETTLED) as i64;
    let first = received.iter().find(|(time, _)| *time >= from)?;
    let seconds = (end.0 - first.0) as f64 * 1e-6;
    // Less than that are single batches.
    (seconds > 0.05).then(|| (end.1 - first.1) as f64 * f64::from(payload) * 8.0 / seconds)
}
