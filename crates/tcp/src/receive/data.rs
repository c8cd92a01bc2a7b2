//! Queueing of a segment's data: in the receive queue, in the out-of-order queue, or dropped.
//!
//! Source: `tcp_sequence`, `tcp_send_dupack`, `tcp_data_queue`, `tcp_event_data_recv`, `tcp_ofo_queue`,
//! `tcp_data_queue_ofo`, `tcp_fin`, `tcp_try_rmem_schedule`, `tcp_prune_queue` (net/ipv4/tcp_input.c); RFC
//! 9293 section 3.10.7.4.

use super::{
    Accepted, AckAction, Receiver,
    delayed_ack::{self, MAX_QUICK_ACKS, NOMEM, NOW, SCHED},
    memory::Packet,
    reorder::{Inserted, Piece},
};
use crate::{
    CaEvent, Flags, Segment, TcpSock,
    segment::{after, before},
};

/// `RCV_SHUTDOWN`: the peer has ended its stream.
const RCV_SHUTDOWN: u8 = 1;
/// States (`include/net/tcp_states.h`) in which a FIN is acknowledged at once, and in which the session
/// continues in one direction.
const FIN_WAIT: [u8; 2] = [4, 5];
const ESTABLISHED: u8 = 1;
/// `tcp_invalid_ratelimit`: minimum interval between ACKs for segments without data outside the window, ns.
const REFUSAL_INTERVAL: u64 = 500_000_000;
/// `TCP_SACK_BLOCKS_EXPECTED`: number of blocks of a compressed ACK that the peer is assumed to know.
const BLOCKS_EXPECTED: usize = 2;

impl Receiver {
    /// `tcp_sequence`.
    #[inline]
    pub(super) fn in_window(&self, sk: &TcpSock, segment: &Segment) -> bool {
        if before(segment.end_seq(), self.rcv_wup) {
            return false;
        }
        let right = sk.rcv_nxt.wrapping_add(self.receive_window(sk));
        if self.settings.whole_in_window && after(segment.end_seq(), right) && !self.queue.is_empty() {
            return false;
        }
        !after(segment.seq, right)
    }

    /// `tcp_send_dupack`, with the rate limit of `tcp_oow_rate_limited`.
    pub(super) fn refuse(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) -> AckAction {
        self.announced = None;
        if !segment.is_data() {
            if self.refused.is_some_and(|last| now < last + REFUSAL_INTERVAL) {
                return AckAction::None;
            }
            self.refused = Some(now);
        } else if before(segment.seq, sk.rcv_nxt) {
            self.enter_quick_mode(sk, MAX_QUICK_ACKS);
            let end = if after(segment.end_seq(), sk.rcv_nxt) { sk.rcv_nxt } else { segment.end_seq() };
            self.report_duplicate(segment.seq, end);
        }
        AckAction::Now
    }

    /// `tcp_data_queue`.
    pub(super) fn queue_data(
        &mut self,
        sk: &mut TcpSock,
        now: u64,
        segment: &Segment,
        accepted: &mut Accepted,
    ) {
        self.sacks.clear_duplicate();
        let (seq, end) = (segment.seq, segment.end_seq());
        if self.fin && !before(seq, sk.rcv_nxt) {
            return;
        }
        let window = self.receive_window(sk);
        if !after(end, sk.rcv_nxt) {
            self.report_duplicate(seq, end);
            return self.drop_at_once(sk);
        }
        if seq != sk.rcv_nxt && !before(seq, sk.rcv_nxt.wrapping_add(window)) {
            return self.drop_at_once(sk);
        }
        if after(seq, sk.rcv_nxt) {
            return self.queue_out_of_order(sk, segment, accepted);
        }
        if before(seq, sk.rcv_nxt) {
            self.report_duplicate(seq, sk.rcv_nxt);
        }
        if window == 0 {
            return self.drop_at_once(sk);
        }
        self.queue_in_order(sk, now, segment, accepted);
    }

