//! Processing of ACKs: `tcp_ack` and its callees in the kernel's order (net/ipv4/tcp_input.c).
//!
//! Differences from the kernel: 1. The fast path is taken if the ACK has the same window as before, no SACK
//! block and no ECE; there is no header prediction.

use super::{Sender, recovery::Retransmission};
use crate::{
    EndpointEvent, Flags, Operation, RateSample, Segment,
    behaviour::Growth,
    connection::Connection,
    flag::{self, AckFlags},
    segment::{after, before},
    sock::ecn_flags,
};

/// State of the processing of one ACK (`struct tcp_sacktag_state` and the locals of `tcp_ack`).
#[derive(Debug, Default)]
pub(super) struct AckState {
    pub(super) flag: AckFlags,
    pub(super) rs: RateSample,
    /// The lowest sequence number delivered out of order.
    pub(super) reord: u32,
    /// Send times of the first and last newly selectively acknowledged packet.
    pub(super) sacked_us: Option<(u32, u32)>,
    pub(super) sack_delivered: u32,
}

impl Sender {
    /// `tcp_ack`, for a segment whose ACK flag is set.
    #[inline(always)]
    pub(crate) fn ack(&mut self, conn: &mut Connection, segment: &Segment) {
        if self.acks_nothing_new(conn, segment) {
            conn.ack_nothing_new(segment);
        } else {
            self.process_ack(conn, segment);
        }
    }

    // Inlined, as it has one caller: saves 0.3 % of a simulation's instructions.
    #[inline(always)]
    fn process_ack(&mut self, conn: &mut Connection, segment: &Segment) {
        let (ack, prior_una) = (segment.ack, conn.sk.snd_una);
        let (delivered, lost) = (conn.sk.delivered, conn.sk.lost);
        let mut state = AckState { reord: conn.sk.snd_nxt, ..AckState::default() };
        if after(ack, conn.sk.snd_nxt) {
            return;
        }
        if before(ack, prior_una) {
            return self.old_ack(conn, segment, state);
        }
        if after(ack, prior_una) {
            state.flag.insert(AckFlags::SND_UNA_ADVANCED);
            conn.sk.icsk_retransmits = 0;
        }
        let prior_packets = conn.sk.packets_out;
        let prior_fack = if conn.sack { self.highest_sack_seq(conn) } else { prior_una };
        state.rs.prior_in_flight = conn.sk.packets_in_flight();
        let was_reneg = self.is_sack_reneg;
        let ca_ack_flags = self.process_ack_fields(conn, segment, &mut state);
        // From 6.16 on `in_ack_event` is called after the acknowledged packets have been counted.
        let calls_late = conn.config.profile.at_least(6, 16);
        if !calls_late {
            conn.cc.in_ack_event(&mut conn.sk, ca_ack_flags);
        }
        conn.sk.icsk_probes_out = 0;
        conn.sk.rcv_tstamp = conn.jiffies();
        let mut rexmit = Retransmission::None;
        if prior_packets == 0 {
            if calls_late {
                conn.cc.in_ack_event(&mut conn.sk, ca_ack_flags);
            }
            if state.flag.any(AckFlags::DSACKING_ACK) {
                self.fastretrans_alert(conn, prior_una, 0, &mut state.flag, &mut rexmit);
            }
            self.ack_probe(conn);
            if conn.sk.tlp_high_seq != 0 {
                self.process_tlp_ack(conn, ack, state.flag);
            }
            return;
        }
        let in_flight = conn.sk.packets_in_flight();
        self.clean_rtx_queue(conn, prior_fack, prior_una, &mut state);
        conn.rack_update_reo_wnd(&state.rs);
        if calls_late {
            conn.cc.in_ack_event(&mut conn.sk, ca_ack_flags);
        }
        if conn.sk.tlp_high_seq != 0 {
            self.process_tlp_ack(conn, ack, state.flag);
        }
        if conn.behaviour.growth == Growth::Acks {
            conn.grow_by_ack(ack, in_flight, state.flag);
        }
        if conn.is_dubious(state.flag) {
            let not_dup = AckFlags::SND_UNA_ADVANCED.with(AckFlags::NOT_DUP).with(AckFlags::DSACKING_ACK);
            let duplicates = u32::from(!state.flag.any(not_dup));
            self.fastretrans_alert(conn, prior_una, duplicates, &mut state.flag, &mut rexmit);
        }
        if state.flag.any(AckFlags::SET_XMIT_TIMER) {
            self.set_xmit_timer(conn);
        }
        let delivered = conn.newly_delivered(delivered);
        let lost = conn.sk.lost.wrapping_sub(lost);
        state.rs.is_ack_delayed = state.flag.any(AckFlags::ACK_MAYBE_DELAYED);
        conn.sk.complete_rate_sample(delivered, lost, was_reneg, &mut state.rs);
        conn.cong_control(ack, delivered, state.flag, &state.rs);
        self.xmit_recovery(conn, rexmit);
    }

