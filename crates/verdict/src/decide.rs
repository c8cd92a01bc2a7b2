//! Labels each sample of a TCP flow with its limit; `rate_control.rs` has the rules for UDT and Tsunami.
//!
//! The first rule that applies decides:
//! 1. The path's slowest link was full over the last round trips: `path_rate`, unless the flow had only a
//!    part of it and was itself limited by a window, a buffer or an application; or a link was full of the
//!    flow's ACKs. A path that is not described (between real hosts) counts as full while a standing queue
//!    shows: the round-trip time exceeds the minimum by more than its variation. Next, a simulated host's
//!    processor or bus, or a thread of a file transfer, was busy all the time: `host_cpu`. Then the ends of a
//!    file transfer waited for their files or for replies, not for the network: `application`. Of transports
//!    other than TCP: nothing of the data that was sent a retransmission timeout ago, or later, has arrived:
//!    `loss`.
//! 2. The data outstanding filled the peer's window: `receive_window`; or `application` where the receiver
//!    held so much unread data that the reader keeps the window closed.
//! 3. Nothing was left to send: `send_buffer` where the buffer was full, else `application`. This program's
//!    own traffic generator never counts as a slow application: rules 2 and 3 give `application` only for a
//!    rate, a pause or a file that was requested (`pacing` for the rate of a test, `-b`), and only while the
//!    generator keeps up with that rate; else `host_cpu`. Once all bytes of a flow with a size are sent, its
//!    last label continues. Samples without the use of the buffer (`ss` without `-m`) stay unlabelled.
//! 4. The congestion window was full or being reduced: the cause of the last reduction. That is a `loss`,
//!    marks of routers (`ecn_marks`), or the sending host itself, which dropped packets at its own device
//!    (`local_queue`: the kernel reduces the window, tcp_enter_cwr, and nothing was marked). Before the first
//!    reduction: `slow_start`.
//! 5. Data waited, but within one round trip a sample filled the peer's window or emptied a full send buffer
//!    (rules 2 and 3): that limit. A flow that a window limits sends the whole window in a burst, and some
//!    samples fall into the burst. Not in virtual time, where rule 7 recognizes bursts by their pacing.
//! 6. Data waited for the pacing timer: `pacing` (or `slow_start` where pacing is how the flow grows; on a
//!    path that is not described `path_rate` where the flow no longer grows, because BBR sends at the path's
//!    rate that way).
//! 7. Data waited although nothing above applies: `path_rate` where the link is full for the next half round
//!    trip, `pacing` where the flow keeps a requested pacing rate (the packets of a low rate are far apart),
//!    else `host_cpu`. In virtual time the data waited for the pacing timer within a burst: `send_buffer`
//!    where the buffer was full, because it then limits the size of bursts, else `pacing`.
//!
//! Two ends on one host have no path between them: `path_rate` becomes `host_cpu`.

mod rate_control;
mod silence;
#[cfg(test)]
mod tests;

use schema::{Cause, FlowSample};

use crate::{
    FlowContext, HostLoad, LinkRows,
    bottleneck::SentByLink,
    file_waits::{FileWait, FileWaitSeries},
    series::{Cumulative, RATE_ROUND_TRIPS},
};

