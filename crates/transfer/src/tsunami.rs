//! Tsunami's data over a UDP socket; its dialogue uses the control connection.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use bulk::{
    flow::{ReceiverCounts, SenderCounts},
    tsunami::{
        Client, Server,
        wire::{CHALLENGE_BYTES, Parameters},
    },
};
use os::{AlignedBuffer, fill_random};
use socket2::{SockAddr, Socket};
use traffic::udp::{Incoming, Outgoing, bind_bulk, now_since};

use crate::{
    Error,
    control::{CHECK_INTERVAL, Control, Frame, IDLE_TIMEOUT},
    data_stream::with_port,
    error::failed,
    file_reader::FileReader,
    partial_file::FileWriter,
    sampler::{PUBLISH_INTERVAL, SharedCounts},
};

/// Timeout of the dialogue before the first block.
const DIALOGUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the file that the sending end reads together.
const BUFFER_BYTES: usize = 256 << 10;
/// Pieces are written when they have this size.
const WRITE_BYTES: usize = 256 << 10;
/// Maximum number of frames of the dialogue that are handled before the data.
const MAX_FRAMES: usize = 256;
/// A server that sleeps between blocks sleeps at least this long.
const MIN_SLEEP: Duration = Duration::from_micros(100);

/// The sending end's file. Blocks in order are copied from a buffer, others are read one by one.
pub(crate) struct Source<'a> {
    bytes: u64,
    /// Has the counts of the files before.
    counts: &'a SharedCounts,
    reader: FileReader,
    /// The reader has read up to this byte.
    ahead: u64,
    buffer: AlignedBuffer,
    /// Where the buffer begins in the file.
    buffer_begin: u64,
}

impl<'a> Source<'a> {
    /// `reader` reads up to byte `bytes`.
    pub(crate) fn new(reader: FileReader, bytes: u64, counts: &'a SharedCounts) -> Self {
        let buffer = AlignedBuffer::with_capacity(BUFFER_BYTES);
        Source { bytes, counts, reader, ahead: 0, buffer, buffer_begin: 0 }
    }

    /// Appends `length` bytes at `offset` to `out`.
    fn read(&mut self, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let end = offset + length as u64;
        if offset < self.buffer_begin {
            let begin = out.len();
            out.resize(begin + length, 0);
            return self.reader.read_at(offset, &mut out[begin..]);
        }
        if end > self.buffer_begin + self.buffer.len() as u64 {
            while self.ahead < end {
                let Some(part) = self.reader.next()? else { break };
                self.ahead = part.end;
            }
            let available = usize::try_from(self.ahead.max(end) - offset).unwrap_or(usize::MAX);
            self.buffer.resize(available.min(BUFFER_BYTES));
            self.reader.read_at(offset, &mut self.buffer)?;
            self.buffer_begin = offset;
        }
        let begin = (offset - self.buffer_begin) as usize;
        out.extend_from_slice(&self.buffer[begin..begin + length]);
        Ok(())
    }

    /// The hash of the whole file.
    pub(crate) fn finish(mut self) -> Result<String, Error> {
        while self.reader.next()?.is_some() {}
        self.reader.finish()
    }
}

