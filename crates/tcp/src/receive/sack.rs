//! The SACK blocks that a receiver reports, the most recent first (RFC 2018 section 4, RFC 2883).
//!
//! Source: `tcp_sack_new_ofo_skb`, `tcp_sack_maybe_coalesce`, `tcp_sack_remove`, `tcp_dsack_set` and
//! `tcp_dsack_extend` (net/ipv4/tcp_input.c).

use crate::segment::{SackBlocks, after, before};

/// `TCP_NUM_SACKS`: maximum number of stored blocks.
const MAX_BLOCKS: usize = 4;

/// The blocks, and the duplicate to report before them.
#[derive(Debug, Clone, Default)]
pub(super) struct SackList {
    count: usize,
    blocks: [(u32, u32); MAX_BLOCKS],
    duplicate: Option<(u32, u32)>,
}

impl SackList {
    /// Number of blocks without the duplicate.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Removes the blocks.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Extends a block that touches the data from `start` to `end`, if there is one. Returns its index.
    pub fn extend(&mut self, start: u32, end: u32) -> Option<usize> {
        self.blocks[..self.count].iter_mut().position(|block| join(block, start, end))
    }

    /// Moves the block at `index` to the front and merges blocks that it touches into it.
    pub fn promote(&mut self, index: usize) {
        self.blocks[..=index].rotate_right(1);
        let mut kept = 1;
        for i in 1..self.count {
            let (start, end) = self.blocks[i];
            if !join(&mut self.blocks[0], start, end) {
                self.blocks[kept] = (start, end);
                kept += 1;
            }
        }
        self.count = kept.min(self.count);
    }

    /// Adds a block at the front; drops the last one if there are too many.
    pub fn add(&mut self, start: u32, end: u32) {
        self.count = (self.count + 1).min(MAX_BLOCKS);
        self.blocks[..self.count].rotate_right(1);
        self.blocks[0] = (start, end);
    }

    /// Removes blocks before `rcv_nxt`.
    pub fn remove_before(&mut self, rcv_nxt: u32) {
        let mut kept = 0;
        for i in 0..self.count {
            let block = self.blocks[i];
            if before(rcv_nxt, block.0) {
                self.blocks[kept] = block;
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Stores the data from `start` to `end` as duplicate (DSACK) for the next ACK.
    pub fn set_duplicate(&mut self, start: u32, end: u32) {
        self.duplicate = Some((start, end));
    }

    /// Like [`Self::set_duplicate`], but extends a stored duplicate if both touch.
    pub fn extend_duplicate(&mut self, start: u32, end: u32) {
        match &mut self.duplicate {
            Some(block) => {
                join(block, start, end);
            }
            None => self.duplicate = Some((start, end)),
        }
    }

    /// Removes the duplicate.
    pub fn clear_duplicate(&mut self) {
        self.duplicate = None;
    }

    /// The blocks for an ACK, at most `max_blocks`. The duplicate is reported once.
    #[inline]
    pub fn take(&mut self, max_blocks: usize) -> Option<SackBlocks> {
        let is_empty = self.count == 0 && self.duplicate.is_none();
        if is_empty { None } else { Some(self.take_some(max_blocks)) }
    }

    #[inline(never)]
    fn take_some(&mut self, max_blocks: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let all = self.duplicate.take().into_iter().chain(self.blocks[..self.count].iter().copied());
        all.take(max_blocks).for_each(|(start, end)| blocks.push(start, end));
        blocks
    }
}

/// Makes `block` cover the data from `start` to `end` if they touch (`tcp_sack_extend`).
fn join(block: &mut (u32, u32), start: u32, end: u32) -> bool {
    if after(start, block.1) || after(block.0, end) {
        return false;
    }
    if before(start, block.0) {
        block.0 = start;
    }
    if after(end, block.1) {
        block.1 = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(list: &mut SackList, start: u32, end: u32) {
        match list.extend(start, end) {
            Some(index) => list.promote(index),
            None => list.add(start, end),
        }
    }

    fn blocks(list: &mut SackList) -> Vec<(u32, u32)> {
        list.take(4).map_or(Vec::new(), |blocks| blocks.as_slice().to_vec())
    }

    #[test]
    fn the_most_recent_block_comes_first() {
        let mut list = SackList::default();
        for start in [10, 30, 50, 70, 90] {
            add(&mut list, start, start + 10);
        }
        assert_eq!(blocks(&mut list), [(90, 100), (70, 80), (50, 60), (30, 40)]);
        add(&mut list, 60, 70);
        assert_eq!(blocks(&mut list), [(50, 80), (90, 100), (30, 40)]);
        list.remove_before(80);
        assert_eq!(blocks(&mut list), [(90, 100)]);
    }

    #[test]
    fn a_duplicate_is_reported_first_and_once() {
        let mut list = SackList::default();
        add(&mut list, 10, 20);
        list.set_duplicate(10, 12);
        list.extend_duplicate(12, 14);
        list.extend_duplicate(18, 19);
        assert_eq!(blocks(&mut list), [(10, 14), (10, 20)]);
        assert_eq!(blocks(&mut list), [(10, 20)]);
        list.clear();
        assert!(list.take(3).is_none());
    }

    #[test]
    fn blocks_join_where_sequence_numbers_wrap() {
        let mut list = SackList::default();
        add(&mut list, u32::MAX - 9, u32::MAX);
        add(&mut list, 10, 20);
        add(&mut list, u32::MAX, 10);
        assert_eq!(blocks(&mut list), [(u32::MAX - 9, 20)]);
    }
}
