//! Data that came out of order, by sequence number (`out_of_order_queue`).
//!
//! Source: `tcp_data_queue_ofo`, `tcp_ofo_queue`, `tcp_prune_ofo_queue`, `tcp_collapse_ofo_queue`
//! (net/ipv4/tcp_input.c). The kernel has a red-black tree; a sorted ring serves as well, for nearly everything is
//! appended, taken from the front, or inserted near one of both.
//!
//! Departures:
//!
//! 1. A packet that follows one and overlaps the next is not made part of the former.

use std::collections::VecDeque;

use super::{memory::Packet, sack::SackList};
use crate::segment::{after, before};

/// One packet of the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Number of its first byte.
    pub start: u32,
    /// Number after its last byte, FIN included.
    pub end: u32,
    /// It ends with FIN.
    pub fin: bool,
    /// Its memory.
    pub packet: Packet,
}

/// What became of a new piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// It is a packet of its own.
    Queued,
    /// It became part of the packet before it.
    Coalesced,
    /// All of it was there already.
    Duplicate,
}

/// The queue. Pieces may overlap, but none lies within another.
#[derive(Debug, Clone, Default)]
pub(super) struct ReorderQueue {
    pieces: VecDeque<Piece>,
}

impl ReorderQueue {
    /// Whether nothing is out of order.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Number after the last byte of the last packet.
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

    /// Adds a piece. What was there already is told to `sacks` as a duplicate. Gives also the change of memory, bytes.
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
        let mut place = self.pieces.partition_point(|other| !after(other.start, piece.start));
        if let Some(left) = place.checked_sub(1).map(|left| &mut self.pieces[left]) {
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
                    place -= 1;
                    self.pieces.remove(place);
                }
            } else if let Some(added) = self.extend_left(place, &piece) {
                return (Inserted::Coalesced, i64::from(added));
            }
        }
        while let Some(right) = self.pieces.get(place)
            && after(piece.end, right.start)
        {
            if before(piece.end, right.end) {
                sacks.extend_duplicate(right.start, piece.end);
                break;
            }
            sacks.extend_duplicate(right.start, right.end);
            memory -= i64::from(right.packet.truesize);
            self.pieces.remove(place);
        }
        self.pieces.insert(place, piece);
        (Inserted::Queued, memory)
    }

    /// Appends the piece to the one before `place` if it follows that and does not reach into the next; gives the memory
    /// added.
    fn extend_left(&mut self, place: usize, piece: &Piece) -> Option<u32> {
        if self.pieces.get(place).is_some_and(|right| after(piece.end, right.start)) {
            return None;
        }
        let left = &mut self.pieces[place.checked_sub(1)?];
        if left.end == piece.start { extend(left, piece) } else { None }
    }

    /// Takes the first piece if it does not begin after `rcv_nxt`.
    pub fn take_ready(&mut self, rcv_nxt: u32) -> Option<Piece> {
        if after(self.pieces.front()?.start, rcv_nxt) {
            return None;
        }
        self.pieces.pop_front()
    }

    /// Drops the last packets, but not those before `seq`, until `enough` says so of the memory freed. Gives the memory.
    pub fn prune(&mut self, seq: u32, enough: impl Fn(u32) -> bool) -> u32 {
        let mut freed = 0;
        while let Some(last) = self.pieces.back() {
            if after(seq, last.start) || enough(freed) {
                break;
            }
            freed += last.packet.truesize;
            self.pieces.pop_back();
        }
        freed
    }

    /// Copies the data closer together; gives the memory that this frees.
    pub fn collapse(&mut self) -> u32 {
        self.pieces.iter_mut().map(|piece| piece.packet.collapse()).sum()
    }

    /// Empties the queue; gives its memory.
    pub fn clear(&mut self) -> u32 {
        self.pieces.drain(..).map(|piece| piece.packet.truesize).sum()
    }
}

/// Appends `next` to the packet of `piece`, if it follows and may; gives the memory added.
fn extend(piece: &mut Piece, next: &Piece) -> Option<u32> {
    if piece.fin {
        return None;
    }
    let added = piece.packet.coalesce(&next.packet)?;
    (piece.end, piece.fin) = (next.end, next.fin);
    Some(added)
}
