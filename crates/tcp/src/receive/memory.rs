//! The memory charged to the socket for received packets (`skb->truesize`), and the queue of data in order.
//!
//! Source: `alloc_skb`, `alloc_skb_with_frags`, `skb_try_coalesce` (net/core/skbuff.c); `tun_get_user`,
//! `tun_build_skb` (drivers/net/tun.c); `tcp_try_coalesce`, `tcp_collapse` (net/ipv4/tcp_input.c). Sizes are
//! those of 64-bit machines. The tests have values measured on Linux 6.18 (`SO_MEMINFO` of a connection whose
//! data is not read).
//!
//! Differences from the kernel:
//!
//! 1. The data of a packet over veth is in as few fragments of 32 KiB as possible; in the kernel, the data of
//!    some packets crosses from one fragment to the next.
//! 2. Collapsing repacks a whole queue at once, and only if this makes it smaller.

use std::collections::VecDeque;

use crate::{
    Config, PacketMemory,
    behaviour::{CACHE_LINE, SHARED_INFO, SK_BUFF, small_head_truesize},
};

/// `SKB_TRUESIZE(0)`.
pub(super) const SKB_OVERHEAD: u32 = SK_BUFF + SHARED_INFO;
const PAGE: u32 = 4096;
/// Headroom of a TAP device before a frame (`NET_SKB_PAD`), bytes.
const HEADROOM: u32 = 64;
/// Ethernet, IPv4 and TCP headers with timestamps, bytes.
const HEADERS: u32 = 66;
/// Bytes of headers that a TAP device puts into the pages before a frame's data, if the frame is no
/// super-packet: its head ends after the checksum, the 18th byte of the TCP header.
const HEADERS_IN_PAGES: u32 = 14;
/// Headroom (`dev_alloc_skb`, and 2 bytes of alignment) and `sk_buff` of Linux 2.4 on a 32-bit machine,
/// bytes.
const HEADROOM_24: u32 = 18;
const SK_BUFF_24: u32 = 160;
/// `MAX_SKB_FRAGS`.
const MAX_FRAGS: u32 = 17;
/// Size of a page fragment's allocation (`SKB_FRAG_PAGE_ORDER`), bytes.
const FRAG: u32 = 32_768;
/// Data in a packet after collapsing (`SKB_MAX_ORDER(0, 0)`), and the memory charged for it (a page and
/// `sk_buff`), bytes.
const COLLAPSED: (u32, u32) = (PAGE - SHARED_INFO, PAGE + SK_BUFF);

/// Memory layout of received packets in a host's kernel.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    memory: PacketMemory,
    /// Memory of a packet's head without data, bytes.
    head: u32,
    /// Largest allocation of a TAP device, bytes.
    largest_piece: u32,
}

impl Layout {
    pub fn new(config: &Config) -> Layout {
        let since = |minor| config.profile.at_least(6, minor);
        let head = match config.packet_memory {
            _ if since(3) => small_head_truesize(config),
            // `kmalloc` has size classes of 512 and 1024 bytes.
            PacketMemory::Tap => SK_BUFF + 512,
            _ => SK_BUFF + 1024,
        };
        Layout { memory: config.packet_memory, head, largest_piece: if since(6) { FRAG } else { PAGE } }
    }

    /// A received packet of `len` bytes of data in segments of `mss` bytes; neither number includes a FIN.
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
        let space = frame.next_multiple_of(CACHE_LINE);
        if space + SHARED_INFO <= PAGE {
            return Packet { len, truesize: space + SKB_OVERHEAD, frags: 1, head: None };
        }
        // The head holds the whole frame: with its overhead it exceeds a page, and it is never coalesced.
        if frame < PAGE {
            return Packet { len, truesize: 2 * PAGE + SK_BUFF, frags: MAX_FRAGS, head: None };
        }
        let in_pages = if len > mss { len } else { len + HEADERS_IN_PAGES };
        self.paged(len, in_pages.next_multiple_of(PAGE), self.fragments(in_pages))
    }

    fn paged(&self, len: u32, data: u32, frags: u32) -> Packet {
        Packet { len, truesize: self.head + data, frags, head: Some(self.head) }
    }

    /// Number of fragments that hold `bytes`: each is the largest power of two of pages that the remaining
    /// bytes fill.
    fn fragments(&self, bytes: u32) -> u32 {
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
    /// Page fragments.
    frags: u32,
    /// Memory of a head without data, which coalescing frees, bytes; `None` if the head holds data.
    head: Option<u32>,
}

