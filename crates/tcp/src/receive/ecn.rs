//! ECN at the receiver: when ACKs carry ECE, and the events for the congestion control.
//!
//! Source: `__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr` (net/ipv4/tcp_input.c); RFC 3168 section 6.1.3.
//! Algorithms like DCTCP set and clear `TCP_ECN_DEMAND_CWR` themselves when they are notified of a mark.
//!
//! Differences from the kernel:
//!
//! 1. No AccECN (RFC 9768).

use super::{Receiver, delayed_ack};
use crate::{
    CaEvent, Flags, Segment, TcpSock, ecn,
    sock::ecn_flags::{DEMAND_CWR, OK, SEEN},
};

/// Whether ACKs carry ECE now.
pub(super) fn echoes(sk: &TcpSock) -> bool {
    sk.ecn_flags & (OK | DEMAND_CWR) == OK | DEMAND_CWR
}

impl Receiver {
    /// Checks the ECN field of a segment in the window. Returns the event for the congestion control.
    pub(super) fn check_mark(&mut self, sk: &mut TcpSock, segment: &Segment) -> Option<CaEvent> {
        if sk.ecn_flags & OK == 0 {
            return None;
        }
        match segment.ecn {
            ecn::NOT_CAPABLE => {
                // Probably a retransmission.
                if sk.ecn_flags & SEEN != 0 {
                    self.enter_quick_mode(sk, 2);
                }
                None
            }
            ecn::CE => {
                if sk.ecn_flags & DEMAND_CWR == 0 {
                    self.enter_quick_mode(sk, 2);
                }
                sk.ecn_flags |= DEMAND_CWR | SEEN;
                let mss = u32::from(segment.mss).max(1);
                self.marked_segs = self.marked_segs.wrapping_add(segment.len.div_ceil(mss).max(1));
                Some(CaEvent::EcnIsCe)
            }
            _ => {
                sk.ecn_flags |= SEEN;
                Some(CaEvent::EcnNoCe)
            }
        }
    }

    /// Handles CWR: the sender has reduced its window.
    pub(super) fn accept_cwr(&self, sk: &mut TcpSock, segment: &Segment) {
        if segment.flags.has(Flags::CWR) {
            sk.ecn_flags &= !DEMAND_CWR;
            if segment.is_data() {
                sk.icsk_ack_pending |= delayed_ack::NOW;
            }
        }
    }
}
