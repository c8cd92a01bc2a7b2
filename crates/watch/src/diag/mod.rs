//! sock_diag(7): all TCP connections of a network namespace, without any privilege.

mod message;
mod socket;

pub use socket::Diag;

/// Parses a datagram as the reply to request 1.
pub(crate) fn parse_reply(bytes: &[u8]) {
    message::parse_reply(bytes, 1, &mut Vec::new());
}
