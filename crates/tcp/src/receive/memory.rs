//! The memory that received packets are charged to the socket (`skb->truesize`), and the queue of data in order.
//!
//! Source: `alloc_skb`, `alloc_skb_with_frags`, `skb_try_coalesce` (net/core/skbuff.c); `tun_get_user`, `tun_build_skb`
//! (drivers/net/tun.c); `tcp_try_coalesce`, `tcp_collapse` (net/ipv4/tcp_input.c). Sizes are those of 64-bit machines. The
//! tests have what Linux 6.18 charged (`SO_MEMINFO` of a connection that nobody reads).
//!
//! Departures:
//!
//! 1. The data of a packet over veth lies in as few pieces of 32 KiB as possible; in the kernel some cross from one to the next.
//! 2. Collapsing repacks a whole queue at once, and only if that makes it smaller.

use std::collections::VecDeque;

use crate::Config;

/// `sk_buff`, and `skb_shared_info` at the end of a packet's head, each in whole cache lines.
const SK_BUFF: u32 = 256;
const SHARED_INFO: u32 = 320;
/// `SKB_TRUESIZE(0)`.
pub(super) const BOOKKEEPING: u32 = SK_BUFF + SHARED_INFO;
const PAGE: u32 = 4096;
const CACHE_LINE: u32 = 64;
/// Room that a TAP device leaves before a frame (`NET_SKB_PAD`).
const HEADROOM: u32 = 64;
/// Ethernet, IPv4, TCP with timestamps.
const HEADERS: u32 = 66;
/// Bytes of headers that a TAP device puts into the pages, before a frame's data: where a frame is no super-packet, its head
/// ends behind the checksum, which is the 18th byte of the TCP header.
const HEADERS_IN_PAGES: u32 = 14;
/// Room before a frame (`dev_alloc_skb`, and 2 bytes of alignment) and `sk_buff` of Linux 2.4 on a 32-bit machine.
const HEADROOM_24: u32 = 18;
const SK_BUFF_24: u32 = 160;
/// `MAX_SKB_FRAGS`.
const MAX_FRAGS: u32 = 17;
/// Bytes of a page fragment's allocation (`SKB_FRAG_PAGE_ORDER`).
const FRAG: u32 = 32_768;
/// A packet of collapsed data holds so many bytes (`SKB_MAX_ORDER(0, 0)`) and is charged a page and `sk_buff`.
const COLLAPSED: (u32, u32) = (PAGE - SHARED_INFO, PAGE + SK_BUFF);

/// Where a device puts the packets it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketMemory {
    /// A TAP device: a frame that fits into a page in one piece, a longer one in pages of its own after a small head.
    #[default]
    Tap,
    /// A veth device: headers in a small head, data in page fragments, as the sender's TCP made them.
    Veth,
    /// Each packet in a buffer as large as the frame, never joined with others: a driver and TCP of Linux 2.4.
    FrameSized,
}

/// How a host's kernel lays received packets out.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    memory: PacketMemory,
    /// A packet with an empty head, bytes.
    head: u32,
    /// Largest piece of memory that a TAP device asks for, bytes.
    largest_piece: u32,
}

impl Layout {
    pub fn new(config: &Config) -> Layout {
        let since = |minor| config.profile.at_least(6, minor);
        let head = match config.packet_memory {
            // The smallest heads come from a cache of their own (`SKB_SMALL_HEAD_CACHE_SIZE`).
            _ if since(3) => match config.max_tcp_header() + SHARED_INFO {
                size if size.is_power_of_two() => SK_BUFF + size + CACHE_LINE,
                size => SK_BUFF + size,
            },
            // `kmalloc` has 512 and 1024 bytes.
            PacketMemory::Tap => SK_BUFF + 512,
            _ => SK_BUFF + 1024,
        };
        Layout { memory: config.packet_memory, head, largest_piece: if since(6) { FRAG } else { PAGE } }
    }

    /// A received packet of `len` bytes of data in segments of `mss` bytes, FIN included in neither.
    pub fn packet(&self, len: u32, mss: u32) -> Packet {
        match self.memory {
            PacketMemory::Tap => self.tap_packet(len, mss),
            PacketMemory::Veth => self.paged(len, len, len.div_ceil(FRAG)),
            PacketMemory::FrameSized => {
                let truesize = (len + HEADERS + HEADROOM_24).next_multiple_of(32) + SK_BUFF_24;
                Packet { len, truesize, frags: MAX_FRAGS, head: None }
            }
        }
    }

    fn tap_packet(&self, len: u32, mss: u32) -> Packet {
        let frame = HEADROOM + HEADERS + len;
        let room = frame.next_multiple_of(CACHE_LINE);
        if room + SHARED_INFO <= PAGE {
            return Packet { len, truesize: room + BOOKKEEPING, frags: 1, head: None };
        }
        // All of it in a head that is more than a page with its bookkeeping, and never joined with others.
        if frame < PAGE {
            return Packet { len, truesize: 2 * PAGE + SK_BUFF, frags: MAX_FRAGS, head: None };
        }
        let in_pages = if len > mss { len } else { len + HEADERS_IN_PAGES };
        self.paged(len, in_pages.next_multiple_of(PAGE), self.pieces(in_pages))
    }

