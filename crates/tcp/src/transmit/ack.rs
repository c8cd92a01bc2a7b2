//! An ACK comes: `tcp_ack` and what it calls in its own order (net/ipv4/tcp_input.c).
//!
//! Departures: 1. The fast path is taken where window, SACK and ECE say nothing new; header prediction as such is not
//! kept.

use super::{flag, recovery::Retransmission};
use crate::{
    Endpoint, Event, Flags, Operation, RateSample, Segment,
    behaviour::Growth,
    segment::{after, before},
};

/// `CA_ACK_*` of `in_ack_event`.
const CA_ACK_SLOWPATH: u32 = 1;
const CA_ACK_WIN_UPDATE: u32 = 2;
const CA_ACK_ECE: u32 = 4;

/// `TCP_ECN_OK`.
const ECN_OK: u8 = 1;

/// What an ACK's processing gathers (`struct tcp_sacktag_state` and the locals of `tcp_ack`).
#[derive(Debug, Default)]
pub(super) struct AckState {
    pub(super) flag: i32,
    pub(super) rs: RateSample,
    /// The lowest sequence number that was delivered late.
    pub(super) reord: u32,
    /// When the first and last of the newly selectively acknowledged packets were sent.
    pub(super) sacked_us: Option<(u32, u32)>,
    pub(super) sack_delivered: u32,
}

impl Endpoint {
    /// `tcp_ack`, for a segment whose ACK flag is set.
    pub(crate) fn ack(&mut self, segment: &Segment) {
        if self.says_nothing(segment) {
            return self.note_data(segment);
        }
        let (ack, prior_una) = (segment.ack, self.sk.snd_una);
        let (delivered, lost) = (self.sk.delivered, self.sk.lost);
        let mut state = AckState { reord: self.sk.snd_nxt, ..AckState::default() };
        if after(ack, self.sk.snd_nxt) {
            return;
        }
        if before(ack, prior_una) {
            return self.old_ack(segment, state);
        }
        if after(ack, prior_una) {
            state.flag |= flag::SND_UNA_ADVANCED;
            self.sk.icsk_retransmits = 0;
        }
        let prior_packets = self.sk.packets_out;
        let prior_fack = if self.tx.sack { self.highest_sack_seq() } else { prior_una };
        state.rs.prior_in_flight = self.sk.packets_in_flight();
        let was_reneg = self.tx.is_sack_reneg;
        let told = self.take_in(segment, &mut state);
        // From 6.16 on the controller is told after what the ACK covers has been counted.
        let told_late = self.config.profile.at_least(6, 16);
        if !told_late {
            self.cc.in_ack_event(&mut self.sk, told);
        }
        self.sk.icsk_probes_out = 0;
        self.sk.rcv_tstamp = self.jiffies();
        let mut rexmit = Retransmission::None;
        if prior_packets == 0 {
            if told_late {
                self.cc.in_ack_event(&mut self.sk, told);
            }
            if state.flag & flag::DSACKING_ACK != 0 {
                self.fastretrans_alert(prior_una, 0, &mut state.flag, &mut rexmit);
            }
            self.ack_probe();
            if self.sk.tlp_high_seq != 0 {
                self.process_tlp_ack(ack, state.flag);
            }
            return;
        }
        let in_flight = self.sk.packets_in_flight();
        self.clean_rtx_queue(prior_fack, prior_una, &mut state);
        self.rack_update_reo_wnd(&state.rs);
        if told_late {
            self.cc.in_ack_event(&mut self.sk, told);
        }
        if self.sk.tlp_high_seq != 0 {
            self.process_tlp_ack(ack, state.flag);
        }
        if self.behaviour.growth == Growth::Acks {
            self.grow_by_ack(ack, in_flight, state.flag);
        }
        if self.is_dubious(state.flag) {
            let not_dup = flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DSACKING_ACK;
            let duplicates = u32::from(state.flag & not_dup == 0);
            self.fastretrans_alert(prior_una, duplicates, &mut state.flag, &mut rexmit);
        }
        if state.flag & flag::SET_XMIT_TIMER != 0 {
            self.set_xmit_timer();
        }
        let delivered = self.newly_delivered(delivered, state.flag);
        let lost = self.sk.lost.wrapping_sub(lost);
        state.rs.is_ack_delayed = state.flag & flag::ACK_MAYBE_DELAYED != 0;
        self.sk.complete_rate_sample(delivered, lost, was_reneg, &mut state.rs);
        self.cong_control(ack, delivered, state.flag, &state.rs);
        self.xmit_recovery(rexmit);
    }

    /// Whether a segment is only data for an end that has sent all it had: what follows from its ACK is done by
    /// [`Self::note_data`].
    #[inline]
    fn says_nothing(&self, segment: &Segment) -> bool {
        let sk = &self.sk;
        sk.packets_out == 0
            && segment.ack == sk.snd_una
            && segment.sack.is_none()
            && !segment.flags.has(Flags::ECE)
            && u32::from(segment.window) << self.tx.window_scale == sk.snd_wnd
            && self.tx.queue.unsent.is_empty()
            && sk.tlp_high_seq == 0
    }

    /// What is left of [`Self::ack`] for such a segment.
    #[inline]
    fn note_data(&mut self, segment: &Segment) {
        let sk = &mut self.sk;
        let mut told = CA_ACK_SLOWPATH;
        if after(segment.seq, sk.snd_wl1) || segment.seq == sk.snd_wl1 && sk.snd_wnd == 0 {
            sk.snd_wl1 = segment.seq;
            told |= CA_ACK_WIN_UPDATE;
        }
        sk.icsk_probes_out = 0;
        self.cc.in_ack_event(sk, told);
        self.sk.rcv_tstamp = self.jiffies();
    }

