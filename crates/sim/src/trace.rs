//! The trace of a flow's sender: a row for each segment sent and each ACK received.

use engine_common::time_us;
use schema::{TraceKind, TraceRow};
use tcp::{Endpoint, Segment, TcpSock};
use units::Instant;

/// The trace of one flow.
#[derive(Debug)]
pub(crate) struct Trace {
    flow: String,
    /// Bytes of data sent so far, retransmissions not included.
    sent: u64,
    /// The sequence number after the data sent so far.
    next: u32,
    /// Rows added since the caller last took them.
    pub(crate) rows: Vec<TraceRow>,
}

impl Trace {
    pub(crate) fn new(flow: &str, sender: &Endpoint) -> Self {
        let next = sender.config().initial_seq.wrapping_add(1);
        Trace { flow: flow.to_owned(), sent: 0, next, rows: Vec::new() }
    }

    /// Adds a row for a segment that the sender transmits; ignores segments without data.
    pub(crate) fn on_segment_sent(&mut self, now: Instant, sk: &TcpSock, segment: &Segment) {
        if segment.len == 0 {
            return;
        }
        let seq = self.stream_offset(segment.seq);
        let end = seq.saturating_add(u64::from(segment.len));
        let kind = if end > self.sent { TraceKind::Sent } else { TraceKind::Retransmit };
        if end > self.sent {
            (self.sent, self.next) = (end, segment.seq.wrapping_add(segment.len));
        }
        let row = self.row(now, sk, kind);
        let (seq_bytes, len_bytes) = (Some(seq as i64), Some(i64::from(segment.len)));
        self.rows.push(TraceRow { seq_bytes, len_bytes, ..row });
    }

    /// Adds a row for an ACK that the sender has processed.
    pub(crate) fn on_ack(&mut self, now: Instant, sk: &TcpSock, ack: u32, sack_blocks: usize) {
        let kind = if sack_blocks > 0 { TraceKind::Sack } else { TraceKind::Ack };
        // A FIN consumes a sequence number, but is not a byte of data.
        let ack_bytes = Some(self.stream_offset(ack).min(self.sent) as i64);
        let row = self.row(now, sk, kind);
        self.rows.push(TraceRow { ack_bytes, sack_blocks: Some(sack_blocks as i64), ..row });
    }

    fn row(&self, now: Instant, sk: &TcpSock, kind: TraceKind) -> TraceRow {
        TraceRow {
            time_us: time_us(now),
            flow: self.flow.clone(),
            kind,
            snd_cwnd_segs: Some(i64::from(sk.snd_cwnd)),
            snd_ssthresh_segs: (sk.snd_ssthresh < tcp::INFINITE_SSTHRESH).then(|| i64::from(sk.snd_ssthresh)),
            inflight_segs: Some(i64::from(sk.packets_in_flight())),
            srtt_us: (sk.srtt_us > 0).then(|| i64::from(sk.srtt_us >> 3)),
            snd_wnd_bytes: Some(i64::from(sk.snd_wnd)),
            ..TraceRow::default()
        }
    }

    /// Converts a sequence number to an offset in the flow's data, which does not wrap.
    fn stream_offset(&self, seq: u32) -> u64 {
        self.sent.saturating_add_signed(i64::from(seq.wrapping_sub(self.next) as i32))
    }
}
