//! The pcap format (draft-ietf-opsawg-pcap): a header of 24 bytes, then packets, each after a header of 16
//! bytes.

use crate::{Error, byte_order::ByteOrder, link::LinkType, packet::Packet};

const HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Magic number of files with timestamps in microseconds.
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// Magic number of files with timestamps in nanoseconds.
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// The packets of a pcap file.
#[derive(Debug, Clone)]
pub(crate) struct Pcap<'a> {
    remaining: &'a [u8],
    order: ByteOrder,
    /// Unit of a timestamp's second word, nanoseconds.
    unit_ns: u64,
    link: LinkType,
}

impl<'a> Pcap<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Result<Self, Error> {
        let variants = [
            (ByteOrder::Little, MAGIC_MICROS, 1000),
            (ByteOrder::Big, MAGIC_MICROS, 1000),
            (ByteOrder::Little, MAGIC_NANOS, 1),
            (ByteOrder::Big, MAGIC_NANOS, 1),
        ];
        let found = variants.into_iter().find(|(order, magic, _)| order.u32(file, 0) == Some(*magic));
        let (order, _, unit_ns) = found.ok_or(Error::NotACapture)?;
        let remaining = file.get(HEADER_BYTES..).ok_or(Error::TruncatedHeader)?;
        // The upper bits describe the frame check sequence.
        let link = LinkType((order.u32(file, 20).ok_or(Error::TruncatedHeader)? & 0xffff) as u16);
        Ok(Pcap { remaining, order, unit_ns, link })
    }

    pub(crate) fn is_truncated(&self) -> bool {
        !self.remaining.is_empty()
    }
}

impl<'a> Iterator for Pcap<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let word = |offset: usize| self.order.u32(self.remaining, offset);
        let (seconds, fraction, captured_len, wire_len) = (word(0)?, word(4)?, word(8)?, word(12)?);
        let end = PACKET_HEADER_BYTES.checked_add(usize::try_from(captured_len).ok()?)?;
        let bytes = self.remaining.get(PACKET_HEADER_BYTES..end)?;
        self.remaining = &self.remaining[end..];
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit_ns;
        Some(Packet { time_ns, link: self.link, bytes, wire_len })
    }
}