    /// `tcp_data_queue` for a segment without new data: its ACK must not wait.
    #[inline(never)]
    fn drop_at_once(&self, sk: &mut TcpSock) {
        self.enter_quick_mode(sk, MAX_QUICK_ACKS);
        sk.icsk_ack_pending |= SCHED;
    }

    fn queue_in_order(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment, accepted: &mut Accepted) {
        let packet = self.layout.packet(segment.len, u32::from(segment.mss));
        if !self.make_space(sk, segment) {
            sk.icsk_ack_pending |= NOMEM | NOW | SCHED;
            if !self.queue.is_empty() {
                accepted.dropped = true;
                return;
            }
        }
        let fin = segment.flags.has(Flags::FIN);
        self.append(sk, Piece { start: segment.seq, end: segment.end_seq(), fin, packet }, accepted);
        if segment.len > 0 {
            accepted.event = self.data_received(sk, now, segment, &packet);
        }
        if !fin && !self.reorder.is_empty() {
            self.take_from_reorder(sk, accepted);
            if self.reorder.is_empty() {
                sk.icsk_ack_pending |= NOW;
            }
        }
        if accepted.fin {
            self.finish(sk);
        } else if self.reorder.is_empty() {
            self.sacks.clear();
        } else {
            self.sacks.remove_before(sk.rcv_nxt);
        }
    }

    /// Makes a piece readable that starts at or before `rcv_nxt` and ends after it.
    #[inline(always)]
    fn append(&mut self, sk: &mut TcpSock, mut piece: Piece, accepted: &mut Accepted) {
        let new = piece.end.wrapping_sub(sk.rcv_nxt);
        sk.rcv_nxt = piece.end;
        sk.bytes_received += u64::from(new);
        let data = new - u32::from(piece.fin);
        accepted.in_order += data;
        accepted.fin |= piece.fin;
        piece.packet.len = data;
        if data > 0 {
            self.rmem_alloc += self.queue.push(piece.packet);
        }
    }

    /// `tcp_event_data_recv`.
    fn data_received(
        &mut self,
        sk: &mut TcpSock,
        now: u64,
        segment: &Segment,
        packet: &Packet,
    ) -> Option<CaEvent> {
        sk.icsk_ack_pending |= SCHED;
        self.measure_rcv_mss(sk, segment, packet);
        self.measure_rtt_by_window(sk, now);
        self.adapt_delay(sk, now);
        let event = self.check_mark(sk, segment);
        if packet.len >= 128 {
            self.grow_window(sk, packet, true);
        }
        event
    }

    /// `tcp_ofo_queue`: moves data that follows `rcv_nxt` to the receive queue.
    #[inline(never)]
    fn take_from_reorder(&mut self, sk: &mut TcpSock, accepted: &mut Accepted) {
        let mut high = sk.rcv_nxt;
        while let Some(piece) = self.reorder.take_ready(sk.rcv_nxt) {
            self.rmem_alloc -= piece.packet.truesize;
            if before(piece.start, high) {
                let end = if before(piece.end, high) { piece.end } else { high };
                if self.sack && self.settings.dsack {
                    self.sacks.extend_duplicate(piece.start, end);
                }
                high = if after(piece.end, high) { piece.end } else { high };
            }
            if after(piece.end, sk.rcv_nxt) {
                self.append(sk, piece, accepted);
            }
            if accepted.fin {
                break;
            }
        }
    }

