//! The queue of out-of-order data, by sequence number (`out_of_order_queue`).
//!
//! Source: `tcp_data_queue_ofo`, `tcp_ofo_queue`, `tcp_prune_ofo_queue`, `tcp_collapse_ofo_queue`
//! (net/ipv4/tcp_input.c). The kernel uses a red-black tree. A sorted ring buffer is sufficient, because
//! nearly all operations are at or near one of its ends.
//!
//! Differences from the kernel:
//!
//! 1. A packet that follows one and overlaps the next is not coalesced with the former.

use std::collections::VecDeque;

use super::{memory::Packet, sack::SackList};
use crate::segment::{after, before};

/// One packet of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Sequence number of the first byte.
    pub start: u32,
    /// Sequence number after the last byte, FIN included.
    pub end: u32,
    /// The piece ends with a FIN.
    pub fin: bool,
    /// The packet's memory.
    pub packet: Packet,
}

/// Outcome of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The piece is a separate packet.
    Queued,
    /// The piece was coalesced with the packet before it.
    Coalesced,
    /// All data was already in the queue.
    Duplicate,
}

/// The queue. Pieces may overlap, but none contains another.
#[derive(Debug, Clone, Default)]
pub(super) struct ReorderQueue {
    pieces: VecDeque<Piece>,
}

impl ReorderQueue {
    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Sequence number after the last byte of the last packet.
    pub fn end(&self) -> Option<u32> {
        self.pieces.back().map(|last| last.end)
    }

    /// Whether all bytes from `start` to `end` are in the queue.
    #[cfg(test)]
    pub fn covers(&self, start: u32, end: u32) -> bool {
        let mut reached = start;
        for piece in &self.pieces {
            if !after(piece.start, reached) && after(piece.end, reached) {
                reached = piece.end;
            }
        }
        !before(reached, end)
    }

    /// Adds a piece, and adds data that was already in the queue to `sacks` as duplicate. Also returns the
    /// change of memory, bytes.
    pub fn insert(&mut self, piece: Piece, sacks: &mut SackList) -> (Inserted, i64) {
        match self.pieces.back_mut() {
            None => {}
            Some(last) if piece.start == last.end => {
                if let Some(added) = extend(last, &piece) {
                    return (Inserted::Coalesced, i64::from(added));
                }
            }
            Some(last) if before(piece.start, last.end) => return self.insert_inside(piece, sacks),
            Some(_) => {}
        }
        self.pieces.push_back(piece);
        (Inserted::Queued, i64::from(piece.packet.truesize))
    }

    fn insert_inside(&mut self, piece: Piece, sacks: &mut SackList) -> (Inserted, i64) {
        let mut memory = i64::from(piece.packet.truesize);
        let mut index = self.pieces.partition_point(|other| !after(other.start, piece.start));
        if let Some(left) = index.checked_sub(1).map(|left| &mut self.pieces[left]) {
            if before(piece.start, left.end) {
                if !after(piece.end, left.end) {
                    sacks.set_duplicate(piece.start, piece.end);
                    return (Inserted::Duplicate, 0);
                }
                if after(piece.start, left.start) {
                    sacks.set_duplicate(piece.start, left.end);
                } else {
                    sacks.extend_duplicate(left.start, left.end);
                    memory -= i64::from(left.packet.truesize);
                    index -= 1;
                    self.pieces.remove(index);
                }
            } else if let Some(added) = self.extend_left(index, &piece) {
                return (Inserted::Coalesced, i64::from(added));
            }
        }
        while let Some(right) = self.pieces.get(index)
            && after(piece.end, right.start)
        {
            if before(piece.end, right.end) {
                sacks.extend_duplicate(right.start, piece.end);
                break;
            }
            sacks.extend_duplicate(right.start, right.end);
            memory -= i64::from(right.packet.truesize);
            self.pieces.remove(index);
        }
        self.pieces.insert(index, piece);
        (Inserted::Queued, memory)
    }

    /// Appends the piece to the one before `index` if it follows that one and does not overlap the next.
    /// Returns the added memory, bytes.
    fn extend_left(&mut self, index: usize, piece: &Piece) -> Option<u32> {
        if self.pieces.get(index).is_some_and(|right| after(piece.end, right.start)) {
            return None;
        }
        let left = &mut self.pieces[index.checked_sub(1)?];
        if left.end == piece.start { extend(left, piece) } else { None }
    }

    /// Takes the first piece if it starts at or before `rcv_nxt`.
    pub fn take_ready(&mut self, rcv_nxt: u32) -> Option<Piece> {
        if after(self.pieces.front()?.start, rcv_nxt) {
            return None;
        }
        self.pieces.pop_front()
    }

    /// Drops packets from the end, but none before `seq`, until `is_enough` is true for the freed memory.
    /// Returns that memory, bytes.
    pub fn prune(&mut self, seq: u32, is_enough: impl Fn(u32) -> bool) -> u32 {
        let mut freed = 0;
        while let Some(last) = self.pieces.back() {
            if after(seq, last.start) || is_enough(freed) {
                break;
            }
            freed += last.packet.truesize;
            self.pieces.pop_back();
        }
        freed
    }

    /// Repacks the data. Returns the freed memory, bytes.
    pub fn collapse(&mut self) -> u32 {
        self.pieces.iter_mut().map(|piece| piece.packet.collapse()).sum()
    }

    /// Empties the queue. Returns the freed memory, bytes.
    pub fn clear(&mut self) -> u32 {
        self.pieces.drain(..).map(|piece| piece.packet.truesize).sum()
    }
}

/// Coalesces `next` with the packet of `piece` if possible. Returns the added memory, bytes.
fn extend(piece: &mut Piece, next: &Piece) -> Option<u32> {
    if piece.fin {
        return None;
    }
    let added = piece.packet.coalesce(&next.packet)?;
    (piece.end, piece.fin) = (next.end, next.fin);
    Some(added)
}
