//! The model sender of the test kit: maintains the members of `TcpSock` and calls the controller in Linux's
//! order.
//!
//! The order is that of `tcp_ack`, `tcp_fastretrans_alert` and `tcp_write_xmit` (Linux 6.18, `net/ipv4`).
//! Differences from the kernel:
//!
//! 1. A packet is lost when three later ones were delivered. The path never reorders, so RACK would have the
//!    same result.
//! 2. Retransmissions are never lost, and a timeout happens only on request.
//! 3. `rtt_min` is the minimum since the start, not of the last 300 s. Sequence numbers count whole packets.
//! 4. Packets are paced one by one; the results of `min_tso_segs` and `sndbuf_expand` are ignored.

use super::path::Ack;
use crate::{
    AckSample, CaEvent, CaState, CongestionControl, INFINITE_SSTHRESH, INITIAL_CWND, Operation, RateSample,
    TcpSock,
    flag::{self, AckFlags},
};
use std::collections::VecDeque;

/// Jiffies per second, and the length of a jiffy, us.
const HZ: u64 = 250;
pub(super) const JIFFY_US: u64 = 1_000_000 / HZ;

/// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio` defaults, percent.
const PACING_SLOW_START_PERCENT: u32 = 200;
const PACING_AVOIDANCE_PERCENT: u32 = 120;
/// A packet counts as lost when this number of later packets were delivered (RFC 6675).
const DUP_THRESHOLD: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketState {
    Out,
    Sacked,
    Lost,
    Retransmitted,
}

/// An unacknowledged packet with the record of its transmission (`tcp_skb_cb.tx`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) state: PacketState,
    pub(super) sent_us: u64,
    pub(super) first_tx_us: u64,
    pub(super) delivered_us: u64,
    pub(super) delivered: u32,
    pub(super) delivered_ce: u32,
    pub(super) in_flight: u32,
    pub(super) app_limited: bool,
}

/// The model sender.
#[derive(Debug)]
pub(super) struct ModelSender<C> {
    pub(super) sk: TcpSock,
    pub(super) cc: C,
    /// Packets from `una` to `nxt`.
    out: VecDeque<Packet>,
    pub(super) una: u64,
    pub(super) nxt: u64,
    high: u64,
    highest_sacked: Option<u64>,
    /// Packets below this number are delivered or marked lost.
    judged: u64,
    /// No packet below this number waits for retransmission.
    next_lost: u64,
    pub(super) lost: u64,
    /// Packets that the application still has; none: unlimited.
    pub(super) backlog: Option<u64>,
    last_sent_us: u64,
    ece: bool,
    undo_requested: bool,
    pub(super) last_rtt_us: i64,
}

impl<C: CongestionControl> ModelSender<C> {
    pub(super) fn new(mut sk: TcpSock, mut cc: C, now_ns: u64) -> ModelSender<C> {
        sk.tcp_clock_cache = now_ns;
        sk.tcp_mstamp = now_ns / 1000;
        sk.lsndtime = (sk.tcp_mstamp / JIFFY_US) as u32;
        cc.init(&mut sk);
        sk.icsk_ca_bits |= 1 << 5;
        ModelSender {
            sk,
            cc,
            out: VecDeque::new(),
            una: 0,
            nxt: 0,
            high: 0,
            highest_sacked: None,
            judged: 0,
            next_lost: 0,
            lost: 0,
            backlog: None,
            last_sent_us: 0,
            ece: false,
            undo_requested: false,
            last_rtt_us: -1,
        }
    }

    pub(super) fn set_time(&mut self, now_ns: u64) {
        self.sk.tcp_clock_cache = now_ns;
        self.sk.tcp_mstamp = now_ns / 1000;
    }

    fn jiffies(&self) -> u32 {
        (self.sk.tcp_mstamp / JIFFY_US) as u32
    }

    pub(super) fn sequence(&self, packet: u64) -> u32 {
        (packet as u32).wrapping_mul(self.sk.mss_cache)
    }

    // ---- Sending ------------------------------------------------------------------------------------------

