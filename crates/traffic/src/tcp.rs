//! One TCP stream: a sender that always has data (or writes at a rate), a receiver that reads immediately
//! (or at a rate). Neither copies the data, so that the network and TCP are the limit, not the memory.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::{Attempted, Error, Stop, TcpOptions, rate::Pace, sys};

/// Maximum size of a write. Linux 6.18 checked the send buffer's limit only about once a call: writes of 512
/// KiB put 1 MB into a buffer of 256 KiB and flooded the queue behind it; writes of 64 KiB stay within it.
const WRITE_BYTES: usize = 64 * 1024;
/// Maximum size of a read; large, so that the application is not the limit.
const READ_BYTES: usize = 512 * 1024;

/// A receiver that waits for its sender.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    options: TcpOptions,
}

impl Listener {
    /// Listens at `address` on a free port. Buffers and MSS are set first, so that the handshake
    /// carries the correct window scale.
    ///
    /// # Errors
    /// If an option cannot be set or the address cannot be used.
    pub fn bind(address: IpAddr, options: &TcpOptions) -> Result<Self, Error> {
        let at = SocketAddr::new(address, 0);
        let socket = socket(at)?;
        if let Some(bytes) = options.receive_buffer {
            set_buffer(&socket, bytes.0, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "receive")?;
        }
        set_mss(&socket, options)?;
        socket.bind(&at.into()).attempted(|| format!("bind to {at}"))?;
        socket.listen(1).attempted(|| format!("listen at {at}"))?;
        Ok(Listener { socket, options: options.clone() })
    }

    /// The address and port for the sender to connect to.
    ///
    /// # Errors
    /// If the kernel does not return the address.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let address = self.socket.local_addr().attempted(|| "read the listener's address".into())?;
        address.as_socket().ok_or_else(|| Error {
            attempted: "read the listener's address".into(),
            source: io::Error::from(io::ErrorKind::AddrNotAvailable),
        })
    }

    /// Waits for the sender until `stop` is set. The socket has no timeout: the connection would inherit it,
    /// and a flow whose path is down for that time would fail.
    ///
    /// # Errors
    /// If it is stopped before the sender connects.
    pub fn accept(self, stop: &Stop) -> Result<TcpReceiver, Error> {
        let what = || "accept the sender's connection".to_string();
        stop.watch(self.socket.try_clone().attempted(what)?);
        let (socket, _) = self.socket.accept().attempted(what)?;
        stop.watch(socket.try_clone().attempted(what)?);
        Ok(TcpReceiver { socket, options: self.options })
    }
}

/// Connects to `to`; returns when the handshake is done.
///
/// # Errors
/// If an option cannot be set or the connection fails.
pub fn connect(to: SocketAddr, options: &TcpOptions, stop: &Stop) -> Result<TcpSender, Error> {
    let socket = socket(to)?;
    if let Some(bytes) = options.send_buffer {
        set_buffer(&socket, bytes.0, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "send")?;
    }
    set_mss(&socket, options)?;
    if let Some(cc) = &options.cc {
        socket.set_tcp_congestion(cc.as_bytes()).attempted(|| format!("use congestion control {cc:?}"))?;
    }
    if let Some(rate) = options.pacing {
        sys::set_max_pacing_rate(&socket, rate.0 / 8).attempted(|| format!("pace at {rate}"))?;
    }
    let what = || format!("connect to {to}");
    stop.watch(socket.try_clone().attempted(what)?);
    socket.connect(&to.into()).attempted(what)?;
    Ok(TcpSender { socket, options: options.clone() })
}

/// The sending end of a connected flow.
#[derive(Debug)]
pub struct TcpSender {
    socket: Socket,
    options: TcpOptions,
}

impl TcpSender {
    /// A duplicate of the socket, for sampling.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn socket(&self) -> Result<Socket, Error> {
        self.socket.try_clone().attempted(|| "duplicate the sender's socket".into())
    }

    /// The congestion control in use.
    ///
    /// # Errors
    /// If the kernel does not return it.
    pub fn cc(&self) -> Result<String, Error> {
        let name = self.socket.tcp_congestion().attempted(|| "read the congestion control".into())?;
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_string())
    }

    /// Sends zeros until the size is reached or `stop` is set, then closes its side. Returns the bytes
    /// written.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn run(self, stop: &Stop) -> Result<u64, Error> {
        let write_size = self.options.write_size.map_or(WRITE_BYTES, |size| size.0.max(1) as usize);
        let pages = sys::Pages::new(write_size).attempted(|| "allocate memory to send from".into())?;
        let limit = self.options.size.map_or(u64::MAX, |size| size.0);
        let mut pace = self.options.write_rate.map(Pace::new);
        let mut written = 0;
        while written < limit && !stop.is_set() {
            let allowed = pace.as_ref().map_or(write_size, |p| p.wait(stop, write_size));
            let len = allowed.min(usize::try_from(limit - written).unwrap_or(write_size));
            match pages.send(&self.socket, len) {
                Ok(n) => {
                    written += n as u64;
                    if let Some(pace) = &mut pace {
                        pace.spend(n);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if stop.is_set() => break,
                Err(e) => return Err(e).attempted(|| format!("send after {written} bytes")),
            }
        }
        // Fails if the peer has already closed the connection.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        Ok(written)
    }
}