impl Packet {
    /// `truesize_adjust`: memory without the head, which coalescing would free.
    pub fn adjusted_truesize(&self) -> u32 {
        self.truesize - self.head.unwrap_or(0)
    }

    /// Appends the data of the following packet, `next`. Returns the added memory, bytes, or `None` if the
    /// packet cannot hold more fragments.
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

    /// Repacks the data if this saves memory. Returns the bytes saved.
    pub fn collapse(&mut self) -> u32 {
        let truesize = self.len.div_ceil(COLLAPSED.0) * COLLAPSED.1;
        let saved = self.truesize.saturating_sub(truesize);
        if saved > 0 {
            // Collapsed data is in heads and is not coalesced further.
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

    /// Appends a packet. Returns the added memory, bytes.
    pub fn push(&mut self, packet: Packet) -> u32 {
        if let Some(added) = self.packets.back_mut().and_then(|last| last.coalesce(&packet)) {
            return added;
        }
        self.packets.push_back(packet);
        packet.truesize
    }

    /// Reads at most `max_bytes` of the first packet. Returns the number of bytes read.
    pub fn read(&mut self, max_bytes: u64) -> u32 {
        let Some(first) = self.packets.front() else { return 0 };
        let read = u64::from(first.len - self.read).min(max_bytes) as u32;
        self.read += read;
        read
    }

    /// Frees the first packet if it is read completely. Returns its memory, bytes.
    pub fn free(&mut self) -> u32 {
        match self.packets.front() {
            Some(first) if self.read >= first.len => {
                self.read = 0;
                self.packets.pop_front().map_or(0, |packet| packet.truesize)
            }
            _ => 0,
        }
    }

    /// Repacks the data. Returns the freed memory, bytes. A partly read packet does not change.
    pub fn collapse(&mut self) -> u32 {
        let skip = usize::from(self.read > 0);
        self.packets.iter_mut().skip(skip).map(Packet::collapse).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    /// The kernels of the tables had neither wireless networks nor tunnels.
    fn layout(memory: PacketMemory, minor: u8) -> Layout {
        let profile = Profile::Linux6 { kernel: (6, minor) };
        Layout::new(&Config {
            profile,
            packet_memory: memory,
            max_tcp_header: Some(192),
            ..Config::default()
        })
    }

    /// Memory charged to a queue for packets with these numbers of segments.
    fn charged(layout: &Layout, mss: u32, packets: &[u32]) -> u32 {
        let mut queue = ReceiveQueue::default();
        packets.iter().map(|segments| queue.push(layout.packet(segments * mss, mss))).sum()
    }

    #[test]
    fn veth_packets_take_the_memory_that_linux_charges() {
        // (131400 - 2 x 64336), (16777216 - 2 x 8387244): reference run 6-16M of Linux 6.1.
        assert_eq!(layout(PacketMemory::Veth, 1).packet(1448, 1448).truesize, 2728);
        let newer = layout(PacketMemory::Veth, 18);
        let observed = [(100, 932), (1448, 2280), (8948, 9780), (17_896, 18_728), (26_844, 27_676)];
        for (len, truesize) in observed {
            assert_eq!(newer.packet(len, 8948).truesize, truesize, "{len} bytes");
        }
    }

    #[test]
    fn tap_packets_take_the_memory_that_linux_charges() {
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
        // Writes of two to twenty segments: packets of two segments, and single segments at the end of the
        // window.
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

    /// Out-of-order data of flows in guests, with the default `MAX_TCP_HEADER`: one and two segments of 8948
    /// bytes on Linux 6.1.192 (heads from `kmalloc`), 6.12.117 and 7.2.13 (14ad6ed30a10).
    #[test]
    fn guests_charge_the_memory_of_their_heads() {
        for (kernel, alone, pair) in
            [((6, 1), 13_056, 21_248), ((6, 12), 13_184, 21_376), ((7, 2), 13_184, 21_376)]
        {
            let profile = Profile::Linux6 { kernel };
            let layout =
                Layout::new(&Config { profile, packet_memory: PacketMemory::Tap, ..Config::default() });
            let charged = [8948, 17_896].map(|len| layout.packet(len, 8948).truesize);
            assert_eq!(charged, [alone, pair], "{kernel:?}");
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
    fn collapsing_frees_memory_of_small_packets() {
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
