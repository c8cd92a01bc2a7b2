//! A first trial of a congestion control: a short transfer over the loopback device of a network namespace of its own.
//!
//! The loopback device loses nothing and has next to no delay, so this shows that the programs run and what a call costs, not how well they
//! control. A run in the lab shows that.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use super::{Error, Registration, error::Attempted, sys};

/// What a trial shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Longer than any trial that goes well.
const PATIENCE: Duration = Duration::from_secs(10);

impl Registration {
    /// Sends for `duration` with one of its names.
    ///
    /// # Errors
    /// Where no namespace can be made, or a transfer stalls for ten seconds.
    pub fn try_out(&self, name: &str, duration: Duration) -> Result<Trial, Error> {
        let trial = || {
            sys::unshare_network().attempted(|| "make a network namespace".into())?;
            sys::loopback_up().attempted(|| "bring a loopback device up".into())?;
            transfer(name, duration).attempted(|| format!("send over the loopback device with {name}"))
        };
        // The namespace is the thread's, and ends with it and its sockets.
        thread::scope(|scope| match scope.spawn(trial).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

fn transfer(name: &str, duration: Duration) -> io::Result<Trial> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr()?.port());
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(name.as_bytes())?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&to.into())?;
    let (mut accepted, _) = listener.accept()?;
    accepted.set_read_timeout(Some(PATIENCE))?;
    let begun = Instant::now();
    let bytes = thread::scope(|scope| {
        let reader = scope.spawn(move || count(&mut accepted));
        let sent = send(socket, begun, duration);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(read)
    })?;
    Ok(Trial { bytes, took: begun.elapsed() })
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
