//! Capacity and loss rate of a path by bursts of datagrams: the rate is raised until datagrams are lost.

use schema::FlowSample;
use units::{BitRate, Time, three_digits};

use crate::{
    observed::{Capacity, Datagrams, MAX_POLICED_SHARE},
    path::{Arrived, Burst, DatagramPlan, Path},
};

/// Rate of the first burst.
const FIRST_RATE: BitRate = BitRate(10_000_000);
/// Ratio of successive rates.
const RATE_FACTOR: u64 = 4;
/// Minimum length of a burst, as a time and in round trips.
const MIN_BURST_TIME: Time = Time::from_millis(500);
const MIN_BURST_ROUND_TRIPS: u64 = 10;
/// Minimum loss rate of a burst that overloaded the path.
const MIN_OVERLOAD_LOSS: f64 = 0.1;
/// The last burst overloaded the path, and its goodput is less than this multiple of the previous burst's.
const MAX_OVERLOAD_GROWTH: f64 = 1.2;
/// The overloading burst is the measurement if its goodput is at least this share of the largest goodput.
const MIN_EQUAL_BURST: f64 = 0.95;
/// The measurement of the loss rate sends at this share of the safe rate, for at least this many seconds.
const LOSS_TEST_SHARE: f64 = 0.5;
const MIN_LOSS_TIME: f64 = 2.5;
/// Duration of the overload that shows a policer's long-term rate.
const LONG_OVERLOAD_TIME: Time = Time::from_secs(3);
/// The measurement of the loss rate lasts until this many losses are expected.
const EXPECTED_LOSSES: f64 = 8.0;
/// This many losses or more between two samples count as one loss.
const MIN_CLUMP: u64 = 3;
/// The rate of a burst is measured after this share of its time, when the queue has filled.
const SETTLING_SHARE: f64 = 0.4;
/// Difference of the headers of TCP with timestamps (RFC 7323) and UDP, bytes.
const HEADER_DIFFERENCE: f64 = 24.0;
/// Minimum rate of a burst, bit/s: in the protocol, zero means no limit.
const MIN_RATE: f64 = 10_000.0;

/// Measures the capacity by raising the rate from 10 Mb/s up to `max_rate`; `None` if nothing arrived or the
/// other end accepts no datagrams.
pub(crate) fn measure<P: Path>(
    path: &mut P,
    rtt: Time,
    payload: u32,
    max_rate: BitRate,
) -> Result<Option<Capacity>, P::Error> {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut rate = FIRST_RATE.min(max_rate);
    let time = MIN_BURST_TIME.max(rtt * MIN_BURST_ROUND_TRIPS);
    loop {
        let plan = DatagramPlan { rate, payload, time, is_even: false };
        let Some(burst) = path.datagrams(&plan)? else { return Ok(None) };
        let before = bursts.last().map_or(0.0, |burst| burst.arrived.bps);
        let is_enough = is_overload(&burst) && burst.arrived.bps < MAX_OVERLOAD_GROWTH * before;
        bursts.push(burst);
        if is_enough || burst.receiver_was_busy || rate >= max_rate {
            break;
        }
        rate = BitRate(rate.0.saturating_mul(RATE_FACTOR)).min(max_rate);
    }
    let best = bursts.iter().max_by(|a, b| a.arrived.bps.total_cmp(&b.arrived.bps));
    // A burst that was sent faster and arrived at the same rate shows the effect of an overload.
    let is_as_fast = |burst: &&Burst| {
        is_overload(burst) && best.is_some_and(|best| burst.arrived.bps >= MIN_EQUAL_BURST * best.arrived.bps)
    };
    let best = bursts.iter().rfind(is_as_fast).or(best);
    let busy = bursts.iter().any(|burst| burst.receiver_was_busy);
    let overloaded = bursts.iter().any(is_overload);
    Ok(best.filter(|best| best.arrived.bps > 0.0).map(|best| Capacity {
        goodput_bps: best.arrived.bps * tcp_share(payload),
        at_least: busy || !overloaded,
        offered_bps: (!busy && is_overload(best)).then_some(best.sent_bps * tcp_share(payload)),
        queue: longest_queue(&bursts).filter(|_| !busy),
        overflows_here: best.dropped_here * 2 > best.lost,
        at_once_bytes: (!busy && is_overload(best)).then(|| bytes_at_once(best, payload)),
        later_bps: None,
        how: match (busy, overloaded) {
            (true, _) => {
                format!("{} of datagrams arrived, limited by the receiver's CPU", rounded(best.arrived.bps))
            }
            (false, true) => {
                format!(
                    "datagrams sent at {} arrived at {}",
                    rounded(best.sent_bps),
                    rounded(best.arrived.bps)
                )
            }
            (false, false) => {
                format!("datagrams at {} arrived; higher rates were not tried", rounded(best.sent_bps))
            }
        },
    }))
}

