//! Smoke test of a congestion control: a short transfer over the loopback device of a dedicated network
//! namespace.
//!
//! The loopback device loses nothing and has almost no delay. So the test shows that the programs run, and
//! the cost of a call. Only a run in the lab shows how good the congestion control is.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use super::{Error, Registration, error::Attempted, sys};

/// Result of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoopbackTrial {
    /// Bytes received.
    pub bytes: u64,
    /// Duration of the transfer.
    pub took: Duration,
}

impl LoopbackTrial {
    /// The goodput, bit/s.
    pub fn goodput_bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.took.as_secs_f64()
    }
}

/// Timeout of socket operations, longer than any successful trial.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

impl Registration {
    /// Sends for `duration` with the congestion control `name` of this registration.
    ///
    /// # Errors
    /// If no namespace can be created, or the transfer stalls for ten seconds.
    pub fn run_trial(&self, name: &str, duration: Duration) -> Result<LoopbackTrial, Error> {
        let trial = || {
            os::unshare_network().attempted(|| "create a network namespace".into())?;
            sys::loopback_up().attempted(|| "bring a loopback device up".into())?;
            transfer(name, duration).attempted(|| format!("send over the loopback device with {name}"))
        };
        // The namespace belongs to the thread and ends with the thread and its sockets.
        thread::scope(|scope| match scope.spawn(trial).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

fn transfer(name: &str, duration: Duration) -> io::Result<LoopbackTrial> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr()?.port());
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(name.as_bytes())?;
    socket.set_write_timeout(Some(IO_TIMEOUT))?;
    socket.connect(&to.into())?;
    let (mut accepted, _) = listener.accept()?;
    accepted.set_read_timeout(Some(IO_TIMEOUT))?;
    let begun = Instant::now();
    let bytes = thread::scope(|scope| {
        let reader = scope.spawn(move || count(&mut accepted));
        let sent = send(socket, begun, duration);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(read)
    })?;
    Ok(LoopbackTrial { bytes, took: begun.elapsed() })
}

fn send(mut socket: Socket, begun: Instant, duration: Duration) -> io::Result<()> {
    let chunk = vec![0; 64 * 1024];
    while begun.elapsed() < duration {
        socket.write_all(&chunk)?;
    }
    Ok(())
}

fn count(from: &mut impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; 256 * 1024];
    let mut bytes = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(bytes),
            n => bytes += n as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodput_is_in_bits_per_second() {
        let trial = LoopbackTrial { bytes: 1_000_000, took: Duration::from_millis(500) };
        assert_eq!(trial.goodput_bps(), 16e6);
    }
}