/// A link is full at this share of its rate or more.
const FULL: f64 = 0.95;
/// A flow has the whole link at this share of the possible goodput or more.
const WHOLE: f64 = 0.9;
/// A simulated processor counts as busy all the time if it is busy for this share of the time or more.
const BUSY: f64 = 0.95;
/// A window is filled at this share of it or more.
const FILLED: f64 = 0.95;
/// The congestion window is filled at this share of it or more.
const CWND_FILLED: f64 = 0.9;
/// A send buffer is full at this share of it or more: the kernel wakes a writer when two thirds are used
/// (`sk_stream_is_writeable`); a little less for tolerance.
const BUFFER_FULL: f64 = 0.6;
/// The reader is slow where its unread data exceeds this share of the advertised window.
const UNREAD: f64 = 0.5;
/// A flow is paced where its goodput reaches this share of the pacing rate.
const PACED: f64 = 0.8;
/// A standing queue lengthens the round-trip time by at least the minimum divided by this, and by at least
/// [`MIN_STANDING_QUEUE_US`] and [`STANDING_QUEUE_DEVIATIONS`].
const STANDING_QUEUE_PART: i64 = 10;
/// [`STANDING_QUEUE_PART`] where a window or a buffer limits the flow: its bursts queue behind themselves, on
/// average for half of their own duration at most.
const STANDING_QUEUE_PART_OF_BURSTS: i64 = 2;
/// [`STANDING_QUEUE_PART`] where the minimum is an estimate, because packets overtook others.
const STANDING_QUEUE_PART_OF_ESTIMATE: i64 = 4;
/// A standing queue lengthens the round-trip time by at least this time, microseconds.
const MIN_STANDING_QUEUE_US: i64 = 500;
/// A standing queue lengthens the round-trip time by at least this many times its mean deviation.
const STANDING_QUEUE_DEVIATIONS: i64 = 2;
/// The data of one burst arrives at the path's rate, and between bursts none does: a flow's own bursts make
/// the queue where its goodput is below this share of the rate in the fastest tenth of its round trips.
const IN_BURSTS: f64 = 0.8;
/// Samples above this quantile of the rates are the fastest tenth; so are those below the complementary
/// quantile of the round-trip times.
const FASTEST: f64 = 0.9;
/// A flow that a capture shows sends in bursts where within two round trips its data outstanding falls to
/// this share.
const BURST_OUTSTANDING: f64 = 0.5;
/// A packet that skipped a delay, and so overtook others, made the minimum round-trip time this many times
/// too small.
const OVERTAKEN: f64 = 1.5;
/// Resolution of TCP's timestamps, microseconds: a minimum round-trip time of whole milliseconds may be this
/// much too short.
const TIMESTAMP_TICK_US: i64 = 1000;
/// A rate grows where it is more than this times the earlier one; in slow start it doubles each round trip.
const GROWS: f64 = 1.25;
/// A generator is behind its requested rate by more than this time at that rate, seconds, plus
/// [`BEHIND_BYTES`].
const BEHIND_S: f64 = 0.1;
/// Bytes by which a generator may be behind in addition: it writes in blocks and sleeps between them.
const BEHIND_BYTES: f64 = 262_144.0;
/// A reduction explains the samples of this many following round trips. On common paths a window that grows
/// by one segment a round trip has recovered by then; later another cause limits the flow.
const MAX_ROUND_TRIPS_AFTER_REDUCTION: i64 = 200;
/// Data outstanding has recovered, and grows no further, at this ratio to that before a reduction.
const RECOVERED: std::ops::RangeInclusive<f64> = 0.97..=1.1;
/// The sender's own device is the cause of losses where its drops are at least this share of the
/// retransmissions. The share is low because a dropped super-packet counts as one drop and holds many
/// segments.
const MIN_LOCAL_DROP_SHARE: f64 = 0.25;
/// States of `icsk_ca_state` (linux/tcp.h): CWR, the window is reduced without a loss; recovery and loss
/// (after a timeout).
const CWR: i64 = 2;
const LOSS_STATES: [i64; 2] = [3, 4];

/// Labels the samples of flow `context.name` in `rows`; other flows' samples stay unchanged. Rows must be in
/// order of time. A flow's first sample and samples without the sender's state stay unlabelled.
pub fn decide(rows: &mut [FlowSample], links: &LinkRows<'_>, context: &FlowContext) {
    let history = History::new(rows, links, context);
    let mut reductions =
        Reductions { drops_are_local: drops_are_local(rows, context), ..Reductions::default() };
    let mut last = None;
    let mut first = true;
    for row in rows.iter_mut().filter(|r| r.flow == context.name) {
        reductions.update(row);
        row.limited_by = match first {
            true => None,
            false => judge(row, &history, context, &reductions).map(|judgement| match judgement {
                // Only the last bytes are still in flight: the earlier limit determined the flow's duration.
                Judgement::AllSent => last.unwrap_or(Cause::SlowStart),
                Judgement::Limit(Cause::PathRate) if context.is_one_host => Cause::HostCpu,
                Judgement::Limit(cause) => cause,
            }),
        };
        last = row.limited_by.or(last);
        first = false;
    }
}