    /// `tcp_data_queue_ofo`.
    #[inline(never)]
    fn queue_out_of_order(&mut self, sk: &mut TcpSock, segment: &Segment, accepted: &mut Accepted) {
        accepted.event = self.check_mark(sk, segment);
        if !self.make_space(sk, segment) {
            accepted.dropped = true;
            return;
        }
        let packet = self.layout.packet(segment.len, u32::from(segment.mss));
        self.measure_rcv_mss(sk, segment, &packet);
        sk.icsk_ack_pending |= SCHED;
        let segments = segment.len.div_ceil(u32::from(segment.mss).max(1)).max(1);
        self.out_of_order_segs = self.out_of_order_segs.wrapping_add(segments);
        let (start, end) = (segment.seq, segment.end_seq());
        let first = self.reorder.is_empty();
        let piece = Piece { start, end, fin: segment.flags.has(Flags::FIN), packet };
        let (inserted, memory) = self.reorder.insert(piece, &mut self.sacks);
        if !(self.sack && self.settings.dsack) {
            self.sacks.clear_duplicate();
        }
        if self.sack {
            // Memory is charged only after the window has grown, except for a coalesced packet.
            if inserted == Inserted::Coalesced {
                self.charge(memory);
                self.grow_window(sk, &packet, true);
            }
            if first {
                self.sacks.clear();
                self.sacks.add(start, end);
            } else {
                self.report_block(sk, start, end, accepted);
            }
            if inserted == Inserted::Queued {
                self.grow_window(sk, &packet, false);
            }
        }
        if !(self.sack && inserted == Inserted::Coalesced) {
            self.charge(memory);
        }
        if self.settings.grows_by_reordering {
            self.grow_buffer(sk, self.read_rate.space);
        }
    }

    /// `tcp_sack_new_ofo_skb`: adds the data as the first block. A compressed ACK is sent first if its blocks
    /// would otherwise drop out of the list.
    fn report_block(&mut self, sk: &mut TcpSock, start: u32, end: u32, accepted: &mut Accepted) {
        let index = self.sacks.extend(start, end);
        if index.unwrap_or(self.sacks.len()) >= BLOCKS_EXPECTED && self.compression.held > 0 {
            accepted.earlier = Some(Box::new(self.ack_fields(sk)));
            self.announced = None;
            self.ack_sent(sk);
            sk.icsk_ack_pending |= SCHED;
        }
        match index {
            Some(index) => self.sacks.promote(index),
            None => self.sacks.add(start, end),
        }
    }

    /// `tcp_dsack_set`.
    fn report_duplicate(&mut self, start: u32, end: u32) {
        if self.sack && self.settings.dsack {
            self.sacks.set_duplicate(start, end);
        }
    }

    /// `tcp_fin`.
    #[cold]
    fn finish(&mut self, sk: &mut TcpSock) {
        self.fin = true;
        sk.icsk_ack_pending |= SCHED;
        sk.sk_shutdown |= RCV_SHUTDOWN;
        if sk.skc_state == ESTABLISHED {
            delayed_ack::enter_pingpong(sk);
        } else if FIN_WAIT.contains(&sk.skc_state) {
            sk.icsk_ack_pending |= NOW;
        }
        self.rmem_alloc -= self.reorder.clear();
        self.sacks.clear();
    }

    fn charge(&mut self, bytes: i64) {
        self.rmem_alloc = (i64::from(self.rmem_alloc) + bytes) as u32;
    }

    /// `tcp_try_rmem_schedule` and `tcp_prune_queue`: frees memory for another packet if necessary. Returns
    /// whether it fits.
    fn make_space(&mut self, sk: &mut TcpSock, segment: &Segment) -> bool {
        let fits =
            |receiver: &Receiver, sk: &TcpSock| i64::from(receiver.rmem_alloc) <= i64::from(sk.sk_rcvbuf);
        if fits(self, sk) {
            return true;
        }
        self.clamp_window(sk);
        if fits(self, sk) {
            return true;
        }
        self.rmem_alloc -= self.reorder.collapse() + self.queue.collapse();
        if fits(self, sk) {
            return true;
        }
        let excess = i64::from(self.rmem_alloc) - i64::from(sk.sk_rcvbuf);
        let step = i64::from(sk.sk_rcvbuf >> 3);
        let freed = self.reorder.prune(segment.seq, |freed| i64::from(freed) >= excess.max(step));
        if freed > 0 {
            self.rmem_alloc -= freed;
            self.sacks.clear();
        }
        fits(self, sk)
    }
}