/// The receiving end of a connected flow.
#[derive(Debug)]
pub struct TcpReceiver {
    socket: Socket,
    options: TcpOptions,
}

impl TcpReceiver {
    /// A duplicate of the socket, for sampling.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn socket(&self) -> Result<Socket, Error> {
        self.socket.try_clone().attempted(|| "duplicate the receiver's socket".into())
    }

    /// Reads until the sender closes or `stop` is set; `received` counts the bytes as they are read.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn run(self, stop: &Stop, received: &AtomicU64) -> Result<(), Error> {
        let mut pace = self.options.read_rate.map(Pace::new);
        while !stop.is_set() {
            if self.options.read_pause.is_some_and(|pause| pause.holds(Instant::now())) {
                self.options.read_pause.inspect(|pause| pause.wait(stop));
                // A slow reader does not catch up after the pause.
                pace = self.options.read_rate.map(Pace::new);
                continue;
            }
            let allowed = pace.as_ref().map_or(READ_BYTES, |p| p.wait(stop, READ_BYTES));
            if allowed == 0 {
                break;
            }
            match self.read(allowed) {
                Ok(Some(0)) => break,
                Ok(Some(n)) => {
                    received.fetch_add(n as u64, Ordering::Relaxed);
                    if let Some(pace) = &mut pace {
                        pace.spend(n);
                    }
                }
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if stop.is_set() => break,
                Err(e) => return Err(e).attempted(|| "receive".into()),
            }
        }
        Ok(())
    }

    /// Reads at most `max` bytes, 0 at the end; `None` if a pause began before anything arrived.
    fn read(&self, max: usize) -> io::Result<Option<usize>> {
        if let Some(pause) = self.options.read_pause {
            let now = Instant::now();
            if pause.holds(now) {
                return Ok(None);
            }
            // A blocking read would receive data that arrives after the pause has begun.
            if let Some(wait) = pause.begins_in(now)
                && !os::wait_readable(&self.socket, wait)?
            {
                return Ok(None);
            }
        }
        sys::discard(&self.socket, max).map(Some)
    }
}

fn socket(address: SocketAddr) -> Result<Socket, Error> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .attempted(|| "create a TCP socket".into())
}

fn set_mss(socket: &Socket, options: &TcpOptions) -> Result<(), Error> {
    match options.mss {
        Some(mss) => socket.set_tcp_mss(mss).attempted(|| format!("set an MSS of {mss} bytes")),
        None => Ok(()),
    }
}

