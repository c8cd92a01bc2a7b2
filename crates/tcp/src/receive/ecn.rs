//! Marks on what comes: when ACKs carry ECE, and what the congestion control is told.
//!
//! Source: `__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr` (net/ipv4/tcp_input.c); RFC 3168 section 6.1.3. An algorithm such
//! as DCTCP takes `TCP_ECN_DEMAND_CWR` into its own hands when it is told of a mark.
//!
//! Departures:
//!
//! 1. No AccECN (RFC 9768).

use super::{Receiver, delayed_ack};
use crate::{CaEvent, Flags, Segment, TcpSock, ecn};

/// `TCP_ECN_OK`: both ends agreed on ECN.
const OK: u8 = 1;
/// `TCP_ECN_DEMAND_CWR`: ACKs carry ECE until CWR comes.
const DEMAND_CWR: u8 = 4;
/// `TCP_ECN_SEEN`: ECT or CE has come.
const SEEN: u8 = 8;

/// Whether ACKs carry ECE now.
pub(super) fn echoes(sk: &TcpSock) -> bool {
    sk.ecn_flags & (OK | DEMAND_CWR) == OK | DEMAND_CWR
}

impl Receiver {
    /// A segment is in the window: looks at its mark. Gives what the congestion control is to be told.
    pub(super) fn check_mark(&self, sk: &mut TcpSock, segment: &Segment) -> Option<CaEvent> {
        if sk.ecn_flags & OK == 0 {
            return None;
        }
        match segment.ecn {
            ecn::NOT_CAPABLE => {
                // Most likely a retransmission.
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
                Some(CaEvent::EcnIsCe)
            }
            _ => {
                sk.ecn_flags |= SEEN;
                Some(CaEvent::EcnNoCe)
            }
        }
    }

    /// The sender says that it has reduced its window.
    pub(super) fn accept_cwr(&self, sk: &mut TcpSock, segment: &Segment) {
        if segment.flags.has(Flags::CWR) {
            sk.ecn_flags &= !DEMAND_CWR;
            if segment.is_data() {
                sk.icsk_ack_pending |= delayed_ack::NOW;
            }
        }
    }
}
