//! Opens and closes TCP connections that are not flows.

use std::{
    io::{self, ErrorKind, Read},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use socket2::Socket;

/// Interval at which a wait checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a socket non-blocking and sends its SYN; returns whether it is connected already. Otherwise it
/// becomes writable when it is connected, or has failed (SO_ERROR).
///
/// # Errors
/// The errors of connect(2) other than EINPROGRESS.
pub fn begin_to_connect(socket: &Socket, to: SocketAddr) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the sending direction of a connection, and discards received data until the peer closes, `timeout`
/// has passed or `stop` is set. A connection that is closed with unread data is reset, and the peer can lose
/// the data sent last.
pub fn finish_sending(mut stream: &TcpStream, timeout: Duration, stop: &AtomicBool) {
    let begin = Instant::now();
    let mut discarded = [0; 4096];
    // The connection is no longer needed: its errors mean that the peer has closed.
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    while let Some(left) = timeout.checked_sub(begin.elapsed())
        && !stop.load(Ordering::Acquire)
    {
        let read = match os::wait_readable(stream, left.min(STOP_CHECK_INTERVAL)) {
            Ok(false) => continue,
            Ok(true) => stream.read(&mut discarded),
            Err(error) => Err(error),
        };
        match read {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use super::*;

    #[test]
    fn the_peer_receives_the_last_message_although_its_own_data_is_unread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 100_000]).unwrap();
        server.write_all(b"last").unwrap();
        std::thread::scope(|scope| {
            let finishing = scope.spawn(move || {
                finish_sending(&server, Duration::from_secs(30), &AtomicBool::new(false));
            });
            // After the end of the other direction.
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "last");
            client.write_all(&[7; 100_000]).unwrap();
            drop(client);
            finishing.join().unwrap();
        });
    }

    #[test]
    fn finishing_ends_after_the_timeout_and_on_a_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        finish_sending(&client, Duration::from_millis(1), &AtomicBool::new(false));
        finish_sending(&client, Duration::from_secs(3600), &AtomicBool::new(true));
    }
}