    /// The window, SACK and ECE of an ACK. Gives what the controller is to be told of it.
    #[inline]
    fn take_in(&mut self, segment: &Segment, state: &mut AckState) -> u32 {
        let nwin = u32::from(segment.window) << self.tx.window_scale;
        let slow = nwin != self.sk.snd_wnd
            || segment.sack.is_some()
            || segment.flags.has(Flags::ECE)
            || state.flag & flag::SND_UNA_ADVANCED == 0;
        if !slow {
            self.sk.snd_wl1 = segment.seq;
            self.update_una(segment.ack);
            state.flag |= flag::WIN_UPDATE;
            return CA_ACK_WIN_UPDATE;
        }
        state.flag |= flag::SLOWPATH;
        let mut told = CA_ACK_SLOWPATH;
        if segment.is_data() {
            state.flag |= flag::DATA;
        }
        let prior_una = self.sk.snd_una;
        self.update_window(segment, nwin, state);
        if self.tx.sack
            && let Some(sack) = &segment.sack
        {
            self.sacktag(sack.as_slice(), segment.ack, prior_una, state);
        }
        if segment.flags.has(Flags::ECE) && self.sk.ecn_flags & ECN_OK != 0 {
            state.flag |= flag::ECE;
            told |= CA_ACK_ECE;
        }
        if state.sack_delivered > 0 {
            self.count_delivered(state.sack_delivered, state.flag & flag::ECE != 0);
        }
        if state.flag & flag::WIN_UPDATE != 0 {
            told |= CA_ACK_WIN_UPDATE;
        }
        told
    }

    /// An ACK that was overtaken; its SACK blocks count.
    #[cold]
    fn old_ack(&mut self, segment: &Segment, mut state: AckState) {
        let Some(sack) = segment.sack.as_ref().filter(|_| self.tx.sack) else { return };
        let (prior_una, delivered) = (self.sk.snd_una, self.sk.delivered);
        self.sacktag(sack.as_slice(), segment.ack, prior_una, &mut state);
        if state.sack_delivered > 0 {
            self.count_delivered(state.sack_delivered, false);
        }
        let mut rexmit = Retransmission::None;
        self.fastretrans_alert(prior_una, 0, &mut state.flag, &mut rexmit);
        self.newly_delivered(delivered, state.flag);
        self.xmit_recovery(rexmit);
    }

    /// `tcp_ack_update_window`.
    fn update_window(&mut self, segment: &Segment, nwin: u32, state: &mut AckState) {
        let sk = &mut self.sk;
        let newer = after(segment.ack, sk.snd_una)
            || after(segment.seq, sk.snd_wl1)
            || segment.seq == sk.snd_wl1 && (nwin > sk.snd_wnd || nwin == 0);
        if newer {
            state.flag |= flag::WIN_UPDATE;
            sk.snd_wl1 = segment.seq;
            if sk.snd_wnd != nwin {
                let old = std::mem::replace(&mut sk.snd_wnd, nwin);
                sk.max_window = sk.max_window.max(nwin);
                if old == 0 || nwin == 0 {
                    self.window_opened_or_closed(nwin);
                }
                if !self.tx.queue.unsent.is_empty() {
                    self.slow_start_after_idle_check();
                }
            }
        }
        self.update_una(segment.ack);
    }

    #[cold]
    fn window_opened_or_closed(&mut self, window: u32) {
        let waiting = self.notsent();
        self.event(|at| match window {
            0 => Event::ZeroWindow { at, waiting },
            _ => Event::WindowOpen { at, window },
        });
    }

    /// `tcp_snd_una_update`.
    #[inline]
    fn update_una(&mut self, ack: u32) {
        let delta = ack.wrapping_sub(self.sk.snd_una);
        self.sk.bytes_acked += u64::from(delta);
        self.sk.snd_una = ack;
        self.tx.una += u64::from(delta);
    }

    /// `tcp_ack_is_dubious`.
    #[inline]
    pub(super) fn is_dubious(&self, flag: i32) -> bool {
        flag & flag::NOT_DUP == 0 || flag & flag::CA_ALERT != 0 || self.sk.icsk_ca_bits & 0x1f != 0
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
    fn newly_delivered(&self, prior: u32, _flag: i32) -> u32 {
        self.sk.delivered.wrapping_sub(prior)
    }

    /// `tcp_cong_control`.
    #[inline]
    fn cong_control(&mut self, ack: u32, delivered: u32, flag: i32, rs: &RateSample) {
        if self.has(Operation::CongControl) {
            self.cc.cong_control(&mut self.sk, ack, flag, rs);
            return;
        }
        if self.behaviour.growth == Growth::Acks {
            return;
        }
        if self.sk.in_cwnd_reduction() {
            let may_grow = flag & flag::SND_UNA_ADVANCED != 0 && rs.losses == 0;
            self.sk.reduce_cwnd(delivered, may_grow);
        } else if self.may_raise_cwnd(flag) {
            self.cc.cong_avoid(&mut self.sk, ack, delivered);
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        self.update_pacing_rate();
    }

    /// `tcp_may_raise_cwnd`.
    #[inline]
    fn may_raise_cwnd(&self, flag: i32) -> bool {
        if self.sk.reordering > self.config.reordering {
            return flag & flag::FORWARD_PROGRESS != 0;
        }
        flag & flag::DATA_ACKED != 0
    }
}
