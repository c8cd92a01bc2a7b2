//! The send buffer and writes of the application (`tcp_sendmsg_locked`, net/ipv4/tcp.c), and the validation
//! of the congestion window (`tcp_cwnd_validate`, net/ipv4/tcp_output.c).
//!
//! The application blocks in a write until all of it is taken. A write is appended to the last unsent packet
//! without regard to the size of the buffer; only a new packet waits for space. So writes that end with a
//! partial segment, which Nagle's algorithm holds back, may fill the buffer far beyond its size, a packet of
//! up to 64 KiB at a time.

use super::{Sender, chrono, output::Push, unsent::Chunk};
use crate::{
    CaEvent, CaState, Operation, TcpState,
    behaviour::{Growth, SHARED_INFO, SK_BUFF, Windows},
    connection::Connection,
    segment::after,
};

impl Sender {
    /// `sk_wmem_queued`, bytes: payload and the memory of the packets that hold it.
    #[inline]
    pub(crate) fn wmem_queued(&self, conn: &Connection) -> u32 {
        if conn.behaviour.whole_packets {
            return self.queue.skbs() as u32 * (conn.sk.mss_cache + conn.behaviour.packet_overhead);
        }
        let bytes = conn.sk.write_seq.wrapping_sub(conn.sk.snd_una);
        bytes.saturating_add((self.queue.skbs() as u32 - self.joined) * conn.behaviour.packet_overhead)
    }

    /// Whether the application is not blocked in a write.
    #[inline]
    pub(crate) fn can_write(&self, conn: &Connection) -> bool {
        let open = matches!(conn.state, TcpState::Established | TcpState::CloseWait);
        open && !self.nospace && !self.fin_written
    }

    /// `tcp_sendmsg_locked`: takes as many bytes as fit. Returns the number of bytes taken. `bytes` is the
    /// remainder of one write of the application.
    pub(crate) fn write_bytes(&mut self, conn: &mut Connection, bytes: u64) -> u64 {
        if !self.can_write(conn) || bytes == 0 {
            return 0;
        }
        if conn.behaviour.growth == Growth::Acks {
            return self.write_by_segments(conn, bytes);
        }
        conn.rate_check_app_limited();
        let goal = conn.size_goal();
        let mut left = bytes;
        while left > 0 {
            let space = self.queue.unsent.back().map_or(0, |last| goal.saturating_sub(last.len));
            if space == 0 {
                if !self.memory_is_free(conn, 0) {
                    self.nospace = true;
                    break;
                }
                let full = self.full_chunks(conn, left, goal);
                if full == 0 {
                    self.new_chunk(conn);
                } else {
                    self.queue.unsent.push_many(Chunk::of(goal), full);
                    conn.sk.write_seq = conn.sk.write_seq.wrapping_add(full * goal);
                    left -= u64::from(full) * u64::from(goal);
                    self.push_full_packet(conn, left);
                }
                continue;
            }
            let taken = u64::from(space).min(left) as u32;
            self.append(conn, taken);
            left -= u64::from(taken);
            if taken == space {
                self.push_full_packet(conn, left);
            }
        }
        if left < bytes {
            self.mark_push(conn);
            self.push_pending(conn);
        }
        self.check_space(conn);
        bytes - left
    }

    /// Appends bytes to the last unsent packet.
    pub(super) fn append(&mut self, conn: &mut Connection, bytes: u32) {
        if let Some(last) = self.queue.unsent.back_mut() {
            last.len += bytes;
            last.push = false;
        }
        conn.sk.write_seq = conn.sk.write_seq.wrapping_add(bytes);
    }

    /// `tcp_mark_push`: a write ends here, waits for space, or is pushed.
    pub(super) fn mark_push(&mut self, conn: &Connection) {
        if let Some(last) = self.queue.unsent.back_mut() {
            last.push = true;
            self.pushed = conn.sk.write_seq;
        }
    }

    /// The end of the loop of `tcp_sendmsg_locked`: the last packet is full and `left` bytes of the write
    /// follow. The first packet is sent while the write continues, the others after each half of the peer's
    /// largest window (`forced_push`).
    fn push_full_packet(&mut self, conn: &mut Connection, left: u64) {
        if left == 0 {
            return;
        }
        if after(conn.sk.write_seq, self.pushed.wrapping_add(conn.sk.max_window >> 1)) {
            self.mark_push(conn);
            self.push_pending(conn);
        } else if self.queue.unsent.len() == 1 {
            self.write_xmit(conn, Push::One);
        }
    }

