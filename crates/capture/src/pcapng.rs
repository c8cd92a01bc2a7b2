//! pcapng (draft-ietf-opsawg-pcapng): blocks, of which those are read that have packets or say how to read them: section header,
//! interface description, enhanced, simple and old packet block.

use crate::{
    link::LinkType,
    packets::{Order, Packet},
};

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Type and twice the length.
const LEAST: usize = 12;
/// Options of an interface.
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// The packets of a pcapng file.
#[derive(Debug, Clone)]
pub(crate) struct Pcapng<'a> {
    rest: &'a [u8],
    order: Order,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    resolution: Resolution,
    /// Added to its stamps, seconds.
    offset_s: i64,
}

/// What one of a stamp is.
#[derive(Debug, Clone, Copy)]
enum Resolution {
    /// So many in a second.
    PerSecond(u64),
    /// Seconds over two to the power of this.
    Binary(u32),
}

impl Resolution {
    fn of(byte: u8) -> Resolution {
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
    pub(crate) fn is_one(file: &[u8]) -> bool {
        Order::Little.u32(file, 0) == Some(SECTION)
    }

    pub(crate) fn new(file: &'a [u8]) -> Self {
        Pcapng { rest: file, order: Order::Little, interfaces: Vec::new() }
    }

    pub(crate) fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Type and content of the next block.
    fn block(&mut self) -> Option<(u32, &'a [u8])> {
        let kind = self.order.u32(self.rest, 0)?;
        if kind == SECTION {
            // It tells the byte order of all that follows, its own length among it.
            let orders = [Order::Little, Order::Big];
            self.order = orders.into_iter().find(|order| order.u32(self.rest, 8) == Some(BYTE_ORDER))?;
            self.interfaces.clear();
        }
        let len = usize::try_from(self.order.u32(self.rest, 4)?).ok()?;
        if len < LEAST || !len.is_multiple_of(4) {
            return None;
        }
        let block = self.rest.get(..len)?;
        self.rest = &self.rest[len..];
        Some((kind, &block[8..len - 4]))
    }

    fn describe(&mut self, content: &[u8]) {
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
                    interface.resolution = value.first().map_or(interface.resolution, |b| Resolution::of(*b))
                }
                IF_TSOFFSET => {
                    if let (Some(low), Some(high)) = (order.u32(value, 0), order.u32(value, 4)) {
                        let (low, high) = if order == Order::Little { (low, high) } else { (high, low) };
                        interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                    }
                }
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
    }

    /// A packet block with its interface's number, stamp, lengths and where its bytes begin.
    fn packet(
        &self,
        content: &'a [u8],
        interface: u32,
        stamp: Option<u64>,
        (kept, wire_len): (u32, u32),
        from: usize,
    ) -> Option<Packet<'a>> {
        let interface = self.interfaces.get(usize::try_from(interface).ok()?)?;
        let end = from.checked_add(usize::try_from(kept).ok()?)?;
        let ns = stamp.map_or(0, |stamp| interface.resolution.nanoseconds(stamp));
        let offset_ns = interface.offset_s.saturating_mul(1_000_000_000);
        let time_ns = ns.saturating_add_signed(offset_ns);
        Some(Packet { time_ns, link: interface.link, bytes: content.get(from..end)?, wire_len })
    }
}

impl<'a> Iterator for Pcapng<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            let (kind, content) = self.block()?;
            let word = |at: usize| self.order.u32(content, at);
            let stamp = || Some(u64::from(word(4)?) << 32 | u64::from(word(8)?));
            let found = match kind {
                INTERFACE => {
                    self.describe(content);
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
                    let room = (content.len() - 4) as u32;
                    let snaplen = self.interfaces.first().map_or(0, |i| i.snaplen);
                    let limit = if snaplen == 0 { u32::MAX } else { snaplen };
                    self.packet(content, 0, None, (wire_len.min(room).min(limit), wire_len), 4)
                }),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
    }
}
