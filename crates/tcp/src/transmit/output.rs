//! New data goes out: `tcp_write_xmit` and the sizing of super-packets (net/ipv4/tcp_output.c).
//!
//! Departures: 1. What is left of a packet is filled up from the next (`tcp_grow_skb`, since 6.10) whatever pages it lies in,
//! but not for probes.

use super::{Marks, Skb, chrono, path_mtu::MtuProbe, skb::segments, timers::Timer, unsent::Chunk};
use crate::{CaState, Endpoint, Operation, segment::after};

/// Bytes that a bulk sender writes at once, as the lab's does.
const WRITE: u32 = 64 << 10;

/// How `tcp_write_xmit` is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Push {
    /// All that may go.
    All,
    /// One packet, whatever the window is, as a probe for a lost tail.
    Probe,
}

impl Endpoint {
    /// `__tcp_push_pending_frames`.
    pub(crate) fn push_pending(&mut self) {
        if self.tx.queue.unsent.is_empty() {
            return;
        }
        if self.write_xmit(Push::All) {
            self.check_probe_timer();
        }
    }

    /// `tcp_write_xmit`. Tells whether nothing is in flight although there is data.
    pub(super) fn write_xmit(&mut self, push: Push) -> bool {
        let mss = self.sk.mss_cache;
        let max_segs = self.tso_segs();
        let refills = push == Push::All && self.config.profile.at_least(6, 10);
        let (mut sent, mut cwnd_limited, mut rwnd_limited) = (0, false, false);
        if self.tx.mtu_search.is_enabled() && push == Push::All {
            match self.probe_mtu() {
                MtuProbe::None => {}
                MtuProbe::Sent => sent = 1,
                MtuProbe::Waits => return false,
            }
        }
        while let Some(mut chunk) = self.tx.queue.unsent.front().copied() {
            if self.pacing_check() {
                break;
            }
            let mut chunk_segs = u32::from(segments(chunk.len, mss));
            let mut quota = self.cwnd_test(chunk, chunk_segs);
            if quota == 0 {
                if push != Push::Probe {
                    break;
                }
                quota = 1;
            }
            // `tcp_grow_skb`.
            let full = quota.min(max_segs) * mss;
            if chunk.len < full && refills && self.tx.queue.unsent.len() > 1 {
                chunk = self.tx.queue.unsent.refill_front(full - chunk.len);
                chunk_segs = u32::from(segments(chunk.len, mss));
            }
            if !self.window_test(chunk) {
                rwnd_limited = true;
                break;
            }
            if chunk_segs == 1 {
                if !self.nagle_allows(chunk) {
                    break;
                }
            } else if push == Push::All
                && self.should_defer(chunk, max_segs, &mut cwnd_limited, &mut rwnd_limited)
            {
                break;
            }
            let mut limit = mss;
            if chunk_segs > 1 {
                limit = self.split_point(chunk, quota.min(max_segs));
            }
            if limit == 0 {
                break;
            }
            if !self.device_takes(chunk.len.min(limit), 0) {
                break;
            }
            sent += self.send_chunk(chunk, limit);
            if push == Push::Probe {
                break;
            }
        }
        if rwnd_limited {
            self.chrono_start(chrono::RWND_LIMITED);
        } else {
            self.chrono_stop(chrono::RWND_LIMITED);
        }
        cwnd_limited |= self.sk.packets_in_flight() >= self.sk.snd_cwnd;
        if sent > 0 || cwnd_limited {
            self.cwnd_validate(cwnd_limited);
        }
        if sent > 0 {
            if self.sk.in_cwnd_reduction() {
                self.sk.prr_out += sent;
            }
            if push != Push::Probe {
                self.schedule_loss_probe(false);
            }
            return false;
        }
        self.sk.packets_out == 0 && !self.tx.queue.unsent.is_empty()
    }

    /// `tcp_cwnd_test`: how many segments the window allows; at most half of it at once.
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

    /// `tcp_nagle_test`.
    fn nagle_allows(&self, chunk: Chunk) -> bool {
        let more_follows = self.tx.queue.unsent.len() > 1;
        more_follows || chunk.fin || !self.nagle_holds(chunk.len < self.sk.mss_cache)
    }

    /// `tcp_nagle_check`, `tcp_minshall_check`: a small packet waits while another is unacknowledged.
    fn nagle_holds(&self, partial: bool) -> bool {
        let sk = &self.sk;
        let small_out = after(self.tx.small, sk.snd_una) && !after(self.tx.small, sk.snd_nxt);
        partial && !self.config.nodelay && sk.packets_out > 0 && small_out
    }