    /// Fast path of a pure receiver: whether the ACK of a data segment changes nothing, because everything
    /// sent is acknowledged and nothing waits to be sent.
    #[inline]
    fn acks_nothing_new(&self, conn: &Connection, segment: &Segment) -> bool {
        let sk = &conn.sk;
        sk.packets_out == 0
            && segment.ack == sk.snd_una
            && segment.sack.is_none()
            && !segment.flags.has(Flags::ECE)
            && u32::from(segment.window) << conn.window_scale == sk.snd_wnd
            && self.queue.unsent.is_empty()
            && sk.tlp_high_seq == 0
    }

    /// Processes window, SACK and ECE of an ACK. Returns the flags for `in_ack_event`.
    #[inline]
    fn process_ack_fields(&mut self, conn: &mut Connection, segment: &Segment, state: &mut AckState) -> u32 {
        let nwin = u32::from(segment.window) << conn.window_scale;
        let slow = nwin != conn.sk.snd_wnd
            || segment.sack.is_some()
            || segment.flags.has(Flags::ECE)
            || !state.flag.any(AckFlags::SND_UNA_ADVANCED);
        if !slow {
            conn.sk.snd_wl1 = segment.seq;
            self.update_una(conn, segment.ack);
            state.flag.insert(AckFlags::WIN_UPDATE);
            return flag::CA_ACK_WIN_UPDATE;
        }
        state.flag.insert(AckFlags::SLOWPATH);
        let mut ca_ack_flags = flag::CA_ACK_SLOWPATH;
        if segment.is_data() {
            state.flag.insert(AckFlags::DATA);
        }
        let prior_una = conn.sk.snd_una;
        self.update_window(conn, segment, nwin, state);
        if conn.sack
            && let Some(sack) = &segment.sack
        {
            self.sacktag(conn, sack.as_slice(), segment.ack, prior_una, state);
        }
        if segment.flags.has(Flags::ECE) && conn.sk.ecn_flags & ecn_flags::OK != 0 {
            state.flag.insert(AckFlags::ECE);
            ca_ack_flags |= flag::CA_ACK_ECE;
        }
        if state.sack_delivered > 0 {
            conn.count_delivered(state.sack_delivered, state.flag.any(AckFlags::ECE));
        }
        if state.flag.any(AckFlags::WIN_UPDATE) {
            ca_ack_flags |= flag::CA_ACK_WIN_UPDATE;
        }
        ca_ack_flags
    }

    /// Processes an ACK that arrives late; its SACK blocks still count.
    #[cold]
    fn old_ack(&mut self, conn: &mut Connection, segment: &Segment, mut state: AckState) {
        let Some(sack) = segment.sack.as_ref().filter(|_| conn.sack) else { return };
        let prior_una = conn.sk.snd_una;
        self.sacktag(conn, sack.as_slice(), segment.ack, prior_una, &mut state);
        if state.sack_delivered > 0 {
            conn.count_delivered(state.sack_delivered, false);
        }
        let mut rexmit = Retransmission::None;
        self.fastretrans_alert(conn, prior_una, 0, &mut state.flag, &mut rexmit);
        self.xmit_recovery(conn, rexmit);
    }

