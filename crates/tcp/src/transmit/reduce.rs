//! Reduction of the congestion window: proportional rate reduction (RFC 9937; `tcp_cwnd_reduction`,
//! net/ipv4/tcp_input.c).

use crate::{
    CaEvent, CaState, INFINITE_SSTHRESH, Operation, behaviour::Recovery, connection::Connection,
    sock::ecn_flags,
};

impl Connection {
    /// `tcp_init_cwnd_reduction`.
    pub(super) fn init_cwnd_reduction(&mut self) {
        self.sk.begin_reduction();
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.queue_cwr();
    }

    /// `tcp_ecn_queue_cwr`.
    pub(super) fn queue_cwr(&mut self) {
        if self.sk.ecn_flags & ecn_flags::OK != 0 {
            self.sk.ecn_flags |= ecn_flags::QUEUE_CWR;
        }
    }

    /// `tcp_end_cwnd_reduction`.
    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.has(Operation::CongControl) {
            return;
        }
        if self.behaviour.recovery == Recovery::Fack {
            return self.complete_halving();
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
            if self.behaviour.recovery == Recovery::Fack {
                self.cap_cwnd(1);
            }
            self.set_ca_state(CaState::Cwr);
        }
    }
}
