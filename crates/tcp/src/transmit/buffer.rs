//! The send buffer and what the application does with it (`tcp_sendmsg_locked`, net/ipv4/tcp.c), and whether the window
//! is used (`tcp_cwnd_validate`, net/ipv4/tcp_output.c).
//!
//! Departures: 1. An application that fills the buffer is taken to want to write more.

use super::{chrono, output::Push, unsent::Chunk};
use crate::{
    CaEvent, CaState, Endpoint, Operation, State,
    behaviour::{Growth, Windows},
};

/// `SKB_DATA_ALIGN` of `skb_shared_info` and of `sk_buff`, bytes.
const SHARED_INFO: u32 = 320;
const SK_BUFF: u32 = 256;

impl Endpoint {
    /// `sk_wmem_queued`, bytes: payload and the memory of the packets that hold it.
    #[inline]
    pub(crate) fn wmem_queued(&self) -> u32 {
        let bytes = self.sk.write_seq.wrapping_sub(self.sk.snd_una);
        bytes.saturating_add((self.tx.queue.skbs() as u32 - self.tx.joined) * self.behaviour.packet_overhead)
    }

    /// What can be written; 0 until the kernel would wake the writer.
    #[inline]
    pub(crate) fn buffer_room(&self) -> u64 {
        let open = matches!(self.state(), State::Established | State::CloseWait);
        if !open || self.tx.nospace || self.tx.fin_written {
            return 0;
        }
        u64::from((self.sk.sk_sndbuf as u32).saturating_sub(self.wmem_queued()))
    }

    /// `tcp_sendmsg_locked`: takes so many bytes as there is room for.
    pub(crate) fn write_bytes(&mut self, bytes: u64) -> u64 {
        if self.buffer_room() == 0 || bytes == 0 {
            return 0;
        }
        self.rate_check_app_limited();
        let goal = self.size_goal();
        let mut left = bytes;
        while left > 0 {
            let room = self.tx.queue.unsent.back().map_or(0, |last| goal.saturating_sub(last.len));
            if room == 0 {
                if self.wmem_queued() >= self.sk.sk_sndbuf as u32 {
                    break;
                }
                let full = self.full_chunks(left, goal);
                if full == 0 {
                    self.new_chunk();
                } else {
                    self.tx.queue.unsent.push_many(Chunk { len: goal, fin: false }, full);
                    self.sk.write_seq = self.sk.write_seq.wrapping_add(full * goal);
                    left -= u64::from(full) * u64::from(goal);
                }
                continue;
            }
            let taken = u64::from(room).min(left) as u32;
            if let Some(last) = self.tx.queue.unsent.back_mut() {
                last.len += taken;
            }
            self.sk.write_seq = self.sk.write_seq.wrapping_add(taken);
            left -= u64::from(taken);
        }
        self.tx.nospace = left > 0 || self.wmem_queued() >= self.sk.sk_sndbuf as u32;
        self.push_pending();
        self.check_space();
        bytes - left
    }

    /// How many full packets of `goal` bytes the next `left` bytes make, as long as there is room; 0 where the first of them
    /// has to be begun by [`Self::new_chunk`].
    fn full_chunks(&self, left: u64, goal: u32) -> u32 {
        if self.sk.packets_out == 0 || self.sk.chrono_type == 0 {
            return 0;
        }
        // Each is begun while there is any room.
        let room = (self.sk.sk_sndbuf as u32).saturating_sub(self.wmem_queued());
        let begun = room.div_ceil(goal + self.behaviour.packet_overhead);
        (left / u64::from(goal)).min(u64::from(begun)) as u32
    }

    /// `tcp_skb_entail`.
    fn new_chunk(&mut self) {
        self.slow_start_after_idle_check();
        self.tx.queue.unsent.push_back(Chunk { len: 0, fin: false });
        self.chrono_start(chrono::BUSY);
    }

    /// `tcp_xmit_size_goal`: bytes that a packet in the making may have.
    pub(super) fn size_goal(&self) -> u32 {
        let mss = self.sk.mss_cache;
        let cutoff = if self.sk.max_window > 536 {
            (self.sk.max_window >> 1).max(68)
        } else {
            self.sk.max_window.max(68)
        };
        let segs = (self.sk.sk_gso_max_size.min(cutoff) / mss).min(u32::from(self.sk.sk_gso_max_segs));
        segs.max(1) * mss
    }

    /// `tcp_send_fin`.
    pub(crate) fn queue_fin(&mut self) {
        if self.tx.fin_written {
            return;
        }
        self.tx.fin_written = true;
        match self.tx.queue.unsent.back_mut() {
            Some(last) => last.fin = true,
            None => {
                self.tx.queue.unsent.push_back(Chunk { len: 0, fin: true });
                self.chrono_start(chrono::BUSY);
            }
        }
        self.sk.write_seq = self.sk.write_seq.wrapping_add(1);
        self.push_pending();
    }