/// Sends a file to the client at the other end of the control connection. Returns blocks sent, and of these
/// retransmissions.
pub(crate) fn serve(
    control: &mut Control<'_>,
    socket: &Socket,
    peer: SocketAddr,
    secret: &[u8],
    source: &mut Source<'_>,
    mut progress: impl FnMut(u64),
) -> Result<(u64, u64), Error> {
    os::reduce_timer_slack();
    let mut challenge = [0; CHALLENGE_BYTES];
    fill_random(&mut challenge).map_err(failed("get random bytes"))?;
    let mut server = Server::new(secret, challenge);
    let start = Instant::now();
    let mut outgoing = Outgoing::default();
    let mut is_connected = false;
    let shared = source.counts;
    let (earlier, _) = shared.get();
    let publish = |server: &Server| {
        let counts = SenderCounts::of_tsunami(server, server.block_bytes());
        shared.publish(counts.after(&earlier), ReceiverCounts::default());
    };
    let mut published = start;
    while server.completed() == 0 {
        control.check_stop()?;
        for _ in 0..MAX_FRAMES {
            let Some(frame) = control.poll()? else { break };
            match frame {
                Frame::Tsunami(bytes) => server.handle_control(now_since(start), &bytes),
                other => return Err(unexpected(&other)),
            }
            if server.requested().is_some() {
                server.offer(now_since(start), source.bytes, 0);
            }
        }
        let bytes = server.take_control();
        if !bytes.is_empty() {
            control.send_tsunami(&bytes)?;
        }
        if let Some(error) = server.error() {
            return Err(Error::Tsunami(error));
        }
        if let (Some(port), false) = (server.udp_port(), is_connected) {
            let peer = with_port(peer, port);
            socket.connect(&SockAddr::from(peer)).map_err(failed(format!("connect to {peer}")))?;
            is_connected = true;
        }
        if !is_connected && start.elapsed() > DIALOGUE_TIMEOUT {
            return Err(Error::Timeout { what: "Tsunami dialogue", after: DIALOGUE_TIMEOUT });
        }
        send_due(&mut server, start, &mut outgoing, socket, source, &mut progress)?;
        if published.elapsed() >= PUBLISH_INTERVAL {
            published = Instant::now();
            publish(&server);
        }
        let due = server.next_timeout().saturating_since(now_since(start));
        let pause = due.to_duration().clamp(MIN_SLEEP, CHECK_INTERVAL);
        os::wait_any(&[control.stream().as_fd()], pause).map_err(failed("wait for the peer"))?;
    }
    publish(&server);
    let statistics = server.statistics();
    Ok((statistics.sent_blocks, statistics.retransmitted_blocks))
}

/// Sends the blocks that are due, at most one batch.
fn send_due(
    server: &mut Server,
    start: Instant,
    outgoing: &mut Outgoing,
    socket: &Socket,
    source: &mut Source<'_>,
    progress: &mut impl FnMut(u64),
) -> Result<(), Error> {
    let mut result = Ok(());
    let mut sent_to = 0;
    while !outgoing.is_full() {
        let Some(block) = server.poll_transmit(now_since(start)) else { break };
        outgoing.add(|out| {
            out.extend_from_slice(&block.header.encode());
            let end = out.len() + block.bytes;
            let length = usize::try_from(source.bytes - block.offset).unwrap_or(usize::MAX).min(block.bytes);
            let read = source.read(block.offset, length, out);
            if result.is_ok() {
                result = read;
            }
            // The last block of a file is filled with zeros.
            out.resize(end, 0);
            sent_to = block.offset + length as u64;
            true
        });
    }
    result?;
    if sent_to > 0 {
        progress(sent_to);
    }
    outgoing.flush(socket).map_err(failed("send to a UDP socket"))
}

/// The receiving end of a session's files.
pub(crate) struct Receiving {
    socket: Socket,
    port: u16,
    /// The sender; datagrams of other hosts are ignored.
    peer: IpAddr,
    parameters: Parameters,
    incoming: Incoming,
}

impl Receiving {
    /// Receives from `peer` at `socket`, which has this port.
    pub(crate) fn new(socket: Socket, port: u16, peer: IpAddr, parameters: Parameters) -> Self {
        Receiving { socket, port, peer, parameters, incoming: Incoming::with_sources() }
    }