    fn paged(&self, len: u32, data: u32, frags: u32) -> Packet {
        Packet { len, truesize: self.head + data, frags, head: Some(self.head) }
    }

    /// In how many pieces so many bytes lie: each the largest power of two of pages that they fill.
    fn pieces(&self, bytes: u32) -> u32 {
        let whole = bytes / self.largest_piece;
        let pages = (bytes % self.largest_piece).div_ceil(PAGE);
        whole + pages.count_ones()
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
    /// Bytes of a head without data, which joining frees; `None` if data lies in the head.
    head: Option<u32>,
}

impl Packet {
    /// `truesize_adjust`: without the head, which coalescing would free.
    pub fn adjusted_truesize(&self) -> u32 {
        self.truesize - self.head.unwrap_or(0)
    }

    /// Takes in the data of `next`, which follows. Gives the bytes of memory that this adds, or nothing if the packet
    /// cannot hold more pieces.
    pub fn coalesce(&mut self, next: &Packet) -> Option<u32> {
        if self.frags + next.frags > MAX_FRAGS {
            return None;
        }
        let added = next.truesize - next.head.unwrap_or(SK_BUFF);
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
            (self.truesize, self.frags, self.head) = (truesize, MAX_FRAGS, None);
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
    use crate::Profile;

    fn layout(memory: PacketMemory, minor: u8) -> Layout {
        let profile = Profile::Linux6 { kernel: (6, minor) };
        Layout::new(&Config { profile, packet_memory: memory, ..Config::default() })
    }

    /// What the queue is charged for packets of so many segments.
    fn charged(layout: &Layout, mss: u32, packets: &[u32]) -> u32 {
        let mut queue = ReceiveQueue::default();
        packets.iter().map(|segments| queue.push(layout.packet(segments * mss, mss))).sum()
    }

    #[test]
    fn veth_charges_what_linux_did() {
        // (131400 - 2 x 64336), (16777216 - 2 x 8387244): reference run 6-16M of Linux 6.1.
        assert_eq!(layout(PacketMemory::Veth, 1).packet(1448, 1448).truesize, 2728);
        let newer = layout(PacketMemory::Veth, 18);
        let observed = [(100, 932), (1448, 2280), (8948, 9780), (17_896, 18_728), (26_844, 27_676)];
        for (len, truesize) in observed {
            assert_eq!(newer.packet(len, 8948).truesize, truesize, "{len} bytes");
        }
    }

    #[test]
    fn a_tap_device_charges_what_linux_did() {
        let layout = layout(PacketMemory::Tap, 18);
        let observed = [
            (100, 832),
            (1448, 2176),
            (3000, 3712),
            (3646, 4352),
            (3650, 8448),
            (3960, 8448),
            (3966, 4928),
            (4060, 4928),
            (4096, 9024),
            (8120, 9024),
            (8190, 13_120),
            (8948, 13_120),
        ];
        for (len, truesize) in observed {
            assert_eq!(layout.packet(len, 8948).truesize, truesize, "{len} bytes");
        }
        // Writes of two to twenty segments, which left in pairs and reached the end of their window alone.
        let jumbo: [(&[u32], u32); 5] = [
            (&[2], 21_312),
            (&[2, 1], 33_600),
            (&[2, 2, 1], 54_080),
            (&[2, 2, 2, 1], 74_560),
            (&[2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1], 210_560),
        ];
        for (packets, memory) in jumbo {
            assert_eq!(charged(&layout, 8948, packets), memory, "{packets:?}");
        }
        let ethernet: [(&[u32], u32); 4] =
            [(&[2], 3648), (&[2, 1], 5568), (&[2, 2, 1], 8960), (&[2, 2, 2, 2, 2], 17_216)];
        for (packets, memory) in ethernet {
            assert_eq!(charged(&layout, 1448, packets), memory, "{packets:?}");
        }
    }

    #[test]
    fn seventeen_segments_share_one_head() {
        let layout = layout(PacketMemory::Veth, 1);
        let mut queue = ReceiveQueue::default();
        let charged: u32 = (0..18).map(|_| queue.push(layout.packet(1448, 1448))).sum();
        assert_eq!(queue.packets.len(), 2);
        assert_eq!(charged, 18 * 1448 + 2 * layout.head);
        assert_eq!(queue.read(u64::MAX), 17 * 1448);
        assert_eq!(queue.free(), 17 * 1448 + layout.head);
    }

    #[test]
    fn small_packets_gain_by_collapsing() {
        let veth = layout(PacketMemory::Veth, 1);
        let mut queue = ReceiveQueue::default();
        let charged: u32 = (0..17).map(|_| queue.push(veth.packet(100, 1448))).sum();
        let freed = queue.collapse();
        assert!(freed == 0 && charged == 1700 + veth.head, "shared already: {charged} {freed}");
        let mut alone = ReceiveQueue::default();
        assert_eq!(alone.push(layout(PacketMemory::Tap, 18).packet(9000, 9000)), 13_120);
        assert_eq!(alone.collapse(), 64, "9000 bytes take three pages");
    }
}