    /// `tcp_tso_segs`: the segments that a super-packet should have.
    #[inline]
    pub(super) fn tso_segs(&mut self) -> u32 {
        if self.sk.sk_gso_max_segs == 1 && !self.has(Operation::MinTsoSegs) {
            return 1;
        }
        let mut least = 0;
        if self.has(Operation::MinTsoSegs) {
            least = self.cc.min_tso_segs(&mut self.sk);
        }
        if least == 0 {
            least = self.config.min_tso_segs;
        }
        let sk = &self.sk;
        let most = u64::from(sk.sk_gso_max_size);
        let mut bytes = sk.sk_pacing_rate >> sk.sk_pacing_shift;
        let r = sk.rtt_min.s[0].v.checked_shr(self.config.tso_rtt_log).unwrap_or(0);
        if r < 32 && self.config.profile.at_least(5, 18) {
            bytes += most >> r;
        }
        let segs = (bytes.min(most) / u64::from(sk.mss_cache)) as u32;
        segs.max(least).min(u32::from(sk.sk_gso_max_segs)).max(1)
    }

    /// `tcp_tso_should_defer`: a larger super-packet can be sent soon.
    fn should_defer(
        &self,
        chunk: Chunk,
        max_segs: u32,
        cwnd_limited: &mut bool,
        rwnd_limited: &mut bool,
    ) -> bool {
        let sk = &self.sk;
        if sk.ca_state() >= CaState::Recovery {
            return false;
        }
        // Something has to be sent once a millisecond.
        if sk.tcp_clock_cache > sk.tcp_wstamp_ns + 1_000_000 {
            return false;
        }
        let send_window = self.window_end().wrapping_sub(sk.snd_nxt);
        let cwnd_window =
            (sk.snd_cwnd - sk.packets_in_flight().min(sk.snd_cwnd)).saturating_mul(sk.mss_cache);
        let limit = send_window.min(cwnd_window);
        if limit >= max_segs * sk.mss_cache {
            return false;
        }
        if self.tx.queue.unsent.len() > 1 && limit >= chunk.len {
            return false;
        }
        let usable = sk.snd_wnd.min(sk.snd_cwnd.saturating_mul(sk.mss_cache));
        // With a divisor of 0, more than tcp_max_tso_deferred_mss.
        let enough = usable.checked_div(self.config.tso_win_divisor).unwrap_or(3 * sk.mss_cache + 1);
        if limit >= enough {
            return false;
        }
        // The next ACK is likely to come too late: a fix of 6.18 (295ce1eb36ae) that all stable series have since October 2025
        // (6.1.158, 6.6.115, 6.12.56).
        let Some(head) = self.tx.queue.head() else { return false };
        let (age, srtt) = (self.age_us(self.tx.queue.get(head).sent_us), sk.srtt_us >> 3);
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
    fn split_point(&self, chunk: Chunk, max_segs: u32) -> u32 {
        let mss = self.sk.mss_cache;
        let window = self.window_end().wrapping_sub(self.sk.snd_nxt);
        let most = mss * max_segs;
        if most <= window && self.tx.queue.unsent.len() > 1 {
            return most;
        }
        let needed = chunk.len.min(window);
        if most <= needed {
            return most;
        }
        let partial = needed % mss;
        if self.nagle_holds(partial != 0) { needed - partial } else { needed }
    }

    /// Whether a write ends in the packet in the making that ends at `end_seq`. From 6.10 on; see `send.rs`.
    fn holds_end_of_write(&self, end_seq: u32) -> bool {
        let end = end_seq.wrapping_sub(self.config.initial_seq.wrapping_add(1));
        self.config.profile.at_least(6, 10) && end / WRITE != end.wrapping_sub(self.size_goal()) / WRITE
    }

    /// Sends the first chunk, or so much of it (`tso_fragment`, `tcp_event_new_data_sent`). Gives the segments.
    pub(super) fn send_chunk(&mut self, chunk: Chunk, limit: u32) -> u32 {
        let mss = self.sk.mss_cache;
        let mut part = chunk;
        if chunk.len > limit {
            part = Chunk { len: limit, fin: false };
            self.tx.queue.unsent.shorten_front(limit);
        } else {
            self.tx.queue.unsent.pop_front();
        }
        let seq = self.sk.snd_nxt;
        let end_seq = seq.wrapping_add(part.len).wrapping_add(u32::from(part.fin));
        let segs = segments(part.len, mss);
        let mut skb = Skb { seq, end_seq, segs, ..Skb::default() };
        skb.marks.put(Marks::FIN, part.fin);
        let was_pending = self.sk.icsk_pending;
        let prior_packets = self.sk.packets_out;
        let id = self.tx.queue.push(skb);
        let pushed = chunk.len <= limit && self.holds_end_of_write(end_seq);
        self.transmit_skb(id, pushed);
        self.sk.snd_nxt = end_seq;
        self.sk.packets_out += u32::from(segs);
        if part.len < u32::from(segs) * mss {
            self.tx.small = end_seq;
        }
        if prior_packets == 0 || was_pending == Timer::Probe as u8 {
            self.rearm_rto();
        }
        self.check_space();
        u32::from(segs)
    }
}
