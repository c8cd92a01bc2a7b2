//! The server: TCP and UDP tests on one port. No client can block it: each step has a timeout, each test a
//! maximum duration, and the tests of one address and of all have maximum numbers.

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
    /// Maximum number of simultaneous connections, and of simultaneous UDP streams.
    pub max_streams: usize,
    /// The same maxima for one client's address.
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
        ancillary::enable_destination(&udp).attempted(|| "set up a UDP socket".into())?;
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
            if !is_ready.attempted(|| "wait for clients".into())? {
                continue;
            }
            // The client has already disconnected, or no descriptor is free.
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
    let what = || format!("listen on {at}");
    let socket = Socket::new(Domain::for_address(at), kind, None).attempted(what)?;
    if at.is_ipv6() {
        socket.set_only_v6(!is_dual).attempted(what)?;
    }
    if let Some(device) = &options.device {
        socket.bind_device(Some(device.as_bytes())).attempted(|| format!("bind to device {device}"))?;
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
    let address = socket.local_addr().attempted(|| "read the server's address".into())?;
    Ok(address.as_socket().unwrap_or_else(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpStream, UdpSocket},
        sync::{Mutex, PoisonError},
        time::Instant,
    };

    use iperf3::{
        Observer,
        report::{Report, ServerOutput},
    };

    use super::*;
    use crate::wire::DatagramHeader;

    /// Counts the observers that exist, and stores that number at the end of each test.
    #[derive(Default)]
    struct Counting {
        alive: Mutex<usize>,
        at_ends: Mutex<Vec<usize>>,
    }

    struct Counted<'a>(&'a Counting);

    impl Observer for Counted<'_> {}

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            *self.0.alive.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        }
    }

    impl ServerObserver for Counting {
        fn note(&self, _text: &str) {}

        fn begin(&self, _peer: SocketAddr) -> Box<dyn Observer + '_> {
            *self.alive.lock().unwrap() += 1;
            Box::new(Counted(self))
        }

        fn end(&self, _peer: SocketAddr, _report: &Report, _error: Option<&Error>) {
            let alive = *self.alive.lock().unwrap();
            self.at_ends.lock().unwrap().push(alive);
        }

        fn output(&self, _report: &Report) -> ServerOutput {
            ServerOutput::Text(String::new())
        }
    }

    /// Data that an observer delivers when it is dropped is available when the end of the test is reported.
    #[test]
    fn the_observer_of_a_test_is_dropped_before_its_end_is_reported() {
        let options = ServerOptions { bind: Some(Ipv4Addr::LOCALHOST.into()), ..ServerOptions::new(0) };
        let server = Server::bind(options).unwrap();
        let to = server.address().unwrap();
        let (stop, observer) = (AtomicBool::new(false), Counting::default());
        let ends = || observer.at_ends.lock().unwrap().len();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| server.run(&stop, &observer));
            let wait_for = |count: usize| {
                let begin = Instant::now();
                while ends() < count && begin.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            // Without a header: the payload of old clients.
            TcpStream::connect(to).unwrap().write_all(b"0123456789").unwrap();
            wait_for(1);
            let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
            for number in [1, -2] {
                let header = DatagramHeader { number, sent_ns: 0 }.encode();
                datagrams.send_to(&header, to).unwrap();
            }
            wait_for(2);
            stop.store(true, Ordering::Release);
            running.join().unwrap().unwrap();
        });
        assert_eq!(*observer.at_ends.lock().unwrap(), [0, 0]);
    }
}
