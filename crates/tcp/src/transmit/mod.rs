//! The sending half of an endpoint, as methods of [`Endpoint`]: one file for each part of the kernel's sender.
//!
//! `ack` takes ACKs in, `tag` marks what SACK tells, `clean` drops what is acknowledged, `rack` finds losses,
//! `recovery` and `undo` are the states, `reduce` PRR, `classic` what Linux 2.4 does instead, `rtt` and `rate` the samples, `output` decides on new data,
//! `retransmit` on old, `path_mtu` on the size of segments, `send` lets it go, `timers` and `timeout` what happens when nothing comes, `buffer` the send
//! buffer, `chrono` the limited-by clocks.
//!
//! Source: net/ipv4/{tcp_input,tcp_output,tcp_timer,tcp_recovery,tcp_rate}.c of Linux 6.
//!
//! Departures, beside those of the files:
//!
//! 1. What is handed over has left the host, unless its owner tells of a device's queue (`device`).
//! 2. No urgent data, fast open, cookies, PLB.
//! 3. fq's pacing is done by TCP's own timer. High-resolution timers end exactly when they should.
//! 4. A retransmission is never joined with its neighbours, and SACK blocks on data packets do not lower the MSS.

mod ack;
mod buffer;
mod chrono;
mod classic;
mod clean;
mod device;
mod lost;
mod output;
mod path_mtu;
mod queue;
mod rack;
mod rate;
mod recovery;
mod reduce;
mod retransmit;
mod rtt;
mod sacked;
mod send;
mod skb;
mod tag;
mod timeout;
mod timers;
mod undo;
mod unsent;

use crate::{
    CaEvent, CaState, Config, Endpoint, Event, Operation,
    behaviour::{Recovery, Windows},
    segment::before,
};
pub(crate) use chrono::Chrono;
use queue::SendQueue;
use sacked::Sacked;
use skb::{Marks, Skb};
use std::collections::VecDeque;

/// The clock of an endpoint begins here, for 0 means "never" to many algorithms, ns.
pub(crate) const CLOCK_START_NS: u64 = 1_000_000_000_000;

/// `TCP_RTO_MAX`, s.
const RTO_MAX_S: u32 = 120;

/// What of the sending half the kernel's socket, as controllers see it, does not have.
pub(crate) struct Transmit {
    queue: SendQueue,
    sacked: Sacked,
    /// `snd_una` as a number that never wraps; its low 32 bits are `snd_una`.
    una: u64,
    /// The end of the highest packet that was selectively acknowledged.
    highest_sack: u32,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) window_scale: u8,
    frto: bool,
    is_sack_reneg: bool,
    tlp_retrans: bool,
    /// Packets that share another's memory, for both were selectively acknowledged.
    joined: u32,
    /// End of the last small packet sent (`snd_sml`).
    small: u32,
    /// The application wants to write more than there is room for (`SOCK_NOSPACE`).
    nospace: bool,
    fin_written: bool,
    /// When the timer of `icsk_pending` ends, on the endpoint's clock, ns.
    timer_ns: Option<u64>,
    pacing_timer_ns: Option<u64>,
    pub(crate) chrono: Chrono,
    scoreboard: classic::Scoreboard,
    device: device::Device,
    mtu_search: path_mtu::MtuSearch,
    pub(crate) jiffy_us: u64,
    /// The present tick of the clock, and when it began, us.
    tick: (u64, u64),
    pub(crate) events: VecDeque<Event>,
    pub(crate) keep_events: bool,
}

impl Transmit {
    pub(crate) fn new(config: &Config) -> Transmit {
        Transmit {
            queue: SendQueue::new(),
            sacked: Sacked::default(),
            una: (1 << 40) + u64::from(config.initial_seq),
            highest_sack: 0,
            sack: false,
            timestamps: false,
            window_scale: 0,
            frto: false,
            is_sack_reneg: false,
            tlp_retrans: false,
            joined: 0,
            small: config.initial_seq,
            nospace: false,
            fin_written: false,
            timer_ns: None,
            pacing_timer_ns: None,
            chrono: Chrono::default(),
            scoreboard: classic::Scoreboard::default(),
            device: device::Device::default(),
            mtu_search: path_mtu::MtuSearch::default(),
            jiffy_us: config.jiffy_us(),
            tick: (0, 0),
            events: VecDeque::new(),
            keep_events: false,
        }
    }
}

