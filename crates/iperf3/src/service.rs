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

use crate::{
    Error, TokenGate,
    server::{Arrival, Renewal},
    wire::Cookie,
};
pub use crate::{
    channel::Channel,
    udp_stream::{greet, repeat_reply},
};

/// Timeout of a renewal of the listening socket.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves clients that connect to the server's port but do not use iperf3's protocol.
pub trait Service: fmt::Debug + Send + Sync {
    /// The activity of its clients, for the server's log: `path probe`.
    fn name(&self) -> &str;

    /// Whether the client that sent this cookie is one of this service's.
    fn accepts(&self, cookie: &Cookie) -> bool;

    /// Whether the service uses [`ServiceClient::into_channel`], which checks the server's token: its clients get a notice when
    /// they are queued. A server with a token rejects the clients of other services.
    fn checks_token(&self) -> bool {
        false
    }

    /// Whether its clients open UDP sockets. A server can set up one of these clients of an address at a time, because the
    /// greetings of their sockets have no cookie.
    fn uses_datagrams(&self) -> bool {
        true
    }

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
    /// Maximum time of each step before its data.
    pub step_timeout: Duration,
    /// The cookie that it has sent.
    pub cookie: Cookie,
    pub(crate) renewal: &'a Renewal,
    pub(crate) gate: Option<&'a TokenGate>,
    pub(crate) udp_sockets: &'a Receiver<Arrival>,
}

impl<'a> ServiceClient<'a> {
    /// A handle that renews the server's listening socket.
    pub fn listener_renewal(&self) -> ListenerRenewal<'a> {
        ListenerRenewal(self.renewal)
    }

    /// A channel for JSON messages with this client, whose token has been checked if the server has one.
    ///
    /// # Errors
    /// If the client has no valid token or the connection fails. The client receives the reason.
    pub fn into_channel(self, stop: &'a AtomicBool) -> Result<Channel<'a>, Error> {
        Channel::accept(self.control, self.cookie, self.gate, self.step_timeout, stop)
    }

    /// The UDP sockets that this client opens.
    pub fn udp_sockets(&self) -> UdpSockets<'a> {
        UdpSockets(self.udp_sockets)
    }
}

/// The UDP sockets of a client.
#[derive(Debug, Clone, Copy)]
pub struct UdpSockets<'a>(&'a Receiver<Arrival>);

impl UdpSockets<'_> {
    /// Waits up to `timeout` for the next one; each is connected to the client.
    pub fn next(&self, timeout: Duration) -> Option<Socket> {
        self.0.recv_timeout(timeout).ok().map(|arrival| arrival.socket)
    }
}

/// Renews the server's listening socket.
#[derive(Debug, Clone, Copy)]
pub struct ListenerRenewal<'a>(&'a Renewal);

impl ListenerRenewal<'_> {
    /// Renews the socket, so that changed sysctls of buffers apply to the connections that are accepted from then on. No
    /// connection is refused meanwhile.
    ///
    /// # Errors
    /// If no second socket can be made; the first then remains.
    pub fn renew(&self) -> Result<(), Error> {
        self.0.request(RENEWAL_TIMEOUT)
    }
}
