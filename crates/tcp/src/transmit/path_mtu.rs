//! The path MTU: reports of routers (RFC 1191, RFC 8201; `tcp_v4_mtu_reduced`, net/ipv4/tcp_ipv4.c;
//! `tcp_sync_mss`, net/ipv4/tcp_output.c; `tcp_simple_retransmit`, net/ipv4/tcp_input.c), and the search for
//! it without such reports (RFC 4821; `tcp_mtu_probing`, net/ipv4/tcp_timer.c; `tcp_mtu_probe`,
//! net/ipv4/tcp_output.c). Half of the peer's largest window limits the MSS too.
//!
//! Differences from the kernel:
//! 1. The segments of all packets are recounted when the MSS changes; the kernel recounts a packet when it is
//!    retransmitted. The amount in flight is the same either way.
//! 2. A probe counts as the number of MSS-sized segments that it fills; in the kernel it counts as one.

use super::{Marks, RTO_MAX_S, Sender, skb::segments};
use crate::{
    CaState, TcpState,
    behaviour::Windows,
    connection::Connection,
    segment::{after, before},
};

/// `TCP_MSS_DEFAULT`: the MSS of a peer that does not announce one (RFC 9293 section 3.7.1), bytes.
const DEFAULT_MSS: u32 = 536;
/// Headers and data of the smallest segments that a small window leads to (`tcp_bound_to_half_wnd`), bytes.
const MIN_TCP_PACKET: u32 = 68;

/// `TCP_RTO_MIN` and `TCP_RTO_MAX`, ms, and the number of doublings from one to the other.
const RTO_MIN_MS: i32 = 200;
const RTO_MAX_MS: i32 = 1000 * RTO_MAX_S as i32;
const RTO_DOUBLINGS: u8 = 9;

/// `struct inet_connection_sock.icsk_mtup`, and `mtu_probe` of `struct tcp_sock`.
#[derive(Debug, Default)]
pub(super) struct MtuSearch {
    enabled: bool,
    /// Packet sizes, IP header included: the path carries `low` bytes, and perhaps `high` bytes.
    low: u32,
    high: u32,
    /// Size of the outstanding probe, IP header included; 0: none.
    probe_size: u32,
    probe_begins: u32,
    probe_ends: u32,
    /// When the search last ended, jiffies.
    timestamp: u32,
}

/// Outcome of an attempt to probe for the MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MtuProbe {
    /// No probe is needed, or none is possible now.
    None,
    /// A probe was sent.
    Sent,
    /// A probe is sent before anything else, as soon as the windows allow it.
    Waits,
}

impl MtuSearch {
    /// Whether the sender searches for the path MTU.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether a probe is outstanding.
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

impl Sender {
    /// A router reports that a packet which began at `seq` is larger than the `mtu` of its next link
    /// ("fragmentation needed", "packet too big"; `tcp_v4_err`, `tcp_v4_mtu_reduced`).
    pub(crate) fn on_packet_too_big(&mut self, conn: &mut Connection, now: u64, seq: u32, mtu: u32) {
        let is_open = !matches!(
            conn.state,
            TcpState::Listen | TcpState::Closed | TcpState::SynSent | TcpState::SynReceived
        );
        let is_ours = !before(seq, conn.sk.snd_una) && !after(seq, conn.sk.snd_nxt);
        if is_open && is_ours && mtu < conn.sk.icsk_pmtu_cookie {
            conn.set_clock(now);
            self.sync_mss(conn, mtu);
            self.simple_retransmit(conn);
        }
    }

    /// The route's MTU has changed: the cached path MTU has expired (`tcp_current_mss`).
    pub(crate) fn set_path_mtu(&mut self, conn: &mut Connection, now: u64, mtu: u32) {
        if mtu != conn.sk.icsk_pmtu_cookie && !matches!(conn.state, TcpState::Listen | TcpState::Closed) {
            conn.set_clock(now);
            self.sync_mss(conn, mtu);
        }
    }

    /// `tcp_mtup_init`.
    pub(crate) fn begin_mtu_search(&mut self, conn: &mut Connection) {
        let (clamp, header) = (u32::from(conn.sk.rx_opt.mss_clamp), conn.config.ip_header);
        let low = conn.mss_to_mtu(conn.config.base_mss);
        let (enabled, timestamp) = (conn.config.mtu_probing > 1, conn.jiffies());
        self.mtu_search =
            MtuSearch { enabled, low, high: clamp + 20 + header, timestamp, ..MtuSearch::default() };
        self.sync_mss(conn, conn.sk.icsk_pmtu_cookie);
    }

    /// The peer's largest window has grown (`tcp_ack_update_window`).
    #[cold]
    #[inline(never)]
    pub(super) fn raise_max_window(&mut self, conn: &mut Connection, window: u32) {
        conn.sk.max_window = window;
        self.sync_mss(conn, conn.sk.icsk_pmtu_cookie);
    }

