//! A packet of a capture.

use crate::link::LinkType;

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time since 1970, nanoseconds; 0 if the file has no timestamp for it.
    pub time_ns: u64,
    /// Link type, which determines the headers before IP.
    pub(crate) link: LinkType,
    /// The captured bytes, which may be only the beginning of the packet.
    pub bytes: &'a [u8],
    /// Length of the whole packet, bytes.
    pub wire_len: u32,
}
