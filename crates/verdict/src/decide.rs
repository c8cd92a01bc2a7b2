//! Labels each sample of a TCP flow with what limited it.
//!
//! In this order:
//! 1. The path's slowest link was full over the last round trips: `path_rate`, unless the flow had
//!    only a part of it and was itself held down by a window, a buffer or an application. A path that is not described (between
//!    real hosts) counts as full while a queue stands in it: the round-trip time stays above the least by more than it varies.
//! 2. What was outstanding filled the peer's window: `receive_window`; or `application` where the
//!    receiver held so much unread data that it is the reader who keeps the window shut.
//! 3. Nothing was left to send: `send_buffer` where the buffer was full, else `application`.
//!    This program's own generator is never a slow application: 2. and 3. say `application` only for a rate, a pause or a file that was asked
//!    for (`pacing` for the rate of a test, `-b`), as long as the generator is not behind that rate; else `host_cpu`. Once all of
//!    a flow's size is sent, what held it before still counts.
//! 4. The congestion window was full, or it was being reduced: by what reduced it last. That is a `loss`, marks of routers (`ecn_marks`),
//!    or the sending host itself, which drops packets at its own device (`local_queue`: the kernel reduces the window, tcp_enter_cwr, and
//!    nothing was marked). Before anything did: `slow_start`.
//! 5. Data waited for the pacing timer: `pacing` (or `slow_start` where pacing is how the flow grows; on a path that is not
//!    described `path_rate` where the flow grows no more, for that is how BBR sends at the path's rate).
//!    Between two ends on one host is no path: what would be `path_rate` is `host_cpu`.
//! 6. Data waited though nothing held it: `path_rate` where the link is full for the next half round trip, else `host_cpu`.
//!    In virtual time it waited for the pacing timer, within a burst: `send_buffer` where the buffer was full, so that bursts
//!    are as large as they can be, else `pacing`.

#[cfg(test)]
mod tests;

use schema::{Cause, FlowSample, LinkSample};

use crate::{FlowContext, series::Cumulative};

/// Share of a link's rate from which on it counts as full.
const FULL: f64 = 0.95;
/// Share of the goodput possible from which on a flow has the whole link.
const WHOLE: f64 = 0.9;
/// Share of a window from which on it counts as filled.
const FILLED: f64 = 0.95;
/// Share of the congestion window from which on it counts as filled.
const CWND_FILLED: f64 = 0.9;
/// The kernel wakes a writer when two thirds of the send buffer are used; a little less for slack.
const BUFFER_FULL: f64 = 0.6;
/// Unread data that is so much of the window offered means that the reader is slow.
const UNREAD: f64 = 0.5;
/// A goodput of so much of the pacing rate is made by pacing.
const PACED: f64 = 0.8;
/// Rates are taken over so many round trips: what is held down by a window sends in bursts.
const ROUND_TRIPS: i64 = 4;
/// A queue stands where the round-trip time is above the least by one part of that in so many,
const QUEUED_PART: i64 = 10;
/// or, where a window or a buffer is what is sent at once, in so many: bursts of less than the path holds wait for themselves,
/// on average for half of their own time at most.
const QUEUED_PART_OF_WINDOW: i64 = 2;
/// by this time, microseconds,
const QUEUED_US: i64 = 500;
/// (TCP's timestamps count milliseconds, so that a least round-trip time of whole ones may be this much too short, microseconds)
const TICK_US: i64 = 1000;
/// and by so many times its mean deviation.
const QUEUED_DEVIATIONS: i64 = 2;
/// A rate that is not larger than this times what it was before grows no more; in slow start it doubles each round trip.
const GROWS: f64 = 1.25;
/// A generator that has written less than it was asked for, by so many seconds of its rate and so many bytes, is behind. It writes
/// in blocks, and sleeps between them.
const BEHIND_S: f64 = 0.1;
const BEHIND_BYTES: f64 = 262_144.0;
/// A window that grows by a segment a round trip is as large as before after so many, on the paths that there are; without a loss for longer
/// something else holds the flow down.
const REMEMBERED: i64 = 200;
/// So much of what was sent again was dropped by the own device, or others dropped it: super-packets are dropped when they are largest, and so
/// are counted too low.
const OWN_DROPS: f64 = 0.25;
/// States of `icsk_ca_state` (linux/tcp.h): the window was reduced without a loss; recovery, and after a timeout.
const CWR: i64 = 2;
const LOSS_STATES: [i64; 2] = [3, 4];

