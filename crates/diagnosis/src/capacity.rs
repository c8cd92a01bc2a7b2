//! What a path carries, and what it loses below that, by short bursts of datagrams: the rate is raised until they no longer all come.

use schema::FlowSample;
use units::{BitRate, Time, three_digits};

use crate::{
    observed::{Capacity, Datagrams, POLICED_SHARE},
    path::{Arrived, Burst, DatagramPlan, Path},
};

/// The first rate.
const FIRST: BitRate = BitRate(10_000_000);
/// Each rate is so many times the one before.
const FACTOR: u64 = 4;
/// Each burst is at least so long, and so many round trips.
const SHORTEST: Time = Time::from_millis(500);
const ROUND_TRIPS: u64 = 10;
/// A burst of which more than so much was lost may have been more than the path carries...
const LOST: f64 = 0.1;
/// ...and was, if no more than so many times what came of the one before came of it.
const GREW: f64 = 1.2;
/// The search for loss sends this share of the free rate, for at least this many seconds.
const HALF: f64 = 0.5;
const MIN_LOSS_TIME: f64 = 2.5;
/// How long the path is overloaded to see what a policer lets pass in the long run.
const LATER: Time = Time::from_secs(3);
/// As long as it takes to lose so many datagrams, if they are lost as often as TCP's packets.
const ENOUGH_LOST: f64 = 8.0;
/// The rate of a burst is what arrived after this share of its time, when the queue on the way is full.
const SETTLED: f64 = 0.4;
/// What TCP's header with timestamps (RFC 7323) has more than UDP's, bytes.
const TCP_MORE: f64 = 24.0;
/// Slower no burst is: to the protocol a rate of zero is none.
const LEAST: f64 = 10_000.0;

/// Raises the rate from 10 Mb/s up to `max_rate`; `None` where nothing came or the other end takes no datagrams.
pub(crate) fn find<P: Path>(
    path: &mut P,
    rtt: Time,
    payload: u32,
    max_rate: BitRate,
) -> Result<Option<Capacity>, P::Error> {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut rate = FIRST.min(max_rate);
    let time = SHORTEST.max(Time(rtt.0.saturating_mul(ROUND_TRIPS)));
    loop {
        let plan = DatagramPlan { rate, payload, time, is_even: false };
        let Some(burst) = path.datagrams(&plan)? else { return Ok(None) };
        let before = bursts.last().map_or(0.0, |burst| burst.arrived.bps);
        let is_enough = is_overload(&burst) && burst.arrived.bps < GREW * before;
        bursts.push(burst);
        if is_enough || burst.receiver_was_busy || rate >= max_rate {
            break;
        }
        rate = BitRate(rate.0.saturating_mul(FACTOR)).min(max_rate);
    }
    let best = bursts.iter().max_by(|a, b| a.arrived.bps.total_cmp(&b.arrived.bps));
    let busy = bursts.iter().any(|burst| burst.receiver_was_busy);
    let overloaded = bursts.iter().any(is_overload);
    Ok(best.filter(|best| best.arrived.bps > 0.0).map(|best| Capacity {
        goodput_bps: best.arrived.bps * tcp_share(payload),
        at_least: busy || !overloaded,
        offered_bps: (!busy && is_overload(best)).then_some(best.sent_bps * tcp_share(payload)),
        queue: longest_queue(&bursts).filter(|_| !busy),
        overflows_here: best.dropped_here * 2 > best.lost,
        at_once_bytes: (!busy && is_overload(best)).then_some(best.arrived.at_once_bytes),
        later_bps: None,
        how: match (busy, overloaded) {
            (true, _) => format!("{} came, and the receiver had no time for more", rounded(best.arrived.bps)),
            (false, true) => {
                format!("of datagrams at {} came {}", rounded(best.sent_bps), rounded(best.arrived.bps))
            }
            (false, false) => format!("datagrams at {} came, and more was not tried", rounded(best.sent_bps)),
        },
    }))
}