    /// `tcp_ack_update_window`.
    fn update_window(&mut self, conn: &mut Connection, segment: &Segment, nwin: u32, state: &mut AckState) {
        let sk = &mut conn.sk;
        let newer = after(segment.ack, sk.snd_una)
            || after(segment.seq, sk.snd_wl1)
            || segment.seq == sk.snd_wl1 && (nwin > sk.snd_wnd || nwin == 0);
        if newer {
            state.flag.insert(AckFlags::WIN_UPDATE);
            sk.snd_wl1 = segment.seq;
            if sk.snd_wnd != nwin {
                let old = std::mem::replace(&mut sk.snd_wnd, nwin);
                let grows = nwin > sk.max_window;
                if old == 0 || nwin == 0 {
                    conn.window_opened_or_closed(nwin);
                }
                if !self.queue.unsent.is_empty() {
                    conn.slow_start_after_idle_check();
                }
                if grows {
                    self.raise_max_window(conn, nwin);
                }
            }
        }
        self.update_una(conn, segment.ack);
    }

    /// `tcp_snd_una_update`.
    #[inline]
    fn update_una(&mut self, conn: &mut Connection, ack: u32) {
        let delta = ack.wrapping_sub(conn.sk.snd_una);
        conn.sk.bytes_acked += u64::from(delta);
        conn.sk.snd_una = ack;
        self.una += u64::from(delta);
    }
}

impl Connection {
    /// The rest of [`Sender::ack`] for such a segment.
    #[inline]
    fn ack_nothing_new(&mut self, segment: &Segment) {
        let sk = &mut self.sk;
        let mut ca_ack_flags = flag::CA_ACK_SLOWPATH;
        if after(segment.seq, sk.snd_wl1) || segment.seq == sk.snd_wl1 && sk.snd_wnd == 0 {
            sk.snd_wl1 = segment.seq;
            ca_ack_flags |= flag::CA_ACK_WIN_UPDATE;
        }
        sk.icsk_probes_out = 0;
        self.cc.in_ack_event(sk, ca_ack_flags);
        self.sk.rcv_tstamp = self.jiffies();
    }

    #[cold]
    fn window_opened_or_closed(&mut self, window: u32) {
        let waiting = self.notsent();
        self.record(|at| match window {
            0 => EndpointEvent::ZeroWindow { at, waiting },
            _ => EndpointEvent::WindowOpen { at, window },
        });
    }

    /// `tcp_ack_is_dubious`.
    #[inline]
    pub(super) fn is_dubious(&self, flag: AckFlags) -> bool {
        !flag.any(AckFlags::NOT_DUP) || flag.any(AckFlags::CA_ALERT) || self.sk.icsk_ca_bits & 0x1f != 0
    }

    /// `tcp_count_delivered`.
    #[inline]
    pub(super) fn count_delivered(&mut self, packets: u32, marked: bool) {
        self.sk.delivered = self.sk.delivered.wrapping_add(packets);
        if marked {
            self.sk.delivered_ce = self.sk.delivered_ce.wrapping_add(packets);
        }
    }

    /// `tcp_newly_delivered`.
    #[inline]
    fn newly_delivered(&self, prior: u32) -> u32 {
        self.sk.delivered.wrapping_sub(prior)
    }

    /// `tcp_cong_control`.
    #[inline]
    fn cong_control(&mut self, ack: u32, delivered: u32, flag: AckFlags, rs: &RateSample) {
        if self.has(Operation::CongControl) {
            self.cc.cong_control(&mut self.sk, ack, flag.bits(), rs);
            return;
        }
        if self.behaviour.growth == Growth::Acks {
            return;
        }
        if self.sk.in_cwnd_reduction() {
            let may_grow = flag.any(AckFlags::SND_UNA_ADVANCED) && rs.losses == 0;
            self.sk.reduce_cwnd(delivered, may_grow);
        } else if self.may_raise_cwnd(flag) {
            self.cc.cong_avoid(&mut self.sk, ack, delivered);
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.update_pacing_rate();
    }

    /// `tcp_may_raise_cwnd`.
    #[inline]
    fn may_raise_cwnd(&self, flag: AckFlags) -> bool {
        if self.sk.reordering > self.config.reordering {
            return flag.any(AckFlags::FORWARD_PROGRESS);
        }
        flag.any(AckFlags::DATA_ACKED)
    }
}