/// Whether the sending host's own device dropped the segments that were retransmitted.
fn drops_are_local(rows: &[FlowSample], context: &FlowContext) -> bool {
    let device = &context.device;
    let retransmitted = device.retransmitted_segs.unwrap_or_else(|| retransmitted_segs(rows, &context.name));
    device.dropped_segs > 0 && device.dropped_segs as f64 >= MIN_LOCAL_DROP_SHARE * retransmitted as f64
}

/// Segments that a flow retransmitted between its first sample and its last.
pub fn retransmitted_segs(rows: &[FlowSample], flow: &str) -> u64 {
    let counts = || rows.iter().filter(|row| row.flow == flow).filter_map(|row| row.total_retrans_segs);
    let more = counts().max().unwrap_or(0) - counts().min().unwrap_or(0);
    u64::try_from(more).unwrap_or(0)
}

/// The result for one sample.
#[derive(Debug, Clone, Copy)]
enum Judgement {
    Limit(Cause),
    /// The flow has a size, and all its bytes were sent.
    AllSent,
}

/// The end of a flow whose application is slow, or seems to be.
#[derive(Debug, Clone, Copy)]
enum SlowEnd {
    Writer,
    Reader,
}

/// The causes that reduced the congestion window up to a sample.
#[derive(Debug, Default)]
struct Reductions {
    /// The sending host's own device dropped the lost segments.
    drops_are_local: bool,
    retransmitted: i64,
    marked: i64,
    latest: Option<Cause>,
    /// The time of the latest reduction.
    latest_us: i64,
    /// Maximum data outstanding before the latest reduction, and since two round trips after it, segments.
    outstanding_before: i64,
    outstanding_since: i64,
}

impl Reductions {
    fn update(&mut self, row: &FlowSample) {
        let retransmitted = row.total_retrans_segs.unwrap_or(self.retransmitted);
        let marked = row.delivered_ce_segs.unwrap_or(self.marked);
        let before = self.latest;
        let is_repairing = row.ca_state.is_some_and(|state| LOSS_STATES.contains(&state));
        if retransmitted > self.retransmitted || is_repairing {
            self.latest = Some(if self.drops_are_local { Cause::LocalQueue } else { Cause::Loss });
        } else if marked > self.marked {
            self.latest = Some(Cause::EcnMarks);
        } else if row.ca_state == Some(CWR)
            && row.delivered_ce_segs.is_some()
            && self.latest != Some(Cause::EcnMarks)
        {
            self.latest = Some(Cause::LocalQueue);
        }
        let settled_us = self.latest_us + 2 * row.srtt_us.unwrap_or(0);
        if retransmitted > self.retransmitted || marked > self.marked || self.latest != before {
            if row.time_us >= settled_us {
                self.outstanding_before = self.outstanding_since;
            }
            (self.latest_us, self.outstanding_since) = (row.time_us, 0);
        } else if row.time_us >= settled_us {
            self.outstanding_since = self.outstanding_since.max(row.unacked_segs.unwrap_or(0));
        }
        (self.retransmitted, self.marked) = (retransmitted, marked);
    }

    /// The cause that reduced the window within [`MAX_ROUND_TRIPS_AFTER_REDUCTION`] before a sample, unless
    /// as much data is outstanding again as before, and not more: something else limits it.
    fn recent(&self, row: &FlowSample) -> Option<Cause> {
        let round_trips = (row.time_us - self.latest_us) / row.srtt_us.unwrap_or(1).max(1);
        let again = self.outstanding_since as f64 / self.outstanding_before.max(1) as f64;
        let is_recovered = self.outstanding_before > 0 && RECOVERED.contains(&again);
        self.latest.filter(|_| round_trips <= MAX_ROUND_TRIPS_AFTER_REDUCTION && !is_recovered)
    }
}

