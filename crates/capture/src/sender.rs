//! One direction of a connection: the sender's data, and the ACKs for it, as both passed the capture point.
//!
//! - Segments that were seen before are retransmissions. So are segments that fill a gap older than 3 ms: the
//!   original was lost before the capture point. A segment that fills a younger gap was reordered (Wireshark
//!   uses the same time).
//! - A captured packet may be a super-packet that the device splits (TSO). It counts as the segments of at
//!   most one MSS that leave the host.
//! - A round-trip time is the time from a segment to the ACK that covers it. There is none if a covered
//!   segment was retransmitted (Karn's algorithm), or if its ACK waited for an earlier segment. As in the
//!   kernel, the oldest covered segment counts for the smoothed time (RFC 6298) and the newest for the
//!   minimum. The round-trip time between the sender and the capture point is added, see
//!   [`crate::sender_side_rtt`].

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use schema::{Event, EventKind, FlowSample, TraceKind, TraceRow};

use crate::sender_side_rtt::SenderSideRtt;

/// A gap that is filled within this time is reordering and not a loss, nanoseconds.
const MAX_REORDERING_NS: u64 = 3_000_000;
/// Maximum number of segments that wait for their ACKs; a capture of one direction contains no ACKs.
const MAX_PENDING_SEGMENTS: usize = 1 << 20;
/// Maximum number of gaps that are remembered.
const MAX_GAPS: usize = 1 << 16;

/// The rows of all flows so far.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) events: Vec<Event>,
    pub(crate) trace: Vec<TraceRow>,
}

/// The receive window that a segment advertises.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AdvertisedWindow {
    /// A reset advertises no window.
    None,
    /// Bytes.
    Bytes(u32),
    /// The window is open; its size is unknown without the window scale of the SYNs.
    Open {
        /// The unscaled field of the header.
        field: u16,
    },
}

/// The contents of an ACK other than its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckInfo {
    /// Receive window.
    pub(crate) window: AdvertisedWindow,
    pub(crate) sack_blocks: u8,
    /// Whether it reports congestion marks; in a SYN this flag has another meaning.
    pub(crate) reports_marks: bool,
}

/// The sender of one flow; see the module's documentation.
#[derive(Debug)]
pub(crate) struct FlowSender {
    pub(crate) name: String,
    /// Interval between two rows, nanoseconds.
    interval_ns: u64,
    /// The sequence number at offset 0; `sent`, `acked` and gaps are byte offsets from there.
    first_seq: Option<u32>,
    sent: i64,
    acked: i64,
    pending: VecDeque<PendingSegment>,
    /// Gaps in the sequence, by the offset of their first byte.
    gaps: BTreeMap<i64, Gap>,
    pub(crate) mss: u32,
    /// The peer's window, bytes; `None` if it is unknown.
    window: Option<u32>,
    is_window_closed: bool,
    rtt: RttEstimator,
    pub(crate) sender_side_rtt: SenderSideRtt,
    /// Time of its latest data.
    last_data_ns: Option<u64>,
    bytes_sent: u64,
    retransmitted_bytes: u64,
    segments: u64,
    retransmitted_segments: u64,
    /// Retransmitted segments whose first transmission was lost before the capture point.
    pub(crate) lost_before_capture: u64,
    /// Segments that ACKs acknowledged in order.
    delivered_segments: u64,
    /// Of these, those that ACKs with ECN echo acknowledged, as the kernel counts them
    /// (`tcp_newly_delivered`).
    marked_segments: u64,
    /// Times when its first and last data or ACK passed.
    pub(crate) span_ns: Option<(u64, u64)>,
    next_row_ns: u64,
    last_row: Option<(u64, i64)>,
    has_unreported_changes: bool,
}

#[derive(Debug, Clone, Copy)]
struct PendingSegment {
    end: i64,
    time_ns: u64,
    /// Whether it yields no round-trip time: it was retransmitted, or its ACK waits for an earlier segment
    /// that arrived late.
    is_ambiguous: bool,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    end: i64,
    since_ns: u64,
}

/// The gap that the bytes of a segment fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// No gap: the bytes are new, or were captured before.
    Nothing,
    /// A young gap: the segment was reordered.
    Reordered,
    /// An older gap: the first transmission was lost before the capture point.
    Lost,
}

