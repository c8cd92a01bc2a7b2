//! One direction of a connection: what its sender sent, and what the ACKs say of it, as it passed where the packets were captured.
//!
//! - Segments that were seen before are retransmissions; so are those that fill a gap which is older than 3 ms, for the first try was
//!   lost before it came here. A younger gap is reordering (Wireshark takes the same time).
//! - Round-trip times are from a segment to the ACK that covers it, none where one of the segments covered was sent again (Karn), or waited for
//!   one before it that came late.
//!   As in the kernel the oldest of these segments counts for the smoothed time (RFC 6298) and the newest for the smallest.
//!   What lies between the sender and here is added, see [`crate::distance`].

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use schema::{Event, EventKind, FlowSample, TraceKind, TraceRow};

use crate::distance::Distance;

/// A gap that is filled within this time was no loss, nanoseconds.
const REORDERED_NS: u64 = 3_000_000;
/// Segments that may wait for their ACKs: of a capture of one direction none ever comes.
const PENDING_MOST: usize = 1 << 20;
/// Gaps that are remembered.
const GAPS_MOST: usize = 1 << 16;

/// Rows of what happened.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) events: Vec<Event>,
    pub(crate) trace: Vec<TraceRow>,
}

/// What an ACK says beside its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckSays {
    /// Scaled, where the scale is known.
    pub(crate) window: Option<u32>,
    pub(crate) sack_blocks: u8,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) name: String,
    /// Between two rows, nanoseconds.
    every_ns: u64,
    /// The sequence number at place 0; places count bytes from there.
    base: Option<u32>,
    sent: i64,
    acked: i64,
    pending: VecDeque<Pending>,
    /// By where they begin.
    gaps: BTreeMap<i64, Gap>,
    pub(crate) mss: u32,
    window: Option<u32>,
    rtt: Rtt,
    pub(crate) distance: Distance,
    /// When it last sent data.
    last_data_ns: Option<u64>,
    bytes_sent: u64,
    bytes_again: u64,
    segments: u64,
    segments_again: u64,
    /// First and last time that data or an ACK of it passed.
    pub(crate) span_ns: Option<(u64, u64)>,
    next_row_ns: u64,
    last_row: Option<(u64, i64)>,
    is_dirty: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    end: i64,
    at_ns: u64,
    /// It was sent again, or its ACK waits for a segment before it that was.
    waits: bool,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    end: i64,
    since_ns: u64,
}

/// RFC 6298 section 2, in nanoseconds.
#[derive(Debug, Default, Clone, Copy)]
struct Rtt {
    smoothed: Option<u64>,
    variation: u64,
    least: Option<u64>,
}

impl Rtt {
    /// `sample` is smoothed; `shortest` counts for the least.
    fn add(&mut self, sample: u64, shortest: u64) {
        self.least = Some(self.least.map_or(shortest, |least| least.min(shortest)));
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(sample), sample / 2),
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((7 * smoothed + sample) / 8);
            }
        }
    }
}

