//! Fields, blocks and ranges: the parts of which all control messages consist.

use std::net::IpAddr;

use super::ProtocolError;

/// Bytes of a block; all messages and their parts are multiples of it.
pub(super) const BLOCK: usize = 16;
/// Maximum number of ranges of packets that were not sent, in one message. A message is parsed again whenever
/// a part of it arrives, so this also limits the processor time that many small parts can cost.
const MAX_SKIPS: u32 = 2048;

/// Appends ranges of packets that were not sent, and pads the message to whole blocks.
pub(super) fn put_skips(bytes: &mut Vec<u8>, skipped: &[(u32, u32)]) {
    for (first, last) in skipped {
        bytes.extend(first.to_be_bytes());
        bytes.extend(last.to_be_bytes());
    }
    pad(bytes, 0);
}

/// Pads the part that begins at `begin` to whole blocks.
pub(super) fn pad(bytes: &mut Vec<u8>, begin: usize) {
    let length = (bytes.len() - begin).next_multiple_of(BLOCK);
    bytes.resize(begin + length, 0);
}

/// Reads parts of a message of variable length; all lengths before are multiples of a block.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn skip(&mut self, length: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(part)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.skip(N)?.try_into().ok()
    }

    /// Reads ranges of packets and the padding of their last block.
    pub(super) fn skips(&mut self, count: u32) -> Result<Option<Vec<(u32, u32)>>, ProtocolError> {
        if count > MAX_SKIPS {
            return Err(ProtocolError::TooMany("ranges of packets"));
        }
        let length = (self.at + count as usize * 8).next_multiple_of(BLOCK) - self.at;
        let Some(part) = self.skip(length) else { return Ok(None) };
        let ranges = part.as_chunks::<8>().0.iter().take(count as usize);
        let ranges =
            ranges.map(|range| (u32::from_be_bytes(field(range, 0)), u32::from_be_bytes(field(range, 4))));
        Ok(Some(ranges.collect()))
    }
}

/// A field at a constant offset of a message whose length is known.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub(super) fn put_address(bytes: &mut [u8], at: usize, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => put(bytes, at, &v4.octets()),
        IpAddr::V6(v6) => put(bytes, at, &v6.octets()),
    }
}