impl Endpoint {
    /// Ticks of the endpoint's clock.
    #[inline]
    pub(crate) fn jiffies(&self) -> u32 {
        self.tx.tick.0 as u32
    }

    /// The time is `now`, ns since the run's start.
    #[inline]
    pub(crate) fn set_clock(&mut self, now: u64) {
        self.sk.tcp_clock_cache = now + CLOCK_START_NS;
        self.sk.tcp_mstamp = self.sk.tcp_clock_cache / 1000;
        // Ticks are asked for several times a packet and pass once in many packets.
        if self.sk.tcp_mstamp.wrapping_sub(self.tx.tick.1) >= self.tx.jiffy_us {
            let tick = self.sk.tcp_mstamp / self.tx.jiffy_us;
            self.tx.tick = (tick, tick * self.tx.jiffy_us);
        }
    }

    /// `usecs_to_jiffies`.
    #[inline]
    fn us_to_jiffies(&self, us: u64) -> u32 {
        us.div_ceil(self.tx.jiffy_us).min(u64::from(u32::MAX)) as u32
    }

    #[inline]
    fn jiffies_to_us(&self, jiffies: u32) -> u64 {
        u64::from(jiffies) * self.tx.jiffy_us
    }

    #[inline]
    fn now32(&self) -> u32 {
        self.sk.tcp_mstamp as u32
    }

    /// How long ago a time kept in 32 bits was, us (`tcp_stamp_us_delta`).
    #[inline]
    fn age_us(&self, at: u32) -> u32 {
        (self.now32().wrapping_sub(at) as i32).max(0) as u32
    }

    /// A time kept in 32 bits, in full.
    #[inline]
    fn full_us(&self, at: u32) -> u64 {
        let ago = i64::from(self.now32().wrapping_sub(at) as i32);
        self.sk.tcp_mstamp.wrapping_add_signed(-ago)
    }

    /// A sequence number that never wraps.
    #[inline]
    fn extended(&self, seq: u32) -> u64 {
        self.tx.una.wrapping_add_signed(i64::from(seq.wrapping_sub(self.sk.snd_una) as i32))
    }

    /// `tcp_wnd_end`.
    #[inline]
    fn window_end(&self) -> u32 {
        self.sk.snd_una.wrapping_add(self.sk.snd_wnd)
    }

    #[inline]
    fn has(&self, operation: Operation) -> bool {
        self.cc.has(operation)
    }

    fn event(&mut self, event: impl FnOnce(u64) -> Event) {
        if self.tx.keep_events {
            let at = self.sk.tcp_clock_cache - CLOCK_START_NS;
            self.tx.events.push_back(event(at));
        }
    }

    /// `tcp_set_ca_state`.
    fn set_ca_state(&mut self, state: CaState) {
        let old = self.sk.ca_state();
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
        if old != state {
            let (cwnd, ssthresh) = (self.sk.snd_cwnd, self.sk.snd_ssthresh);
            self.event(|at| Event::CaState { at, old, state, cwnd, ssthresh });
        }
    }

    fn ca_event(&mut self, event: CaEvent) {
        self.cc.cwnd_event(&mut self.sk, event);
    }

    /// `tcp_init_cwnd`.
    pub(crate) fn initial_cwnd(&self) -> u32 {
        let usual = match self.behaviour.windows {
            Windows::Large => crate::INITIAL_CWND,
            Windows::Small => self.small_initial_cwnd(),
        };
        self.config.initcwnd.unwrap_or(usual).min(self.sk.snd_cwnd_clamp)
    }

    /// `tcp_min_rtt`, us.
    #[inline]
    fn min_rtt_us(&self) -> u32 {
        self.sk.rtt_min.s[0].v
    }

    /// `tcp_rto_min_us`.
    fn rto_min_us(&self) -> u32 {
        self.jiffies_to_us(self.sk.icsk_rto_min) as u32
    }

