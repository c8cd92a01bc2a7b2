//! The memory that received packets are charged to the socket (`skb->truesize`), and the queue of data in order.
//!
//! Source: `alloc_skb`, `skb_segment`, `skb_try_coalesce` (net/core/skbuff.c); `tcp_try_coalesce`, `tcp_collapse`
//! (net/ipv4/tcp_input.c). Sizes are those of 64-bit machines.
//!
//! Departures:
//!
//! 1. A packet's data lies in as few pieces of 32 KiB as possible; in the kernel some cross from one to the next.
//! 2. Collapsing repacks a whole queue at once, and only if that makes it smaller.

use std::collections::VecDeque;

/// `sk_buff`, and `skb_shared_info` at the end of a packet's head, each in whole cache lines.
const SK_BUFF: u32 = 256;
const SHARED_INFO: u32 = 320;
/// `SKB_TRUESIZE(0)`.
pub(super) const BOOKKEEPING: u32 = SK_BUFF + SHARED_INFO;
/// A head with room for headers only: kmalloc's 1024 bytes, and `sk_buff`. Observed on Linux 6.1.
const HEAD: u32 = SK_BUFF + 1024;
/// Room before a frame (`dev_alloc_skb`, and 2 bytes of alignment) and `sk_buff` of Linux 2.4 on a 32-bit machine.
const HEADROOM_24: u32 = 18;
const SK_BUFF_24: u32 = 160;
/// `MAX_SKB_FRAGS`.
const MOST_FRAGS: u32 = 17;
/// Bytes of a page fragment's allocation (`SKB_FRAG_PAGE_ORDER`).
const FRAG: u32 = 32_768;
/// A packet of collapsed data holds so many bytes (`SKB_MAX_ORDER(0, 0)`) and is charged a page and `sk_buff`.
const COLLAPSED: (u32, u32) = (4096 - SHARED_INFO, 4096 + SK_BUFF);

/// Where a device puts the packets it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketMemory {
    /// Headers in a small head, data in page fragments: what TCP sends over veth, segmented in software or not.
    #[default]
    Fragments,
    /// A packet that fits into a page in one piece, a longer one in pages of its own: a TAP device.
    OnePiece,
    /// Each packet in a buffer as large as the frame, never joined with others: a driver and TCP of Linux 2.4.
    FrameSized,
}

impl PacketMemory {
    /// A received packet of so many bytes of data, FIN included in neither.
    pub(super) fn packet(self, len: u32) -> Packet {
        let frags = len.div_ceil(FRAG);
        match self {
            PacketMemory::Fragments => Packet { len, truesize: len + HEAD, frags, in_head: false },
            PacketMemory::OnePiece => {
                let room = (len + 66 + 64).next_multiple_of(64);
                if room + SHARED_INFO <= 4096 {
                    return Packet { len, truesize: room + BOOKKEEPING, frags: 1, in_head: true };
                }
                let truesize = (len + 66).next_multiple_of(4096) + BOOKKEEPING;
                Packet { len, truesize, frags, in_head: true }
            }
            PacketMemory::FrameSized => {
                let truesize = (len + 66 + HEADROOM_24).next_multiple_of(32) + SK_BUFF_24;
                Packet { len, truesize, frags: MOST_FRAGS, in_head: true }
            }
        }
    }
}

/// One `sk_buff` with received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    /// Bytes of data.
    pub len: u32,
    /// Bytes of memory.
    pub truesize: u32,
    /// Pieces of pages.
    frags: u32,
    /// Some data lies in the head.
    in_head: bool,
}

impl Packet {
    /// `truesize_adjust`: without the head, which coalescing would free.
    pub fn adjusted_truesize(&self) -> u32 {
        if self.in_head { self.truesize } else { self.truesize - HEAD }
    }