    /// `tcp_sync_mss`.
    fn sync_mss(&mut self, conn: &mut Connection, mtu: u32) {
        self.mtu_search.high = self.mtu_search.high.min(mtu);
        conn.sk.icsk_pmtu_cookie = mtu;
        let mut mss = conn.bound_to_half_window(conn.mtu_to_mss(mtu));
        if self.mtu_search.enabled {
            mss = mss.min(conn.mtu_to_mss(self.mtu_search.low));
        }
        if mss != conn.sk.mss_cache {
            conn.sk.mss_cache = mss;
            self.recount_segments(conn);
        }
    }

    /// Recounts the segments of sent packets with the current MSS.
    fn recount_segments(&mut self, conn: &mut Connection) {
        let mss = conn.sk.mss_cache;
        for index in 0..self.queue.count() {
            let Some(id) = self.queue.at(index) else { break };
            let skb = *self.queue.get(id);
            let segs = segments(skb.len(), mss);
            if segs == skb.segs {
                continue;
            }
            self.queue.get_mut(id).segs = segs;
            let recount = |count: u32| (count + u32::from(segs)).saturating_sub(skb.segs());
            conn.sk.packets_out = recount(conn.sk.packets_out);
            if skb.marks.any(Marks::SACKED) {
                conn.sk.sacked_out = recount(conn.sk.sacked_out);
            }
            if skb.marks.any(Marks::LOST) {
                conn.sk.lost_out = recount(conn.sk.lost_out);
            }
            if skb.marks.any(Marks::RETRANS) {
                conn.sk.retrans_out = recount(conn.sk.retrans_out);
            }
        }
    }

    /// `tcp_simple_retransmit`: marks all packets lost that have larger segments than the MSS, and
    /// retransmits them at once. The congestion window does not change.
    fn simple_retransmit(&mut self, conn: &mut Connection) {
        let mss = conn.sk.mss_cache;
        for index in 0..self.queue.count() {
            let Some(id) = self.queue.at(index) else { break };
            if self.queue.get(id).len() > mss {
                self.mark_lost(conn, id);
            }
        }
        if conn.sk.lost_out == 0 {
            return;
        }
        if !conn.sack {
            // tcp_limit_reno_sacked.
            conn.sk.sacked_out = conn.sk.sacked_out.min(conn.sk.packets_out - conn.sk.lost_out);
        }
        if conn.sk.ca_state() != CaState::Loss {
            conn.sk.high_seq = conn.sk.snd_nxt;
            conn.sk.snd_ssthresh = conn.sk.current_ssthresh();
            conn.sk.prior_ssthresh = 0;
            conn.sk.undo_marker = 0;
            conn.set_ca_state(CaState::Loss);
        }
        self.xmit_retransmit_queue(conn);
    }

    // ---- Search without reports of routers ----------------------------------------------------------------

    /// Black-hole detection after timeouts (`tcp_write_timeout`, `tcp_mtu_probing`).
    pub(super) fn detect_black_hole(&mut self, conn: &mut Connection) {
        if conn.config.mtu_probing == 0 || !conn.timed_out(conn.config.retries1) {
            return;
        }
        if self.mtu_search.enabled {
            let config = &conn.config;
            let half = conn.mtu_to_mss(self.mtu_search.low) >> 1;
            let mss = half.min(config.base_mss).max(config.mtu_probe_floor).max(config.min_snd_mss);
            self.mtu_search.low = conn.mss_to_mtu(mss);
        } else {
            self.mtu_search.enabled = true;
            self.mtu_search.timestamp = conn.jiffies();
        }
        self.sync_mss(conn, conn.sk.icsk_pmtu_cookie);
    }

    /// `tcp_mtu_probe`: sends a larger packet to find out whether the path carries it.
    #[cold]
    #[inline(never)]
    pub(super) fn probe_mtu(&mut self, conn: &mut Connection) -> MtuProbe {
        let (sk, search) = (&conn.sk, &self.mtu_search);
        if search.probe_size > 0 || sk.ca_state() != CaState::Open || sk.snd_cwnd < 11 {
            return MtuProbe::None;
        }
        let size = conn.mtu_to_mss((search.high + search.low) / 2);
        let needed = size + (sk.reordering + 1) * sk.mss_cache;
        let interval = search.high.saturating_sub(search.low);
        if size > conn.mtu_to_mss(search.high) || interval < conn.config.probe_threshold.max(1) {
            self.check_reprobe(conn);
            return MtuProbe::None;
        }
        if sk.write_seq.wrapping_sub(sk.snd_nxt) < needed || sk.snd_wnd < needed {
            return MtuProbe::None;
        }
        if after(sk.snd_nxt.wrapping_add(needed), conn.window_end()) {
            return MtuProbe::Waits;
        }
        if sk.packets_in_flight() + 2 > sk.snd_cwnd {
            return if sk.packets_in_flight() > 0 { MtuProbe::Waits } else { MtuProbe::None };
        }
        self.send_mtu_probe(conn, size)
    }