    /// Whether all that was written, FIN included, has been acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.tx.fin_written && self.sk.snd_una == self.sk.write_seq
    }

    /// Bytes in the buffer that were never sent.
    pub(crate) fn notsent(&self) -> u64 {
        u64::from(self.sk.write_seq.wrapping_sub(self.sk.snd_nxt))
    }

    /// A part of the first chunk, no more than `room`, goes as a probe of the window. A FIN that has no room stays behind.
    pub(super) fn send_for_wakeup(&mut self, room: u32) {
        let mss = self.sk.mss_cache;
        let len = room.min(mss);
        if let Some(first) = self.tx.queue.unsent.front().copied()
            && (first.len > mss || first.len + u32::from(first.fin) > room)
            && len > 0
        {
            let len = len.min(first.len);
            self.tx.queue.unsent.split_front(len);
        }
        self.write_xmit(Push::Probe);
    }

    // ---- Autotuning --------------------------------------------------------------------------------------------

    /// `tcp_sndbuf_expand`.
    pub(crate) fn sndbuf_expand(&mut self) {
        let sk = &self.sk;
        let mss = u32::from(sk.rx_opt.mss_clamp).max(sk.mss_cache);
        let (per_mss, least) = match self.behaviour.windows {
            Windows::Large => {
                let head = (mss + self.config.max_tcp_header() + SHARED_INFO).next_power_of_two();
                (head + SK_BUFF, crate::INITIAL_CWND)
            }
            Windows::Small => (mss + self.behaviour.packet_overhead, 0),
        };
        let segs = sk.snd_cwnd.max(least).max(sk.reordering + 1);
        let mut windows = 2;
        if self.has(Operation::SndbufExpand) {
            windows = self.cc.sndbuf_expand(&mut self.sk);
        }
        let memory = u64::from(windows) * u64::from(segs) * u64::from(per_mss);
        if (self.sk.sk_sndbuf as u64) < memory {
            self.sk.sk_sndbuf = memory.min(u64::from(self.config.wmem[2])).min(i32::MAX as u64) as i32;
        }
    }

    /// `tcp_check_space`, `tcp_new_space`, `sk_stream_write_space`.
    #[inline]
    pub(crate) fn check_space(&mut self) {
        if !self.tx.nospace {
            return;
        }
        let tuned = self.config.sndbuf.is_none();
        if tuned && self.sk.packets_in_flight() < self.sk.snd_cwnd {
            self.sndbuf_expand();
            self.sk.snd_cwnd_stamp = self.jiffies();
        }
        let (queued, buffer) = (self.wmem_queued(), self.sk.sk_sndbuf as u32);
        if queued < buffer && buffer - queued >= queued >> 1 {
            self.tx.nospace = false;
            self.chrono_stop(chrono::SNDBUF_LIMITED);
        }
    }

    // ---- Whether the window is used ----------------------------------------------------------------------------

    /// `tcp_cwnd_validate`.
    pub(super) fn cwnd_validate(&mut self, limited: bool) {
        if self.behaviour.growth == Growth::Acks {
            return self.validate_by_acks();
        }
        let sk = &mut self.sk;
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
            self.sk.snd_cwnd_used = 0;
            self.sk.snd_cwnd_stamp = self.jiffies();
            return;
        }
        sk.snd_cwnd_used = sk.snd_cwnd_used.max(sk.packets_out);
        let unused = self.jiffies().wrapping_sub(self.sk.snd_cwnd_stamp);
        if self.config.slow_start_after_idle
            && unused >= self.sk.icsk_rto
            && !self.has(Operation::CongControl)
        {
            self.cwnd_application_limited(self.initial_cwnd());
        }
        self.note_full_buffer();
    }

    /// The end of `tcp_cwnd_validate`: neither the window nor the application holds the sender back.
    pub(super) fn note_full_buffer(&mut self) {
        if self.tx.queue.unsent.is_empty() && self.tx.nospace {
            self.chrono_start(chrono::SNDBUF_LIMITED);
        }
    }

    /// `tcp_cwnd_application_limited` (RFC 2861); at least `least` packets count as used.
    pub(super) fn cwnd_application_limited(&mut self, least: u32) {
        if self.sk.ca_state() == CaState::Open && !self.tx.nospace {
            let used = self.sk.snd_cwnd_used.max(least);
            if used < self.sk.snd_cwnd {
                self.sk.snd_ssthresh = self.sk.current_ssthresh();
                self.sk.snd_cwnd = (self.sk.snd_cwnd + used) >> 1;
            }
            self.sk.snd_cwnd_used = 0;
        }
        self.sk.snd_cwnd_stamp = self.jiffies();
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