/// Maximum number of bytes that [`measure`] sends, if ten round trips are shorter than the shortest burst.
pub(crate) fn max_burst_bytes(max_rate: BitRate) -> u64 {
    let first = FIRST_RATE.min(max_rate).0;
    let rates = std::iter::successors(Some(first), |rate| {
        (*rate < max_rate.0).then(|| rate.saturating_mul(RATE_FACTOR).min(max_rate.0))
    });
    rates.map(|rate| (rate as f64 / 8.0 * MIN_BURST_TIME.as_secs_f64()) as u64).fold(0, u64::saturating_add)
}

/// Overloads the path for longer at the same rate: a policer's bucket may be larger than a burst.
pub(crate) fn measure_long_overload<P: Path>(
    path: &mut P,
    payload: u32,
    capacity: &mut Capacity,
) -> Result<(), P::Error> {
    let Some(offered) = capacity.offered_bps else { return Ok(()) };
    let rate = BitRate((offered / tcp_share(payload)) as u64);
    let burst = path.datagrams(&DatagramPlan { rate, payload, time: LONG_OVERLOAD_TIME, is_even: false })?;
    let Some(burst) = burst.filter(|burst| !burst.receiver_was_busy && burst.arrived.bps > 0.0) else {
        return Ok(());
    };
    let bps = burst.arrived.bps * tcp_share(payload);
    if bps < MAX_POLICED_SHARE * capacity.goodput_bps {
        capacity.later_bps = Some(bps);
        capacity.at_once_bytes = Some(bytes_at_once(&burst, payload));
    }
    Ok(())
}

/// Measures the random loss rate: sends datagrams evenly at half of `safe_bps` (TCP payload), which overflows
/// no queue. It lasts long enough for a loss rate of `expected_loss_rate` to show, and at most `max_time`.
pub(crate) fn measure_loss<P: Path>(
    path: &mut P,
    safe_bps: f64,
    payload: u32,
    expected_loss_rate: f64,
    max_time: Time,
) -> Result<Datagrams, P::Error> {
    let rate = (LOSS_TEST_SHARE * safe_bps / tcp_share(payload)).max(MIN_RATE);
    let a_second = rate / 8.0 / f64::from(payload.max(1));
    let seconds = (EXPECTED_LOSSES / (expected_loss_rate * a_second).max(1e-9))
        .clamp(MIN_LOSS_TIME, max_time.as_secs_f64());
    let (rate, time) = (BitRate(rate as u64), Time::from_secs_f64(seconds));
    let burst = path.datagrams(&DatagramPlan { rate, payload, time, is_even: true })?;
    let burst = burst.filter(|burst| !burst.receiver_was_busy);
    // Datagrams that this host's own device dropped were not lost on the path. Many datagrams lost at once
    // count as one loss: a host that stalls for a moment loses many together, whereas random loss drops
    // single packets.
    let clump = |burst: &Burst| if burst.lost_at_once >= MIN_CLUMP { burst.lost_at_once - 1 } else { 0 };
    let lost = |burst: &Burst| burst.lost.saturating_sub(burst.dropped_here.max(clump(burst)));
    Ok(burst.map_or(Datagrams::default(), |burst| Datagrams { sent: burst.sent, lost: lost(&burst) }))
}

/// TCP payload over UDP payload of a packet of the same size.
pub(crate) fn tcp_share(payload: u32) -> f64 {
    1.0 - HEADER_DIFFERENCE / f64::from(payload.max(2 * HEADER_DIFFERENCE as u32))
}

/// Maximum number of datagrams lost between two samples of a burst's receiver.
pub fn lost_at_once(rows: &[FlowSample]) -> u64 {
    let lost: Vec<i64> = rows.iter().filter_map(|row| row.datagrams_lost).collect();
    let max_lost = lost.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
    u64::try_from(max_lost).unwrap_or(0)
}

