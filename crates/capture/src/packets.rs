//! The packets of a capture file, one after another.

use crate::{Error, link::LinkType, pcap::Pcap, pcapng::Pcapng};

/// A packet as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Since 1970, nanoseconds; 0 where the file does not tell.
    pub time_ns: u64,
    /// What its first bytes are.
    pub(crate) link: LinkType,
    /// As many bytes of it as were kept.
    pub bytes: &'a [u8],
    /// How long it was.
    pub wire_len: u32,
}

/// The packets of a file, in its order. Ends where the file is broken; [`Packets::is_cut`] tells.
#[derive(Debug, Clone)]
pub struct Packets<'a>(Kind<'a>);

#[derive(Debug, Clone)]
enum Kind<'a> {
    Pcap(Pcap<'a>),
    Pcapng(Box<Pcapng<'a>>),
}

impl<'a> Packets<'a> {
    /// Of the whole file.
    pub fn new(file: &'a [u8]) -> Result<Self, Error> {
        if Pcapng::is_one(file) {
            return Ok(Packets(Kind::Pcapng(Box::new(Pcapng::new(file)))));
        }
        Ok(Packets(Kind::Pcap(Pcap::new(file)?)))
    }

    /// True where it ended before the file's end, for the rest is no packet.
    pub fn is_cut(&self) -> bool {
        match &self.0 {
            Kind::Pcap(pcap) => pcap.is_cut(),
            Kind::Pcapng(pcapng) => pcapng.is_cut(),
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        match &mut self.0 {
            Kind::Pcap(pcap) => pcap.next(),
            Kind::Pcapng(pcapng) => pcapng.next(),
        }
    }
}

/// Numbers of a file in its own byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// The number at `at`, if there are so many bytes.
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) })
    }

    /// See [`Order::u16`].
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    }
}