    /// The next packet to send now, and whether it is a retransmission. Calling it has no effect on the
    /// sender.
    pub(super) fn next_to_send(&mut self) -> Option<(u64, bool)> {
        if self.sk.packets_in_flight() >= self.sk.snd_cwnd {
            return None;
        }
        if self.sk.lost_out > self.sk.retrans_out {
            let from = self.next_lost.max(self.una);
            let at =
                (from..self.nxt).find(|id| self.out[(id - self.una) as usize].state == PacketState::Lost);
            if let Some(id) = at {
                self.next_lost = id;
                return Some((id, true));
            }
        }
        (self.backlog != Some(0)).then_some((self.nxt, false))
    }

    /// Accounts for a packet that is being sent (`tcp_event_new_data_sent`, `tcp_rate_skb_sent`).
    pub(super) fn sent(&mut self, packet: u64, is_retransmission: bool) {
        let now_us = self.sk.tcp_mstamp;
        if !is_retransmission && self.out.is_empty() {
            self.restart_after_idle();
        }
        if self.sk.packets_in_flight() == 0 {
            self.cc.cwnd_event(&mut self.sk, CaEvent::TxStart);
        }
        let sk = &mut self.sk;
        sk.lsndtime = (now_us / JIFFY_US) as u32;
        self.last_sent_us = now_us;
        if sk.packets_out == 0 {
            sk.first_tx_mstamp = now_us;
            sk.delivered_mstamp = now_us;
        }
        let record = Packet {
            state: if is_retransmission { PacketState::Retransmitted } else { PacketState::Out },
            sent_us: now_us,
            first_tx_us: sk.first_tx_mstamp,
            delivered_us: sk.delivered_mstamp,
            delivered: sk.delivered,
            delivered_ce: sk.delivered_ce,
            in_flight: sk.packets_in_flight() + 1,
            app_limited: sk.app_limited != 0,
        };
        sk.bytes_sent += u64::from(sk.mss_cache);
        sk.segs_out = sk.segs_out.wrapping_add(1);
        sk.data_segs_out = sk.data_segs_out.wrapping_add(1);
        if is_retransmission {
            sk.retrans_out += 1;
            sk.total_retrans = sk.total_retrans.wrapping_add(1);
            sk.bytes_retrans += u64::from(sk.mss_cache);
            self.out[(packet - self.una) as usize] = record;
        } else {
            sk.packets_out += 1;
            self.out.push_back(record);
            self.nxt += 1;
            self.sk.snd_nxt = self.sequence(self.nxt);
            self.sk.write_seq = self.sk.snd_nxt;
            self.backlog = self.backlog.map(|left| left - 1);
        }
        if self.sk.in_cwnd_reduction() {
            self.sk.prr_out += 1;
        }
    }

    /// `tcp_slow_start_after_idle_check` and `tcp_cwnd_restart`.
    fn restart_after_idle(&mut self) {
        if self.last_sent_us == 0 || self.cc.has(Operation::CongControl) {
            return;
        }
        let rto_us = u64::from(self.sk.icsk_rto) * JIFFY_US;
        let mut idle_us = self.sk.tcp_mstamp.saturating_sub(self.last_sent_us);
        if idle_us <= rto_us {
            return;
        }
        self.cc.cwnd_event(&mut self.sk, CaEvent::CwndRestart);
        self.sk.snd_ssthresh = self.sk.current_ssthresh();
        let restart = INITIAL_CWND.min(self.sk.snd_cwnd);
        while idle_us > rto_us && self.sk.snd_cwnd > restart {
            self.sk.snd_cwnd >>= 1;
            idle_us -= rto_us;
        }
        self.sk.snd_cwnd = self.sk.snd_cwnd.max(restart);
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.snd_cwnd_used = 0;
    }