/// Sets a buffer size: with CAP_NET_ADMIN beyond the machine's limit, otherwise within it.
fn set_buffer(socket: &Socket, bytes: u64, force: i32, plain: i32, which: &str) -> Result<(), Error> {
    // The kernel doubles the value in an int.
    let requested = i32::try_from(bytes.min(i32::MAX as u64 / 2)).unwrap_or(i32::MAX / 2);
    if os::set_option(socket, libc::SOL_SOCKET, force, requested).is_ok() {
        return Ok(());
    }
    os::set_option(socket, libc::SOL_SOCKET, plain, requested)
        .attempted(|| format!("set the {which} buffer to {requested} bytes"))?;
    let got = if which == "send" { socket.send_buffer_size() } else { socket.recv_buffer_size() }
        .attempted(|| format!("read the {which} buffer's size"))?;
    if got < requested as usize * 2 {
        let limit = if which == "send" { "net.core.wmem_max" } else { "net.core.rmem_max" };
        return Err(Error {
            attempted: format!(
                "set the {which} buffer to {requested} bytes: the kernel set {}; without root {limit} is the limit",
                got / 2
            ),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc, time::Duration};

    use units::{BitRate, Bytes};

    use super::*;
    use crate::ReadPause;

    fn flow(options: TcpOptions, stop_after: Option<Duration>) -> (u64, u64, Duration) {
        let stop = Arc::new(Stop::default());
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), &options).unwrap();
        let address = listener.address().unwrap();
        let received = AtomicU64::new(0);
        let start = std::time::Instant::now();
        let written = std::thread::scope(|s| {
            s.spawn(|| listener.accept(&stop).unwrap().run(&stop, &received).unwrap());
            let sender = connect(address, &options, &stop).unwrap();
            let sender = s.spawn(|| sender.run(&stop).unwrap());
            if let Some(after) = stop_after {
                std::thread::sleep(after);
                stop.set();
            }
            sender.join().unwrap()
        });
        (written, received.into_inner(), start.elapsed())
    }

    #[test]
    fn a_sized_flow_delivers_every_byte() {
        let size = Bytes(3_000_001);
        let (written, received, _) = flow(TcpOptions { size: Some(size), ..TcpOptions::default() }, None);
        assert_eq!((written, received), (size.0, size.0));
    }

    #[test]
    fn a_receiver_waits_for_data_without_a_timeout() {
        let (stop, options) = (Stop::default(), TcpOptions::default());
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), &options).unwrap();
        let _sender = connect(listener.address().unwrap(), &options, &stop).unwrap();
        let receiver = listener.accept(&stop).unwrap();
        assert_eq!(receiver.socket.read_timeout().unwrap(), None);
    }

    #[test]
    fn a_slow_reader_limits_the_sender() {
        let options = TcpOptions {
            read_rate: Some(BitRate(8_000_000)),
            receive_buffer: Some(Bytes(65_536)),
            send_buffer: Some(Bytes(65_536)),
            ..TcpOptions::default()
        };
        let (written, received, _) = flow(options, Some(Duration::from_millis(300)));
        // 1 MB/s for 0.3 s, and at most the content of four buffers of 64 KiB.
        assert!(received <= 400_000, "{received} bytes read");
        assert!(written <= received + 600_000, "{written} bytes written, {received} read");
    }

    #[test]
    fn a_reader_reads_nothing_during_its_pause_and_all_data_after_it() {
        let stop = Stop::default();
        let buffer = Some(Bytes(65_536));
        // Half a second to connect, and the first second of the pause to fill the buffers: long enough on a
        // busy machine.
        let begin = Instant::now() + Duration::from_millis(500);
        let resume = begin + Duration::from_millis(2000);
        let options = TcpOptions {
            // A slow writer, so that the reader is blocked when its pause begins.
            write_rate: Some(BitRate(40_000_000)),
            receive_buffer: buffer,
            send_buffer: buffer,
            read_pause: Some(ReadPause { from: begin, until: Some(resume) }),
            ..TcpOptions::default()
        };
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), &options).unwrap();
        let address = listener.address().unwrap();
        let received = AtomicU64::new(0);
        std::thread::scope(|s| {
            s.spawn(|| listener.accept(&stop).unwrap().run(&stop, &received).unwrap());
            let sender = connect(address, &options, &stop).unwrap();
            s.spawn(|| sender.run(&stop).unwrap());
            // One read may be in progress when the pause begins; after it there are no reads.
            let blocked = begin + Duration::from_millis(1000);
            std::thread::sleep(blocked.saturating_duration_since(Instant::now()));
            let at_begin = received.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(300));
            let in_pause = received.load(Ordering::Relaxed);
            if Instant::now() < resume && at_begin > 0 {
                assert_eq!(at_begin, in_pause);
            } else {
                testing::skip(testing::Missing::QuietMachine, "this test's thread missed the pause");
            }
            while received.load(Ordering::Relaxed) < in_pause + 1_000_000 {
                assert!(resume.elapsed() < Duration::from_secs(60), "it never resumed reading");
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.set();
        });
    }

    #[test]
    fn a_reader_that_never_resumes_ends_when_stopped() {
        let pause = ReadPause { from: Instant::now(), until: None };
        let options = TcpOptions { read_pause: Some(pause), ..TcpOptions::default() };
        let (_, received, elapsed) = flow(options, Some(Duration::from_millis(50)));
        assert_eq!(received, 0);
        assert!(elapsed < Duration::from_secs(20));
    }

    #[test]
    fn stopping_wakes_blocked_threads() {
        let options = TcpOptions { write_rate: Some(BitRate(1000)), ..TcpOptions::default() };
        let (.., elapsed) = flow(options, Some(Duration::from_millis(50)));
        assert!(elapsed < Duration::from_secs(20));
    }

    #[test]
    fn a_stopped_flow_leaves_no_data_behind() {
        let stop = Stop::default();
        let paused = ReadPause { from: Instant::now(), until: None };
        let options = TcpOptions { read_pause: Some(paused), ..TcpOptions::default() };
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), &options).unwrap();
        let sender = connect(listener.address().unwrap(), &options, &stop).unwrap();
        let receiver = listener.accept(&Stop::default()).unwrap();
        let port = sender.socket.local_addr().unwrap().as_socket().unwrap().port();
        let holds_data = || {
            let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            table.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words[1].ends_with(&format!(":{port:04X}")) && !words[4].starts_with("00000000:")
            })
        };
        std::thread::scope(|s| {
            s.spawn(|| sender.run(&stop).unwrap());
            while !holds_data() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.set();
        });
        assert!(!holds_data(), "the kernel still tries to send data that no one will read");
        drop(receiver);
    }

    #[test]
    fn the_error_names_an_unknown_congestion_control() {
        let options = TcpOptions { cc: Some("nosuchcc".into()), ..TcpOptions::default() };
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
        let error = connect(address, &options, &Stop::default()).unwrap_err();
        assert!(error.to_string().contains("nosuchcc"), "{error}");
    }
}