    /// `__sk_stream_memory_free`: whether another packet may be started. `wake` is 1 if the application waits
    /// for space: then it waits until half of `tcp_notsent_lowat` is sent.
    fn memory_is_free(&self, conn: &Connection, wake: u32) -> bool {
        self.wmem_queued(conn) < conn.sk.sk_sndbuf as u32
            && (conn.notsent() << wake) < u64::from(conn.sk.notsent_lowat)
    }

    /// Number of full packets of `goal` bytes that the next `left` bytes fill, as long as there is space; 0
    /// if [`Self::new_chunk`] must start the first of them.
    fn full_chunks(&self, conn: &Connection, left: u64, goal: u32) -> u32 {
        if conn.sk.packets_out == 0 || conn.sk.chrono_type == 0 {
            return 0;
        }
        // A packet is started while there is any space.
        let space = (conn.sk.sk_sndbuf as u32).saturating_sub(self.wmem_queued(conn));
        let started = space.div_ceil(goal + conn.behaviour.packet_overhead);
        // The write is pushed after this many packets.
        let written = conn.sk.write_seq.wrapping_sub(self.pushed);
        let pushed = (conn.sk.max_window >> 1).saturating_sub(written) / goal + 1;
        let unsent =
            u64::from(conn.sk.notsent_lowat).saturating_sub(conn.notsent()).div_ceil(u64::from(goal));
        (left / u64::from(goal)).min(u64::from(started.min(pushed))).min(unsent) as u32
    }

    /// `tcp_skb_entail`.
    pub(super) fn new_chunk(&mut self, conn: &mut Connection) {
        conn.slow_start_after_idle_check();
        self.queue.unsent.push_back(Chunk::default());
        self.chrono_start(conn, chrono::BUSY);
    }

    /// `tcp_send_fin`.
    pub(crate) fn queue_fin(&mut self, conn: &mut Connection) {
        if self.fin_written {
            return;
        }
        self.fin_written = true;
        match self.queue.unsent.back_mut() {
            Some(last) => last.fin = true,
            None => {
                self.queue.unsent.push_back(Chunk { fin: true, ..Chunk::default() });
                self.chrono_start(conn, chrono::BUSY);
            }
        }
        conn.sk.write_seq = conn.sk.write_seq.wrapping_add(1);
        self.push_pending(conn);
    }

    /// Whether all written data and the FIN are acknowledged.
    pub(crate) fn is_fin_acked(&self, conn: &Connection) -> bool {
        self.fin_written && conn.sk.snd_una == conn.sk.write_seq
    }

    /// Sends a part of the first chunk, at most `space` bytes, as a window probe. A FIN that does not fit is
    /// not sent.
    pub(super) fn send_for_wakeup(&mut self, conn: &mut Connection, space: u32) {
        let mss = conn.sk.mss_cache;
        let len = space.min(mss);
        if let Some(first) = self.queue.unsent.front().copied()
            && (first.len > mss || first.len + u32::from(first.fin) > space)
            && len > 0
        {
            let len = len.min(first.len);
            self.queue.unsent.split_front(len);
        }
        self.write_xmit(conn, Push::Probe);
    }

    /// `tcp_check_space`.
    #[inline(always)]
    pub(crate) fn check_space(&mut self, conn: &mut Connection) {
        if self.nospace {
            self.new_space(conn);
        }
    }

    /// `tcp_new_space`, `sk_stream_write_space`.
    #[inline(never)]
    fn new_space(&mut self, conn: &mut Connection) {
        let tuned = conn.config.sndbuf.is_none();
        if tuned && conn.sk.packets_in_flight() < conn.sk.snd_cwnd {
            conn.sndbuf_expand();
            conn.sk.snd_cwnd_stamp = conn.jiffies();
        }
        let (queued, buffer) = (self.wmem_queued(conn), conn.sk.sk_sndbuf as u32);
        if queued < buffer && buffer - queued >= queued >> 1 && self.memory_is_free(conn, 1) {
            self.nospace = false;
            self.chrono_stop(conn, chrono::SNDBUF_LIMITED);
        }
    }

    // ---- Validation of the congestion window --------------------------------------------------------------

