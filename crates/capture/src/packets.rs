//! Iterates over the packets of a capture file.

use crate::{Error, packet::Packet, pcap::Pcap, pcapng::Pcapng};

/// The packets of a file, in the order of the file. The iterator ends at a malformed packet, see
/// [`Packets::is_truncated`].
#[derive(Debug, Clone)]
pub struct Packets<'a>(CaptureFormat<'a>);

#[derive(Debug, Clone)]
enum CaptureFormat<'a> {
    Pcap(Pcap<'a>),
    Pcapng(Box<Pcapng<'a>>),
}

impl<'a> Packets<'a> {
    /// Reads the bytes of a whole file.
    ///
    /// # Errors
    /// If the bytes are neither a pcap nor a pcapng file, or end within a pcap header.
    pub fn new(file: &'a [u8]) -> Result<Self, Error> {
        if Pcapng::is_pcapng(file) {
            return Ok(Packets(CaptureFormat::Pcapng(Box::new(Pcapng::new(file)))));
        }
        Ok(Packets(CaptureFormat::Pcap(Pcap::new(file)?)))
    }

    /// Whether the iterator ended before the end of the file, because the remaining bytes are not a whole
    /// packet.
    pub fn is_truncated(&self) -> bool {
        match &self.0 {
            CaptureFormat::Pcap(pcap) => pcap.is_truncated(),
            CaptureFormat::Pcapng(pcapng) => pcapng.is_truncated(),
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        match &mut self.0 {
            CaptureFormat::Pcap(pcap) => pcap.next(),
            CaptureFormat::Pcapng(pcapng) => pcapng.next(),
        }
    }
}
