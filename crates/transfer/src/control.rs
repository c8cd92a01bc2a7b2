//! The control connection: messages with deadlines.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{from_slice, to_vec};
use socket2::{SockRef, TcpKeepalive};
use traffic::sys::send_file_part;

use crate::{
    Error,
    error::failed,
    file_reader::FileReader,
    message::{MAX_MESSAGE_BYTES, Message},
};

/// Idle time of a connection before its peer is probed, and the interval of probes.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A peer that accepts no data for this time counts as unreachable.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for each message before data is sent.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time in which a peer hashes or stores a file.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Interval at which a wait checks for the end of the program.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of a frame that restart the timeout of [`Control::receive_slowly`].
const PROGRESS_BYTES: u64 = 4096;
/// Maximum number of frames that arrived before they were needed.
const MAX_WAITING: usize = 8;
/// Bytes of a frame's header: length and kind.
const FRAME_BYTES: usize = 5;
const JSON: u8 = 0;
const TSUNAMI: u8 = 1;
const REPORT: u8 = 2;

/// A received frame of the control connection.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Message(Message),
    /// Bytes of Tsunami's dialogue.
    Tsunami(Vec<u8>),
    /// A report of SABUL.
    Report(Vec<u8>),
}

/// One end of a control connection.
pub(crate) struct Control<'a> {
    stream: TcpStream,
    stop: &'a AtomicBool,
    /// The beginning of a frame. Never more than one frame, so that data can follow.
    partial: Vec<u8>,
    /// Number of bytes of frames that have been received.
    received_bytes: u64,
    /// Frames that arrived while data was sent or received, oldest first.
    waiting: VecDeque<Frame>,
    /// When [`Control::check_at_intervals`] last looked for a frame.
    checked: Instant,
    /// Data of a file is being sent on this connection: a message would become a part of the file.
    pub(crate) is_in_data: bool,
}

impl<'a> Control<'a> {
    pub(crate) fn new(stream: TcpStream, stop: &'a AtomicBool) -> Result<Self, Error> {
        let what = "set up the control connection";
        stream.set_nodelay(true).map_err(failed(what))?;
        // Detects peers that vanish while this end only waits.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(failed(what))?;
        stream.set_nonblocking(false).map_err(failed(what))?;
        stream.set_write_timeout(Some(CHECK_INTERVAL)).map_err(failed(what))?;
        Ok(Control {
            stream,
            stop,
            partial: Vec::new(),
            received_bytes: 0,
            waiting: VecDeque::new(),
            checked: Instant::now(),
            is_in_data: false,
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn peer(&self) -> Result<SocketAddr, Error> {
        self.stream.peer_addr().map_err(failed("get the peer's address"))
    }

    /// # Errors
    /// If the program is to end.
    pub(crate) fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Acquire) { Err(Error::Interrupted) } else { Ok(()) }
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Error> {
        let json = to_vec(message).map_err(|error| Error::Protocol(error.to_string()))?;
        self.send_frame(JSON, &json)
    }

    pub(crate) fn send_tsunami(&mut self, bytes: &[u8]) -> Result<(), Error> {
        bytes.chunks(MAX_MESSAGE_BYTES).try_for_each(|piece| self.send_frame(TSUNAMI, piece))
    }

    pub(crate) fn send_report(&mut self, packet: &[u8]) -> Result<(), Error> {
        self.send_frame(REPORT, packet)
    }

    fn send_frame(&mut self, kind: u8, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(Error::Input("a file name is too long".into()));
        }
        let mut frame = Vec::with_capacity(FRAME_BYTES + bytes.len());
        frame.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        frame.push(kind);
        frame.extend_from_slice(bytes);
        self.send_raw(&frame)
    }

    /// Sends bytes that do not form a message.
    pub(crate) fn send_raw(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let count = self.send_some(|mut stream| stream.write(bytes))?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Sends a part of a file.
    pub(crate) fn send_part(&mut self, reader: &FileReader, mut part: Range<u64>) -> Result<(), Error> {
        while !part.is_empty() {
            match self.send_some(|stream| send_file_part(reader.file(), stream, &part))? {
                0 => return Err(reader.shrunk()),
                count => part.start += count as u64,
            }
        }
        Ok(())
    }

    /// Calls `send` until it has sent something.
    fn send_some(
        &mut self,
        mut send: impl FnMut(&TcpStream) -> std::io::Result<usize>,
    ) -> Result<usize, Error> {
        let begin = Instant::now();
        loop {
            match send(&self.stream) {
                Ok(count) => return Ok(count),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    self.check_stop()?;
                    if begin.elapsed() > IDLE_TIMEOUT {
                        return Err(Error::Timeout { what: "progress", after: IDLE_TIMEOUT });
                    }
                }
                Err(error) => return Err(self.why_closed(error)),
            }
        }
    }

    /// The peer's reason for a closed connection, if it has sent one.
    fn why_closed(&mut self, error: std::io::Error) -> Error {
        match self.read_frame() {
            Err(reason @ Error::Peer(_)) => reason,
            _ if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Error::Closed,
            _ => failed("send")(error),
        }
    }

    /// The next message.
    pub(crate) fn receive(&mut self, what: &'static str, timeout: Duration) -> Result<Message, Error> {
        match self.receive_frame(what, timeout)? {
            Frame::Message(message) => Ok(message),
            _ => Err(Error::Protocol(format!("another protocol's dialogue instead of {what}"))),
        }
    }

    /// A report of SABUL, if one has arrived. Messages that have arrived are kept for the next calls of
    /// [`Control::poll`].
    pub(crate) fn poll_report(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(at) = self.waiting.iter().position(|frame| matches!(frame, Frame::Report(_)))
                && let Some(Frame::Report(packet)) = self.waiting.remove(at)
            {
                return Ok(Some(packet));
            }
            if !self.keep_next_frame()? {
                return Ok(None);
            }
        }
    }

