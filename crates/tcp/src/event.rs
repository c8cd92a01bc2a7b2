//! Events of an endpoint, the source of its log and of the record's event rows.

/// An event of an endpoint, in the order of occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointEvent {
    /// The handshake is complete.
    Established {
        /// When, ns.
        at: u64,
    },
    /// The congestion state changed.
    CaState {
        /// When, ns.
        at: u64,
        /// The previous state.
        old: crate::CaState,
        /// The new one.
        state: crate::CaState,
        /// Congestion window, segments.
        cwnd: u32,
        /// Slow-start threshold, segments.
        ssthresh: u32,
    },
    /// Segments were retransmitted.
    Retransmit {
        /// When, ns.
        at: u64,
        /// Sequence number of the first byte.
        seq: u32,
        /// Number of segments.
        segs: u32,
    },
    /// Segments were marked lost.
    Lost {
        /// When, ns.
        at: u64,
        /// Sequence number of the first byte.
        seq: u32,
        /// Number of segments.
        segs: u32,
    },
    /// The retransmission timer expired.
    Rto {
        /// When, ns.
        at: u64,
    },
    /// A tail loss probe was sent.
    Probe {
        /// When, ns.
        at: u64,
    },
    /// A reduction of the congestion window was undone.
    Undo {
        /// When, ns.
        at: u64,
        /// Congestion window afterwards, segments.
        cwnd: u32,
    },
    /// The peer closed its window.
    ZeroWindow {
        /// When, ns.
        at: u64,
        /// Unsent bytes in the send buffer.
        waiting: u64,
    },
    /// The peer reopened its window.
    WindowOpen {
        /// When, ns.
        at: u64,
        /// The window, bytes.
        window: u32,
    },
    /// A SYN or SYN-ACK was retransmitted.
    HandshakeRetry {
        /// When, ns.
        at: u64,
        /// Number of retransmissions so far.
        times: u8,
    },
}
