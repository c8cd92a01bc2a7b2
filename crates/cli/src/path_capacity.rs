//! What a path carries, and what it loses below that, by short bursts of datagrams to `longfat serve` or iperf3: the rate is
//! raised until they no longer all come.
//!
//! This is the place for a finer instrument: who knows the capacity otherwise makes a [`Capacity`] of it.

use std::time::Duration;

use perf::report::{Amount, Protocol, StreamEnd};
use schema::FlowSample;
use tune::limits::{Capacity, Datagrams, is_busy};
use units::{BitRate, Bytes, Time};

use crate::path_test::{PathTest, Tests};

/// The first rate.
const FIRST: BitRate = BitRate(10_000_000);
/// Each rate is so many times the one before.
const FACTOR: u64 = 4;
/// Each burst is at least so long, and so many round trips.
const SHORTEST: Duration = Duration::from_millis(500);
const ROUND_TRIPS: u32 = 10;
/// A burst of which more than so much was lost may have been more than the path carries...
const LOST: f64 = 0.1;
/// ...and was, if no more than so many times what came of the one before came of it.
const GREW: f64 = 1.2;
/// What only looks for loss: so much of the capacity, for so long.
const HALF: f64 = 0.5;
const LOSS_TIME: Duration = Duration::from_millis(2500);
/// The rate is what arrived after this share of the time, when the queue on the way is full.
const SETTLED: f64 = 0.4;
/// What TCP's header with timestamps (RFC 7323) has more than UDP's, bytes.
const TCP_MORE: f64 = 24.0;
/// Slower no burst is: to the protocol a rate of zero is none.
const LEAST: f64 = 10_000.0;

/// One burst.
struct Burst {
    /// Payload that was sent, bit/s.
    sent_bps: f64,
    sent: u64,
    lost: u64,
    /// Payload that arrived, bit/s.
    arrived_bps: f64,
    /// The receiver had no time: what it did not take says nothing of the path.
    receiver_was_busy: bool,
}

/// Raises the rate from 10 Mb/s up to `max_rate`.
pub fn find(
    tests: &mut Tests,
    rtt: Time,
    payload: u32,
    max_rate: BitRate,
) -> anyhow::Result<Option<Capacity>> {
    let mut bursts = Vec::new();
    let mut rate = FIRST.min(max_rate);
    let long = SHORTEST.max(Duration::from_nanos(rtt.0) * ROUND_TRIPS);
    loop {
        let Some(burst) = burst(tests, rate, payload, long, false)? else { return Ok(None) };
        let before = bursts.last().map_or(0.0, |burst: &Burst| burst.arrived_bps);
        let is_enough = burst.is_overload() && burst.arrived_bps < GREW * before;
        bursts.push(burst);
        let busy = bursts.last().is_some_and(|burst| burst.receiver_was_busy);
        if is_enough || busy || rate >= max_rate {
            break;
        }
        rate = BitRate(rate.0.saturating_mul(FACTOR)).min(max_rate);
    }
    let most = bursts.iter().max_by(|a, b| a.arrived_bps.total_cmp(&b.arrived_bps));
    let busy = bursts.iter().any(|burst| burst.receiver_was_busy);
    let capacity = most.filter(|most| most.arrived_bps > 0.0).map(|most| Capacity {
        goodput_bps: most.arrived_bps * tcp_share(payload),
        at_least: busy || !most.is_overload(),
        how: match (busy, most.is_overload()) {
            (true, _) => format!("{} came, and the receiver had no time for more", rounded(most.arrived_bps)),
            (false, true) => {
                format!("of datagrams at {} came {}", rounded(most.sent_bps), rounded(most.arrived_bps))
            }
            (false, false) => format!("datagrams at {} came, and more was not tried", rounded(most.sent_bps)),
        },
    });
    Ok(capacity)
}

/// Sends datagrams evenly at half of what the path carries: those that are lost then are not lost for want of room.
pub fn losses(tests: &mut Tests, capacity: &Capacity, payload: u32) -> anyhow::Result<Datagrams> {
    let rate = BitRate((HALF * capacity.goodput_bps / tcp_share(payload)).max(LEAST) as u64);
    let burst = burst(tests, rate, payload, LOSS_TIME, true)?.filter(|burst| !burst.receiver_was_busy);
    Ok(burst.map_or(Datagrams::default(), |burst| Datagrams { sent: burst.sent, lost: burst.lost }))
}

/// TCP's payload over that of a datagram of the same packet.
fn tcp_share(payload: u32) -> f64 {
    1.0 - TCP_MORE / f64::from(payload.max(2 * TCP_MORE as u32))
}

impl Burst {
    fn is_overload(&self) -> bool {
        self.lost as f64 > LOST * self.sent as f64
    }
}

fn burst(
    tests: &mut Tests,
    rate: BitRate,
    payload: u32,
    long: Duration,
    is_even: bool,
) -> anyhow::Result<Option<Burst>> {
    let test = PathTest {
        protocol: Protocol::Udp,
        amount: Amount::Time(long),
        rate: Some(rate),
        block: Some(Bytes(payload.into())),
        is_even,
        congestion: None,
        wire_limit_bps: None,
    };
    let Some(done) = tests.run(&test)? else { return Ok(None) };
    let Some(end) = done.report.end.as_ref().and_then(|end| end.streams.first()) else { return Ok(None) };
    let (sent, received) = (end.sent.udp.unwrap_or_default(), end.received.udp.unwrap_or_default());
    let arrived_bps = settled(&done.kept.rows, payload).unwrap_or_else(|| mean(end));
    let lost = u64::try_from(received.lost)
        .unwrap_or(0)
        .max(sent.packets.saturating_sub(received.packets).min(sent.packets));
    let sent_bps = end.sent.bytes as f64 * 8.0 / (end.sent.end_s - end.sent.start_s).max(1e-3);
    let receiver_was_busy = is_busy(done.peer_busy);
    Ok(Some(Burst { sent_bps, sent: sent.packets, lost, arrived_bps, receiver_was_busy }))
}

fn rounded(bps: f64) -> BitRate {
    BitRate(units::three_digits(bps))
}

/// Payload that arrived over the whole burst, for peers that tell no more.
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