/// Sends at the rate that overloaded the path for longer: a policer's bucket may be larger than a burst.
pub(crate) fn later<P: Path>(path: &mut P, payload: u32, capacity: &mut Capacity) -> Result<(), P::Error> {
    let Some(offered) = capacity.offered_bps else { return Ok(()) };
    let rate = BitRate((offered / tcp_share(payload)) as u64);
    let burst = path.datagrams(&DatagramPlan { rate, payload, time: LATER, is_even: false })?;
    let Some(burst) = burst.filter(|burst| !burst.receiver_was_busy && burst.arrived.bps > 0.0) else {
        return Ok(());
    };
    let bps = burst.arrived.bps * tcp_share(payload);
    if bps < POLICED_SHARE * capacity.goodput_bps {
        capacity.later_bps = Some(bps);
        capacity.at_once_bytes = Some(burst.arrived.at_once_bytes);
    }
    Ok(())
}

/// Sends datagrams evenly at half of `free_bps` (TCP payload), which the path has to give: those that are lost then are not lost for want
/// of room. It lasts long enough to lose some if `lost_share` of them are, and at most `max_time`.
pub(crate) fn losses<P: Path>(
    path: &mut P,
    free_bps: f64,
    payload: u32,
    lost_share: f64,
    max_time: Time,
) -> Result<Datagrams, P::Error> {
    let rate = (HALF * free_bps / tcp_share(payload)).max(LEAST);
    let a_second = rate / 8.0 / f64::from(payload.max(1));
    let seconds =
        (ENOUGH_LOST / (lost_share * a_second).max(1e-9)).clamp(MIN_LOSS_TIME, max_time.as_secs_f64());
    let (rate, time) = (BitRate(rate as u64), Time::from_secs_f64(seconds));
    let burst = path.datagrams(&DatagramPlan { rate, payload, time, is_even: true })?;
    let burst = burst.filter(|burst| !burst.receiver_was_busy);
    Ok(burst.map_or(Datagrams::default(), |burst| Datagrams { sent: burst.sent, lost: burst.lost }))
}

/// TCP's payload over that of a datagram of the same packet.
pub(crate) fn tcp_share(payload: u32) -> f64 {
    1.0 - TCP_MORE / f64::from(payload.max(2 * TCP_MORE as u32))
}

impl Arrived {
    /// From a burst's samples; `payload` is that of a datagram, bytes. `None` where there are too few samples.
    pub fn of(rows: &[FlowSample], payload: u32) -> Option<Self> {
        let received: Vec<(i64, i64)> =
            rows.iter().filter_map(|row| Some((row.time_us, row.datagrams_received?))).collect();
        let begin = received.iter().find(|(_, count)| *count > 0)?;
        // Nothing arrived after that.
        let last = received.last()?.1;
        let end = received.iter().find(|(_, count)| *count == last)?;
        let from = begin.0 + ((end.0 - begin.0) as f64 * SETTLED) as i64;
        let first = received.iter().find(|(time, _)| *time >= from)?;
        let seconds = (end.0 - first.0) as f64 * 1e-6;
        // A shorter time has single batches only.
        if seconds <= 0.05 {
            return None;
        }
        let a_second = (end.1 - first.1) as f64 / seconds;
        let sooner = |(time, count): &(i64, i64)| *count as f64 - a_second * (time - begin.0) as f64 * 1e-6;
        let at_once = received.iter().map(sooner).fold(0.0, f64::max);
        let extreme = |value: fn(&FlowSample) -> Option<i64>| rows.iter().filter_map(value);
        let shortest = extreme(|row| row.min_owd_us).min();
        Some(Arrived {
            bps: a_second * f64::from(payload) * 8.0,
            delays_us: shortest.zip(extreme(|row| row.max_owd_us).max()),
            at_once_bytes: at_once * f64::from(payload),
        })
    }
}

/// How long packets waited in the queue that bursts filled; `None` where none overflowed.
fn longest_queue(bursts: &[Burst]) -> Option<Time> {
    let shortest = bursts.iter().filter_map(|burst| Some(burst.arrived.delays_us?.0)).min()?;
    let overloaded = bursts.iter().filter(|burst| is_overload(burst));
    let longest = overloaded.filter_map(|burst| Some(burst.arrived.delays_us?.1)).max()?;
    Some(Time::from_micros(u64::try_from(longest - shortest).ok()?))
}

fn is_overload(burst: &Burst) -> bool {
    burst.lost as f64 > LOST * burst.sent as f64
}

fn rounded(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}