/// Labels the samples of flow `context.name` in `rows`; others are left as they are. Rows must be in
/// order of time. A flow's first sample, and samples without a sender's state, stay unlabelled.
pub fn decide(rows: &mut [FlowSample], links: &[LinkSample], context: &FlowContext) {
    let history = History::new(rows, links, context);
    let mut reductions = Reductions { lost_here: lost_here(rows, context), ..Reductions::default() };
    let mut last = None;
    let mut first = true;
    for row in rows.iter_mut().filter(|r| r.flow == context.name) {
        reductions.take(row);
        row.limited_by = match first {
            true => None,
            false => cause(row, &history, context, &reductions).map(|found| match found {
                // Only the last bytes are still on their way: what held the flow before made it as long as it is.
                Found::AllSent => last.unwrap_or(Cause::SlowStart),
                Found::Limit(Cause::PathRate) if context.is_one_host => Cause::HostCpu,
                Found::Limit(cause) => cause,
            }),
        };
        last = row.limited_by.or(last);
        first = false;
    }
}

/// Whether most of what the flow sent again was dropped by the sending host's own device.
fn lost_here(rows: &[FlowSample], context: &FlowContext) -> bool {
    let own = rows.iter().filter(|row| row.flow == context.name);
    let again = own.filter_map(|row| row.total_retrans_segs).max().unwrap_or(0);
    context.device_drops > 0 && context.device_drops as f64 >= OWN_DROPS * again as f64
}

/// What a sample shows.
#[derive(Debug, Clone, Copy)]
enum Found {
    Limit(Cause),
    /// The flow has a size, and all of it is sent.
    AllSent,
}

/// Where an application is slow, or seems to be.
#[derive(Debug, Clone, Copy)]
enum Slow {
    Writer,
    Reader,
}

/// What reduced the congestion window so far.
#[derive(Debug, Default)]
struct Reductions {
    /// What was lost was dropped by the sending host's own device.
    lost_here: bool,
    retransmitted: i64,
    marked: i64,
    latest: Option<Cause>,
    /// When that was.
    latest_us: i64,
}

impl Reductions {
    fn take(&mut self, row: &FlowSample) {
        let retransmitted = row.total_retrans_segs.unwrap_or(self.retransmitted);
        let marked = row.delivered_ce_segs.unwrap_or(self.marked);
        let before = self.latest;
        let is_repairing = row.ca_state.is_some_and(|state| LOSS_STATES.contains(&state));
        if retransmitted > self.retransmitted || is_repairing {
            self.latest = Some(if self.lost_here { Cause::LocalQueue } else { Cause::Loss });
        } else if marked > self.marked {
            self.latest = Some(Cause::EcnMarks);
        } else if row.ca_state == Some(CWR)
            && row.delivered_ce_segs.is_some()
            && self.latest != Some(Cause::EcnMarks)
        {
            self.latest = Some(Cause::LocalQueue);
        }
        if retransmitted > self.retransmitted || marked > self.marked || self.latest != before {
            self.latest_us = row.time_us;
        }
        (self.retransmitted, self.marked) = (retransmitted, marked);
    }

    /// What reduced the window within so many round trips before a sample.
    fn lately(&self, row: &FlowSample) -> Option<Cause> {
        let round_trips = (row.time_us - self.latest_us) / row.srtt_us.unwrap_or(1).max(1);
        self.latest.filter(|_| round_trips <= REMEMBERED)
    }
}

/// What is needed of the other samples.
struct History {
    received_bits: Cumulative,
    /// Of the flow's first sample: its time, and bytes written until then.
    first_written: Option<(i64, i64)>,
    /// Bits sent by each link of the path, and its rate.
    links: Vec<(Cumulative, f64)>,
}

impl History {
    fn new(rows: &[FlowSample], links: &[LinkSample], context: &FlowContext) -> Self {
        let mut received_bits = Cumulative::default();
        for row in rows.iter().filter(|r| r.flow == context.name) {
            if let Some(bytes) = row.bytes_received.or(row.bytes_acked) {
                received_bits.push(row.time_us, bytes as f64 * 8.0);
            }
        }
        let links = context
            .path
            .iter()
            .map(|link| {
                let mut sent = Cumulative::default();
                for row in links.iter().filter(|r| r.link == link.name && r.direction == link.direction) {
                    sent.push(row.time_us, row.sent_bytes.unwrap_or(0) as f64 * 8.0);
                }
                (sent, link.rate_bps)
            })
            .collect();
        let first_written =
            rows.iter().filter(|r| r.flow == context.name).find_map(|row| Some((row.time_us, written(row)?)));
        History { received_bits, first_written, links }
    }