    /// `tcp_left_out`.
    fn left_out(&self) -> u32 {
        self.sk.sacked_out + self.sk.lost_out
    }

    /// `tcp_is_rack`.
    fn is_rack(&self) -> bool {
        self.tx.sack && self.config.recovery & 1 != 0
    }

    /// Whether the counters of the socket say what the queue says; for tests.
    #[doc(hidden)]
    pub fn verify(&self) -> Result<(), String> {
        let (mut out, mut sacked, mut lost, mut again) = (0, 0, 0, 0);
        let (mut joined, mut was_sacked) = (0, false);
        let mut expected = self.sk.snd_una;
        for index in 0..self.tx.queue.count() {
            let Some(id) = self.tx.queue.at(index) else { break };
            let skb = self.tx.queue.get(id);
            if skb.seq != expected && !(index == 0 && before(skb.seq, expected)) {
                return Err(format!("a hole at {expected}: the next packet begins at {}", skb.seq));
            }
            expected = skb.end_seq;
            let is_sacked = skb.marks.any(Marks::SACKED);
            joined += u32::from(was_sacked && is_sacked);
            was_sacked = is_sacked;
            out += skb.segs();
            sacked += if skb.marks.any(Marks::SACKED) { skb.segs() } else { 0 };
            lost += if skb.marks.any(Marks::LOST) { skb.segs() } else { 0 };
            again += if skb.marks.any(Marks::RETRANS) { skb.segs() } else { 0 };
        }
        let sk = &self.sk;
        let sacked = if self.tx.sack { sacked } else { sk.sacked_out };
        let (said, is) =
            ([sk.packets_out, sk.sacked_out, sk.lost_out, sk.retrans_out], [out, sacked, lost, again]);
        if said != is || self.tx.queue.count() > 0 && expected != sk.snd_nxt {
            return Err(format!("out, sacked, lost, retransmitted: {said:?} said, {is:?} is"));
        }
        if joined != self.tx.joined && self.behaviour.recovery == Recovery::Rack {
            return Err(format!("{} packets joined said, {joined} are", self.tx.joined));
        }
        let waits = sk.packets_out > 0 || !self.tx.queue.unsent.is_empty();
        let latest = sk.tcp_clock_cache + 136_000_000_000;
        if waits && self.tx.timer_ns.or(self.tx.pacing_timer_ns).is_none_or(|at| at > latest) {
            return Err(format!("no timer runs: {:?}, pending {}", self.tx.timer_ns, sk.icsk_pending));
        }
        Ok(())
    }
}

/// Flags of an ACK's processing (`FLAG_*` of net/ipv4/tcp_input.c).
mod flag {
    pub(super) const DATA: i32 = 0x01;
    pub(super) const WIN_UPDATE: i32 = 0x02;
    pub(super) const DATA_ACKED: i32 = 0x04;
    pub(super) const RETRANS_DATA_ACKED: i32 = 0x08;
    pub(super) const SYN_ACKED: i32 = 0x10;
    pub(super) const DATA_SACKED: i32 = 0x20;
    pub(super) const ECE: i32 = 0x40;
    pub(super) const LOST_RETRANS: i32 = 0x80;
    pub(super) const SLOWPATH: i32 = 0x100;
    pub(super) const ORIG_SACK_ACKED: i32 = 0x200;
    pub(super) const SND_UNA_ADVANCED: i32 = 0x400;
    pub(super) const DSACKING_ACK: i32 = 0x800;
    pub(super) const SET_XMIT_TIMER: i32 = 0x1000;
    pub(super) const SACK_RENEGING: i32 = 0x2000;
    pub(super) const ACK_MAYBE_DELAYED: i32 = 0x10000;
    pub(super) const DSACK_TLP: i32 = 0x20000;
    pub(super) const ACKED: i32 = DATA_ACKED | SYN_ACKED;
    pub(super) const NOT_DUP: i32 = DATA | WIN_UPDATE | ACKED;
    pub(super) const CA_ALERT: i32 = DATA_SACKED | ECE | DSACKING_ACK;
    pub(super) const FORWARD_PROGRESS: i32 = ACKED | DATA_SACKED;
}
