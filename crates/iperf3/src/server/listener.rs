//! The listening socket, and its renewal: connections inherit its buffer sizes, which are set when it is
//! created. Changed sysctls (`tcp_rmem`, `tcp_wmem`) therefore apply only to connections of a new listening
//! socket.

use std::net::{IpAddr, SocketAddr};

use socket2::{Socket, Type};
use traffic::{Attempted, Error as SystemError};

use super::ServerOptions;
use crate::{
    IpVersion,
    listening_socket::{bound, listen_on},
};

/// The socket for the options' address and port.
pub(super) fn listen_at_any(options: &ServerOptions, port: u16) -> Result<Socket, SystemError> {
    let any_v4 = IpAddr::from([0; 4]);
    let any_v6 = IpAddr::from([0; 16]);
    let listen = |ip| listen(SocketAddr::new(ip, port), options, false);
    match (options.bind, options.ip) {
        (Some(ip), _) => listen(ip),
        (None, Some(IpVersion::V4)) => listen(any_v4),
        (None, Some(IpVersion::V6)) => listen(any_v6),
        // One socket for both IP versions, or IPv4 on machines without IPv6.
        (None, None) => listen(any_v6).or_else(|_| listen(any_v4)),
    }
}

/// A second socket at the address of `old`, which may be closed afterwards: no connection is refused in
/// between.
pub(super) fn listen_on_same_port(old: &Socket, options: &ServerOptions) -> Result<Socket, SystemError> {
    let what = || "renew the listening socket".to_string();
    let at = old
        .local_addr()
        .attempted(what)?
        .as_socket()
        .ok_or(std::io::ErrorKind::Unsupported.into())
        .attempted(what)?;
    old.set_reuse_port(true).attempted(what)?;
    listen(at, options, true)
}

fn listen(at: SocketAddr, options: &ServerOptions, reuses_port: bool) -> Result<Socket, SystemError> {
    let alone = options.ip == Some(IpVersion::V6) || options.bind.is_some();
    listen_on(bound(at, Type::STREAM, alone, options.device.as_deref(), reuses_port)?, at)
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpStream,
        time::{Duration, Instant},
    };

    use super::*;

    fn accepts(listener: &Socket) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            if listener.accept().is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn a_renewed_socket_takes_over_the_port() {
        let options = ServerOptions { bind: Some(IpAddr::from([127, 0, 0, 1])), ..ServerOptions::default() };
        let old = listen_at_any(&options, 0).unwrap();
        let at = old.local_addr().unwrap().as_socket().unwrap();
        let _early = TcpStream::connect(at).unwrap();
        let new = listen_on_same_port(&old, &options).unwrap();
        assert!(accepts(&old), "a completed connection is not lost");
        drop(old);
        let _late = TcpStream::connect(at).unwrap();
        assert!(accepts(&new));
        // No second server can bind the port.
        assert!(listen_at_any(&options, at.port()).is_err());
        let _third = listen_on_same_port(&new, &options).unwrap();
    }
}
