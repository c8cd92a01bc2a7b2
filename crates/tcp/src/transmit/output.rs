//! Transmission of new data: `tcp_write_xmit` and the size of super-packets (net/ipv4/tcp_output.c).
//!
//! Differences from the kernel: 1. The remainder of a packet is filled up from the next one (`tcp_grow_skb`,
//! since 6.10) whatever pages hold it, except for probes.

use super::{Marks, Sender, Skb, chrono, path_mtu::MtuProbe, skb::segments, timers::Timer, unsent::Chunk};
use crate::{CaState, Operation, behaviour::Growth, connection::Connection, segment::after};

/// Mode of `tcp_write_xmit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Push {
    /// Everything that the windows allow.
    All,
    /// The first packet while a write continues (`tcp_push_one`).
    One,
    /// One packet regardless of the congestion window: a tail loss probe.
    Probe,
}

impl Sender {
    /// `__tcp_push_pending_frames`.
    #[inline(always)]
    pub(crate) fn push_pending(&mut self, conn: &mut Connection) {
        if !self.queue.unsent.is_empty() && self.write_xmit(conn, Push::All) {
            self.check_probe_timer(conn);
        }
    }

    /// `tcp_write_xmit`. Returns whether nothing is in flight although there is data.
    pub(super) fn write_xmit(&mut self, conn: &mut Connection, push: Push) -> bool {
        let mss = conn.sk.mss_cache;
        let max_segs = conn.tso_segs();
        let refills = push == Push::All && conn.config.profile.at_least(6, 10);
        let (mut sent, mut cwnd_limited, mut rwnd_limited) = (0, false, false);
        if self.mtu_search.is_enabled() && push == Push::All {
            match self.probe_mtu(conn) {
                MtuProbe::None => {}
                MtuProbe::Sent => sent = 1,
                MtuProbe::Waits => return false,
            }
        }
        while let Some(mut chunk) = self.queue.unsent.front().copied() {
            if self.pacing_check(conn) {
                break;
            }
            let mut chunk_segs = u32::from(segments(chunk.len, mss));
            let mut quota = conn.cwnd_test(chunk, chunk_segs);
            if quota == 0 {
                if push != Push::Probe {
                    break;
                }
                quota = 1;
            }
            // `tcp_grow_skb`.
            let full = quota.min(max_segs) * mss;
            if chunk.len < full && refills && self.queue.unsent.len() > 1 {
                chunk = self.queue.unsent.refill_front(full - chunk.len);
                chunk_segs = u32::from(segments(chunk.len, mss));
            }
            if !conn.window_test(chunk) {
                rwnd_limited = true;
                break;
            }
            if chunk_segs == 1 {
                // A probe is sent without Nagle's algorithm.
                if push != Push::Probe && !self.nagle_allows(conn, chunk) {
                    break;
                }
            } else if push == Push::All
                && self.should_defer(conn, chunk, max_segs, &mut cwnd_limited, &mut rwnd_limited)
            {
                break;
            }
            let mut limit = mss;
            if chunk_segs > 1 {
                limit = self.split_point(conn, chunk, quota.min(max_segs));
            }
            if limit == 0 {
                break;
            }
            if !self.device_takes(conn, chunk.len.min(limit), 0) {
                break;
            }
            sent += self.send_chunk(conn, chunk, limit);
            if push != Push::All {
                break;
            }
        }
        if rwnd_limited {
            self.chrono_start(conn, chrono::RWND_LIMITED);
        } else {
            self.chrono_stop(conn, chrono::RWND_LIMITED);
        }
        cwnd_limited |= conn.sk.packets_in_flight() >= conn.sk.snd_cwnd;
        let validates = match conn.behaviour.growth {
            Growth::Packets => sent > 0 || cwnd_limited,
            Growth::Acks => sent > 0 && push == Push::All,
        };
        if validates {
            self.cwnd_validate(conn, cwnd_limited);
        }
        if sent > 0 {
            if conn.sk.in_cwnd_reduction() {
                conn.sk.prr_out += sent;
            }
            if push != Push::Probe {
                self.schedule_loss_probe(conn, false);
            }
            return false;
        }
        conn.sk.packets_out == 0 && !self.queue.unsent.is_empty()
    }

    /// `tcp_nagle_test`.
    fn nagle_allows(&self, conn: &Connection, chunk: Chunk) -> bool {
        let more_follows = self.queue.unsent.len() > 1;
        more_follows || chunk.fin || !self.nagle_holds(conn, chunk.len < conn.sk.mss_cache)
    }

    /// `tcp_nagle_check`, `tcp_minshall_check`: a small packet waits while another is unacknowledged.
    fn nagle_holds(&self, conn: &Connection, partial: bool) -> bool {
        let sk = &conn.sk;
        let small_out = after(self.small, sk.snd_una) && !after(self.small, sk.snd_nxt);
        partial && !conn.config.nodelay && sk.packets_out > 0 && small_out
    }