/// Counters over the whole run, read around each sample.
struct History<'a> {
    received_bits: Cumulative,
    /// With retransmissions.
    sent_bits: Cumulative,
    /// The time of the flow's first sample, and the bytes written until then.
    first_written: Option<(i64, i64)>,
    /// The transmitted bytes of each link of the path.
    links: Vec<SentByLink<'a>>,
    /// Microseconds in which the hosts' processors and buses were busy.
    hosts: Vec<Cumulative>,
    /// Microseconds in which the ends of a file transfer waited for their files or for replies.
    file_waits: Option<FileWaitSeries>,
    /// The samples with a limit at one of the ends, in order of time.
    end_limits: Vec<(i64, EndLimit)>,
    /// The path's round-trip time, microseconds, where packets that skipped a delay made the kernel's minimum
    /// too small.
    min_rtt_us: Option<i64>,
    /// The rate that the fastest tenth of the round trips exceeds, bit/s; on a path that is not described.
    fastest_bps: f64,
    outstanding: Outstanding,
}

/// The data outstanding over time: time, segments, and segments retransmitted until then.
struct Outstanding(Vec<(i64, i64, i64)>);

impl Outstanding {
    /// Whether the data outstanding fell much within two round trips before or after a sample, and nothing
    /// was retransmitted then.
    fn is_in_bursts(&self, row: &FlowSample) -> bool {
        let around = 2 * row.srtt_us.unwrap_or(0);
        let from = self.0.partition_point(|(at, ..)| *at < row.time_us - around);
        let to = self.0.partition_point(|(at, ..)| *at <= row.time_us + around);
        let near = &self.0[from..to];
        let (Some(first), Some(last)) = (near.first(), near.last()) else { return false };
        let segments = || near.iter().map(|(_, segments, _)| *segments);
        let (min, max) = (segments().min().unwrap_or(0), segments().max().unwrap_or(0));
        first.2 == last.2 && (min as f64) < BURST_OUTSTANDING * max as f64
    }
}

impl<'a> History<'a> {
    fn new(rows: &[FlowSample], links: &LinkRows<'_>, context: &'a FlowContext) -> Self {
        let own = || rows.iter().filter(|row| row.flow == context.name);
        let (mut received_bits, mut sent_bits) = (Cumulative::default(), Cumulative::default());
        for row in own() {
            if let Some(bytes) = row.bytes_sent {
                sent_bits.push(row.time_us, bytes as f64 * 8.0);
            }
            if let Some(bytes) = row.bytes_received.or(row.bytes_acked) {
                received_bits.push(row.time_us, bytes as f64 * 8.0);
            }
        }
        let fastest_bps = if context.unknown_path { fastest_rate(own(), &received_bits) } else { 0.0 };
        let end_limits = own().filter(|_| !context.virtual_time);
        let outstanding = own()
            .filter_map(|row| Some((row.time_us, row.unacked_segs?, row.total_retrans_segs.unwrap_or(0))));
        History {
            received_bits,
            sent_bits,
            first_written: own().find_map(|row| Some((row.time_us, written(row)?))),
            links: context.path.iter().map(|link| SentByLink::of(links, link)).collect(),
            hosts: context.host_loads.iter().map(HostLoad::series).collect(),
            file_waits: context.file_waits.as_ref().map(FileWaitSeries::of),
            end_limits: end_limits.filter_map(|row| Some((row.time_us, end_limit(row)?))).collect(),
            min_rtt_us: round_trip_despite_reordering(own()),
            fastest_bps,
            outstanding: Outstanding(outstanding.collect()),
        }
    }

    /// The window or buffer in whose burst a sample falls: the one that limits the sample nearest in time, at
    /// most one round trip away.
    fn limit_of_burst(&self, row: &FlowSample) -> Option<Cause> {
        let after = self.end_limits.partition_point(|(at, _)| *at < row.time_us);
        let around = &self.end_limits[after.saturating_sub(1)..self.end_limits.len().min(after + 1)];
        let distance = |at: i64| (at - row.time_us).abs();
        let (at, limit) = around.iter().min_by_key(|(at, _)| distance(*at))?;
        match limit {
            EndLimit::Buffer(cause) if distance(*at) <= row.srtt_us.unwrap_or(0) => Some(*cause),
            _ => None,
        }
    }