    /// Whether the writer is behind the rate that was asked for: it has then no reason to wait. It makes up for lost time.
    fn is_behind(&self, row: &FlowSample, asked_bps: f64) -> bool {
        let (Some((from_us, before)), Some(written)) = (self.first_written, written(row)) else {
            return false;
        };
        let asked = asked_bps / 8.0 * (row.time_us - from_us) as f64 * 1e-6;
        let done = (written - before) as f64;
        done + asked_bps / 8.0 * BEHIND_S + BEHIND_BYTES < asked
    }

    /// The fullest link's use between two instants.
    fn utilization(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let used = |(sent, rate): &(Cumulative, f64)| sent.rate(from_us, to_us).map(|bps| bps / rate);
        self.links.iter().filter_map(used).reduce(f64::max)
    }
}

fn cause(
    row: &FlowSample,
    history: &History,
    context: &FlowContext,
    reductions: &Reductions,
) -> Option<Found> {
    let mss = row.snd_mss_bytes? as f64;
    let outstanding = row.unacked_segs? as f64 * mss;
    let cwnd = row.snd_cwnd_segs.map(|segments| segments as f64 * mss);
    let window = row.snd_wnd_bytes.map(|w| w as f64);
    let half = (row.srtt_us.unwrap_or(0) * ROUND_TRIPS / 2).max(1);
    let (from, to) = (row.time_us - half, row.time_us + half);
    let goodput = history.received_bits.rate(from, to).unwrap_or(0.0);
    let whole = context.wire_limit_bps.is_some_and(|limit| goodput >= WHOLE * limit);
    let full = match history.utilization(from, to) {
        Some(utilization) => utilization >= FULL,
        None => context.wire_limit_bps.is_some_and(|limit| goodput >= FULL * limit),
    };
    if full && whole {
        return Some(Found::Limit(Cause::PathRate));
    }
    let held = held_down(row, outstanding, window, mss);
    // A writer without data keeps no queue up; but its lone segments wait for delayed ACKs, which lengthens round-trip times too.
    let is_idle = matches!(held, Some(Held::Slow(Slow::Writer)));
    if context.unknown_path && !is_idle && is_queued(row, QUEUED_PART_OF_WINDOW) {
        return Some(Found::Limit(Cause::PathRate));
    }
    if let Some(held) = held {
        return Some(match held {
            // Its blocks may fill a window for a moment, but the writer has the rate that it was asked for.
            Held::By(cause) => Found::Limit(asked(row, history, context).unwrap_or(cause)),
            Held::Slow(slow) => slow_end(slow, row, history, context),
        });
    }
    if full || (context.unknown_path && is_queued(row, QUEUED_PART)) {
        return Some(Found::Limit(Cause::PathRate));
    }
    let is_reduced = row.ca_state.is_some_and(|state| state == CWR || LOSS_STATES.contains(&state));
    // Of a capture: that the window was full is known only of one that something has just reduced.
    let Some(cwnd) = cwnd else { return reductions.lately(row).map(Found::Limit) };
    if is_reduced || outstanding >= CWND_FILLED * cwnd {
        return Some(Found::Limit(reductions.latest.unwrap_or(Cause::SlowStart)));
    }
    let paced = row.pacing_rate_bps.is_some_and(|rate| goodput >= PACED * rate as f64);
    if paced {
        let asked = context.pacing_bps.is_some_and(|asked| goodput >= PACED * asked);
        let before = history.received_bits.rate(from - 2 * half, to - 2 * half);
        if context.unknown_path && !asked && before.is_some_and(|before| goodput <= GROWS * before) {
            return Some(Found::Limit(Cause::PathRate));
        }
        return Some(Found::Limit(if asked || reductions.latest.is_some() {
            Cause::Pacing
        } else {
            Cause::SlowStart
        }));
    }
    // A pipe that is being filled again: the link is full from now on, though it was not before.
    let soon = row.time_us + half / ROUND_TRIPS;
    if history.utilization(row.time_us, soon).is_some_and(|share| share >= FULL) {
        return Some(Found::Limit(Cause::PathRate));
    }
    if context.virtual_time {
        let is_full = buffer_is_full(row);
        return Some(Found::Limit(if is_full { Cause::SendBuffer } else { Cause::Pacing }));
    }
    Some(Found::Limit(Cause::HostCpu))
}