    /// Called after everything allowed is sent: `tcp_cwnd_validate` and `tcp_rate_check_app_limited`.
    pub(super) fn end_sending(&mut self, sent_any: bool) {
        let limited = self.sk.packets_in_flight() >= self.sk.snd_cwnd;
        if !limited && self.backlog == Some(0) && self.sk.lost_out <= self.sk.retrans_out {
            self.sk.app_limited = self.sk.delivered.wrapping_add(self.sk.packets_in_flight()).max(1);
        }
        if !sent_any {
            return;
        }
        let window_over = self.sk.snd_una.wrapping_sub(self.sk.cwnd_usage_seq) as i32 >= 0;
        let fuller = !self.sk.is_cwnd_limited() && self.sk.packets_out > self.sk.max_packets_out;
        if window_over || limited || fuller {
            self.sk.set_is_cwnd_limited(limited);
            self.sk.max_packets_out = self.sk.packets_out;
            self.sk.cwnd_usage_seq = self.sk.snd_nxt;
        }
        if self.sk.is_cwnd_limited() {
            self.sk.snd_cwnd_used = 0;
            self.sk.snd_cwnd_stamp = self.jiffies();
        } else if self.sk.packets_out > self.sk.snd_cwnd_used {
            self.sk.snd_cwnd_used = self.sk.packets_out;
        }
        self.cc.min_tso_segs(&mut self.sk);
    }

    // ---- ACKs ---------------------------------------------------------------------------------------------

    /// `tcp_ack`.
    pub(super) fn acked(&mut self, ack: &Ack) {
        let (prior_una, prior_delivered, prior_lost) = (self.una, self.sk.delivered, self.lost);
        let prior_sacked = self.sk.sacked_out;
        let mut sample =
            RateSample { prior_in_flight: self.sk.packets_in_flight(), rtt_us: -1, ..Default::default() };
        let mut flag = if ack.marked { AckFlags::ECE } else { AckFlags::default() };
        self.ece = ack.marked;
        let slow = ack.marked || self.sk.sacked_out > 0 || self.sk.ca_state() != CaState::Open;
        if slow {
            flag.insert(AckFlags::SLOWPATH);
        }
        if ack.next > self.una {
            flag.insert(AckFlags::SND_UNA_ADVANCED);
            self.sk.snd_una = self.sequence(ack.next.min(self.nxt));
            self.sk.bytes_acked += (ack.next - self.una) * u64::from(self.sk.mss_cache);
        }
        let ece = if ack.marked { flag::CA_ACK_ECE } else { 0 };
        self.cc.in_ack_event(
            &mut self.sk,
            if slow { flag::CA_ACK_SLOWPATH | ece } else { flag::CA_ACK_WIN_UPDATE },
        );

        let pkts_acked = self.clean_queue(ack, &mut flag, &mut sample, prior_sacked);
        self.detect_losses();
        self.alert(flag, prior_una);

        let delivered = self.sk.delivered.wrapping_sub(prior_delivered);
        let lost = (self.lost - prior_lost) as u32;
        self.sk.complete_rate_sample(delivered, lost, false, &mut sample);
        let acked_up_to = self.sk.snd_una;
        if pkts_acked > 0 || delivered > 0 || ack.marked {
            self.control(acked_up_to, delivered, lost, flag, &sample);
        }
    }

