//! Reverse connections, for servers that can open connections to their client but cannot accept any (NAT, a
//! firewall). The client listens at a port. The server opens a standby connection to it, and on request
//! further connections or UDP sockets, which both ends then use as if the client had opened them.
//!
//! ```text
//! server                              client, which listens at a port
//! standby connection: cookie (37 B)
//!                                     request: 'T' or 'U', cookie (37 B)
//! new connection ('T'), or datagrams from a new UDP socket ('U'): that cookie
//! ```

mod dial;
mod listen;
mod target;

pub(crate) use dial::{Dialed, LocalEnd, Outlet, stand_by};
pub use listen::{LISTEN, ReverseListener, STANDBY_TIMEOUT, listener};
pub use target::ReverseTarget;

use crate::wire::COOKIE_BYTES;

/// The beginning of a standby connection's cookie.
const STANDBY_PREFIX: &str = "longfat-standby-1-";
/// The size of a request, bytes.
const REQUEST_BYTES: usize = 1 + COOKIE_BYTES;
/// Keepalive interval of an idle standby connection, so that devices on the path keep its state, and each end
/// detects that the other is gone.
const KEEPALIVE_S: u64 = 20;

/// The kinds of connections that are opened on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Tcp => b'T',
            Kind::Udp => b'U',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Kind::Tcp, Kind::Udp].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Sets up a standby connection.
fn set_up_standby(socket: &socket2::Socket) -> std::io::Result<()> {
    let every = std::time::Duration::from_secs(KEEPALIVE_S);
    let keepalive = socket2::TcpKeepalive::new().with_time(every).with_interval(every).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)
}