impl Sender {
    pub(crate) fn new(name: String, every: Duration) -> Self {
        Sender {
            name,
            every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1),
            base: None,
            sent: 0,
            acked: 0,
            pending: VecDeque::new(),
            gaps: BTreeMap::new(),
            mss: 0,
            window: None,
            rtt: Rtt::default(),
            distance: Distance::default(),
            last_data_ns: None,
            bytes_sent: 0,
            bytes_again: 0,
            segments: 0,
            segments_again: 0,
            span_ns: None,
            next_row_ns: 0,
            last_row: None,
            is_dirty: false,
        }
    }

    /// It sent data.
    pub(crate) fn has_data(&self) -> bool {
        self.segments > 0
    }

    /// Payload that was acknowledged in order; where no ACKs were captured, what was sent once.
    pub(crate) fn delivered(&self) -> u64 {
        u64::try_from(if self.acked > 0 { self.acked } else { self.sent }).unwrap_or(0)
    }

    /// Data passes, the first that echoes an ACK of `since_ack_ns` ago, or none of these.
    pub(crate) fn measure_distance(&mut self, now_ns: u64, since_ack_ns: Option<u64>) {
        let last = self.last_data_ns.replace(now_ns);
        if let Some(since_ack_ns) = since_ack_ns {
            let silent_ns = last.map_or(u64::MAX, |last| now_ns.saturating_sub(last));
            self.distance.add_echo(since_ack_ns, silent_ns);
        }
    }

    /// The first data byte's number.
    pub(crate) fn begin_at(&mut self, seq: u32) {
        self.base.get_or_insert(seq);
    }

    /// A number as a place, near what was sent last.
    fn place(&mut self, seq: u32) -> i64 {
        let base = *self.base.get_or_insert(seq);
        let sent = base.wrapping_add(self.sent as u32);
        self.sent + i64::from(seq.wrapping_sub(sent) as i32)
    }

    /// A segment with payload passes.
    pub(crate) fn sends(&mut self, now_ns: u64, seq: u32, payload: u32, rows: &mut Rows) {
        let begin = self.place(seq);
        let end = begin + i64::from(payload);
        if payload <= 1 && begin < self.acked {
            // Keep-alives repeat the byte before.
            return;
        }
        self.passes(now_ns, rows);
        let again = self.is_again(now_ns, begin, end);
        if begin < self.sent {
            // ACKs of what was sent after it wait for it.
            let first = self.pending.partition_point(|p| p.end <= begin);
            self.pending.iter_mut().skip(first).for_each(|p| p.waits = true);
        }
        self.segments += 1;
        self.bytes_sent += u64::from(payload);
        if again {
            self.segments_again += 1;
            self.bytes_again += u64::from(payload);
            self.event(now_ns, EventKind::Retransmit, 1, rows);
        }
        if begin > self.sent && self.gaps.len() < GAPS_MOST {
            self.gaps.insert(self.sent, Gap { end: begin, since_ns: now_ns });
        }
        if end > self.sent {
            self.sent = end;
            if self.pending.len() == PENDING_MOST {
                self.pending.pop_front();
            }
            self.pending.push_back(Pending { end, at_ns: now_ns, waits: again });
        }
        let kind = if again { TraceKind::Retransmit } else { TraceKind::Sent };
        let trace =
            TraceRow { seq_bytes: Some(begin), len_bytes: Some(payload.into()), ..self.trace(now_ns, kind) };
        rows.trace.push(trace);
    }

    /// Whether bytes were sent before; closes the gaps that they fill.
    fn is_again(&mut self, now_ns: u64, begin: i64, end: i64) -> bool {
        if begin >= self.sent {
            return false;
        }
        let filled: Vec<(i64, Gap)> = self
            .gaps
            .range(..end)
            .rev()
            .take_while(|(_, gap)| gap.end > begin)
            .map(|(at, gap)| (*at, *gap))
            .collect();
        let young = |gap: &Gap| now_ns.saturating_sub(gap.since_ns) < REORDERED_NS;
        let fits = filled.len() == 1 && filled[0].0 <= begin && filled[0].1.end >= end;
        for (at, gap) in &filled {
            self.gaps.remove(at);
            if *at < begin {
                self.gaps.insert(*at, Gap { end: begin, ..*gap });
            }
            if gap.end > end {
                self.gaps.insert(end, *gap);
            }
        }
        !(fits && young(&filled[0].1))
    }

    /// An ACK of what it sent passes.
    pub(crate) fn hears(&mut self, now_ns: u64, ack: u32, says: AckSays, rows: &mut Rows) {
        // An ACK of the end of a connection is one above its last byte.
        let acked = self.place(ack).min(self.sent);
        self.passes(now_ns, rows);
        let mut oldest: Option<Pending> = None;
        let mut newest: Option<Pending> = None;
        let mut waited = false;
        while let Some(first) = self.pending.front().copied().filter(|p| p.end <= acked) {
            self.pending.pop_front();
            waited |= first.waits;
            oldest = oldest.or(Some(first));
            newest = Some(first);
        }
        if let (Some(oldest), Some(newest), false) = (oldest, newest, waited) {
            let since = |segment: Pending| now_ns.saturating_sub(segment.at_ns) + self.distance.now_ns();
            self.rtt.add(since(oldest), since(newest));
        }
        self.acked = self.acked.max(acked);
        if let Some(window) = says.window {
            match (self.window, window) {
                (None | Some(1..), 0) => self.event(now_ns, EventKind::ZeroWindow, 0, rows),
                (Some(0), 1..) => self.event(now_ns, EventKind::WindowOpen, window.into(), rows),
                _ => {}
            }
            self.window = Some(window);
        }
        if !self.has_data() {
            return;
        }
        let kind = if says.sack_blocks > 0 { TraceKind::Sack } else { TraceKind::Ack };
        let trace = TraceRow {
            ack_bytes: Some(acked),
            sack_blocks: Some(says.sack_blocks.into()),
            ..self.trace(now_ns, kind)
        };
        rows.trace.push(trace);
    }

    /// Something happens now: the rows that were due before are written, and this will be in the next.
    fn passes(&mut self, now_ns: u64, rows: &mut Rows) {
        self.row_until(now_ns, rows);
        self.is_dirty = true;
        self.span_ns = Some((self.span_ns.map_or(now_ns, |(first, _)| first), now_ns));
    }

    /// Writes the rows that are due at multiples of the interval: one after what happened, and one where a silence ends.
    fn row_until(&mut self, now_ns: u64, rows: &mut Rows) {
        if self.last_row.is_none() {
            self.last_row = Some((now_ns, self.acked));
            self.next_row_ns = (now_ns / self.every_ns + 1) * self.every_ns;
            return;
        }
        if now_ns < self.next_row_ns {
            return;
        }
        if self.is_dirty {
            self.row(self.next_row_ns, rows);
        }
        let passed = (now_ns - self.next_row_ns) / self.every_ns;
        if passed > 0 {
            self.row(self.next_row_ns + passed * self.every_ns, rows);
        }
        self.next_row_ns += (passed + 1) * self.every_ns;
    }

    /// The last row.
    pub(crate) fn end(&mut self, rows: &mut Rows) {
        if let Some((_, last)) = self.span_ns.filter(|_| self.is_dirty) {
            self.row(last.max(self.last_row.map_or(0, |(at, _)| at + 1000)), rows);
        }
    }

    fn row(&mut self, at_ns: u64, rows: &mut Rows) {
        let count = |n: u64| i64::try_from(n).ok();
        let us = |ns: u64| i64::try_from(ns / 1000).ok();
        let (last_ns, last_acked) = self.last_row.unwrap_or((at_ns, self.acked));
        let seconds = at_ns.saturating_sub(last_ns) as f64 * 1e-9;
        let goodput =
            (seconds > 0.0).then(|| ((self.acked - last_acked) as f64 * 8.0 / seconds).round() as i64);
        rows.flows.push(FlowSample {
            time_us: us(at_ns).unwrap_or(i64::MAX),
            flow: self.name.clone(),
            goodput_bps: goodput,
            snd_mss_bytes: Some(i64::from(self.mss)).filter(|mss| *mss > 0),
            snd_wnd_bytes: self.window.map(i64::from),
            unacked_segs: self.inflight(),
            total_retrans_segs: count(self.segments_again),
            bytes_acked: Some(self.acked),
            bytes_sent: count(self.bytes_sent),
            bytes_retrans: count(self.bytes_again),
            data_segs_out_segs: count(self.segments),
            srtt_us: self.rtt.smoothed.and_then(us),
            rttvar_us: self.rtt.smoothed.and_then(|_| us(self.rtt.variation)),
            min_rtt_us: self.rtt.least.and_then(us),
            ..FlowSample::default()
        });
        self.last_row = Some((at_ns, self.acked));
        self.is_dirty = false;
    }

    fn inflight(&self) -> Option<i64> {
        let mss = i64::from(self.mss);
        (mss > 0).then(|| (self.sent - self.acked).max(0).saturating_add(mss - 1) / mss)
    }

    fn trace(&self, now_ns: u64, kind: TraceKind) -> TraceRow {
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

    fn event(&self, now_ns: u64, kind: EventKind, value: i64, rows: &mut Rows) {
        let time_us = i64::try_from(now_ns / 1000).unwrap_or(i64::MAX);
        rows.events.push(Event { time_us, subject: self.name.clone(), kind, value });
    }
}