    /// Receives a file into `writer`; it already has the first `from` bytes.
    pub(crate) fn receive(
        &mut self,
        control: &mut Control<'_>,
        secret: &[u8],
        (from, bytes): (u64, u64),
        writer: &mut FileWriter,
        counts: &SharedCounts,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let received_before = counts.get().1.received_bytes;
        let publish = |received: u64| {
            let received_bytes = received_before + received.saturating_sub(from);
            let receiver = ReceiverCounts { received_bytes, ..ReceiverCounts::default() };
            counts.publish(SenderCounts::default(), receiver);
        };
        let mut client = Client::new(secret, "file", self.parameters, self.port, from);
        let start = Instant::now();
        let mut moved = Instant::now();
        let mut pending = Pending::default();
        while !client.is_complete() {
            control.check_stop()?;
            for _ in 0..MAX_FRAMES {
                let Some(frame) = control.poll()? else { break };
                match frame {
                    Frame::Tsunami(bytes) => client.handle_control(now_since(start), &bytes),
                    other => return Err(unexpected(&other)),
                }
            }
            if client.file_bytes().is_some_and(|announced| announced != bytes) {
                return Err(Error::Protocol("the size of the file differs from the announced one".into()));
            }
            let mut result = Ok(());
            let mut count = 0;
            let received = self.incoming.receive_from(&self.socket, self.peer, |datagram| {
                count += 1;
                if let Some(block) = client.handle_datagram(now_since(start), datagram)
                    && result.is_ok()
                {
                    result = pending.add(block.offset, block.bytes, writer);
                }
            });
            let has_more = received.map_err(failed("receive from a UDP socket"))?;
            result?;
            client.set_backlog(writer.backlog());
            if count > 0 {
                moved = Instant::now();
                progress(client.received_bytes());
                publish(client.received_bytes());
                writer.complete_if_due(client.contiguous_bytes(), pending.begin())?;
            } else if moved.elapsed() > IDLE_TIMEOUT {
                return Err(Error::Timeout { what: "data", after: IDLE_TIMEOUT });
            }
            let bytes = client.take_control();
            if !bytes.is_empty() {
                control.send_tsunami(&bytes)?;
            }
            if let Some(error) = client.error() {
                return Err(Error::Tsunami(error));
            }
            if !has_more && !client.is_complete() {
                let files = [self.socket.as_fd(), control.stream().as_fd()];
                os::wait_any(&files, CHECK_INTERVAL).map_err(failed("wait for the peer"))?;
            }
        }
        pending.flush(writer)?;
        // The request to stop.
        let bytes = client.take_control();
        if bytes.is_empty() { Ok(()) } else { control.send_tsunami(&bytes) }
    }

    /// Drops blocks of the previous file.
    pub(crate) fn discard_old(&mut self) -> Result<(), Error> {
        while self.incoming.receive(&self.socket, |_, _| ()).map_err(failed("receive from a UDP socket"))? {}
        Ok(())
    }
}

/// Blocks that follow one another, to be written together.
#[derive(Default)]
struct Pending {
    offset: u64,
    bytes: AlignedBuffer,
}

impl Pending {
    fn add(&mut self, offset: u64, bytes: &[u8], writer: &FileWriter) -> Result<(), Error> {
        if self.offset + self.bytes.len() as u64 != offset || self.bytes.len() >= WRITE_BYTES {
            self.flush(writer)?;
            self.offset = offset;
            self.bytes = writer.buffer(0);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, writer: &FileWriter) -> Result<(), Error> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        writer.write(self.offset, bytes)
    }

    /// Offset of the first byte that is not yet queued.
    fn begin(&self) -> u64 {
        if self.bytes.is_empty() { u64::MAX } else { self.offset }
    }
}

fn unexpected(frame: &Frame) -> Error {
    Error::Protocol(format!("{frame:?} instead of Tsunami's dialogue").chars().take(200).collect())
}

/// Opens a UDP socket; returns it and its port.
pub(crate) fn socket(local: SocketAddr) -> Result<(Socket, u16), Error> {
    let socket: UdpSocket = bind_bulk(local).map_err(failed(format!("open a UDP socket at {local}")))?.into();
    let port = socket.local_addr().map_err(failed("get a socket's address"))?.port();
    Ok((socket.into(), port))
}