    /// Whether the writer is behind its requested rate. It then catches up and has no reason to wait.
    fn is_behind(&self, row: &FlowSample, requested_bps: f64) -> bool {
        let (Some((from_us, before)), Some(written)) = (self.first_written, written(row)) else {
            return false;
        };
        let requested = requested_bps / 8.0 * (row.time_us - from_us) as f64 * 1e-6;
        let done = (written - before) as f64;
        done + requested_bps / 8.0 * BEHIND_S + BEHIND_BYTES < requested
    }

    /// The mean rate at which the sender sent between two instants, bit/s; `None` if it had then sent
    /// everything, or its counter is unknown.
    fn sent_unless_all(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let (_, end) = self.sent_bits.span_us()?;
        let has_more = self.sent_bits.at(to_us) < self.sent_bits.at(end);
        has_more.then(|| self.sent_bits.rate(from_us, to_us)).flatten()
    }

    /// Whether a host was busy all the time between two instants.
    fn has_busy_host(&self, from_us: i64, to_us: i64) -> bool {
        let share = |busy: &Cumulative| busy.rate(from_us, to_us).map(|us_per_s| us_per_s * 1e-6);
        self.hosts.iter().filter_map(share).any(|share| share >= BUSY)
    }

    /// The limit of a sample that is not in the network and that no socket shows: a busy host, or a wait for
    /// a file.
    fn limit_of_hosts(&self, row: &FlowSample, from_us: i64, to_us: i64) -> Option<Judgement> {
        if self.has_busy_host(from_us, to_us) {
            return Some(Judgement::Limit(Cause::HostCpu));
        }
        let wait = self.file_waits.as_ref()?.longest_at(row.time_us, from_us, to_us)?;
        // While data is on its way the reply cannot arrive yet: the network limits.
        let is_on_its_way = row.unacked_segs.is_some_and(|segments| segments > 0);
        let is_limit = wait != FileWait::Replies || !is_on_its_way;
        is_limit.then_some(Judgement::Limit(Cause::Application))
    }

    /// Whether the path was full of data between two instants: its fullest link, or by the goodput where no
    /// link was sampled.
    fn is_full(&self, from_us: i64, to_us: i64, wire_limit_bps: Option<f64>) -> bool {
        let goodput = || self.received_bits.rate(from_us, to_us).unwrap_or(0.0);
        match self.utilization(from_us, to_us) {
            Some(utilization) => utilization >= FULL,
            None => wire_limit_bps.is_some_and(|limit| goodput() >= FULL * limit),
        }
    }

    /// The utilization of the fullest link between two instants.
    fn utilization(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let used = |link: &SentByLink| link.utilization(from_us, to_us);
        self.links.iter().filter_map(used).reduce(f64::max)
    }
}