    /// `tcp_sacktag_write_queue` and `tcp_clean_rtx_queue`: removes acknowledged packets, and measures the
    /// round-trip time.
    fn clean_queue(
        &mut self,
        ack: &Ack,
        flag: &mut AckFlags,
        sample: &mut RateSample,
        prior_sacked: u32,
    ) -> u32 {
        let now_us = self.sk.tcp_mstamp;
        let (mut first_us, mut last_us, mut last_in_flight) = (None, None, 0);
        let mut fresh = 0;
        for id in &ack.arrivals {
            let Some(index) = id.checked_sub(self.una).map(|i| i as usize) else { continue };
            let Some(packet) = self.out.get(index).copied().filter(|p| p.state != PacketState::Sacked) else {
                continue;
            };
            fresh += 1;
            self.sk.delivered = self.sk.delivered.wrapping_add(1);
            if ack.marked {
                self.sk.delivered_ce = self.sk.delivered_ce.wrapping_add(1);
            }
            self.update_sample(&packet, sample, *id);
            match packet.state {
                PacketState::Retransmitted => {
                    self.sk.retrans_out -= 1;
                    self.sk.lost_out -= 1;
                    flag.insert(AckFlags::RETRANS_DATA_ACKED);
                }
                PacketState::Lost => self.sk.lost_out -= 1,
                _ => {
                    first_us.get_or_insert(packet.sent_us);
                    last_us = Some(packet.sent_us);
                    last_in_flight = packet.in_flight;
                }
            }
            self.out[index].state = PacketState::Sacked;
            self.sk.sacked_out += 1;
            if *id >= ack.next {
                flag.insert(AckFlags::DATA_SACKED);
                self.highest_sacked = Some(self.highest_sacked.map_or(*id, |h| h.max(*id)));
            }
        }
        let mut pkts_acked = 0;
        while self.una < ack.next {
            let Some(packet) = self.out.pop_front() else { break };
            match packet.state {
                PacketState::Sacked => self.sk.sacked_out -= 1,
                // Delivered before an interruption that lost the ACK.
                state => {
                    fresh += 1;
                    self.sk.delivered = self.sk.delivered.wrapping_add(1);
                    self.sk.retrans_out -= u32::from(state == PacketState::Retransmitted);
                    self.sk.lost_out -= u32::from(state != PacketState::Out);
                    self.update_sample(&packet, sample, self.una);
                }
            }
            self.sk.packets_out -= 1;
            self.una += 1;
            pkts_acked += 1;
            flag.insert(AckFlags::DATA_ACKED);
        }
        self.sk.snd_una = self.sequence(self.una);
        let mut rtt_us = -1;
        if let (Some(first), Some(last)) = (first_us, last_us) {
            rtt_us = (now_us - last).max(1) as i64;
            sample.rtt_us = rtt_us;
            self.last_rtt_us = rtt_us;
            let minimum = &mut self.sk.rtt_min.s[0];
            if rtt_us as u32 <= minimum.v {
                *minimum = crate::MinMaxSample { t: (now_us / JIFFY_US) as u32, v: rtt_us as u32 };
            }
            let delayed = pkts_acked == 1 && prior_sacked == 0 && fresh == 1 && last_in_flight > 0;
            sample.is_ack_delayed = delayed && sample.prior_delivered.wrapping_add(1) == self.sk.delivered;
            self.estimate((now_us - first).max(1) as u32);
        }
        if fresh > 0 {
            let in_flight = last_in_flight;
            let sample = AckSample { pkts_acked: fresh, rtt_us: rtt_us as i32, in_flight };
            self.cc.pkts_acked(&mut self.sk, &sample);
        }
        pkts_acked
    }

    fn detect_losses(&mut self) {
        let Some(highest) = self.highest_sacked else { return };
        if highest < self.una {
            self.highest_sacked = None;
            return;
        }
        // Packets below were processed before: each is sacked, lost or retransmitted.
        let until = (highest + 1).saturating_sub(DUP_THRESHOLD);
        for id in self.judged.max(self.una)..until {
            let packet = &mut self.out[(id - self.una) as usize];
            if packet.state == PacketState::Out {
                packet.state = PacketState::Lost;
                self.sk.lost_out += 1;
                self.sk.lost = self.sk.lost.wrapping_add(1);
                self.lost += 1;
                self.next_lost = self.next_lost.min(id);
            }
        }
        self.judged = self.judged.max(until);
    }

    /// `tcp_fastretrans_alert`.
    fn alert(&mut self, flag: AckFlags, prior_una: u64) {
        let state = self.sk.ca_state();
        // Not before all packets that were really lost are retransmitted, because the undo counts them as
        // delivered.
        if self.undo_requested && self.sk.undo_marker != 0 && self.sk.lost_out == self.sk.retrans_out {
            self.undo_requested = false;
            self.undo();
            return;
        }
        if state != CaState::Open && self.una >= self.high {
            match state {
                CaState::Cwr if self.una != self.high || self.una > prior_una => {
                    self.end_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    self.set_state(CaState::Open);
                    self.end_reduction();
                }
                CaState::Loss => self.set_state(CaState::Open),
                _ => {}
            }
        }
        let state = self.sk.ca_state();
        if matches!(state, CaState::Recovery | CaState::Loss) {
            return;
        }
        if self.sk.lost_out > 0 {
            self.enter_recovery();
            return;
        }
        if flag.any(AckFlags::ECE) && state < CaState::Cwr {
            self.sk.prior_ssthresh = 0;
            self.sk.undo_marker = 0;
            self.begin_reduction();
            self.set_state(CaState::Cwr);
        } else if state != CaState::Cwr {
            let next = if self.sk.sacked_out > 0 { CaState::Disorder } else { CaState::Open };
            if next != state {
                self.set_state(next);
                self.high = self.nxt;
                self.sk.high_seq = self.sk.snd_nxt;
            }
        }
    }

