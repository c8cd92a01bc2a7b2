//! The common part of all replies of a router.

use crate::Destination;

/// Time to live, or hop limit, of packets that routers originate (RFC 1812 section 4.2.2.9 requires at least
/// the network's diameter; 64 is today's default, RFC 1700).
pub(super) const TTL: u8 = 64;

/// A reply on the link of the interface on which the request arrived.
pub(super) struct LinkReply {
    pub(super) to: Destination,
    pub(super) frame: Vec<u8>,
}