/// Applies the rules of the module's documentation to one sample.
fn judge(
    row: &FlowSample,
    history: &History<'_>,
    context: &FlowContext,
    reductions: &Reductions,
) -> Option<Judgement> {
    if context.is_rate_controlled {
        return rate_control::judge(row, history, context, reductions);
    }
    let mss = row.snd_mss_bytes? as f64;
    let outstanding = row.unacked_segs? as f64 * mss;
    let cwnd = row.snd_cwnd_segs.map(|segments| segments as f64 * mss);
    let half = (row.srtt_us.unwrap_or(0) * RATE_ROUND_TRIPS / 2).max(1);
    let (from, to) = (row.time_us - half, row.time_us + half);
    let goodput = history.received_bits.rate(from, to).unwrap_or(0.0);
    let has_whole_path = context.wire_limit_bps.is_some_and(|limit| goodput >= WHOLE * limit);
    let is_full_of_data = history.is_full(from, to, context.wire_limit_bps);
    let is_full = is_full_of_data || context.full_ack_link.is_some();
    if is_full_of_data && has_whole_path {
        return Some(Judgement::Limit(Cause::PathRate));
    }
    if let Some(limit) = history.limit_of_hosts(row, from, to) {
        return Some(limit);
    }
    if !is_full && silence::is_path_silent(row, history) {
        return Some(Judgement::Limit(Cause::Loss));
    }
    let end_limit = end_limit(row);
    if end_limit.is_none() && is_sending_end_unknown(row) {
        return None;
    }
    // A writer without data sustains no queue, but its single segments wait for delayed ACKs, which lengthens
    // the round-trip time too.
    let is_idle = matches!(end_limit, Some(EndLimit::Application(SlowEnd::Writer)));
    let limit_of_burst = history.limit_of_burst(row);
    let is_own_burst = limit_of_burst.is_some() && goodput < IN_BURSTS * history.fastest_bps;
    let may_be_full = context.unknown_path && !is_own_burst;
    if may_be_full && !is_idle && has_standing_queue(row, history, STANDING_QUEUE_PART_OF_BURSTS) {
        return Some(Judgement::Limit(Cause::PathRate));
    }
    if let Some(limit) = end_limit {
        return Some(match limit {
            EndLimit::Buffer(cause) => judge_buffer(cause, row, history, context),
            EndLimit::Application(end) => judge_slow_end(end, row, history, context),
        });
    }
    // A capture shows no send buffer, whose bursts queue behind themselves.
    let may_be_burst = limit_of_burst.is_some() || cwnd.is_none();
    let part = if may_be_burst { STANDING_QUEUE_PART_OF_BURSTS } else { STANDING_QUEUE_PART };
    if is_full || (may_be_full && has_standing_queue(row, history, part)) {
        return Some(Judgement::Limit(Cause::PathRate));
    }
    // A full path, or a burst of a send buffer that the capture does not show.
    if cwnd.is_none() && has_standing_queue(row, history, STANDING_QUEUE_PART) {
        return None;
    }
    let is_reduced = row.ca_state.is_some_and(|state| state == CWR || LOSS_STATES.contains(&state));
    // A capture has no congestion window: it was certainly full only shortly after a reduction, and not where
    // the flow sends in bursts.
    let Some(cwnd) = cwnd else {
        let may_be_full = outstanding > 0.0 && (is_reduced || !history.outstanding.is_in_bursts(row));
        return reductions.recent(row).filter(|_| may_be_full).map(Judgement::Limit);
    };
    if is_reduced || outstanding >= CWND_FILLED * cwnd {
        return Some(Judgement::Limit(reductions.latest.unwrap_or(Cause::SlowStart)));
    }
    if let Some(cause) = limit_of_burst {
        return Some(judge_buffer(cause, row, history, context));
    }
    let is_paced = row.pacing_rate_bps.is_some_and(|rate| goodput >= PACED * rate as f64);
    if is_paced {
        let is_requested = context.pacing_bps.is_some_and(|rate| goodput >= PACED * rate);
        let before = history.received_bits.rate(from - 2 * half, to - 2 * half);
        if context.unknown_path && !is_requested && before.is_some_and(|before| goodput <= GROWS * before) {
            return Some(Judgement::Limit(Cause::PathRate));
        }
        return Some(Judgement::Limit(if is_requested || reductions.latest.is_some() {
            Cause::Pacing
        } else {
            Cause::SlowStart
        }));
    }
    // The pipe is being refilled: the link is full from now on, although it was not before.
    let soon = row.time_us + half / RATE_ROUND_TRIPS;
    if history.utilization(row.time_us, soon).is_some_and(|share| share >= FULL) {
        return Some(Judgement::Limit(Cause::PathRate));
    }
    // Packets of a low rate can be further apart than the round trips of which rule 6 takes the goodput.
    if context.pacing_bps.is_some_and(|rate| !history.is_behind(row, rate)) {
        return Some(Judgement::Limit(Cause::Pacing));
    }
    if context.virtual_time {
        let is_full = buffer_is_full(row);
        return Some(Judgement::Limit(if is_full { Cause::SendBuffer } else { Cause::Pacing }));
    }
    Some(Judgement::Limit(Cause::HostCpu))
}