impl Arrived {
    /// The arrivals that a burst's samples show; `payload`: bytes of a datagram. `None` with too few samples.
    pub fn of(rows: &[FlowSample], payload: u32) -> Option<Self> {
        let received: Vec<(i64, i64)> =
            rows.iter().filter_map(|row| Some((row.time_us, row.datagrams_received?))).collect();
        let begin = received.iter().find(|(_, count)| *count > 0)?;
        let all = received.last()?.1;
        // The last sample before the last arrival: the last datagram arrived at an unknown time after this
        // sample.
        let end = received.iter().rfind(|(_, count)| *count < all)?;
        let from = begin.0.saturating_add((end.0.saturating_sub(begin.0) as f64 * SETTLING_SHARE) as i64);
        let first = received.iter().find(|(time, _)| *time >= from)?;
        let seconds = end.0.saturating_sub(first.0) as f64 * 1e-6;
        // A shorter time contains only single batches.
        if seconds <= 0.05 {
            return None;
        }
        let a_second = end.1.saturating_sub(first.1) as f64 / seconds;
        let extreme = |value: fn(&FlowSample) -> Option<i64>| rows.iter().filter_map(value);
        let shortest = extreme(|row| row.min_owd_us).min();
        Some(Arrived {
            bps: a_second * f64::from(payload) * 8.0,
            delays_us: shortest.zip(extreme(|row| row.max_owd_us).max()),
        })
    }
}

/// Payload that arrived in excess of the rate that remained, bytes: a policer's bucket. The samples of a
/// receiver are too coarse for the time of the first arrival; the sending time and the growth of the delay
/// are exact.
fn bytes_at_once(burst: &Burst, payload: u32) -> f64 {
    let Arrived { bps, delays_us } = burst.arrived;
    let bytes_of = |datagrams: u64| datagrams as f64 * f64::from(payload);
    let sending = bytes_of(burst.sent) * 8.0 / burst.sent_bps.max(1.0);
    let queued = delays_us.map_or(0.0, |(min, max)| max.saturating_sub(min) as f64 * 1e-6);
    (bytes_of(burst.sent.saturating_sub(burst.lost)) - bps / 8.0 * (sending + queued)).max(0.0)
}

/// Queueing delay of the queue that bursts filled; `None` if none overflowed.
fn longest_queue(bursts: &[Burst]) -> Option<Time> {
    let shortest = bursts.iter().filter_map(|burst| Some(burst.arrived.delays_us?.0)).min()?;
    let overloaded = bursts.iter().filter(|burst| is_overload(burst));
    let longest = overloaded.filter_map(|burst| Some(burst.arrived.delays_us?.1)).max()?;
    Some(Time::from_micros(u64::try_from(longest.saturating_sub(shortest)).ok()?))
}

fn is_overload(burst: &Burst) -> bool {
    burst.lost as f64 > MIN_OVERLOAD_LOSS * burst.sent as f64
}

fn rounded(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_found_at_any_sampling_interval() {
        // A policer of 80 Mb/s that passes 150 packets at once, then a queue that delays the last packet by
        // 20 ms.
        let (payload, bucket, a_second, seconds) = (1000, 150, 10_000, 1.0);
        for interval_us in [1_000, 10_000, 47_000] {
            let received = |time_us: i64| match time_us {
                ..=0 => 0,
                _ => (bucket + a_second * time_us / 1_000_000).min(bucket + a_second * 102 / 100),
            };
            // The first packet arrives 3 ms before a sample.
            let rows: Vec<FlowSample> = (0..1_200_000 / interval_us)
                .map(|i| FlowSample {
                    time_us: i * interval_us,
                    datagrams_received: Some(received(i * interval_us - interval_us.min(3_000))),
                    min_owd_us: Some(1_000),
                    max_owd_us: Some(21_000),
                    ..FlowSample::default()
                })
                .collect();
            let arrived = Arrived::of(&rows, payload).unwrap();
            let sent = 20_000;
            let burst = Burst {
                sent,
                sent_bps: sent as f64 * f64::from(payload) * 8.0 / seconds,
                lost: sent - 10_350,
                arrived,
                ..Burst::default()
            };
            let bytes = bytes_at_once(&burst, payload);
            assert!((bytes - 150_000.0).abs() < 5_000.0, "{bytes} with samples every {interval_us} us");
        }
    }

    #[test]
    fn losses_between_two_samples_are_counted() {
        let row = |lost| FlowSample { datagrams_lost: lost, ..FlowSample::default() };
        assert_eq!(lost_at_once(&[row(None), row(Some(0)), row(Some(7)), row(None), row(Some(8))]), 7);
        // Reordered datagrams arrive later: they no longer count as lost.
        assert_eq!(lost_at_once(&[row(Some(2)), row(Some(1))]), 0);
        assert_eq!(lost_at_once(&[]), 0);
    }
}
