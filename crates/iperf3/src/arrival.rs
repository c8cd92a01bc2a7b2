//! Connections that the router passes to a session.

use socket2::Socket;

/// A stream's connection.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Its index in the order of all connections.
    pub(crate) number: u64,
    pub(crate) socket: Socket,
}
