//! Other protocols at the server's port. A client of a [`Service`] opens a TCP connection and sends a cookie,
//! as an iperf3 client does; [`Service::accepts`] recognizes it by the cookie. It waits for its turn in the
//! queue of the server's clients, so that it and the tests do not disturb each other. From then on
//! the service owns the connection.
//!
//! UDP: a client calls [`greet`] on a UDP socket that is connected to the server's port. The server
//! then opens a socket that is connected to the client, sends the reply and passes the socket to the service.

use std::{
    fmt,
    net::{SocketAddr, TcpStream},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
    },
    time::{Duration, Instant},
};

use socket2::Socket;

use crate::{Error, TokenGate, arrival::Arrival, renewal::Renewal, wire::Cookie};
pub use crate::{
    channel::Channel,
    udp_stream::{greet, greet_unless, is_hello, reply_to_hello},
};

/// Timeout of a renewal of the listening socket.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a wait checks for the end of the program.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Serves clients that connect to the server's port but do not use iperf3's protocol.
pub trait Service: fmt::Debug + Send + Sync {
    /// The activity of its clients, for the server's log: `path probe`.
    fn name(&self) -> &str;

    /// Whether the client that sent this cookie belongs to this service.
    fn accepts(&self, cookie: &Cookie) -> bool;

    /// Whether the service uses [`ServiceClient::into_channel`], which checks the server's token: its clients
    /// get a notice when they are queued. A server with a token rejects the clients of other services, except
    /// [`Service::authenticates_by_cookie`].
    fn checks_token(&self) -> bool {
        false
    }

    /// Whether [`Service::accepts`] only accepts cookies that contain a secret, so that a server with a token
    /// need not reject the clients.
    fn authenticates_by_cookie(&self) -> bool {
        false
    }

    /// Whether its clients open a UDP socket. A server can set up only one of these clients per address at a
    /// time, because the greetings of their sockets have no cookie.
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
    /// Whether the router may pass a UDP socket to this session.
    pub(crate) expects_datagrams: &'a AtomicBool,
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

    /// The hello of this client's UDP socket.
    pub fn udp_hello(&self) -> UdpHello<'a> {
        UdpHello {
            sockets: self.udp_sockets,
            is_expected: self.expects_datagrams,
            timeout: self.step_timeout,
        }
    }
}

/// The hello of a client's UDP socket, which may not have arrived yet.
#[derive(Debug)]
pub struct UdpHello<'a> {
    sockets: &'a Receiver<Arrival>,
    is_expected: &'a AtomicBool,
    timeout: Duration,
}

impl UdpHello<'_> {
    /// Waits for the hello; the returned socket is connected to the client. `what` names the hello in errors.
    ///
    /// # Errors
    /// If the program ends, or no hello arrives within [`ServiceClient::step_timeout`].
    pub fn wait(self, what: &'static str, stop: &AtomicBool) -> Result<Socket, Error> {
        let begin = Instant::now();
        let socket = loop {
            if let Ok(arrival) = self.sockets.recv_timeout(STOP_CHECK_INTERVAL) {
                break Ok(arrival.socket);
            }
            if stop.load(Ordering::Acquire) {
                break Err(Error::Interrupted);
            }
            if begin.elapsed() > self.timeout {
                break Err(Error::Timeout { what, after: self.timeout });
            }
        };
        // The next hello from this address belongs to another client.
        self.is_expected.store(false, Ordering::Release);
        socket
    }
}

/// Renews the server's listening socket.
#[derive(Debug, Clone, Copy)]
pub struct ListenerRenewal<'a>(&'a Renewal);

impl ListenerRenewal<'_> {
    /// Renews the socket, so that changed sysctls of buffers apply to the connections that are accepted from
    /// then on. No connection is refused meanwhile.
    ///
    /// # Errors
    /// If no second socket can be made; the first then remains.
    pub fn renew(&self) -> Result<(), Error> {
        self.0.request(RENEWAL_TIMEOUT)
    }
}