    /// Takes in the data of `next`, which follows. Gives the bytes of memory that this adds, or nothing if the packet
    /// cannot hold more pieces.
    pub fn coalesce(&mut self, next: &Packet) -> Option<u32> {
        if self.frags + next.frags > MOST_FRAGS {
            return None;
        }
        let added = next.truesize - if next.in_head { SK_BUFF } else { HEAD };
        self.len += next.len;
        self.truesize += added;
        self.frags += next.frags;
        Some(added)
    }

    /// Copies the data closer together if that saves memory; gives the bytes saved.
    pub fn collapse(&mut self) -> u32 {
        let truesize = self.len.div_ceil(COLLAPSED.0) * COLLAPSED.1;
        let saved = self.truesize.saturating_sub(truesize);
        if saved > 0 {
            // What was collapsed lies in heads and takes part in no further coalescing.
            (self.truesize, self.frags, self.in_head) = (truesize, MOST_FRAGS, true);
        }
        saved
    }
}

/// Data in order that the application has not read (`sk_receive_queue`).
#[derive(Debug, Clone, Default)]
pub(super) struct ReceiveQueue {
    packets: VecDeque<Packet>,
    /// Bytes of the first packet that were read.
    read: u32,
}

impl ReceiveQueue {
    /// Whether there is no packet.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Appends a packet; gives the memory it adds.
    pub fn push(&mut self, packet: Packet) -> u32 {
        if let Some(added) = self.packets.back_mut().and_then(|last| last.coalesce(&packet)) {
            return added;
        }
        self.packets.push_back(packet);
        packet.truesize
    }

    /// Reads at most so many bytes of the first packet: how many there were.
    pub fn read(&mut self, most: u64) -> u32 {
        let Some(first) = self.packets.front() else { return 0 };
        let read = u64::from(first.len - self.read).min(most) as u32;
        self.read += read;
        read
    }

    /// Frees the first packet if it has been read; gives its memory.
    pub fn free(&mut self) -> u32 {
        match self.packets.front() {
            Some(first) if self.read >= first.len => {
                self.read = 0;
                self.packets.pop_front().map_or(0, |packet| packet.truesize)
            }
            _ => 0,
        }
    }

    /// Copies the data closer together; gives the memory that this frees. The packet that is being read stays as it is.
    pub fn collapse(&mut self) -> u32 {
        let skip = usize::from(self.read > 0);
        self.packets.iter_mut().skip(skip).map(Packet::collapse).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_is_charged_as_observed() {
        // (131400 - 2 x 64336), (16777216 - 2 x 8387244): reference run 6-16M of Linux 6.1.
        assert_eq!(PacketMemory::Fragments.packet(1448).truesize, 2728);
        // 2896 bytes of data in 3640: the window of Linux 6.18 over a TAP device is 0.79 of the buffer.
        let pair = PacketMemory::OnePiece.packet(2896);
        assert_eq!(pair.truesize, 3648);
    }

    #[test]
    fn seventeen_segments_share_one_head() {
        let segment = PacketMemory::Fragments.packet(1448);
        let mut queue = ReceiveQueue::default();
        let charged: u32 = (0..18).map(|_| queue.push(segment)).sum();
        assert_eq!(queue.packets.len(), 2);
        assert_eq!(charged, 18 * 1448 + 2 * HEAD);
        assert_eq!(queue.read(u64::MAX), 17 * 1448);
        assert_eq!(queue.free(), 17 * 1448 + HEAD);
    }

    #[test]
    fn small_packets_gain_by_collapsing() {
        let mut queue = ReceiveQueue::default();
        let mut charged = 0;
        for _ in 0..17 {
            charged += queue.push(PacketMemory::Fragments.packet(100));
        }
        let freed = queue.collapse();
        assert!(freed == 0 && charged == 1700 + HEAD, "shared already: {charged} {freed}");
        let mut lone = ReceiveQueue::default();
        assert_eq!(lone.push(PacketMemory::OnePiece.packet(9000)), 12_864);
        assert_eq!(lone.collapse(), 0, "9000 bytes take three pages");
    }
}