/// What a writer or a reader that does not keep up waits for: nothing but itself where it is foreign. Our own waits only where that was
/// asked for.
fn slow_end(slow: Slow, row: &FlowSample, history: &History, context: &FlowContext) -> Found {
    let Some(generator) = &context.generator else { return Found::Limit(Cause::Application) };
    let is_whole = |size: u64| written(row).is_some_and(|written| written as u64 >= size);
    Found::Limit(match slow {
        Slow::Reader if generator.read_bps.is_some() || generator.reader_pauses => Cause::Application,
        Slow::Writer if generator.size_bytes.is_some_and(is_whole) => return Found::AllSent,
        Slow::Writer if generator.write_bps.is_some_and(|asked| !history.is_behind(row, asked)) => {
            Cause::Application
        }
        Slow::Writer if context.pacing_bps.is_some_and(|asked| !history.is_behind(row, asked)) => {
            Cause::Pacing
        }
        _ if generator.uses_file => Cause::Application,
        // Its writer is there as soon as its buffer lets it.
        Slow::Writer if context.virtual_time => Cause::SendBuffer,
        _ => Cause::HostCpu,
    })
}

/// The rate that our own writer was asked for, where it has it.
fn asked(row: &FlowSample, history: &History, context: &FlowContext) -> Option<Cause> {
    let generator = context.generator.as_ref()?;
    let has = |rate: Option<f64>| rate.is_some_and(|asked| !history.is_behind(row, asked));
    if has(generator.write_bps) {
        return Some(Cause::Application);
    }
    has(context.pacing_bps).then_some(Cause::Pacing)
}

/// Payload that the application had written.
fn written(row: &FlowSample) -> Option<i64> {
    // The SYN counts as a byte that is acknowledged.
    let acked = row.bytes_acked.map(|acked| (acked - 1).max(0)).or(row.bytes_received)?;
    Some(acked + row.unacked_segs? * row.snd_mss_bytes? + row.notsent_bytes?)
}

/// Whether a queue stands in the path, at least for one part in `part` of the least round-trip time.
fn is_queued(row: &FlowSample, part: i64) -> bool {
    let (Some(srtt), Some(least)) = (row.srtt_us, row.min_rtt_us.filter(|least| *least > 0)) else {
        return false;
    };
    let varies = QUEUED_DEVIATIONS * row.rttvar_us.unwrap_or(0);
    let least = if least % TICK_US == 0 { least + TICK_US } else { least };
    srtt - least >= (least / part).max(QUEUED_US).max(varies)
}

/// What holds a flow down beside the network.
enum Held {
    By(Cause),
    Slow(Slow),
}

/// A window, a buffer or an application that holds the flow down.
fn held_down(row: &FlowSample, outstanding: f64, window: Option<f64>, mss: f64) -> Option<Held> {
    let unread = row.rcv_queue_bytes.unwrap_or(0) as f64;
    if let Some(window) = window {
        // The last segment that does not fit whole leaves a gap.
        let filled = outstanding + mss >= window || outstanding >= FILLED * window;
        let offered = row.rcv_wnd_bytes.map_or(window, |w| w as f64).max(mss);
        if filled {
            let is_unread = unread >= UNREAD * offered;
            return Some(if is_unread { Held::Slow(Slow::Reader) } else { Held::By(Cause::ReceiveWindow) });
        }
    }
    let sndbuf = row.sndbuf_bytes.unwrap_or(0) as f64;
    let all_sent = (row.notsent_bytes? as f64) <= (2.0 * mss).max(sndbuf / 20.0);
    if !all_sent {
        return None;
    }
    let cwnd = row.snd_cwnd_segs? as f64 * mss;
    row.wmem_queued_bytes?;
    match (buffer_is_full(row), outstanding >= CWND_FILLED * cwnd) {
        // Nothing waits for the congestion window, so it is not what holds the flow, even if it is full too.
        (true, _) => Some(Held::By(Cause::SendBuffer)),
        (false, true) => None,
        (false, false) => Some(Held::Slow(Slow::Writer)),
    }
}

/// Whether a writer would have to wait.
fn buffer_is_full(row: &FlowSample) -> bool {
    let (queued, sndbuf) = (row.wmem_queued_bytes.unwrap_or(0) as f64, row.sndbuf_bytes.unwrap_or(0) as f64);
    sndbuf > 0.0 && queued >= BUFFER_FULL * sndbuf
}