    /// `tcp_cwnd_validate`.
    pub(super) fn cwnd_validate(&mut self, conn: &mut Connection, limited: bool) {
        if conn.behaviour.growth == Growth::Acks {
            return self.validate_by_acks(conn);
        }
        let sk = &mut conn.sk;
        if !crate::segment::before(sk.snd_una, sk.cwnd_usage_seq)
            || limited
            || !sk.is_cwnd_limited() && sk.packets_out > sk.max_packets_out
        {
            sk.set_is_cwnd_limited(limited);
            sk.max_packets_out = sk.packets_out;
            sk.cwnd_usage_seq = sk.snd_nxt;
        }
        let used = sk.is_cwnd_limited() || sk.in_slow_start() && sk.snd_cwnd < 2 * sk.max_packets_out;
        if used {
            conn.sk.snd_cwnd_used = 0;
            conn.sk.snd_cwnd_stamp = conn.jiffies();
            return;
        }
        sk.snd_cwnd_used = sk.snd_cwnd_used.max(sk.packets_out);
        let unused = conn.jiffies().wrapping_sub(conn.sk.snd_cwnd_stamp);
        if conn.config.slow_start_after_idle
            && unused >= conn.sk.icsk_rto
            && !conn.has(Operation::CongControl)
        {
            self.cwnd_application_limited(conn, conn.initial_cwnd());
        }
        self.note_full_buffer(conn);
    }

    /// The end of `tcp_cwnd_validate`: neither the window nor the application limits the sender.
    pub(super) fn note_full_buffer(&mut self, conn: &mut Connection) {
        if self.queue.unsent.is_empty() && self.nospace {
            self.chrono_start(conn, chrono::SNDBUF_LIMITED);
        }
    }

    /// `tcp_cwnd_application_limited` (RFC 2861); at least `min_cwnd` packets count as used.
    pub(super) fn cwnd_application_limited(&mut self, conn: &mut Connection, min_cwnd: u32) {
        if conn.sk.ca_state() == CaState::Open && !self.nospace {
            let used = conn.sk.snd_cwnd_used.max(min_cwnd);
            if used < conn.sk.snd_cwnd {
                conn.sk.snd_ssthresh = conn.sk.current_ssthresh();
                conn.sk.snd_cwnd = (conn.sk.snd_cwnd + used) >> 1;
            }
            conn.sk.snd_cwnd_used = 0;
        }
        conn.sk.snd_cwnd_stamp = conn.jiffies();
    }
}

impl Connection {
    /// `tcp_xmit_size_goal`: maximum size of a packet that is being filled, bytes.
    pub(super) fn size_goal(&self) -> u32 {
        let mss = self.sk.mss_cache;
        let goal = self.bound_to_half_window(self.sk.sk_gso_max_size);
        let segs = (goal / mss).min(u32::from(self.sk.sk_gso_max_segs));
        segs.max(1) * mss
    }

    /// Unsent bytes in the buffer.
    pub(crate) fn notsent(&self) -> u64 {
        u64::from(self.sk.write_seq.wrapping_sub(self.sk.snd_nxt))
    }

    // ---- Autotuning ---------------------------------------------------------------------------------------

    /// `tcp_sndbuf_expand`.
    pub(crate) fn sndbuf_expand(&mut self) {
        let sk = &self.sk;
        let mss = u32::from(sk.rx_opt.mss_clamp).max(sk.mss_cache);
        let (per_mss, min_segs) = match self.behaviour.windows {
            Windows::Large => {
                let head = (mss + self.config.max_tcp_header() + SHARED_INFO).next_power_of_two();
                (head + SK_BUFF, crate::INITIAL_CWND)
            }
            Windows::Small => (mss + self.behaviour.packet_overhead, 0),
        };
        let segs = sk.snd_cwnd.max(min_segs).max(sk.reordering + 1);
        let mut windows = 2;
        if self.has(Operation::SndbufExpand) {
            windows = self.cc.sndbuf_expand(&mut self.sk);
        }
        let memory = u64::from(windows) * u64::from(segs) * u64::from(per_mss);
        if (self.sk.sk_sndbuf as u64) < memory {
            self.sk.sk_sndbuf = memory.min(u64::from(self.config.wmem[2])).min(i32::MAX as u64) as i32;
        }
    }

    /// `tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`.
    pub(super) fn slow_start_after_idle_check(&mut self) {
        if !self.config.slow_start_after_idle || self.sk.packets_out > 0 || self.has(Operation::CongControl) {
            return;
        }
        let rto = i64::from(self.sk.icsk_rto);
        let mut idle = i64::from(self.jiffies().wrapping_sub(self.sk.lsndtime) as i32);
        if idle <= rto {
            return;
        }
        self.ca_event(CaEvent::CwndRestart);
        let mut cwnd = self.sk.snd_cwnd;
        self.sk.snd_ssthresh = self.sk.current_ssthresh();
        let restart = self.initial_cwnd().min(cwnd);
        idle -= rto;
        while idle > 0 && cwnd > restart {
            cwnd >>= 1;
            idle -= rto.max(1);
        }
        self.sk.snd_cwnd = cwnd.max(restart);
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.snd_cwnd_used = 0;
    }
}