/// The cause if a window or buffer is full. A block may fill it for a moment although the writer keeps its
/// requested rate.
fn judge_buffer(cause: Cause, row: &FlowSample, history: &History<'_>, context: &FlowContext) -> Judgement {
    Judgement::Limit(requested_rate_cause(row, history, context).unwrap_or(cause))
}

/// The cause if an application does not keep up. Other programs may be slow themselves; longfat's generator
/// is slow only on request.
fn judge_slow_end(end: SlowEnd, row: &FlowSample, history: &History<'_>, context: &FlowContext) -> Judgement {
    let Some(generator) = &context.generator else { return Judgement::Limit(Cause::Application) };
    let is_whole = |size: u64| written(row).is_some_and(|written| written as u64 >= size);
    Judgement::Limit(match end {
        SlowEnd::Reader if generator.read_bps.is_some() || generator.reader_pauses => Cause::Application,
        SlowEnd::Writer if generator.size_bytes.is_some_and(is_whole) => return Judgement::AllSent,
        SlowEnd::Writer if generator.write_bps.is_some_and(|rate| !history.is_behind(row, rate)) => {
            Cause::Application
        }
        SlowEnd::Writer if context.pacing_bps.is_some_and(|rate| !history.is_behind(row, rate)) => {
            Cause::Pacing
        }
        _ if generator.uses_file => Cause::Application,
        // In virtual time the writer runs as soon as its buffer has space.
        SlowEnd::Writer if context.virtual_time => Cause::SendBuffer,
        _ => Cause::HostCpu,
    })
}

/// The cause where our own writer keeps its requested rate: the rate itself limits the flow.
fn requested_rate_cause(row: &FlowSample, history: &History<'_>, context: &FlowContext) -> Option<Cause> {
    let generator = context.generator.as_ref()?;
    let keeps = |rate: Option<f64>| rate.is_some_and(|rate| !history.is_behind(row, rate));
    if keeps(generator.write_bps) {
        return Some(Cause::Application);
    }
    keeps(context.pacing_bps).then_some(Cause::Pacing)
}

/// Payload bytes that the application had written.
fn written(row: &FlowSample) -> Option<i64> {
    // The kernel counts the SYN as one acknowledged byte.
    let acked = row.bytes_acked.map(|acked| (acked - 1).max(0)).or(row.bytes_received)?;
    Some(acked + row.unacked_segs? * row.snd_mss_bytes? + row.notsent_bytes?)
}

/// The rate within one round trip that is exceeded in the fastest tenth of the samples, bit/s.
fn fastest_rate<'a>(rows: impl Iterator<Item = &'a FlowSample>, received_bits: &Cumulative) -> f64 {
    let rate = |row: &FlowSample| received_bits.rate(row.time_us - row.srtt_us?, row.time_us);
    let mut rates: Vec<f64> = rows.filter_map(rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.get((rates.len() as f64 * FASTEST) as usize).copied().unwrap_or(0.0)
}

/// The path's round-trip time, if packets that overtook others made the minimum too small: a low quantile of
/// the smoothed round-trip times, and at most that of the handshake if the samples do not show whether
/// packets were reordered.
fn round_trip_despite_reordering<'a>(rows: impl Iterator<Item = &'a FlowSample> + Clone) -> Option<i64> {
    let minimum = || rows.clone().filter_map(|row| row.min_rtt_us);
    let mut smoothed: Vec<i64> = rows.clone().filter_map(|row| row.srtt_us).collect();
    smoothed.sort_unstable();
    let small = *smoothed.get((smoothed.len() as f64 * (1.0 - FASTEST)) as usize)?;
    let path = match rows.clone().filter_map(|row| row.reord_seen).max() {
        Some(0) => return None,
        Some(_) => small,
        None => minimum().next()?.min(small),
    };
    (path as f64 >= OVERTAKEN * minimum().min()? as f64).then_some(path)
}

