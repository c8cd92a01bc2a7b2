//! The interface of a congestion control: one method for each member of the kernel's `tcp_congestion_ops`.
//!
//! `get_info` is missing: an eBPF congestion control must not set it.

use crate::{AckSample, CaState, RateSample, TcpSock};

/// The congestion controls of Linux 6.18's `net/ipv4/Kconfig`, each in `net/ipv4/tcp_NAME.c` but reno, which
/// is in `tcp_cong.c`.
pub const LINUX_CONGESTION_CONTROLS: [&str; 17] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// Argument of `cwnd_event` (`enum tcp_ca_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum CaEvent {
    /// A packet is sent while none is in flight.
    TxStart = 0,
    /// The window was reset after an idle period.
    CwndRestart = 1,
    /// The reduction of the window has ended.
    CompleteCwr = 2,
    /// A retransmission timeout.
    Loss = 3,
    /// A data packet without a CE mark arrived (only for algorithms that need ECN).
    EcnNoCe = 4,
    /// A data packet with a CE mark arrived.
    EcnIsCe = 5,
}

/// A member of `tcp_congestion_ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Operation {
    Ssthresh,
    CongAvoid,
    SetState,
    CwndEvent,
    InAckEvent,
    PktsAcked,
    MinTsoSegs,
    CongControl,
    UndoCwnd,
    SndbufExpand,
    Init,
    Release,
}

impl Operation {
    /// All operations in the order of `struct tcp_congestion_ops`.
    pub const ALL: [Operation; 12] = [
        Operation::Ssthresh,
        Operation::CongAvoid,
        Operation::SetState,
        Operation::CwndEvent,
        Operation::InAckEvent,
        Operation::PktsAcked,
        Operation::MinTsoSegs,
        Operation::CongControl,
        Operation::UndoCwnd,
        Operation::SndbufExpand,
        Operation::Init,
        Operation::Release,
    ];

    /// The member's name in C.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Ssthresh => "ssthresh",
            Operation::CongAvoid => "cong_avoid",
            Operation::SetState => "set_state",
            Operation::CwndEvent => "cwnd_event",
            Operation::InAckEvent => "in_ack_event",
            Operation::PktsAcked => "pkts_acked",
            Operation::MinTsoSegs => "min_tso_segs",
            Operation::CongControl => "cong_control",
            Operation::UndoCwnd => "undo_cwnd",
            Operation::SndbufExpand => "sndbuf_expand",
            Operation::Init => "init",
            Operation::Release => "release",
        }
    }
}

/// `flags`: the algorithm needs ECN (`TCP_CONG_NEEDS_ECN`).
pub const NEEDS_ECN: u32 = 0x2;

/// One socket's congestion control.
///
/// The caller maintains the members of [`TcpSock`] as Linux does. It checks [`has`](Self::has) where Linux
/// checks whether a member is set. A call of a missing operation does nothing, unless the operation's
/// documentation states an effect; the same holds for the defaults of optional members. The time is that of
/// the socket: `tcp_clock_cache` (ns) and `tcp_mstamp` (us).
#[allow(unused_variables, reason = "the defaults of optional members do nothing")]
pub trait CongestionControl {
    /// The name in `tcp_congestion_ops`, which may differ from the file's. It changes if the algorithm
    /// switches the socket to another one (`bpf_setsockopt` of `TCP_CONGESTION`).
    fn name(&self) -> &str;

    /// `TCP_CONG_*`.
    fn flags(&self) -> u32 {
        0
    }

    /// Whether the member is set.
    fn has(&self, operation: Operation) -> bool;

    /// Called once, when the connection is established.
    fn init(&mut self, sk: &mut TcpSock) {}

    /// Called once, when the connection ends.
    fn release(&mut self, sk: &mut TcpSock) {}

    /// The slow-start threshold after a loss, in packets.
    fn ssthresh(&mut self, sk: &mut TcpSock) -> u32;

    /// New data was acknowledged up to `ack` (sequence number), `acked` packets: the window may grow.
    fn cong_avoid(&mut self, sk: &mut TcpSock, ack: u32, acked: u32);

    /// The state is about to be `new_state`; the socket still has the old one.
    fn set_state(&mut self, sk: &mut TcpSock, new_state: CaState) {}

    /// Reports an event of the congestion window.
    fn cwnd_event(&mut self, sk: &mut TcpSock, event: CaEvent) {}

    /// Reports an ACK before it is processed; `flags` are `CA_ACK_*`.
    fn in_ack_event(&mut self, sk: &mut TcpSock, flags: u32) {}

    /// Packets were acknowledged or selectively acknowledged.
    fn pkts_acked(&mut self, sk: &mut TcpSock, sample: &AckSample) {}

    /// Minimum number of segments in a super-packet; 0: no preference.
    fn min_tso_segs(&mut self, sk: &mut TcpSock) -> u32 {
        0
    }

    /// Replaces `cong_avoid` and the reduction in recovery: called for every ACK, sets window and rate.
    fn cong_control(&mut self, sk: &mut TcpSock, ack: u32, flag: i32, sample: &RateSample) {}

    /// The window after a reduction that proved unnecessary, in packets.
    fn undo_cwnd(&mut self, sk: &mut TcpSock) -> u32;

    /// Number of windows that the send buffer should hold; 0: no preference.
    fn sndbuf_expand(&mut self, sk: &mut TcpSock) -> u32 {
        0
    }

    /// Takes the `rcv_nxt` of an ACK that the algorithm requests to be sent at once (`bpf_tcp_send_ack`).
    fn take_ack_request(&mut self) -> Option<u32> {
        None
    }
}