    /// `tcp_tso_should_defer`: a larger super-packet can be sent soon.
    fn should_defer(
        &self,
        conn: &Connection,
        chunk: Chunk,
        max_segs: u32,
        cwnd_limited: &mut bool,
        rwnd_limited: &mut bool,
    ) -> bool {
        let sk = &conn.sk;
        if sk.ca_state() >= CaState::Recovery {
            return false;
        }
        // At least one packet is sent per millisecond.
        if sk.tcp_clock_cache > sk.tcp_wstamp_ns + 1_000_000 {
            return false;
        }
        let send_window = conn.window_end().wrapping_sub(sk.snd_nxt);
        let cwnd_window =
            (sk.snd_cwnd - sk.packets_in_flight().min(sk.snd_cwnd)).saturating_mul(sk.mss_cache);
        let limit = send_window.min(cwnd_window);
        if limit >= max_segs * sk.mss_cache {
            return false;
        }
        if self.queue.unsent.len() > 1 && limit >= chunk.len {
            return false;
        }
        let usable = sk.snd_wnd.min(sk.snd_cwnd.saturating_mul(sk.mss_cache));
        // With a divisor of 0, more than tcp_max_tso_deferred_mss.
        let enough = usable.checked_div(conn.config.tso_win_divisor).unwrap_or(3 * sk.mss_cache + 1);
        if limit >= enough {
            return false;
        }
        // The next ACK is likely to come too late: a fix of 6.18 (295ce1eb36ae) that all stable series have
        // had since October 2025 (6.1.158, 6.6.115, 6.12.56).
        let Some(head) = self.queue.head() else { return false };
        let (age, srtt) = (conn.age_us(self.queue.get(head).sent_us), sk.srtt_us >> 3);
        let too_late = srtt.saturating_sub(age) > (srtt >> 1).min(1000);
        if too_late {
            return false;
        }
        if cwnd_window < send_window {
            if cwnd_window <= chunk.len {
                *cwnd_limited = true;
                return true;
            }
        } else if send_window <= chunk.len {
            *rwnd_limited = true;
            return true;
        }
        !chunk.fin
    }

    /// `tcp_mss_split_point`.
    fn split_point(&self, conn: &Connection, chunk: Chunk, max_segs: u32) -> u32 {
        let mss = conn.sk.mss_cache;
        let window = conn.window_end().wrapping_sub(conn.sk.snd_nxt);
        let max_bytes = mss * max_segs;
        if max_bytes <= window && self.queue.unsent.len() > 1 {
            return max_bytes;
        }
        let needed = chunk.len.min(window);
        if max_bytes <= needed {
            return max_bytes;
        }
        let partial = needed % mss;
        if self.nagle_holds(conn, partial != 0) { needed - partial } else { needed }
    }

    /// Sends the first chunk, at most `limit` bytes of it (`tso_fragment`, `tcp_event_new_data_sent`).
    /// Returns the number of segments.
    #[inline(always)]
    pub(super) fn send_chunk(&mut self, conn: &mut Connection, chunk: Chunk, limit: u32) -> u32 {
        let mss = conn.sk.mss_cache;
        let mut part = chunk;
        if chunk.len > limit {
            part = Chunk::of(limit);
            self.queue.unsent.shorten_front(limit);
        } else {
            self.queue.unsent.pop_front();
        }
        let seq = conn.sk.snd_nxt;
        let end_seq = seq.wrapping_add(part.len).wrapping_add(u32::from(part.fin));
        let segs = segments(part.len, mss);
        let mut skb = Skb { seq, end_seq, segs, ..Skb::default() };
        skb.marks.put(Marks::FIN, part.fin);
        skb.marks.put(Marks::PSH, part.push);
        let was_pending = conn.sk.icsk_pending;
        let prior_packets = conn.sk.packets_out;
        let id = self.queue.push(skb);
        self.transmit_skb(conn, id);
        conn.sk.snd_nxt = end_seq;
        conn.sk.packets_out += u32::from(segs);
        if part.len < u32::from(segs) * mss {
            self.small = end_seq;
        }
        if prior_packets == 0 || was_pending == Timer::Probe as u8 {
            self.rearm_rto(conn);
        }
        self.check_space(conn);
        u32::from(segs)
    }
}

impl Connection {
    /// `tcp_cwnd_test`: the number of segments that the window allows, at most half of the window at once.
    fn cwnd_test(&self, chunk: Chunk, segs: u32) -> u32 {
        if chunk.fin && segs == 1 {
            return 1;
        }
        let (in_flight, cwnd) = (self.sk.packets_in_flight(), self.sk.snd_cwnd);
        if in_flight >= cwnd { 0 } else { (cwnd >> 1).max(1).min(cwnd - in_flight) }
    }

    /// `tcp_snd_wnd_test`: the first segment fits into the peer's window.
    pub(super) fn window_test(&self, chunk: Chunk) -> bool {
        let len =
            if chunk.len > self.sk.mss_cache { self.sk.mss_cache } else { chunk.len + u32::from(chunk.fin) };
        !after(self.sk.snd_nxt.wrapping_add(len), self.window_end())
    }

    /// `tcp_tso_segs`: target number of segments of a super-packet.
    #[inline]
    pub(super) fn tso_segs(&mut self) -> u32 {
        if self.sk.sk_gso_max_segs == 1 && !self.has(Operation::MinTsoSegs) {
            return 1;
        }
        let mut min_segs = 0;
        if self.has(Operation::MinTsoSegs) {
            min_segs = self.cc.min_tso_segs(&mut self.sk);
        }
        if min_segs == 0 {
            min_segs = self.config.min_tso_segs;
        }
        let sk = &self.sk;
        let max_bytes = u64::from(sk.sk_gso_max_size);
        let mut bytes = sk.sk_pacing_rate >> sk.sk_pacing_shift;
        let r = sk.rtt_min.s[0].v.checked_shr(self.config.tso_rtt_log).unwrap_or(0);
        if r < 32 && self.config.profile.at_least(5, 18) {
            bytes += max_bytes >> r;
        }
        let segs = (bytes.min(max_bytes) / u64::from(sk.mss_cache)) as u32;
        segs.max(min_segs).min(u32::from(sk.sk_gso_max_segs)).max(1)
    }
}
