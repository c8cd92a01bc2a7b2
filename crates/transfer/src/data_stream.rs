//! Streams of bytes in order that carry files' data beside the control connection.

use std::time::{Duration, Instant};

use quic::QuicStream;

use crate::{
    Error, UdtStream,
    control::{Control, Frame, control_check},
    message::Message,
};

/// Interval at which a wait for a message polls the control connection.
const SERVE_INTERVAL: Duration = Duration::from_millis(10);

/// A connection for files' data. Its calls block, and end with an error if the control connection reports one.
pub(crate) trait DataStream {
    /// Writes all bytes into the send buffer.
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error>;

    /// Reads at least one byte; 0 after the peer closed.
    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error>;

    /// Waits until the peer has everything; not necessary where the peer's next message implies this.
    fn flush(&mut self, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Acknowledges and sends for about `time`.
    fn serve(&mut self, time: Duration, control: &mut Control<'_>) -> Result<(), Error>;

    fn close(self: Box<Self>, control: &mut Control<'_>) -> Result<(), Error>;

    /// Bytes in the send buffer, at most.
    fn buffered_bytes(&self) -> u64;

    /// Data packets sent, and of these retransmissions.
    fn packets(&self) -> (u64, u64);

    /// Whether the peer is the one that has proved the token, so that the stream can confirm the control connection's messages.
    fn is_authenticated(&self) -> bool {
        false
    }
}

impl DataStream for UdtStream {
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::write_all(self, bytes, &mut control_check(control))
    }

    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error> {
        UdtStream::read(self, buffer, &mut control_check(control))
    }

    fn flush(&mut self, control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::flush(self, &mut control_check(control))
    }

    fn serve(&mut self, time: Duration, _control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::serve(self, time)
    }

    fn close(self: Box<Self>, _control: &mut Control<'_>) -> Result<(), Error> {
        UdtStream::close(*self, &mut || Ok(()))
    }

    fn buffered_bytes(&self) -> u64 {
        self.unacknowledged_bytes()
    }

    fn packets(&self) -> (u64, u64) {
        let statistics = self.statistics();
        (statistics.sent_packets, statistics.retransmitted_packets)
    }
}

impl DataStream for QuicStream {
    fn write_all(&mut self, bytes: &[u8], control: &mut Control<'_>) -> Result<(), Error> {
        QuicStream::write_all(self, bytes, &mut control_check(control))
    }

    fn read(&mut self, buffer: &mut [u8], control: &mut Control<'_>) -> Result<usize, Error> {
        QuicStream::read(self, buffer, &mut control_check(control))
    }

    fn serve(&mut self, time: Duration, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(QuicStream::serve(self, time)?)
    }

    fn close(self: Box<Self>, _control: &mut Control<'_>) -> Result<(), Error> {
        Ok(QuicStream::close(*self)?)
    }

    fn buffered_bytes(&self) -> u64 {
        QuicStream::buffered_bytes(self)
    }

    fn packets(&self) -> (u64, u64) {
        let statistics = self.statistics();
        (statistics.sent_packets, statistics.lost_packets)
    }

    fn is_authenticated(&self) -> bool {
        true
    }
}

/// The congestion control of a QUIC connection: a built-in one, or a user's C file (a path with a slash, or that ends in `.c`).
pub(crate) fn quic_congestion(name: Option<&str>) -> Result<cc::Source, Error> {
    let name = name.unwrap_or("cubic");
    if name.contains('/') || name.ends_with(".c") {
        return cc::Source::file(name.as_ref()).map_err(|error| Error::Input(error.to_string()));
    }
    let source = cc::Source::built_in(name);
    source
        .ok_or_else(|| Error::Input(format!("longfat has no congestion control {name:?} (longfat cc list)")))
}

/// Waits for a message while the stream still acknowledges and retransmits.
pub(crate) fn receive_while_serving(
    control: &mut Control<'_>,
    stream: &mut dyn DataStream,
    what: &'static str,
    timeout: Duration,
) -> Result<Message, Error> {
    let begin = Instant::now();
    loop {
        match control.poll()? {
            Some(Frame::Message(message)) => return Ok(message),
            Some(_) => return Err(Error::Protocol(format!("another protocol's dialogue instead of {what}"))),
            None if begin.elapsed() > timeout => return Err(Error::Timeout { what, after: timeout }),
            None => {}
        }
        control.check_stop()?;
        stream.serve(SERVE_INTERVAL, control)?;
    }
}

/// Reads exactly this number of bytes.
pub(crate) fn read_exact(
    stream: &mut dyn DataStream,
    buffer: &mut [u8],
    control: &mut Control<'_>,
) -> Result<(), Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..], control)? {
            0 => return Err(Error::Closed),
            count => filled += count,
        }
    }
    Ok(())
}
