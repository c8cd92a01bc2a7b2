//! What a traced flow's sender sends and hears, segment by segment.

use schema::{TraceKind, TraceRow};
use tcp::{Endpoint, Segment, TcpSock};
use units::Time;

use crate::sample::micros;

/// Rows of one flow that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Trace {
    flow: String,
    /// How many bytes were ever sent, and the number of the next in the sequence space.
    sent: u64,
    next: u32,
    pub(crate) rows: Vec<TraceRow>,
}

impl Trace {
    pub(crate) fn new(flow: &str, sender: &Endpoint) -> Self {
        let next = sender.config().initial_seq.wrapping_add(1);
        Trace { flow: flow.to_owned(), sent: 0, next, rows: Vec::new() }
    }

    /// A segment leaves.
    pub(crate) fn sent(&mut self, now: Time, sk: &TcpSock, segment: &Segment) {
        if segment.len == 0 {
            return;
        }
        let seq = self.place(segment.seq);
        let end = seq.saturating_add(u64::from(segment.len));
        let kind = if end > self.sent { TraceKind::Sent } else { TraceKind::Retransmit };
        if end > self.sent {
            (self.sent, self.next) = (end, segment.seq.wrapping_add(segment.len));
        }
        let row = self.row(now, sk, kind);
        let (seq_bytes, len_bytes) = (Some(seq as i64), Some(i64::from(segment.len)));
        self.rows.push(TraceRow { seq_bytes, len_bytes, ..row });
    }

    /// An ACK has been taken in.
    pub(crate) fn heard(&mut self, now: Time, sk: &TcpSock, ack: u32, sack_blocks: usize) {
        let kind = if sack_blocks > 0 { TraceKind::Sack } else { TraceKind::Ack };
        // A FIN counts in the sequence space, and is no byte.
        let ack_bytes = Some(self.place(ack).min(self.sent) as i64);
        let row = self.row(now, sk, kind);
        self.rows.push(TraceRow { ack_bytes, sack_blocks: Some(sack_blocks as i64), ..row });
    }

    fn row(&self, now: Time, sk: &TcpSock, kind: TraceKind) -> TraceRow {
        TraceRow {
            time_us: micros(now),
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

    /// A sequence number as a place in the flow, which never wraps.
    fn place(&self, seq: u32) -> u64 {
        self.sent.saturating_add_signed(i64::from(seq.wrapping_sub(self.next) as i32))
    }
}