/// Whether the path has a standing queue, of at least the minimum round-trip time divided by `part`.
fn has_standing_queue(row: &FlowSample, history: &History<'_>, part: i64) -> bool {
    let (minimum, part) = match history.min_rtt_us {
        Some(estimate) => (Some(estimate), part.min(STANDING_QUEUE_PART_OF_ESTIMATE)),
        None => (row.min_rtt_us.filter(|rtt| *rtt > 0), part),
    };
    let (Some(srtt), Some(min_rtt)) = (row.srtt_us, minimum) else { return false };
    let variation = STANDING_QUEUE_DEVIATIONS * row.rttvar_us.unwrap_or(0);
    let min_rtt = if min_rtt % TIMESTAMP_TICK_US == 0 { min_rtt + TIMESTAMP_TICK_US } else { min_rtt };
    srtt - min_rtt >= (min_rtt / part).max(MIN_STANDING_QUEUE_US).max(variation)
}

/// A limit at one of the ends, outside the network.
#[derive(Debug, Clone, Copy)]
enum EndLimit {
    /// The peer's window or the send buffer.
    Buffer(Cause),
    /// An application that does not keep up.
    Application(SlowEnd),
}

/// The limit at one of the ends, if there is one.
fn end_limit(row: &FlowSample) -> Option<EndLimit> {
    let mss = row.snd_mss_bytes? as f64;
    let outstanding = row.unacked_segs? as f64 * mss;
    let unread = row.rcv_queue_bytes.unwrap_or(0) as f64;
    if let Some(window) = row.snd_wnd_bytes.map(|window| window as f64) {
        // A segment that does not fit whole leaves a gap at the window's end.
        let is_filled = outstanding + mss >= window || outstanding >= FILLED * window;
        let advertised = row.rcv_wnd_bytes.map_or(window, |w| w as f64).max(mss);
        if is_filled {
            let is_unread = unread >= UNREAD * advertised;
            return Some(if is_unread {
                EndLimit::Application(SlowEnd::Reader)
            } else {
                EndLimit::Buffer(Cause::ReceiveWindow)
            });
        }
    }
    if !is_all_sent(row)? {
        return None;
    }
    let cwnd = row.snd_cwnd_segs? as f64 * mss;
    row.wmem_queued_bytes?;
    match (buffer_is_full(row), outstanding >= CWND_FILLED * cwnd) {
        // Nothing waits for the congestion window, so it does not limit the flow, even if it is full too.
        (true, _) => Some(EndLimit::Buffer(Cause::SendBuffer)),
        (false, true) => None,
        (false, false) => Some(EndLimit::Application(SlowEnd::Writer)),
    }
}

/// Whether no written data waits to be sent; `None` if this is unknown.
fn is_all_sent(row: &FlowSample) -> Option<bool> {
    let few = (2 * row.snd_mss_bytes?).max(row.sndbuf_bytes.unwrap_or(0) / 20);
    Some(row.notsent_bytes? <= few)
}

/// Whether the writer or its buffer was the limit, and the sample lacks the buffer's use, which shows which
/// of them: nothing waited to be sent, and the congestion window was not full.
fn is_sending_end_unknown(row: &FlowSample) -> bool {
    let is_cwnd_filled = row
        .unacked_segs
        .zip(row.snd_cwnd_segs)
        .is_none_or(|(outstanding, cwnd)| outstanding as f64 >= CWND_FILLED * cwnd as f64);
    row.wmem_queued_bytes.is_none() && is_all_sent(row) == Some(true) && !is_cwnd_filled
}

/// Whether a write would block.
fn buffer_is_full(row: &FlowSample) -> bool {
    let (queued, sndbuf) = (row.wmem_queued_bytes.unwrap_or(0) as f64, row.sndbuf_bytes.unwrap_or(0) as f64);
    sndbuf > 0.0 && queued >= BUFFER_FULL * sndbuf
}