/// RFC 6298 section 2, in nanoseconds.
#[derive(Debug, Default, Clone, Copy)]
struct RttEstimator {
    smoothed: Option<u64>,
    variation: u64,
    min: Option<u64>,
}

impl RttEstimator {
    /// Adds a measurement: `sample` for the smoothed time, `shortest` for the minimum.
    fn add(&mut self, sample: u64, shortest: u64) {
        self.min = Some(self.min.map_or(shortest, |min| min.min(shortest)));
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(sample), sample / 2),
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((7 * smoothed + sample) / 8);
            }
        }
    }
}

impl FlowSender {
    pub(crate) fn new(name: String, interval: Duration) -> Self {
        FlowSender {
            name,
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1),
            first_seq: None,
            sent: 0,
            acked: 0,
            pending: VecDeque::new(),
            gaps: BTreeMap::new(),
            mss: 0,
            window: None,
            is_window_closed: false,
            rtt: RttEstimator::default(),
            sender_side_rtt: SenderSideRtt::default(),
            last_data_ns: None,
            bytes_sent: 0,
            retransmitted_bytes: 0,
            segments: 0,
            retransmitted_segments: 0,
            lost_before_capture: 0,
            delivered_segments: 0,
            marked_segments: 0,
            span_ns: None,
            next_row_ns: 0,
            last_row: None,
            has_unreported_changes: false,
        }
    }

    /// Whether it sent data.
    pub(crate) fn has_data(&self) -> bool {
        self.segments > 0
    }

    /// Payload that was acknowledged in order, bytes; if no ACKs were captured, payload sent without
    /// retransmissions.
    pub(crate) fn delivered(&self) -> u64 {
        u64::try_from(if self.acked > 0 { self.acked } else { self.sent }).unwrap_or(0)
    }

    /// Updates the sender-side round-trip time when data passes. `since_ack_ns` is the age of the ACK whose
    /// timestamp this data is the first to echo, if any.
    pub(crate) fn measure_sender_side_rtt(&mut self, now_ns: u64, since_ack_ns: Option<u64>) {
        let last = self.last_data_ns.replace(now_ns);
        if let Some(since_ack_ns) = since_ack_ns {
            let silent_ns = last.map_or(u64::MAX, |last| now_ns.saturating_sub(last));
            self.sender_side_rtt.add_echo(since_ack_ns, silent_ns);
        }
    }

    /// Sets the sequence number of the first data byte.
    pub(crate) fn set_first_seq(&mut self, seq: u32) {
        self.first_seq.get_or_insert(seq);
    }

    /// Converts a sequence number to an offset: the one nearest to the latest sent byte.
    fn offset(&mut self, seq: u32) -> i64 {
        let first_seq = *self.first_seq.get_or_insert(seq);
        let sent = first_seq.wrapping_add(self.sent as u32);
        self.sent + i64::from(seq.wrapping_sub(sent) as i32)
    }

    /// Whether the byte before a sequence number was sent.
    pub(crate) fn has_sent(&self, seq: u32) -> bool {
        let sent = |first_seq: u32| first_seq.wrapping_add(self.sent as u32);
        self.first_seq.is_some_and(|first_seq| seq.wrapping_sub(sent(first_seq)) as i32 <= 0)
    }

    /// Processes a segment with payload.
    pub(crate) fn on_data(&mut self, now_ns: u64, seq: u32, payload: u32, rows: &mut Rows) {
        let begin = self.offset(seq);
        let end = begin + i64::from(payload);
        if payload <= 1 && begin < self.acked {
            // Keep-alives repeat an acknowledged byte.
            return;
        }
        self.advance(now_ns, rows);
        let filled = self.fill_gaps(now_ns, begin, end);
        let is_retransmission = filled != Filled::Reordered && begin < self.sent;
        if begin < self.sent {
            // ACKs of later segments wait for this one.
            let first = self.pending.partition_point(|p| p.end <= begin);
            self.pending.iter_mut().skip(first).for_each(|p| p.is_ambiguous = true);
        }
        let segments = u64::from(payload.div_ceil(self.mss.max(1)));
        self.segments += segments;
        self.bytes_sent += u64::from(payload);
        if is_retransmission {
            self.retransmitted_segments += segments;
            self.retransmitted_bytes += u64::from(payload);
            if filled == Filled::Lost {
                self.lost_before_capture += segments;
            }
            self.push_event(now_ns, EventKind::Retransmit, segments as i64, rows);
        }
        if begin > self.sent && self.gaps.len() < MAX_GAPS {
            self.gaps.insert(self.sent, Gap { end: begin, since_ns: now_ns });
        }
        if end > self.sent {
            self.sent = end;
            if self.pending.len() == MAX_PENDING_SEGMENTS {
                self.pending.pop_front();
            }
            self.pending.push_back(PendingSegment { end, time_ns: now_ns, is_ambiguous: is_retransmission });
        }
        let kind = if is_retransmission { TraceKind::Retransmit } else { TraceKind::Sent };
        let trace = TraceRow {
            seq_bytes: Some(begin),
            len_bytes: Some(payload.into()),
            ..self.trace_row(now_ns, kind)
        };
        rows.trace.push(trace);
    }

    /// Closes the gaps that these bytes fill. Returns the kind of gap.
    fn fill_gaps(&mut self, now_ns: u64, begin: i64, end: i64) -> Filled {
        if begin >= self.sent {
            return Filled::Nothing;
        }
        let filled: Vec<(i64, Gap)> = self
            .gaps
            .range(..end)
            .rev()
            .take_while(|(_, gap)| gap.end > begin)
            .map(|(begin, gap)| (*begin, *gap))
            .collect();
        let is_young = |gap: &Gap| now_ns.saturating_sub(gap.since_ns) < MAX_REORDERING_NS;
        let is_within_one_gap = filled.len() == 1 && filled[0].0 <= begin && filled[0].1.end >= end;
        for (gap_begin, gap) in &filled {
            self.gaps.remove(gap_begin);
            if *gap_begin < begin {
                self.gaps.insert(*gap_begin, Gap { end: begin, ..*gap });
            }
            if gap.end > end {
                self.gaps.insert(end, *gap);
            }
        }
        match filled.is_empty() {
            true => Filled::Nothing,
            false if is_within_one_gap && is_young(&filled[0].1) => Filled::Reordered,
            false => Filled::Lost,
        }
    }

    /// Processes an ACK of this sender's data.
    pub(crate) fn on_ack(&mut self, now_ns: u64, ack: u32, info: AckInfo, rows: &mut Rows) {
        // The ACK of a FIN is one above the last byte.
        let acked = self.offset(ack).min(self.sent);
        self.advance(now_ns, rows);
        let mut oldest: Option<PendingSegment> = None;
        let mut newest: Option<PendingSegment> = None;
        let mut is_ambiguous = false;
        while let Some(first) = self.pending.front().copied().filter(|p| p.end <= acked) {
            self.pending.pop_front();
            is_ambiguous |= first.is_ambiguous;
            oldest = oldest.or(Some(first));
            newest = Some(first);
        }
        if let (Some(oldest), Some(newest), false) = (oldest, newest, is_ambiguous) {
            let since = |segment: PendingSegment| {
                now_ns.saturating_sub(segment.time_ns) + self.sender_side_rtt.current_ns()
            };
            self.rtt.add(since(oldest), since(newest));
        }
        if acked > self.acked {
            let segments = ((acked - self.acked) as u64).div_ceil(u64::from(self.mss.max(1)));
            self.delivered_segments += segments;
            self.marked_segments += if info.reports_marks { segments } else { 0 };
        }
        self.acked = self.acked.max(acked);
        self.set_window(now_ns, info.window, rows);
        if !self.has_data() {
            return;
        }
        let kind = if info.sack_blocks > 0 { TraceKind::Sack } else { TraceKind::Ack };
        let trace = TraceRow {
            ack_bytes: Some(acked),
            sack_blocks: Some(info.sack_blocks.into()),
            ..self.trace_row(now_ns, kind)
        };
        rows.trace.push(trace);
    }

    /// Updates the peer's window, and records when it closes and opens.
    fn set_window(&mut self, now_ns: u64, window: AdvertisedWindow, rows: &mut Rows) {
        let (bytes, size) = match window {
            AdvertisedWindow::None => return,
            AdvertisedWindow::Bytes(bytes) => (Some(bytes), i64::from(bytes)),
            AdvertisedWindow::Open { field } => (None, i64::from(field)),
        };
        match (self.is_window_closed, bytes == Some(0)) {
            (false, true) => self.push_event(now_ns, EventKind::ZeroWindow, 0, rows),
            (true, false) => self.push_event(now_ns, EventKind::WindowOpen, size, rows),
            _ => {}
        }
        (self.window, self.is_window_closed) = (bytes, bytes == Some(0));
    }

    /// Advances the time to a packet: writes the rows that are due before it.
    fn advance(&mut self, now_ns: u64, rows: &mut Rows) {
        self.write_rows_until(now_ns, rows);
        self.has_unreported_changes = true;
        self.span_ns = Some((self.span_ns.map_or(now_ns, |(first, _)| first), now_ns));
    }

    /// Writes the rows that are due, at multiples of the interval: the first due row after the latest packet,
    /// and after a silence the last due row.
    fn write_rows_until(&mut self, now_ns: u64, rows: &mut Rows) {
        if self.last_row.is_none() {
            self.last_row = Some((now_ns, self.acked));
            self.next_row_ns = (now_ns / self.interval_ns + 1) * self.interval_ns;
            return;
        }
        if now_ns < self.next_row_ns {
            return;
        }
        if self.has_unreported_changes {
            self.write_row(self.next_row_ns, rows);
        }
        let passed = (now_ns - self.next_row_ns) / self.interval_ns;
        if passed > 0 {
            self.write_row(self.next_row_ns + passed * self.interval_ns, rows);
        }
        self.next_row_ns += (passed + 1) * self.interval_ns;
    }

    /// Writes the last row.
    pub(crate) fn finish(&mut self, rows: &mut Rows) {
        if let Some((_, last)) = self.span_ns.filter(|_| self.has_unreported_changes) {
            self.write_row(last.max(self.last_row.map_or(0, |(time_ns, _)| time_ns + 1000)), rows);
        }
    }

    fn write_row(&mut self, time_ns: u64, rows: &mut Rows) {
        let count = |n: u64| i64::try_from(n).ok();
        let us = |ns: u64| i64::try_from(ns / 1000).ok();
        let (last_ns, last_acked) = self.last_row.unwrap_or((time_ns, self.acked));
        let seconds = time_ns.saturating_sub(last_ns) as f64 * 1e-9;
        let goodput =
            (seconds > 0.0).then(|| ((self.acked - last_acked) as f64 * 8.0 / seconds).round() as i64);
        rows.flows.push(FlowSample {
            time_us: us(time_ns).unwrap_or(i64::MAX),
            flow: self.name.clone(),
            goodput_bps: goodput,
            snd_mss_bytes: Some(i64::from(self.mss)).filter(|mss| *mss > 0),
            snd_wnd_bytes: self.window.map(i64::from),
            unacked_segs: self.inflight(),
            total_retrans_segs: count(self.retransmitted_segments),
            bytes_acked: Some(self.acked),
            bytes_sent: count(self.bytes_sent),
            bytes_retrans: count(self.retransmitted_bytes),
            data_segs_out_segs: count(self.segments),
            delivered_segs: count(self.delivered_segments),
            delivered_ce_segs: count(self.marked_segments),
            srtt_us: self.rtt.smoothed.and_then(us),
            rttvar_us: self.rtt.smoothed.and_then(|_| us(self.rtt.variation)),
            min_rtt_us: self.rtt.min.and_then(us),
            ..FlowSample::default()
        });
        self.last_row = Some((time_ns, self.acked));
        self.has_unreported_changes = false;
    }

    fn inflight(&self) -> Option<i64> {
        let mss = i64::from(self.mss);
        (mss > 0).then(|| (self.sent - self.acked).max(0).saturating_add(mss - 1) / mss)
    }

    fn trace_row(&self, now_ns: u64, kind: TraceKind) -> TraceRow {
        let us = |ns: u64| i64::try_from(ns / 1000).ok();
        TraceRow {
            time_us: us(now_ns).unwrap_or(i64::MAX),
            flow: self.name.clone(),
            kind,
            inflight_segs: self.inflight(),
            srtt_us: self.rtt.smoothed.and_then(us),
            snd_wnd_bytes: self.window.map(i64::from),
            ..TraceRow::default()
        }
    }

    fn push_event(&self, now_ns: u64, kind: EventKind, value: i64, rows: &mut Rows) {
        let time_us = i64::try_from(now_ns / 1000).unwrap_or(i64::MAX);
        rows.events.push(Event { time_us, subject: self.name.clone(), kind, value });
    }
}
