//! The older format (draft-ietf-opsawg-pcap): a header of 24 bytes, then packets, each behind a header of 16.

use crate::{
    Error,
    link::LinkType,
    packets::{Order, Packet},
};

const HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// Written at the begin, stamps in microseconds.
const MICROS: u32 = 0xa1b2_c3d4;
/// Stamps in nanoseconds.
const NANOS: u32 = 0xa1b2_3c4d;

/// The packets of a pcap file.
#[derive(Debug, Clone)]
pub(crate) struct Pcap<'a> {
    rest: &'a [u8],
    order: Order,
    /// Nanoseconds of a stamp's second word.
    unit_ns: u64,
    link: LinkType,
}

impl<'a> Pcap<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Result<Self, Error> {
        let kinds = [
            (Order::Little, MICROS, 1000),
            (Order::Big, MICROS, 1000),
            (Order::Little, NANOS, 1),
            (Order::Big, NANOS, 1),
        ];
        let found = kinds.into_iter().find(|(order, magic, _)| order.u32(file, 0) == Some(*magic));
        let (order, _, unit_ns) = found.ok_or(Error::Unknown)?;
        let rest = file.get(HEADER..).ok_or(Error::Cut)?;
        // The upper bits tell of the frame check sequence.
        let link = LinkType((order.u32(file, 20).ok_or(Error::Cut)? & 0xffff) as u16);
        Ok(Pcap { rest, order, unit_ns, link })
    }

    pub(crate) fn is_cut(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl<'a> Iterator for Pcap<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let word = |at: usize| self.order.u32(self.rest, at);
        let (seconds, part, kept, wire_len) = (word(0)?, word(4)?, word(8)?, word(12)?);
        let end = PACKET_HEADER.checked_add(usize::try_from(kept).ok()?)?;
        let bytes = self.rest.get(PACKET_HEADER..end)?;
        self.rest = &self.rest[end..];
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(part) * self.unit_ns;
        Some(Packet { time_ns, link: self.link, bytes, wire_len })
    }
}
