//! The path MTU: what routers report (RFC 1191, RFC 8201; `tcp_v4_mtu_reduced`, net/ipv4/tcp_ipv4.c; `tcp_sync_mss`,
//! net/ipv4/tcp_output.c; `tcp_simple_retransmit`, net/ipv4/tcp_input.c), and the search for it where no router reports
//! (RFC 4821; `tcp_mtu_probing`, net/ipv4/tcp_timer.c; `tcp_mtu_probe`, net/ipv4/tcp_output.c).
//!
//! Departures:
//! 1. A packet's segments are counted anew when the MSS changes, those that are not sent again too; the kernel counts them when
//!    they are sent again. What is in flight is the same by either count.
//! 2. A probe counts as many segments of the MSS as it has bytes for, in the kernel as one.

use super::{Marks, skb::segments};
use crate::{
    CaState, Endpoint, State,
    segment::{after, before},
};

/// `struct inet_connection_sock.icsk_mtup`, and `mtu_probe` of `struct tcp_sock`.
#[derive(Debug, Default)]
pub(super) struct MtuSearch {
    enabled: bool,
    /// IP bytes: the path takes packets of `low` bytes, and perhaps those of `high` bytes.
    low: u32,
    high: u32,
    /// IP bytes of the probe under way; 0 where there is none.
    probe_size: u32,
    probe_begins: u32,
    probe_ends: u32,
    /// When the search last ended, ticks.
    timestamp: u32,
}

/// What became of an attempt to probe for the MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MtuProbe {
    /// No probe is wanted, or none is possible now.
    None,
    /// One was sent.
    Sent,
    /// One is to be sent before anything else, as soon as the windows allow it.
    Waits,
}

impl MtuSearch {
    /// The sender looks for the path's MTU by itself.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A probe is under way.
    #[inline]
    pub(super) fn is_probing(&self) -> bool {
        self.probe_size > 0
    }

    /// A retransmission makes the result of the probe uncertain (`__tcp_retransmit_skb`).
    #[inline]
    pub(super) fn give_up_probe(&mut self) {
        self.probe_size = 0;
    }
}

impl Endpoint {
    /// A router reports that a packet which began at `seq` is larger than the `mtu` of its next link ("fragmentation needed",
    /// "packet too big"; `tcp_v4_err`, `tcp_v4_mtu_reduced`).
    pub fn on_packet_too_big(&mut self, now: u64, seq: u32, mtu: u32) {
        let is_open =
            !matches!(self.state, State::Listen | State::Closed | State::SynSent | State::SynReceived);
        let is_ours = !before(seq, self.sk.snd_una) && !after(seq, self.sk.snd_nxt);
        if is_open && is_ours && mtu < self.sk.icsk_pmtu_cookie {
            self.set_clock(now);
            self.sync_mss(mtu);
            self.simple_retransmit();
        }
    }

    /// The route's MTU is another one: what was learned of it has expired (`tcp_current_mss`).
    pub fn set_path_mtu(&mut self, now: u64, mtu: u32) {
        if mtu != self.sk.icsk_pmtu_cookie && !matches!(self.state, State::Listen | State::Closed) {
            self.set_clock(now);
            self.sync_mss(mtu);
        }
    }

    /// `tcp_mtup_init`.
    pub(crate) fn begin_mtu_search(&mut self) {
        let (clamp, header) = (u32::from(self.sk.rx_opt.mss_clamp), self.config.ip_header);
        let low = self.mss_to_mtu(self.config.base_mss);
        let (enabled, timestamp) = (self.config.mtu_probing > 1, self.jiffies());
        self.tx.mtu_search =
            MtuSearch { enabled, low, high: clamp + 20 + header, timestamp, ..MtuSearch::default() };
        if enabled {
            self.sync_mss(self.sk.icsk_pmtu_cookie);
        }
    }

    /// `tcp_sync_mss`.
    fn sync_mss(&mut self, mtu: u32) {
        self.tx.mtu_search.high = self.tx.mtu_search.high.min(mtu);
        self.sk.icsk_pmtu_cookie = mtu;
        let mut mss = self.mtu_to_mss(mtu);
        if self.tx.mtu_search.enabled {
            mss = mss.min(self.mtu_to_mss(self.tx.mtu_search.low));
        }
        if mss != self.sk.mss_cache {
            self.sk.mss_cache = mss;
            self.count_segments_anew();
        }
    }

