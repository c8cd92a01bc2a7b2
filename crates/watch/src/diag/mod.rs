//! sock_diag(7): all TCP connections of a network namespace, without any privilege.

mod message;
mod socket;

pub use socket::Diag;

/// Reads a datagram as an answer to request 1.
pub(crate) fn read(bytes: &[u8]) {
    message::read(bytes, 1, &mut Vec::new());
}