    /// `tcp_enter_recovery`.
    fn enter_recovery(&mut self) {
        self.sk.prior_ssthresh = 0;
        self.sk.undo_marker = self.sk.snd_una | 1;
        self.sk.undo_retrans = -1;
        if self.sk.ca_state() != CaState::Cwr {
            self.sk.prior_ssthresh = self.sk.current_ssthresh();
            self.begin_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// `tcp_init_cwnd_reduction`.
    fn begin_reduction(&mut self) {
        self.high = self.nxt;
        self.sk.begin_reduction();
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
    }

    /// `tcp_end_cwnd_reduction`.
    fn end_reduction(&mut self) {
        if self.cc.has(Operation::CongControl) {
            return;
        }
        if self.sk.snd_ssthresh < INFINITE_SSTHRESH {
            self.sk.snd_cwnd = self.sk.snd_ssthresh;
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.cc.cwnd_event(&mut self.sk, CaEvent::CompleteCwr);
    }

    /// `tcp_enter_loss` after the loss of everything in flight.
    pub(super) fn timeout(&mut self, has_arrived: impl Fn(u64) -> bool) {
        if self.out.is_empty() {
            return;
        }
        self.sk.prior_ssthresh = self.sk.current_ssthresh();
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.cc.cwnd_event(&mut self.sk, CaEvent::Loss);
        self.sk.undo_marker = self.sk.snd_una | 1;
        self.sk.retrans_out = 0;
        for (id, packet) in (self.una..).zip(self.out.iter_mut()) {
            if matches!(packet.state, PacketState::Out | PacketState::Retransmitted) {
                self.sk.lost_out += u32::from(packet.state == PacketState::Out);
                self.lost += u64::from(!has_arrived(id));
                self.sk.lost = self.sk.lost.wrapping_add(1);
                packet.state = PacketState::Lost;
            }
        }
        self.next_lost = self.una;
        self.judged = self.nxt;
        self.sk.snd_cwnd = self.sk.packets_in_flight() + 1;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.set_state(CaState::Loss);
        self.high = self.nxt;
        self.sk.high_seq = self.sk.snd_nxt;
    }

    /// Lets the next ACK show that the last reduction was unnecessary.
    pub(super) fn request_undo(&mut self) {
        self.undo_requested = true;
    }

    /// `tcp_undo_cwnd_reduction`, and return to `Open`.
    fn undo(&mut self) {
        for packet in self.out.iter_mut().filter(|p| p.state == PacketState::Retransmitted) {
            packet.state = PacketState::Out;
        }
        (self.sk.lost_out, self.sk.retrans_out) = (0, 0);
        if self.sk.prior_ssthresh != 0 {
            self.sk.snd_cwnd = self.cc.undo_cwnd(&mut self.sk);
            self.sk.snd_ssthresh = self.sk.snd_ssthresh.max(self.sk.prior_ssthresh);
        }
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.undo_marker = 0;
        self.set_state(CaState::Open);
    }

    /// `tcp_set_ca_state`: the controller is notified before the socket changes.
    fn set_state(&mut self, state: CaState) {
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
    }

    /// `tcp_cong_control`.
    fn control(&mut self, ack: u32, delivered: u32, lost: u32, flag: AckFlags, sample: &RateSample) {
        if self.cc.has(Operation::CongControl) {
            self.cc.cong_control(&mut self.sk, ack, flag.bits(), sample);
            return;
        }
        if self.sk.in_cwnd_reduction() {
            let may_grow = flag.any(AckFlags::SND_UNA_ADVANCED) && lost == 0;
            self.sk.reduce_cwnd(delivered, may_grow);
        } else if flag.any(AckFlags::DATA_ACKED) {
            self.cc.cong_avoid(&mut self.sk, ack, delivered);
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.sk.update_pacing_rate(PACING_SLOW_START_PERCENT, PACING_AVOIDANCE_PERCENT);
    }
}
