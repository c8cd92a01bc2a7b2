//! The server: TCP and UDP tests on one port. No client can block it: each step has a timeout, each test a maximum
//! duration, and the tests of one address and of all have maximum numbers.

mod slots;
mod tcp;
mod udp;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use iperf3::{Error, IpVersion, ServerObserver};
use socket2::{Domain, Socket, Type};
use traffic::{Attempted, ancillary};

use self::{slots::Slots, udp::UdpSessions};

/// Interval at which the server checks whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Connections that the kernel accepts before the server does.
const BACKLOG: i32 = 128;

/// Address, port and limits of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen on; `None`: all.
    pub bind: Option<IpAddr>,
    /// The device to listen on.
    pub device: Option<String>,
    /// The port of both protocols; 0: any free port.
    pub port: u16,
    /// IPv4 or IPv6 only.
    pub ip: Option<IpVersion>,
    /// Report interval; zero: none.
    pub interval: Duration,
    /// Maximum number of simultaneous connections and UDP streams, each.
    pub max_streams: usize,
    /// Maximum number of simultaneous connections and UDP streams of one client's address, each.
    pub max_streams_per_address: usize,
    /// Timeout of the header.
    pub header_timeout: Duration,
    /// Timeout without data.
    pub idle_timeout: Duration,
    /// Maximum duration of a test.
    pub max_duration: Duration,
    /// Processors to which TCP streams are pinned, in turn; empty: not pinned.
    pub pin: Vec<usize>,
}

impl ServerOptions {
    /// A server on this port with the default limits.
    pub fn new(port: u16) -> Self {
        ServerOptions {
            bind: None,
            device: None,
            port,
            ip: None,
            interval: Duration::from_secs(1),
            max_streams: 256,
            max_streams_per_address: 128,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(15),
            max_duration: Duration::from_secs(24 * 3600),
            pin: Vec::new(),
        }
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    tcp: Socket,
    udp: Socket,
}

impl Server {
    /// Listens on TCP and UDP.
    ///
    /// # Errors
    /// The port is in use, or the address is not of this machine.
    pub fn bind(options: ServerOptions) -> Result<Server, Error> {
        let address = match (options.bind, options.ip) {
            (Some(address), _) => address,
            (None, Some(IpVersion::V4)) => Ipv4Addr::UNSPECIFIED.into(),
            (None, _) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let is_dual = options.bind.is_none() && options.ip.is_none();
        let tcp = listen(SocketAddr::new(address, options.port), Type::STREAM, is_dual, &options);
        // A machine without IPv6.
        let (tcp, address) = match tcp {
            Err(_) if is_dual => {
                let address = IpAddr::from(Ipv4Addr::UNSPECIFIED);
                (listen(SocketAddr::new(address, options.port), Type::STREAM, false, &options)?, address)
            }
            other => (other?, address),
        };
        let bound = local(&tcp)?;
        let udp = listen(SocketAddr::new(address, bound.port()), Type::DGRAM, is_dual, &options)?;
        ancillary::enable_destination(&udp).attempted(|| "cannot set up a UDP socket".into())?;
        Ok(Server { options, tcp, udp })
    }

    /// The address and port.
    ///
    /// # Errors
    /// The kernel does not return it.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        local(&self.tcp)
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// A listening socket fails.
    pub fn run(&self, stop: &AtomicBool, observer: &dyn ServerObserver) -> Result<(), Error> {
        let slots = Slots::new(self.options.max_streams, self.options.max_streams_per_address);
        std::thread::scope(|scope| {
            let udp = scope.spawn(|| UdpSessions::new(&self.udp, &self.options, observer).run(stop));
            let accepted = self.accept(scope, &slots, stop, observer);
            if accepted.is_err() {
                observer.note("iperf 2: no more TCP tests");
            }
            udp.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            accepted
        })
    }

    fn accept<'scope, 'env>(
        &'env self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        slots: &'env Slots,
        stop: &'env AtomicBool,
        observer: &'env dyn ServerObserver,
    ) -> Result<(), Error> {
        while !stop.load(Ordering::Acquire) {
            let is_ready = os::wait_readable(self.tcp.as_fd(), STOP_CHECK_INTERVAL);
            if !is_ready.attempted(|| "cannot wait for clients".into())? {
                continue;
            }
            // A client that has already disconnected, or no free descriptors.
            let Ok((socket, peer)) = self.tcp.accept() else {
                std::thread::sleep(STOP_CHECK_INTERVAL / 10);
                continue;
            };
            let Some(peer) = peer.as_socket() else { continue };
            let Some(slot) = slots.take(peer.ip()) else {
                observer.note(&format!("{peer}: refused an iperf 2 connection: too many at the same time"));
                continue;
            };
            let options = &self.options;
            let body = move || {
                let _slot = slot;
                tcp::serve(socket, peer, options, stop, observer);
            };
            if std::thread::Builder::new().name("iperf2".into()).spawn_scoped(scope, body).is_err() {
                observer.note(&format!("{peer}: refused an iperf 2 connection: no more threads"));
            }
        }
        Ok(())
    }
}

fn listen(at: SocketAddr, kind: Type, is_dual: bool, options: &ServerOptions) -> Result<Socket, Error> {
    let what = || format!("cannot listen on {at}");
    let socket = Socket::new(Domain::for_address(at), kind, None).attempted(what)?;
    if at.is_ipv6() {
        socket.set_only_v6(!is_dual).attempted(what)?;
    }
    if let Some(device) = &options.device {
        socket
            .bind_device(Some(device.as_bytes()))
            .attempted(|| format!("cannot bind to device {device}"))?;
    }
    if kind == Type::STREAM {
        socket.set_reuse_address(true).attempted(what)?;
    }
    socket.bind(&at.into()).attempted(what)?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG).attempted(what)?;
    }
    Ok(socket)
}

fn local(socket: &Socket) -> Result<SocketAddr, Error> {
    let address = socket.local_addr().attempted(|| "cannot read the server's address".into())?;
    Ok(address.as_socket().unwrap_or_else(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)))
}