    fn send_mtu_probe(&mut self, conn: &mut Connection, size: u32) -> MtuProbe {
        let Some(chunk) = self.queue.unsent.front().copied() else { return MtuProbe::None };
        let chunk = if chunk.len < size && self.queue.unsent.len() > 1 {
            self.queue.unsent.refill_front(size - chunk.len)
        } else {
            chunk
        };
        if chunk.len <= size || !self.device_takes(conn, size, 0) {
            return MtuProbe::None;
        }
        conn.sk.snd_cwnd -= 1;
        let begins = conn.sk.snd_nxt;
        self.send_chunk(conn, chunk, size);
        if let Some(segment) = conn.out.back_mut() {
            segment.mss = size as u16;
        }
        let search = &mut self.mtu_search;
        (search.probe_begins, search.probe_ends) = (begins, begins.wrapping_add(size));
        self.mtu_search.probe_size = conn.mss_to_mtu(size);
        MtuProbe::Sent
    }

    /// `tcp_mtu_check_reprobe`.
    fn check_reprobe(&mut self, conn: &mut Connection) {
        let now = conn.jiffies();
        let passed = now.wrapping_sub(self.mtu_search.timestamp);
        if passed >= conn.config.probe_interval_s.saturating_mul(conn.config.hz) {
            let (mss, clamp) = (conn.sk.mss_cache, u32::from(conn.sk.rx_opt.mss_clamp));
            let low = conn.mss_to_mtu(mss);
            let search = &mut self.mtu_search;
            search.probe_size = 0;
            search.high = clamp + 20 + conn.config.ip_header;
            search.low = low;
            search.timestamp = now;
        }
    }

    /// Raises the MTU if the probe is acknowledged (`tcp_mtup_probe_success`).
    #[cold]
    pub(super) fn check_mtu_probe(&mut self, conn: &mut Connection) {
        let search = &self.mtu_search;
        if after(search.probe_ends, conn.sk.snd_una) {
            return;
        }
        let (size, old) = (search.probe_size, conn.mss_to_mtu(conn.sk.mss_cache));
        conn.sk.snd_cwnd = (u64::from(conn.sk.snd_cwnd) * u64::from(old) / u64::from(size)).max(1) as u32;
        conn.sk.snd_cwnd_cnt = 0;
        conn.sk.snd_cwnd_stamp = conn.jiffies();
        conn.sk.snd_ssthresh = conn.sk.current_ssthresh();
        self.mtu_search.low = size;
        self.mtu_search.probe_size = 0;
        self.sync_mss(conn, conn.sk.icsk_pmtu_cookie);
    }

    /// `tcp_mtup_probe_failed`, called by `tcp_fastretrans_alert`: returns whether the lost packet is the
    /// probe, whose loss is not a sign of congestion.
    #[cold]
    pub(super) fn mtu_probe_failed(&mut self, conn: &mut Connection) -> bool {
        let search = &mut self.mtu_search;
        if conn.sk.ca_state() >= CaState::Cwr || conn.sk.snd_una != search.probe_begins {
            return false;
        }
        search.high = search.probe_size - 1;
        search.probe_size = 0;
        conn.sk.snd_cwnd += 1;
        self.simple_retransmit(conn);
        true
    }
}

impl Connection {
    /// `tcp_mtu_to_mss`.
    fn mtu_to_mss(&self, mtu: u32) -> u32 {
        let mss = mtu.saturating_sub(self.config.ip_header + 20).min(u32::from(self.sk.rx_opt.mss_clamp));
        let options = u32::from(self.sk.tcp_header_len).saturating_sub(20);
        mss.max(self.config.min_snd_mss).saturating_sub(options).max(1)
    }

    /// `tcp_bound_to_half_wnd`: limits the size of a segment or super-packet to half the peer's largest
    /// window, so that two fit into the window. Otherwise a segment larger than the window would wait for a
    /// window probe.
    pub(super) fn bound_to_half_window(&self, bytes: u32) -> u32 {
        let largest = self.sk.max_window;
        // Since 2.6.36 one segment may fill a tiny window.
        let is_tiny = largest <= DEFAULT_MSS && self.behaviour.windows == Windows::Large;
        let cutoff = if is_tiny { largest } else { largest >> 1 };
        if cutoff == 0 || bytes <= cutoff {
            return bytes;
        }
        cutoff.max(MIN_TCP_PACKET.saturating_sub(u32::from(self.sk.tcp_header_len)))
    }

    /// `tcp_mss_to_mtu`.
    fn mss_to_mtu(&self, mss: u32) -> u32 {
        mss + u32::from(self.sk.tcp_header_len) + self.config.ip_header
    }

    /// `retransmits_timed_out`: whether the time since the first retransmission exceeds that of `retries`
    /// retransmissions with the minimum timeout (`tcp_model_timeout`: doubled up to the maximum timeout).
    pub(super) fn timed_out(&self, retries: u8) -> bool {
        if self.sk.icsk_retransmits == 0 || self.sk.retrans_stamp == 0 {
            return false;
        }
        let doubled_ms = ((2 << retries.min(RTO_DOUBLINGS)) - 1) * RTO_MIN_MS;
        let timeout_ms = doubled_ms + i32::from(retries.saturating_sub(RTO_DOUBLINGS)) * RTO_MAX_MS;
        let passed_ms = self.timestamp(self.clock()).wrapping_sub(self.sk.retrans_stamp);
        passed_ms as i32 >= timeout_ms
    }
}
