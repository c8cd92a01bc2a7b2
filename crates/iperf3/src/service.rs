//! Other protocols at the server's port. A client of a [`Service`] opens a TCP connection and sends a cookie,
//! as an iperf3 client does; [`Service::accepts`] recognizes it by the cookie. It waits in the queue of the
//! server's clients until it is its turn, so that it disturbs no test and no test disturbs it. From then on
//! the service owns the connection.
//!
//! UDP sockets: a client calls [`greet`] on a UDP socket that is connected to the server's port. The server
//! then opens a socket that is connected to the client, sends the reply and passes the socket to the service.

use std::{
    fmt,
    net::{SocketAddr, TcpStream},
    sync::{atomic::AtomicBool, mpsc::Receiver},
    time::Duration,
};

use socket2::Socket;

pub use crate::udp_stream::{greet, repeat_reply};
use crate::{Error, server::Arrival, wire::Cookie};

/// Serves clients that are not iperf3's but come to its server's port.
pub trait Service: fmt::Debug + Send + Sync {
    /// The activity of its clients, for the server's log: `path probe`.
    fn name(&self) -> &str;

    /// Whether the client that sent this cookie is one of this service's.
    fn accepts(&self, cookie: &Cookie) -> bool;

    /// Serves one client, on a dedicated thread, until it is done, fails, or `stop` is set.
    ///
    /// # Errors
    /// Any error that ends the service of this client; the server logs it.
    fn serve(&self, client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), Error>;
}

/// A client of a [`Service`] whose turn it is.
#[derive(Debug)]
pub struct ServiceClient<'a> {
    /// Its connection, non-blocking. The cookie has been read.
    pub control: TcpStream,
    /// Its address.
    pub peer: SocketAddr,
    /// How long it may take for each step before its data.
    pub step_timeout: Duration,
    pub(crate) udp_sockets: &'a Receiver<Arrival>,
}

impl ServiceClient<'_> {
    /// Waits up to `timeout` for the next UDP socket of this client; each is connected to it.
    pub fn next_udp_socket(&self, timeout: Duration) -> Option<Socket> {
        self.udp_sockets.recv_timeout(timeout).ok().map(|arrival| arrival.socket)
    }
}