    pub(crate) fn receive_frame(&mut self, what: &'static str, timeout: Duration) -> Result<Frame, Error> {
        let begin = Instant::now();
        loop {
            if let Some(frame) = self.poll()? {
                return Ok(frame);
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { what, after: timeout });
            }
            self.check_stop()?;
            self.wait(left.min(CHECK_INTERVAL))?;
        }
    }

    /// The next frame. `idle` limits the time until it or a further [`PROGRESS_BYTES`] of it arrive, not the
    /// time of the whole frame, which takes long on a slow path.
    pub(crate) fn receive_slowly(&mut self, what: &'static str, idle: Duration) -> Result<Frame, Error> {
        let (mut begin, mut before) = (Instant::now(), self.received_bytes);
        loop {
            if let Some(frame) = self.poll()? {
                return Ok(frame);
            }
            if self.received_bytes >= before + PROGRESS_BYTES {
                (begin, before) = (Instant::now(), self.received_bytes);
            }
            if begin.elapsed() > idle {
                return Err(Error::Timeout { what, after: idle });
            }
            self.check_stop()?;
            self.wait(CHECK_INTERVAL)?;
        }
    }

    /// Ends with an error if the peer has failed or the program is to end. Frames that have arrived are kept
    /// for the next calls of [`Control::poll`].
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.check_stop()?;
        self.keep_next_frame().map(drop)
    }

    /// Like [`Control::check`], but looks for a frame only a few times a second.
    pub(crate) fn check_at_intervals(&mut self) -> Result<(), Error> {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return self.check_stop();
        }
        self.checked = Instant::now();
        self.check()
    }

    /// Reads a frame before it is needed, if there is one and space for it.
    fn keep_next_frame(&mut self) -> Result<bool, Error> {
        if self.waiting.len() == MAX_WAITING {
            return Ok(false);
        }
        let frame = self.read_frame()?;
        let is_kept = frame.is_some();
        self.waiting.extend(frame);
        Ok(is_kept)
    }

    /// A frame, if a whole one has arrived. A `failed` message is an error.
    pub(crate) fn poll(&mut self) -> Result<Option<Frame>, Error> {
        match self.waiting.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => self.read_frame(),
        }
    }

    fn read_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let header: Option<[u8; FRAME_BYTES]> =
                self.partial.get(..FRAME_BYTES).and_then(|header| header.try_into().ok());
            let needed = match header {
                None => FRAME_BYTES,
                Some([a, b, c, d, _]) => {
                    let length = u32::from_be_bytes([a, b, c, d]) as usize;
                    if length > MAX_MESSAGE_BYTES {
                        return Err(Error::Protocol(format!("a message has {length} bytes")));
                    }
                    FRAME_BYTES + length
                }
            };
            if self.partial.len() == needed && header.is_some() {
                break;
            }
            if !self.wait(Duration::ZERO)? {
                return Ok(None);
            }
            let old = self.partial.len();
            self.partial.resize(needed, 0);
            let read = self.stream.read(&mut self.partial[old..]);
            self.partial.truncate(old + read.as_ref().map_or(0, |count| *count));
            self.received_bytes += (self.partial.len() - old) as u64;
            match read {
                Ok(0) => return Err(Error::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(Error::Closed),
                Err(error) => return Err(failed("receive")(error)),
            }
        }
        let frame = std::mem::take(&mut self.partial);
        let body = &frame[FRAME_BYTES..];
        match frame[FRAME_BYTES - 1] {
            TSUNAMI => Ok(Some(Frame::Tsunami(body.to_vec()))),
            REPORT => Ok(Some(Frame::Report(body.to_vec()))),
            JSON => match from_slice(body).map_err(|error| Error::Protocol(error.to_string()))? {
                Message::Failed { why } => Err(Error::Peer(printable(&why))),
                message => Ok(Some(Frame::Message(message))),
            },
            kind => Err(Error::Protocol(format!("unknown kind of frame: {kind}"))),
        }
    }

    /// Waits for input.
    fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        match os::wait_readable(&self.stream, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            other => other.map_err(failed("wait for the peer")),
        }
    }

    /// Reads data that follows a message, at least one byte.
    pub(crate) fn read_raw(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let begin = Instant::now();
        loop {
            // Also on a path that always has data: then there is no wait.
            self.check_stop()?;
            if self.wait(CHECK_INTERVAL)? {
                break;
            }
            if begin.elapsed() > IDLE_TIMEOUT {
                return Err(Error::Timeout { what: "data", after: IDLE_TIMEOUT });
            }
        }
        match self.stream.read(buffer) {
            Ok(0) => Err(Error::Closed),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(Error::Closed),
            other => other.map_err(failed("receive data")),
        }
    }

    /// Ends this direction of a complete session, and discards data that the peer still sends, such as
    /// SABUL's last report: unread data would reset the connection, and the peer could lose the last
    /// messages.
    pub(crate) fn finish(&self, linger: Duration) {
        traffic::finish_sending(&self.stream, linger, self.stop);
    }

    /// Reports a failure to the peer, and reads the data that it still sends, so that the report arrives.
    pub(crate) fn report(&mut self, error: &Error, linger: Duration) {
        let why: String = error.to_string().chars().take(1000).collect();
        if self.is_in_data
            || matches!(error, Error::Peer(_) | Error::Closed)
            || self.send(&Message::Failed { why }).is_err()
        {
            return;
        }
        traffic::finish_sending(&self.stream, linger, self.stop);
    }
}

