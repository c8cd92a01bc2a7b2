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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, PathLink};

    const MSS: i64 = 1448;

    /// A flow at 10 ms samples over a 20 ms path of 1 Gb/s that gets `goodput_bps`; `set` changes each row.
    fn flow(goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
        arriving(|ms| (goodput_bps / 8.0 * ms as f64 * 1e-3) as i64, set)
    }

    /// The same, where so many bytes have arrived after so many milliseconds.
    fn arriving(bytes: impl Fn(i64) -> i64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
        let context = FlowContext {
            name: "f".into(),
            wire_limit_bps: Some(0.956e9),
            path: vec![PathLink { name: "l".into(), direction: "forward".into(), rate_bps: 1e9 }],
            ..FlowContext::default()
        };
        let mut rows = Vec::new();
        let mut links = Vec::new();
        for i in 0..100i64 {
            let bytes = bytes(i * 10);
            let mut row = FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(0),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(4000),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(1000),
                notsent_bytes: Some(3_000_000),
                sndbuf_bytes: Some(20_000_000),
                wmem_queued_bytes: Some(19_000_000),
                rcv_wnd_bytes: Some(10_000_000),
                rcv_queue_bytes: Some(0),
                srtt_us: Some(20_000),
                total_retrans_segs: Some(0),
                pacing_rate_bps: Some(20_000_000_000),
                bytes_received: Some(bytes),
                ..FlowSample::default()
            };
            set(&mut row);
            rows.push(row);
            links.push(LinkSample {
                time_us: i * 10_000 + 3,
                link: "l".into(),
                direction: "forward".into(),
                sent_bytes: Some((bytes as f64 * 1514.0 / 1448.0) as i64),
                ..LinkSample::default()
            });
        }
        decide(&mut rows, &links, &context);
        assert_eq!(rows[0].limited_by, None);
        rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
    }

    fn all(causes: &[Cause], expected: Cause) {
        let wrong = causes.iter().filter(|c| **c != expected).count();
        assert_eq!(wrong, 0, "{wrong} of {} samples are not {expected:?}: {causes:?}", causes.len());
    }

    #[test]
    fn a_filled_window_is_the_receivers_or_its_readers() {
        let window = |row: &mut FlowSample| {
            row.snd_wnd_bytes = Some(1000 * MSS + 1000);
            row.rcv_wnd_bytes = row.snd_wnd_bytes;
        };
        all(&flow(0.5e9, window), Cause::ReceiveWindow);
        let slow = |row: &mut FlowSample| {
            row.snd_wnd_bytes = Some(0);
            row.rcv_wnd_bytes = Some(0);
            row.unacked_segs = Some(0);
            row.rcv_queue_bytes = Some(500_000);
        };
        all(&flow(0.04e9, slow), Cause::Application);
    }

    #[test]
    fn nothing_to_send_is_the_buffer_or_the_writer() {
        let buffer = |row: &mut FlowSample| row.notsent_bytes = Some(0);
        all(&flow(0.5e9, buffer), Cause::SendBuffer);
        let writer = |row: &mut FlowSample| {
            row.notsent_bytes = Some(0);
            row.wmem_queued_bytes = Some(1_500_000);
        };
        all(&flow(0.1e9, writer), Cause::Application);
    }

    #[test]
    fn delayed_acks_of_an_idle_writer_are_no_queue() {
        let context = FlowContext { unknown_path: true, ..FlowContext::default() };
        let delayed = |row: &mut FlowSample| row.srtt_us = Some(40_000);
        all(&starved(context, 1e6, delayed), Cause::Application);
    }

    /// Our own flow at 10 ms samples over a path that is not described, whose writer has nothing more to send; `goodput_bps` arrives.
    fn starved(context: FlowContext, goodput_bps: f64, set: impl Fn(&mut FlowSample)) -> Vec<Cause> {
        let context = FlowContext { name: "f".into(), ..context };
        let row = |i: i64| {
            let mut row = FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(0),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(1000),
                snd_wnd_bytes: Some(3_000_000),
                unacked_segs: Some(20),
                notsent_bytes: Some(0),
                sndbuf_bytes: Some(2_500_000),
                wmem_queued_bytes: Some(60_000),
                rcv_wnd_bytes: Some(3_000_000),
                rcv_queue_bytes: Some(0),
                srtt_us: Some(100),
                min_rtt_us: Some(50),
                bytes_acked: Some((goodput_bps / 8.0 * i as f64 * 0.01) as i64),
                ..FlowSample::default()
            };
            set(&mut row);
            row
        };
        let mut rows: Vec<FlowSample> = (0..100).map(row).collect();
        decide(&mut rows, &[], &context);
        rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
    }

    #[test]
    fn our_own_generator_is_no_slow_application() {
        let ours = |generator| FlowContext { generator: Some(generator), ..FlowContext::default() };
        let bulk = || ours(Generator::default());
        all(&starved(FlowContext::default(), 24e9, |_| {}), Cause::Application);
        all(&starved(bulk(), 24e9, |_| {}), Cause::HostCpu);
        let unread = |row: &mut FlowSample| {
            (row.snd_wnd_bytes, row.rcv_wnd_bytes) = (Some(20 * MSS), Some(20 * MSS));
            row.rcv_queue_bytes = Some(2_000_000);
        };
        all(&starved(FlowContext::default(), 24e9, unread), Cause::Application);
        all(&starved(bulk(), 24e9, unread), Cause::HostCpu);
        // What was asked for, as long as the computer keeps up with that.
        let asked = |bps: f64| ours(Generator { write_bps: Some(bps), ..Generator::default() });
        all(&starved(asked(1e9), 1e9, |_| {}), Cause::Application);
        let behind = starved(asked(10e9), 3e9, |_| {});
        all(&behind[20..], Cause::HostCpu);
        let paced = |bps: f64| FlowContext { pacing_bps: Some(bps), ..bulk() };
        all(&starved(paced(1e9), 1e9, |_| {}), Cause::Pacing);
        let block = |row: &mut FlowSample| row.wmem_queued_bytes = Some(2_400_000);
        all(&starved(paced(1e9), 1e9, block), Cause::Pacing);
        all(&starved(paced(10e9), 3e9, block)[20..], Cause::SendBuffer);
        all(&starved(paced(10e9), 3e9, |_| {})[20..], Cause::HostCpu);
        all(
            &starved(ours(Generator { read_bps: Some(1e9), ..Generator::default() }), 1e9, unread),
            Cause::Application,
        );
        all(
            &starved(ours(Generator { reader_pauses: true, ..Generator::default() }), 1e9, unread),
            Cause::Application,
        );
        let file = ours(Generator { uses_file: true, ..Generator::default() });
        all(&starved(file, 1e9, |_| {}), Cause::Application);
        // In virtual time a writer is never late.
        all(&starved(FlowContext { virtual_time: true, ..bulk() }, 1e9, |_| {}), Cause::SendBuffer);
    }

    #[test]
    fn what_is_left_when_all_is_sent_is_no_limit_of_its_own() {
        let size = 100_000_000;
        let context = FlowContext {
            generator: Some(Generator { size_bytes: Some(size), ..Generator::default() }),
            ..FlowContext::default()
        };
        let done = |row: &mut FlowSample| {
            let acked = row.bytes_acked.unwrap();
            match acked >= 90_000_000 {
                true => row.bytes_acked = Some(size as i64 - 20 * MSS + 1),
                // The receiver's window, until then.
                false => row.snd_wnd_bytes = Some(20 * MSS),
            }
        };
        all(&starved(context.clone(), 1e9, done), Cause::ReceiveWindow);
        let at_once = |row: &mut FlowSample| row.bytes_acked = Some(size as i64);
        all(&starved(context, 1e9, at_once), Cause::SlowStart);
    }

    #[test]
    fn one_host_has_no_path() {
        let queued = |row: &mut FlowSample| (row.srtt_us, row.notsent_bytes) = (Some(5_000), Some(1_000_000));
        let context = FlowContext { unknown_path: true, ..FlowContext::default() };
        all(&starved(context.clone(), 24e9, queued), Cause::PathRate);
        all(&starved(FlowContext { is_one_host: true, ..context }, 24e9, queued), Cause::HostCpu);
    }

    #[test]
    fn a_full_path_wins_over_what_fills_it() {
        let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(1000 * MSS);
        all(&flow(0.955e9, window), Cause::PathRate);
        let cwnd = |row: &mut FlowSample| {
            row.snd_cwnd_segs = Some(1000);
            row.total_retrans_segs = Some(5);
        };
        all(&flow(0.955e9, cwnd), Cause::PathRate);
    }

    #[test]
    fn a_filled_congestion_window_is_what_held_it_down() {
        let growing = |row: &mut FlowSample| row.snd_cwnd_segs = Some(1000);
        all(&flow(0.3e9, growing), Cause::SlowStart);
        let after_loss = |row: &mut FlowSample| {
            growing(row);
            row.total_retrans_segs = Some(3);
        };
        all(&flow(0.3e9, after_loss), Cause::Loss);
        let repairing = |row: &mut FlowSample| row.ca_state = Some(3);
        all(&flow(0.3e9, repairing), Cause::Loss);
    }

    #[test]
    fn what_reduced_a_window_is_told_by_what_came_before() {
        let full = |row: &mut FlowSample| (row.snd_cwnd_segs, row.delivered_ce_segs) = (Some(1000), Some(0));
        // Marks come and go; what they left behind stays a while.
        let marked = |row: &mut FlowSample| {
            full(row);
            row.delivered_ce_segs = Some(1 + row.time_us / 200_000);
            row.ca_state = Some(if row.time_us % 200_000 < 20_000 { CWR } else { 0 });
        };
        all(&flow(0.3e9, marked), Cause::EcnMarks);
        let own = |row: &mut FlowSample| {
            full(row);
            row.ca_state = Some(CWR);
        };
        all(&flow(0.3e9, own), Cause::LocalQueue);
        // A kernel that does not count marks leaves that open.
        let unknown = |row: &mut FlowSample| {
            own(row);
            row.delivered_ce_segs = None;
        };
        all(&flow(0.3e9, unknown), Cause::SlowStart);
        let lost = |row: &mut FlowSample| {
            own(row);
            row.total_retrans_segs = Some(row.time_us / 10_000);
        };
        all(&flow(0.3e9, lost), Cause::Loss);
    }

    fn in_context(set: impl Fn(&mut FlowSample), context: FlowContext) -> Vec<Option<Cause>> {
        let mut rows: Vec<FlowSample> = (0..300)
            .map(|i| {
                let mut row = FlowSample {
                    time_us: i * 10_000,
                    flow: "f".into(),
                    snd_mss_bytes: Some(MSS),
                    snd_cwnd_segs: Some(1000),
                    unacked_segs: Some(1000),
                    srtt_us: Some(10_000),
                    ..FlowSample::default()
                };
                set(&mut row);
                row
            })
            .collect();
        decide(&mut rows, &[], &FlowContext { name: "f".into(), ..context });
        rows.iter().skip(1).map(|row| row.limited_by).collect()
    }

    #[test]
    fn what_the_own_device_drops_is_its_queues_loss() {
        let lost = |row: &mut FlowSample| row.total_retrans_segs = Some(row.time_us / 30_000);
        let of_99 = |device_drops| in_context(lost, FlowContext { device_drops, ..FlowContext::default() });
        assert_eq!(of_99(60).last(), Some(&Some(Cause::LocalQueue)));
        assert_eq!(of_99(5).last(), Some(&Some(Cause::Loss)), "others dropped most of them");
        assert_eq!(of_99(0).last(), Some(&Some(Cause::Loss)));
    }

    #[test]
    fn of_a_capture_a_loss_explains_what_follows_soon() {
        let captured = |row: &mut FlowSample| {
            row.snd_cwnd_segs = None;
            row.total_retrans_segs = Some(i64::from(row.time_us >= 500_000));
        };
        let causes = in_context(captured, FlowContext { unknown_path: true, ..FlowContext::default() });
        assert_eq!((causes[10], causes[60]), (None, Some(Cause::Loss)), "nothing is known before");
        assert_eq!(causes.last(), Some(&None), "nor 250 round trips later");
    }

    #[test]
    fn what_waits_without_a_window_is_paced_or_not_computed() {
        let paced = |row: &mut FlowSample| {
            row.pacing_rate_bps = Some(520_000_000);
            row.total_retrans_segs = Some(1);
        };
        all(&flow(0.5e9, paced), Cause::Pacing);
        all(&flow(0.5e9, |_| {}), Cause::HostCpu);
    }

    #[test]
    fn a_pipe_that_is_filled_again_waits_for_its_link() {
        // Full until 0.5 s, then silent for two round trips, then full again.
        let causes = arriving(|ms| (ms.min(500) + (ms - 540).max(0)) * 119_500, |_| {});
        let at = |ms: usize| causes[ms / 10 - 1];
        assert_eq!(at(520), Cause::HostCpu, "nothing is sent, and nothing says why");
        assert_eq!(at(540), Cause::PathRate);
        assert_eq!(at(900), Cause::PathRate);
    }

    /// A flow over a path that is not described.
    fn measured(set: impl Fn(i64, &mut FlowSample)) -> Vec<Cause> {
        let context = FlowContext { name: "f".into(), unknown_path: true, ..FlowContext::default() };
        let row = |i: i64| {
            let mut row = FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(0),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(1000),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(1000),
                notsent_bytes: Some(3_000_000),
                sndbuf_bytes: Some(20_000_000),
                wmem_queued_bytes: Some(19_000_000),
                min_rtt_us: Some(10_000),
                srtt_us: Some(10_200),
                rttvar_us: Some(100),
                total_retrans_segs: Some(7),
                bytes_acked: Some(i * 500_000),
                ..FlowSample::default()
            };
            set(i, &mut row);
            row
        };
        let mut rows: Vec<FlowSample> = (0..100).map(row).collect();
        decide(&mut rows, &[], &context);
        rows[1..].iter().map(|r| r.limited_by.unwrap()).collect()
    }

    #[test]
    fn a_queue_that_stands_tells_of_a_full_path() {
        all(&measured(|_, row| row.srtt_us = Some(40_000)), Cause::PathRate);
        all(&measured(|_, _| {}), Cause::Loss);
        // Windows that are sent at once wait for themselves.
        let window = |srtt| {
            move |_, row: &mut FlowSample| {
                (row.snd_wnd_bytes, row.srtt_us) = (Some(1000 * MSS), Some(srtt));
            }
        };
        all(&measured(window(14_000)), Cause::ReceiveWindow);
        all(&measured(window(25_000)), Cause::PathRate);
        // Wi-Fi: the round-trip time is far above the least one, and so is what it varies by.
        let varies = |_, row: &mut FlowSample| (row.srtt_us, row.rttvar_us) = (Some(16_000), Some(5_000));
        all(&measured(varies), Cause::Loss);
    }

    #[test]
    fn what_is_paced_and_grows_no_more_has_the_paths_rate() {
        let bbr = |i: i64, row: &mut FlowSample| {
            row.unacked_segs = Some(500);
            row.total_retrans_segs = Some(0);
            row.pacing_rate_bps = Some(400_000_000);
            // Twice as much each 10 ms, the round trip, until 200 ms.
            row.bytes_acked = Some(if i < 20 { 1 << i } else { (1 << 20) + (i - 20) * 500_000 });
        };
        let causes = measured(bbr);
        all(&causes[30..90], Cause::PathRate);
        let starting = |i: i64, row: &mut FlowSample| {
            bbr(i, row);
            row.bytes_acked = Some((1.07_f64.powi(i as i32) * 1e4) as i64);
            row.pacing_rate_bps = Some(1_000);
        };
        let grows = measured(starting);
        assert!(grows[10..90].iter().all(|cause| *cause == Cause::SlowStart), "{grows:?}");
    }

    #[test]
    fn in_virtual_time_nothing_waits_for_a_host() {
        let context = FlowContext { name: "f".into(), virtual_time: true, ..FlowContext::default() };
        for (queued, expected) in [(90_000, Cause::SendBuffer), (10_000, Cause::Pacing)] {
            let waiting = |time_us| FlowSample {
                time_us,
                flow: "f".into(),
                snd_mss_bytes: Some(1000),
                unacked_segs: Some(40),
                snd_cwnd_segs: Some(100),
                notsent_bytes: Some(50_000),
                sndbuf_bytes: Some(100_000),
                wmem_queued_bytes: Some(queued),
                ..FlowSample::default()
            };
            let mut rows = [waiting(0), waiting(100_000)];
            decide(&mut rows, &[], &context);
            assert_eq!(rows[1].limited_by, Some(expected));
        }
    }

    #[test]
    fn an_unknown_sender_stays_unlabelled() {
        let mut rows = vec![
            FlowSample { flow: "f".into(), ..FlowSample::default() },
            FlowSample { flow: "f".into(), ..FlowSample::default() },
        ];
        decide(&mut rows, &[], &FlowContext { name: "f".into(), ..FlowContext::default() });
        assert!(rows.iter().all(|r| r.limited_by.is_none()));
    }
}