    /// `tcp_mtu_to_mss`.
    fn mtu_to_mss(&self, mtu: u32) -> u32 {
        let mss = mtu.saturating_sub(self.config.ip_header + 20).min(u32::from(self.sk.rx_opt.mss_clamp));
        let options = u32::from(self.sk.tcp_header_len).saturating_sub(20);
        mss.max(self.config.min_snd_mss).saturating_sub(options).max(1)
    }

    /// `tcp_mss_to_mtu`.
    fn mss_to_mtu(&self, mss: u32) -> u32 {
        mss + u32::from(self.sk.tcp_header_len) + self.config.ip_header
    }

    /// Counts the segments of what was sent by the present MSS.
    fn count_segments_anew(&mut self) {
        let mss = self.sk.mss_cache;
        for index in 0..self.tx.queue.count() {
            let Some(id) = self.tx.queue.at(index) else { break };
            let skb = *self.tx.queue.get(id);
            let segs = segments(skb.len(), mss);
            if segs == skb.segs {
                continue;
            }
            self.tx.queue.get_mut(id).segs = segs;
            let recount = |count: u32| (count + u32::from(segs)).saturating_sub(skb.segs());
            self.sk.packets_out = recount(self.sk.packets_out);
            if skb.marks.any(Marks::SACKED) {
                self.sk.sacked_out = recount(self.sk.sacked_out);
            }
            if skb.marks.any(Marks::LOST) {
                self.sk.lost_out = recount(self.sk.lost_out);
            }
            if skb.marks.any(Marks::RETRANS) {
                self.sk.retrans_out = recount(self.sk.retrans_out);
            }
        }
    }

    /// `tcp_simple_retransmit`: all that was sent in larger segments than the MSS is lost, and is sent again at once. The
    /// window stays as it is.
    fn simple_retransmit(&mut self) {
        let mss = self.sk.mss_cache;
        for index in 0..self.tx.queue.count() {
            let Some(id) = self.tx.queue.at(index) else { break };
            if self.tx.queue.get(id).len() > mss {
                self.mark_lost(id);
            }
        }
        if self.sk.lost_out == 0 {
            return;
        }
        if !self.tx.sack {
            // tcp_limit_reno_sacked.
            self.sk.sacked_out = self.sk.sacked_out.min(self.sk.packets_out - self.sk.lost_out);
        }
        if self.sk.ca_state() != CaState::Loss {
            self.sk.high_seq = self.sk.snd_nxt;
            self.sk.snd_ssthresh = self.sk.current_ssthresh();
            self.sk.prior_ssthresh = 0;
            self.sk.undo_marker = 0;
            self.set_ca_state(CaState::Loss);
        }
        self.xmit_retransmit_queue();
    }

    // ---- Where no router reports --------------------------------------------------------------------------------

    /// Black-hole detection after timeouts (`tcp_write_timeout`, `tcp_mtu_probing`).
    pub(super) fn detect_black_hole(&mut self) {
        if self.config.mtu_probing == 0 || !self.timed_out(self.config.retries1) {
            return;
        }
        if self.tx.mtu_search.enabled {
            let config = &self.config;
            let half = self.mtu_to_mss(self.tx.mtu_search.low) >> 1;
            let mss = half.min(config.base_mss).max(config.mtu_probe_floor).max(config.min_snd_mss);
            self.tx.mtu_search.low = self.mss_to_mtu(mss);
        } else {
            self.tx.mtu_search.enabled = true;
            self.tx.mtu_search.timestamp = self.jiffies();
        }
        self.sync_mss(self.sk.icsk_pmtu_cookie);
    }

    /// `retransmits_timed_out`: as long has passed since the first retransmission as so many with the least timeout take.
    fn timed_out(&self, retries: u8) -> bool {
        if self.sk.icsk_retransmits == 0 || self.sk.retrans_stamp == 0 {
            return false;
        }
        let least_ms = 200;
        let timeout_ms = ((2 << u32::from(retries).min(9)) - 1) * least_ms;
        let passed_ms = self.timestamp(self.clock()).wrapping_sub(self.sk.retrans_stamp);
        passed_ms as i32 >= timeout_ms
    }

