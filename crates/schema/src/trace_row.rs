//! One row of `trace.parquet`: a segment that a traced flow's sender sent, or an ACK that it received.

use crate::table::table;

/// The kind of a trace row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceKind {
    /// New data was sent.
    #[default]
    Sent,
    /// Data was retransmitted.
    Retransmit,
    /// An ACK without SACK blocks was received.
    Ack,
    /// An ACK with SACK blocks was received.
    Sack,
}

impl TraceKind {
    /// All kinds.
    pub const ALL: [TraceKind; 4] = [TraceKind::Sent, TraceKind::Retransmit, TraceKind::Ack, TraceKind::Sack];

    /// The name stored in the `kind` column.
    pub fn name(self) -> &'static str {
        match self {
            TraceKind::Sent => "sent",
            TraceKind::Retransmit => "retransmit",
            TraceKind::Ack => "ack",
            TraceKind::Sack => "sack",
        }
    }

    /// The kind stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

table! {
    /// A segment or GSO super-packet that the sender sent, or the sender's state after it processed an ACK.
    pub struct TraceRow {
        keys {
            /// Time since the run's start, in microseconds. Rows of one instant are in the order of events.
            time_us: i64,
            /// The flow's name in the scenario.
            flow: String,
            /// The kind of event.
            kind: TraceKind,
        }
        metrics {
            seq_bytes = "of sent data: position of its first byte in the flow, from 0",
            len_bytes = "of sent data: payload bytes",
            ack_bytes = "of ACKs: payload bytes acknowledged in order since the start",
            sack_blocks = "of ACKs: number of SACK blocks",
            snd_cwnd_segs = "congestion window",
            snd_ssthresh_segs = "slow-start threshold; absent while infinite",
            inflight_segs = "segments in flight, as the sender computes them",
            srtt_us = "smoothed round-trip time",
            rtt_us = "of ACKs of traced connections: the round trip that this ACK measured",
            snd_wnd_bytes = "window that the peer advertises, scaled",
        }
    }
}
