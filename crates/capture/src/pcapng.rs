//! The pcapng format (draft-ietf-opsawg-pcapng). Decodes section headers, interface
//! descriptions, and enhanced, simple and obsolete packet blocks. Skips all other blocks.

use crate::{byte_order::ByteOrder, link::LinkType, packet::Packet};

pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
pub(crate) const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;
/// Minimum length of a block: type, and the length twice.
const MIN_BLOCK_BYTES: usize = 12;
/// Options of an interface description.
pub(crate) const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// The packets of a pcapng file.
#[derive(Debug, Clone)]
pub(crate) struct Pcapng<'a> {
    remaining: &'a [u8],
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    resolution: Resolution,
    /// Added to timestamps, seconds.
    offset_s: i64,
}

/// Unit of timestamps.
#[derive(Debug, Clone, Copy)]
enum Resolution {
    /// Units per second.
    PerSecond(u64),
    /// 2^-n seconds.
    Binary(u32),
}

impl Resolution {
    fn decode(byte: u8) -> Resolution {
        match byte & 0x80 {
            0 => Resolution::PerSecond(10u64.checked_pow(u32::from(byte)).unwrap_or(u64::MAX)),
            _ => Resolution::Binary(u32::from(byte & 0x7f).min(63)),
        }
    }

    fn nanoseconds(self, stamp: u64) -> u64 {
        let stamp = u128::from(stamp) * 1_000_000_000;
        let ns = match self {
            Resolution::PerSecond(n) => stamp / u128::from(n.max(1)),
            Resolution::Binary(power) => stamp >> power,
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl<'a> Pcapng<'a> {
    pub(crate) fn is_pcapng(file: &[u8]) -> bool {
        ByteOrder::Little.u32(file, 0) == Some(SECTION)
    }

    pub(crate) fn new(file: &'a [u8]) -> Self {
        Pcapng { remaining: file, order: ByteOrder::Little, interfaces: Vec::new() }
    }

    pub(crate) fn is_truncated(&self) -> bool {
        !self.remaining.is_empty()
    }

    /// Type and content of the next block.
    fn next_block(&mut self) -> Option<(u32, &'a [u8])> {
        let kind = self.order.u32(self.remaining, 0)?;
        if kind == SECTION {
            // A section header determines the byte order of everything that follows, including its own
            // length.
            let orders = [ByteOrder::Little, ByteOrder::Big];
            self.order =
                orders.into_iter().find(|order| order.u32(self.remaining, 8) == Some(BYTE_ORDER_MAGIC))?;
            self.interfaces.clear();
        }
        let len = usize::try_from(self.order.u32(self.remaining, 4)?).ok()?;
        if len < MIN_BLOCK_BYTES || !len.is_multiple_of(4) {
            return None;
        }
        let block = self.remaining.get(..len)?;
        self.remaining = &self.remaining[len..];
        Some((kind, &block[8..len - 4]))
    }

    fn add_interface(&mut self, content: &[u8]) {
        let order = self.order;
        let mut interface = Interface {
            link: LinkType(order.u16(content, 0).unwrap_or(u16::MAX)),
            snaplen: order.u32(content, 4).unwrap_or(0),
            resolution: Resolution::PerSecond(1_000_000),
            offset_s: 0,
        };
        let mut options = content.get(8..).unwrap_or_default();
        while let (Some(code), Some(len)) = (order.u16(options, 0), order.u16(options, 2)) {
            let len = usize::from(len);
            let Some(value) = options.get(4..4 + len) else { break };
            match code {
                0 => break,
                IF_TSRESOL => {
                    interface.resolution =
                        value.first().map_or(interface.resolution, |b| Resolution::decode(*b))
                }
                IF_TSOFFSET => {
                    if let (Some(low), Some(high)) = (order.u32(value, 0), order.u32(value, 4)) {
                        let (low, high) = if order == ByteOrder::Little { (low, high) } else { (high, low) };
                        interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                    }
                }
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
    }

    /// The packet of a block, from its interface number, timestamp, captured and original length, and the
    /// offset of its bytes.
    fn packet(
        &self,
        content: &'a [u8],
        interface: u32,
        stamp: Option<u64>,
        (captured_len, wire_len): (u32, u32),
        offset: usize,
    ) -> Option<Packet<'a>> {
        let interface = self.interfaces.get(usize::try_from(interface).ok()?)?;
        let end = offset.checked_add(usize::try_from(captured_len).ok()?)?;
        let ns = stamp.map_or(0, |stamp| interface.resolution.nanoseconds(stamp));
        let offset_ns = interface.offset_s.saturating_mul(1_000_000_000);
        let time_ns = ns.saturating_add_signed(offset_ns);
        Some(Packet { time_ns, link: interface.link, bytes: content.get(offset..end)?, wire_len })
    }
}

impl<'a> Iterator for Pcapng<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            let (kind, content) = self.next_block()?;
            let word = |offset: usize| self.order.u32(content, offset);
            let stamp = || Some(u64::from(word(4)?) << 32 | u64::from(word(8)?));
            let packet = match kind {
                INTERFACE => {
                    self.add_interface(content);
                    None
                }
                ENHANCED_PACKET => word(0).zip(stamp()).zip(word(12).zip(word(16))).and_then(
                    |((interface, stamp), lengths)| self.packet(content, interface, Some(stamp), lengths, 20),
                ),
                OLD_PACKET => {
                    let interface = self.order.u16(content, 0).map(u32::from);
                    interface.zip(stamp()).zip(word(12).zip(word(16))).and_then(
                        |((interface, stamp), lengths)| {
                            self.packet(content, interface, Some(stamp), lengths, 20)
                        },
                    )
                }
                SIMPLE_PACKET => word(0).and_then(|wire_len| {
                    let available = (content.len() - 4) as u32;
                    let snaplen = self.interfaces.first().map_or(0, |i| i.snaplen);
                    let limit = if snaplen == 0 { u32::MAX } else { snaplen };
                    self.packet(content, 0, None, (wire_len.min(available).min(limit), wire_len), 4)
                }),
                _ => None,
            };
            if packet.is_some() {
                return packet;
            }
        }
    }
}
