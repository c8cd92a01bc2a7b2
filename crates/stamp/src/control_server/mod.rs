//! The server of TWAMP's and OWAMP's control protocols: a thread for each control connection, which also
//! reflects, sends and receives the connection's test packets.
//!
//! Clients are not authenticated, so this end limits the resources that they can use: connections, sessions,
//! packets and their rate, memory, and the duration of each step. Test packets go only to the address of the
//! control connection's client, which TCP's handshake has verified, and a reflected packet is as long as the
//! received one. So requests of TWAMP with less than 27 bytes of padding are refused (Accept 3).

mod connection;
mod session;

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use os::realtime_ns;
use traffic::{Attempted, Error};

use crate::{
    control::{ControlProtocol, ServerControl},
    wire::ntp,
};
use connection::Connection;

/// Maximum number of control connections, of all clients and of one address.
const MAX_CONNECTIONS: usize = 64;
const MAX_CONNECTIONS_OF_ADDRESS: usize = 8;
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A server of one control protocol.
#[derive(Debug)]
pub struct ControlServer {
    protocol: ControlProtocol,
    listener: TcpListener,
    /// When the server started, in NTP's format.
    started: u64,
    /// The number of connections by client.
    open: Mutex<BTreeMap<IpAddr, usize>>,
}

impl ControlServer {
    /// Starts listening.
    ///
    /// # Errors
    /// If the address or port cannot be used.
    pub fn bind(protocol: ControlProtocol, address: IpAddr, port: u16) -> Result<Self, Error> {
        let at = SocketAddr::new(address, port);
        let what = || format!("listen for {} clients at {at}", protocol.name());
        let listener = TcpListener::bind(at).attempted(what)?;
        listener.set_nonblocking(true).attempted(what)?;
        Ok(ControlServer { protocol, listener, started: ntp(realtime_ns()), open: Mutex::default() })
    }

    /// The TCP port.
    pub fn port(&self) -> Option<u16> {
        self.listener.local_addr().ok().map(|at| at.port())
    }

    /// Serves until `stop` is set. `note` is called when a client violates the protocol or times out.
    ///
    /// # Errors
    /// If the listening socket fails.
    pub fn run(&self, stop: &AtomicBool, note: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                let ready = os::wait_any(&[self.listener.as_fd()], STOP_CHECK_INTERVAL);
                ready.attempted(|| "wait for clients".into())?;
                let (stream, peer) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
                    // The client has already disconnected, or no descriptor is free for the moment.
                    Err(_) => {
                        std::thread::sleep(STOP_CHECK_INTERVAL);
                        continue;
                    }
                };
                let client = peer.ip().to_canonical();
                if !self.admit(client) {
                    note(&format!("{client}: too many {} connections", self.protocol.name()));
                    refuse(stream);
                    continue;
                }
                let serve = move || {
                    if let Err(error) = Connection::serve(self.protocol, stream, self.started, stop) {
                        note(&format!("{client}: {error}"));
                    }
                    self.release(client);
                };
                let thread = std::thread::Builder::new().name(self.protocol.name().to_lowercase());
                if thread.spawn_scoped(scope, serve).is_err() {
                    note(&format!("{client}: cannot start a thread"));
                    self.release(client);
                }
            }
            Ok(())
        })
    }

    /// Counts a new connection, if it is within the limits.
    fn admit(&self, client: IpAddr) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (open.values().sum::<usize>(), open.get(&client).copied().unwrap_or(0));
        let is_admitted = all < MAX_CONNECTIONS && own < MAX_CONNECTIONS_OF_ADDRESS;
        if is_admitted {
            open.insert(client, own + 1);
        }
        is_admitted
    }

    fn release(&self, client: IpAddr) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&client)),
        }
    }
}

/// Sends a greeting without a mode, which refuses the connection (RFC 4656 section 3.1).
fn refuse(mut stream: TcpStream) {
    // 64 bytes fit into an empty send buffer, so this does not block.
    let _ = stream.write_all(&ServerControl::refusing_greeting());
}