    /// `tcp_mtu_probe`: a larger packet is sent, to see whether the path takes it.
    #[cold]
    #[inline(never)]
    pub(super) fn probe_mtu(&mut self) -> MtuProbe {
        let (sk, search) = (&self.sk, &self.tx.mtu_search);
        if search.probe_size > 0 || sk.ca_state() != CaState::Open || sk.snd_cwnd < 11 {
            return MtuProbe::None;
        }
        let size = self.mtu_to_mss((search.high + search.low) / 2);
        let needed = size + (sk.reordering + 1) * sk.mss_cache;
        let interval = search.high.saturating_sub(search.low);
        if size > self.mtu_to_mss(search.high) || interval < self.config.probe_threshold.max(1) {
            self.search_mtu_again();
            return MtuProbe::None;
        }
        if sk.write_seq.wrapping_sub(sk.snd_nxt) < needed || sk.snd_wnd < needed {
            return MtuProbe::None;
        }
        if after(sk.snd_nxt.wrapping_add(needed), self.window_end()) {
            return MtuProbe::Waits;
        }
        if sk.packets_in_flight() + 2 > sk.snd_cwnd {
            return if sk.packets_in_flight() > 0 { MtuProbe::Waits } else { MtuProbe::None };
        }
        self.send_mtu_probe(size)
    }

    fn send_mtu_probe(&mut self, size: u32) -> MtuProbe {
        let Some(chunk) = self.tx.queue.unsent.front().copied() else { return MtuProbe::None };
        let chunk = if chunk.len < size && self.tx.queue.unsent.len() > 1 {
            self.tx.queue.unsent.refill_front(size - chunk.len)
        } else {
            chunk
        };
        if chunk.len <= size || !self.device_takes(size, 0) {
            return MtuProbe::None;
        }
        self.sk.snd_cwnd -= 1;
        let begins = self.sk.snd_nxt;
        self.send_chunk(chunk, size);
        if let Some(segment) = self.out.back_mut() {
            segment.mss = size as u16;
        }
        let search = &mut self.tx.mtu_search;
        (search.probe_begins, search.probe_ends) = (begins, begins.wrapping_add(size));
        self.tx.mtu_search.probe_size = self.mss_to_mtu(size);
        MtuProbe::Sent
    }

    /// `tcp_mtu_check_reprobe`.
    fn search_mtu_again(&mut self) {
        let now = self.jiffies();
        let passed = now.wrapping_sub(self.tx.mtu_search.timestamp);
        if passed >= self.config.probe_interval_s.saturating_mul(self.config.hz) {
            let (mss, clamp) = (self.sk.mss_cache, u32::from(self.sk.rx_opt.mss_clamp));
            let low = self.mss_to_mtu(mss);
            let search = &mut self.tx.mtu_search;
            search.probe_size = 0;
            search.high = clamp + 20 + self.config.ip_header;
            search.low = low;
            search.timestamp = now;
        }
    }

    /// The probe is acknowledged (`tcp_mtup_probe_success`).
    #[cold]
    pub(super) fn check_mtu_probe(&mut self) {
        let search = &self.tx.mtu_search;
        if after(search.probe_ends, self.sk.snd_una) {
            return;
        }
        let (size, old) = (search.probe_size, self.mss_to_mtu(self.sk.mss_cache));
        self.sk.snd_cwnd = (u64::from(self.sk.snd_cwnd) * u64::from(old) / u64::from(size)).max(1) as u32;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.snd_ssthresh = self.sk.current_ssthresh();
        self.tx.mtu_search.low = size;
        self.tx.mtu_search.probe_size = 0;
        self.sync_mss(self.sk.icsk_pmtu_cookie);
    }

    /// The probe is lost (`tcp_mtup_probe_failed`, called by `tcp_fastretrans_alert`): that says nothing of congestion. Tells
    /// whether it was so.
    #[cold]
    pub(super) fn mtu_probe_failed(&mut self) -> bool {
        let search = &mut self.tx.mtu_search;
        if self.sk.ca_state() >= CaState::Cwr || self.sk.snd_una != search.probe_begins {
            return false;
        }
        search.high = search.probe_size - 1;
        search.probe_size = 0;
        self.sk.snd_cwnd += 1;
        self.simple_retransmit();
        true
    }
}
