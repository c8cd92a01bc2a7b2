//! The reduction of the window: proportional rate reduction (RFC 9937; `tcp_cwnd_reduction`, net/ipv4/tcp_input.c).

use super::flag;
use crate::{CaEvent, CaState, Endpoint, INFINITE_SSTHRESH, Operation};

/// `TCP_ECN_QUEUE_CWR`.
const QUEUE_CWR: u8 = 2;
const ECN_OK: u8 = 1;

impl Endpoint {
    /// `tcp_init_cwnd_reduction`.
    pub(super) fn init_cwnd_reduction(&mut self) {
        self.sk.high_seq = self.sk.snd_nxt;
        self.sk.tlp_high_seq = 0;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.prr_delivered = 0;
        self.sk.prr_out = 0;
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.queue_cwr();
    }

    /// `tcp_ecn_queue_cwr`.
    pub(super) fn queue_cwr(&mut self) {
        if self.sk.ecn_flags & ECN_OK != 0 {
            self.sk.ecn_flags |= QUEUE_CWR;
        }
    }

    /// `tcp_cwnd_reduction`.
    pub(super) fn cwnd_reduction(&mut self, newly_acked: u32, newly_lost: u32, flag: i32) {
        let sk = &mut self.sk;
        if newly_acked == 0 || sk.prior_cwnd == 0 {
            return;
        }
        let in_flight = sk.packets_in_flight();
        let delta = i64::from(sk.snd_ssthresh) - i64::from(in_flight);
        sk.prr_delivered += newly_acked;
        let mut send = if delta < 0 {
            let dividend =
                u64::from(sk.snd_ssthresh) * u64::from(sk.prr_delivered) + u64::from(sk.prior_cwnd) - 1;
            (dividend / u64::from(sk.prior_cwnd)) as i64 - i64::from(sk.prr_out)
        } else {
            let owed = i64::from(sk.prr_delivered) - i64::from(sk.prr_out);
            let advanced = flag & flag::SND_UNA_ADVANCED != 0 && newly_lost == 0;
            delta.min(owed.max(i64::from(newly_acked)) + i64::from(advanced))
        };
        // The first retransmission of a recovery always goes.
        send = send.max(i64::from(sk.prr_out == 0));
        sk.snd_cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// `tcp_end_cwnd_reduction`.
    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.has(Operation::CongControl) {
            return;
        }
        let reduced = self.sk.ca_state() == CaState::Cwr || self.sk.undo_marker != 0;
        if self.sk.snd_ssthresh < INFINITE_SSTHRESH && reduced {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.ca_event(CaEvent::CompleteCwr);
    }

    /// `tcp_enter_cwr`.
    pub(super) fn enter_cwr(&mut self) {
        self.sk.prior_ssthresh = 0;
        if self.sk.ca_state() < CaState::Cwr {
            self.sk.undo_marker = 0;
            self.init_cwnd_reduction();
            self.set_ca_state(CaState::Cwr);
        }
    }
}
