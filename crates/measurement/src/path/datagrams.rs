//! Bursts of datagrams over a path, to `longfat serve` or an iperf3 server.

use diagnosis::{Arrived, Burst, DatagramPlan, is_busy};
use iperf3::report::{Amount, Protocol, StreamEnd};
use units::Bytes;

use super::{
    Error,
    series::{PathTest, TestSeries},
};

/// Sends a burst; `None` if the other end receives no datagrams.
pub fn send(tests: &mut TestSeries, plan: &DatagramPlan) -> Result<Option<Burst>, Error> {
    let test = PathTest {
        protocol: Protocol::Udp,
        streams: 1,
        amount: Amount::Time(plan.time.to_duration()),
        rate: Some(plan.rate),
        block: Some(Bytes(plan.payload.into())),
        is_even: plan.is_even,
        congestion: None,
        part_of: Some("diagnosis"),
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
        arrived: Arrived::of(&done.record.rows, plan.payload).unwrap_or_else(|| mean(end)),
        receiver_was_busy: is_busy(done.peer_busy),
        lost_at_once: diagnosis::lost_at_once(&done.record.rows),
        dropped_here: done.record.dropped_here,
    }))
}

/// Payload that arrived over the whole burst, for peers that report no more.
fn mean(end: &StreamEnd) -> Arrived {
    let seconds = (end.received.end_s - end.received.start_s).max(1e-3);
    Arrived { bps: end.received.bytes as f64 * 8.0 / seconds, ..Arrived::default() }
}