/// A peer's text without control characters.
fn printable(text: &str) -> String {
    text.chars().take(1000).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Ends waits if the peer reports a failure or the program ends.
pub(crate) fn control_check<'a>(control: &'a mut Control<'_>) -> impl FnMut() -> Result<(), Error> + 'a {
    || control.check_at_intervals()
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Both ends of a connection.
    fn connected(stop: &AtomicBool) -> (Control<'_>, Control<'_>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        (Control::new(one, stop).unwrap(), Control::new(other, stop).unwrap())
    }

    /// The error of the first check that fails.
    fn failed_check(mut check: impl FnMut() -> Result<(), Error>) -> Error {
        let begin = Instant::now();
        loop {
            match check() {
                Err(error) => return error,
                Ok(()) => assert!(begin.elapsed() < Duration::from_secs(60), "no check fails"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_failure_after_an_early_message_is_noticed() {
        let stop = AtomicBool::new(false);
        let (mut sender, mut receiver) = connected(&stop);
        sender.send(&Message::Sent { hash: "1".into() }).unwrap();
        sender.send_report(&[1, 2]).unwrap();
        sender.send(&Message::Working).unwrap();
        sender.send(&Message::Failed { why: "its disk".into() }).unwrap();
        let error = failed_check(|| control_check(&mut receiver)());
        assert!(matches!(&error, Error::Peer(why) if why == "its disk"), "{error}");
        // A report does not wait for the messages before it.
        assert_eq!(receiver.poll_report().unwrap(), Some(vec![1, 2]));
        let kept: Vec<Frame> = (0..2).map(|_| receiver.poll().unwrap().unwrap()).collect();
        assert_eq!(
            kept,
            [Frame::Message(Message::Sent { hash: "1".into() }), Frame::Message(Message::Working)]
        );
    }

    #[test]
    fn a_frame_crosses_a_slow_path_if_bytes_of_it_arrive() {
        let stop = AtomicBool::new(false);
        let (mut sender, mut receiver) = connected(&stop);
        // The frame takes 6 s, longer than the timeout, and each part arrives long before it.
        let (idle, pause) = (Duration::from_secs(4), Duration::from_millis(750));
        let message = Message::Sent { hash: "x".repeat(8 * PROGRESS_BYTES as usize) };
        let json = to_vec(&message).unwrap();
        let mut frame = (json.len() as u32).to_be_bytes().to_vec();
        frame.push(JSON);
        frame.extend(json);
        thread::scope(|scope| {
            scope.spawn(|| {
                for part in frame.chunks(PROGRESS_BYTES as usize) {
                    sender.send_raw(part).unwrap();
                    thread::sleep(pause);
                }
            });
            let received = receiver.receive_slowly("hash", idle).unwrap();
            assert_eq!(received, Frame::Message(message));
        });
    }

    #[test]
    fn a_hostile_peer_cannot_fill_the_memory_with_early_messages() {
        let stop = AtomicBool::new(false);
        let (mut sender, mut receiver) = connected(&stop);
        (0..2 * MAX_WAITING).for_each(|_| sender.send(&Message::Working).unwrap());
        let begin = Instant::now();
        while receiver.waiting.len() < MAX_WAITING && begin.elapsed() < Duration::from_secs(60) {
            receiver.check().unwrap();
        }
        (0..10).for_each(|_| receiver.check().unwrap());
        assert_eq!(receiver.waiting.len(), MAX_WAITING);
        // None is lost.
        let rest = (0..2 * MAX_WAITING).map(|_| receiver.receive("message", HANDSHAKE_TIMEOUT).unwrap());
        assert!(rest.into_iter().all(|message| message == Message::Working));
    }

    #[test]
    fn the_end_of_the_program_ends_the_reading_of_data_that_has_arrived() {
        let stop = AtomicBool::new(false);
        let (mut sender, mut receiver) = connected(&stop);
        sender.send_raw(&[7; 100]).unwrap();
        assert_eq!(receiver.read_raw(&mut [0; 1]).unwrap(), 1);
        stop.store(true, Ordering::Release);
        let error = receiver.read_raw(&mut [0; 1]).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }

    #[test]
    fn the_end_of_the_program_ends_waits_that_are_short_but_many() {
        let stop = AtomicBool::new(false);
        let (mut control, _peer) = connected(&stop);
        assert!(control_check(&mut control)().is_ok());
        stop.store(true, Ordering::Release);
        let error = control_check(&mut control)().unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }
}
