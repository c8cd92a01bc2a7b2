//! The sending half of a connection: the data that is not acknowledged, and the next packet to send.

use std::collections::VecDeque;

use units::Instant;

use crate::{
    ranges::Ranges,
    udt::{arrivals::PAIR_PERIOD, sequence::Numbering, wire},
};

/// A packet's payload.
#[derive(Debug)]
struct Chunk {
    payload: Vec<u8>,
    message: u32,
    is_first: bool,
    is_last: bool,
    in_order: bool,
    /// When its message is dropped instead of retransmitted; [`Instant::NEVER`] for a stream.
    expires: Instant,
    last_sent: Instant,
}

/// The next transmission.
pub(crate) enum Next {
    /// The packet with this index.
    Packet(u64),
    /// A message has expired: its number, its first and its last index.
    Drop(u32, u64, u64),
}

/// Unacknowledged and unsent packets.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) numbering: Numbering,
    payload_bytes: usize,
    capacity: usize,
    /// From index `acked` on.
    chunks: VecDeque<Chunk>,
    /// Every packet before this index is acknowledged.
    pub(crate) acked: u64,
    /// The next new packet.
    pub(crate) next: u64,
    pub(crate) lost: Ranges,
    /// Packets that the receiver has space for, from `acked`.
    pub(crate) peer_space: u64,
    next_message: u32,
}

impl SendHalf {
    pub(crate) fn new(initial: u32, payload_bytes: usize, capacity: usize, peer_space: u64) -> Self {
        SendHalf {
            numbering: Numbering::new(initial),
            payload_bytes,
            capacity,
            chunks: VecDeque::new(),
            acked: 0,
            next: 0,
            lost: Ranges::default(),
            peer_space,
            next_message: 1,
        }
    }

    /// Packets that can be added to the buffer.
    pub(crate) fn space(&self) -> usize {
        self.capacity.saturating_sub(self.chunks.len())
    }

    /// Packets in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether everything is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether packets are sent and not acknowledged.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.next > self.acked
    }

    /// Adds stream data; returns how many bytes fit.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        let unsent = self.chunks.len() as u64 > self.next - self.acked;
        if let Some(last) = self.chunks.back_mut().filter(|_| unsent) {
            let (head, tail) = rest.split_at(rest.len().min(self.payload_bytes - last.payload.len()));
            last.payload.extend_from_slice(head);
            rest = tail;
        }
        let fits = rest.len().min(self.space() * self.payload_bytes);
        let (now, later) = rest.split_at(fits);
        self.add(now, true, Instant::NEVER);
        bytes.len() - later.len()
    }

    /// Adds a message; false if it does not fit now.
    pub(crate) fn write_message(&mut self, bytes: &[u8], in_order: bool, expires: Instant) -> bool {
        let fits = bytes.len().div_ceil(self.payload_bytes) <= self.space();
        if fits {
            self.add(bytes, in_order, expires);
        }
        fits
    }

    fn add(&mut self, bytes: &[u8], in_order: bool, expires: Instant) {
        let count = bytes.len().div_ceil(self.payload_bytes);
        for (i, payload) in bytes.chunks(self.payload_bytes).enumerate() {
            self.chunks.push_back(Chunk {
                payload: payload.to_vec(),
                message: self.next_message,
                is_first: i == 0,
                is_last: i + 1 == count,
                in_order,
                expires,
                last_sent: Instant::NEVER,
            });
        }
        if count > 0 {
            // libudt counts from 1 and wraps to 1.
            self.next_message =
                if self.next_message == wire::MESSAGE_MASK { 1 } else { self.next_message + 1 };
        }
    }

    /// Whether a new packet may be sent with this congestion window.
    fn may_send_new(&self, window: f64) -> bool {
        let in_flight = self.next - self.acked;
        in_flight < self.chunks.len() as u64
            && in_flight < self.peer_space
            && (in_flight as f64) < window.max(1.0)
    }

    /// Whether there is a packet to send.
    pub(crate) fn can_send(&self, window: f64) -> bool {
        !self.lost.is_empty() || self.may_send_new(window)
    }

    /// Takes the next packet to send: lost packets first, except within a packet pair.
    pub(crate) fn take_next(&mut self, now: Instant, window: f64, is_pair: bool) -> Option<Next> {
        if is_pair && self.may_send_new(window) {
            return Some(self.take_new());
        }
        if let Some(index) = self.lost.pop_first() {
            let chunk = self.chunk(index)?;
            if chunk.expires <= now {
                return Some(self.drop_message(index));
            }
            return Some(Next::Packet(index));
        }
        self.may_send_new(window).then(|| self.take_new())
    }

    fn take_new(&mut self) -> Next {
        let index = self.next;
        self.next += 1;
        Next::Packet(index)
    }

    /// Whether the next packet should follow this one at once.
    pub(crate) fn begins_pair(&self, index: u64) -> bool {
        self.numbering.sequence(index).is_multiple_of(PAIR_PERIOD) && index + 1 == self.next
    }

    /// Appends the packet's payload and returns its header.
    pub(crate) fn packet(&mut self, index: u64, now: Instant) -> Option<(wire::DataHeader, &[u8])> {
        let sequence = self.numbering.sequence(index);
        let chunk = self.chunks.get_mut(usize::try_from(index.checked_sub(self.acked)?).ok()?)?;
        chunk.last_sent = now;
        let header = wire::DataHeader {
            sequence,
            is_first: chunk.is_first,
            is_last: chunk.is_last,
            in_order: chunk.in_order,
            message: chunk.message,
            stamp_us: 0,
            destination: 0,
        };
        Some((header, &chunk.payload))
    }

    fn chunk(&self, index: u64) -> Option<&Chunk> {
        self.chunks.get(usize::try_from(index.checked_sub(self.acked)?).ok()?)
    }

    /// Drops the message of a packet: its packets are no longer sent.
    fn drop_message(&mut self, index: u64) -> Next {
        let message = self.chunk(index).map_or(0, |chunk| chunk.message);
        let (mut first, mut last) = (index, index);
        while first > self.acked && self.chunk(first - 1).is_some_and(|chunk| chunk.message == message) {
            first -= 1;
        }
        while self.chunk(last + 1).is_some_and(|chunk| chunk.message == message) {
            last += 1;
        }
        self.lost.remove(first, last);
        self.next = self.next.max(last + 1);
        Next::Drop(message, first, last)
    }

    /// Everything before `index` has arrived. `space`: packets that the receiver has space for, if it reports
    /// them. False if the packet was never sent.
    pub(crate) fn acknowledge(&mut self, index: u64, space: Option<u64>) -> bool {
        if index > self.next {
            return false;
        }
        if index >= self.acked {
            let count = index - self.acked;
            self.chunks.drain(..count as usize);
            if let Some(space) = space {
                self.peer_space = space;
            } else {
                self.peer_space = self.peer_space.saturating_sub(count);
            }
            if index > 0 {
                self.lost.remove(0, index - 1);
            }
            self.acked = index;
        }
        true
    }

    /// The receiver reports `first..=last` as missing. Returns the number of packets, or `None` if one was
    /// never sent.
    pub(crate) fn mark_lost(&mut self, first: u64, last: u64) -> Option<u64> {
        if first > last || last >= self.next {
            return None;
        }
        let before = self.lost.len();
        if last >= self.acked {
            self.lost.insert(first.max(self.acked), last);
        }
        Some(self.lost.len() - before)
    }

    /// The expiration timer: all packets in flight are lost, unless some are already known to be.
    pub(crate) fn mark_all_lost(&mut self) {
        if self.has_in_flight() && self.lost.is_empty() {
            self.lost.insert(self.acked, self.next - 1);
        }
    }

    /// When the first unacknowledged packet was last sent, if it is in flight and not known to be lost.
    pub(crate) fn head_sent_at(&self) -> Option<Instant> {
        let is_lost = self.lost.first() == Some(self.acked);
        self.chunks
            .front()
            .filter(|chunk| self.has_in_flight() && !is_lost && chunk.last_sent != Instant::NEVER)
            .map(|chunk| chunk.last_sent)
    }
}
