//! Several TCP connections that share a file: each carries blocks, which arrive in any order.
//!
//! A block is its offset (64 bits), its length (32 bits) and its bytes. The next block goes to the first
//! connection that has space, so a slow connection delays only its own blocks.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use os::AlignedBuffer;
use socket2::{Domain, SockRef, Socket, Type};
use traffic::{begin_to_connect, sys::send_file_part};

use crate::{
    Error,
    control::{CHECK_INTERVAL, Control, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT},
    error::failed,
    file_reader::FileReader,
    partial_file::FileWriter,
};

/// The largest number of connections of a transfer.
pub(crate) const MAX_STREAMS: u16 = 64;
const HEADER_BYTES: usize = 12;
/// The largest block, bytes.
const MAX_BLOCK_BYTES: u32 = 1 << 20;
/// Maximum number of accepted connections whose key has not arrived.
const MAX_WAITING: usize = 2 * MAX_STREAMS as usize;
/// Reads from one connection before the next one.
const READS_PER_TURN: usize = 8;
/// Maximum number of separate parts of a file after its first gap: bounds the memory for a hostile sender's
/// blocks.
const MAX_PARTS: usize = 1 << 18;

/// The turns over all connections.
struct Turns {
    /// When data was last sent or received.
    moved: Instant,
}

impl Turns {
    /// After a turn: whether to wait for the peer before the next one. Checks the control connection from
    /// time to time.
    ///
    /// # Errors
    /// The errors of the control connection, or if nothing has moved for [`IDLE_TIMEOUT`]; `what` names the
    /// missing thing.
    fn must_wait(
        &mut self,
        control: &mut Control<'_>,
        has_progress: bool,
        what: &'static str,
    ) -> Result<bool, Error> {
        control.check_at_intervals()?;
        if has_progress {
            self.moved = Instant::now();
        } else if self.moved.elapsed() > IDLE_TIMEOUT {
            return Err(Error::Timeout { what, after: IDLE_TIMEOUT });
        }
        Ok(!has_progress)
    }
}

/// How both ends number the connections, so that the samples of both ends of a connection have the same name.
/// They are accepted in another order than they are opened in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The sender sends the number after the key: 16 bits, from 0.
    Sent,
    /// By the sender's ports, as earlier versions do. A NAT can change their order.
    ByPort,
}

impl Numbering {
    /// Whether the numbers are sent.
    pub(crate) fn is_sent(self) -> bool {
        self == Numbering::Sent
    }

    /// The numbering, by whether the numbers are sent.
    pub(crate) fn of(is_sent: bool) -> Self {
        if is_sent { Numbering::Sent } else { Numbering::ByPort }
    }

    /// The bytes with which a connection begins.
    fn preface(self, key: &[u8], number: u16) -> Vec<u8> {
        match self {
            Numbering::Sent => [key, &number.to_be_bytes()[..]].concat(),
            Numbering::ByPort => key.to_vec(),
        }
    }

    /// The number in the bytes with which a connection begins, if they have the key; `None` if they do not.
    /// `next`: the number of the next connection if none is sent.
    fn number(self, preface: &[u8], key: &[u8], next: u16) -> Option<u16> {
        let number = preface.strip_prefix(key)?;
        match self {
            Numbering::Sent => number.try_into().ok().map(u16::from_be_bytes),
            Numbering::ByPort => Some(next),
        }
    }
}

/// Waits for a sender's connections. Each begins with the key of its session.
pub(crate) struct StreamsListener(TcpListener);

impl StreamsListener {
    pub(crate) fn bind(local: SocketAddr) -> Result<Self, Error> {
        let listener = TcpListener::bind(local).map_err(failed(format!("listen at {local}")))?;
        listener.set_nonblocking(true).map_err(failed("set up a socket"))?;
        Ok(StreamsListener(listener))
    }

    pub(crate) fn port(&self) -> Result<u16, Error> {
        Ok(self.0.local_addr().map_err(failed("get a socket's address"))?.port())
    }

    /// Accepts `count` connections of expected addresses that begin with the session's key. Connections of
    /// other addresses cannot delay them, and neither can silent ones of the expected address, which may be
    /// that of a NAT.
    pub(crate) fn accept(
        self,
        count: u16,
        (key, numbering): (&[u8], Numbering),
        is_expected: impl Fn(SocketAddr) -> bool,
        control: &mut Control<'_>,
    ) -> Result<TcpStreams, Error> {
        let begin = Instant::now();
        let preface_bytes = numbering.preface(key, 0).len();
        let mut accepted: BTreeMap<u16, TcpStream> = BTreeMap::new();
        // The oldest first.
        let mut waiting: Vec<(TcpStream, Vec<u8>)> = Vec::new();
        while accepted.len() < usize::from(count) {
            control.check()?;
            if begin.elapsed() > HANDSHAKE_TIMEOUT {
                return Err(Error::Timeout { what: "TCP connection", after: HANDSHAKE_TIMEOUT });
            }
            // So few that each is read at least once before others replace it.
            for _ in 0..MAX_WAITING / 2 {
                let (stream, peer) = match self.0.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // Out of descriptors, for example: the pending connection keeps the socket readable.
                        std::thread::sleep(CHECK_INTERVAL);
                        break;
                    }
                };
                if is_expected(peer) && stream.set_nonblocking(true).is_ok() {
                    if waiting.len() == MAX_WAITING {
                        waiting.remove(0);
                    }
                    waiting.push((stream, Vec::new()));
                }
            }
            let mut index = 0;
            while index < waiting.len() {
                let (stream, received) = &mut waiting[index];
                let mut buffer = vec![0; preface_bytes - received.len()];
                match stream.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => index += 1,
                    Ok(bytes) if bytes > 0 => {
                        received.extend_from_slice(&buffer[..bytes]);
                        if received.len() == preface_bytes {
                            let (stream, received) = waiting.remove(index);
                            let number = numbering.number(&received, key, accepted.len() as u16);
                            if let Some(number) = number.filter(|number| *number < count) {
                                // A number that has already arrived is an error of the sender: the first
                                // connection remains.
                                accepted.entry(number).or_insert(stream);
                            }
                        }
                    }
                    _ => drop(waiting.remove(index)),
                }
            }
            if accepted.len() < usize::from(count) {
                let files: Vec<BorrowedFd<'_>> = std::iter::once(self.0.as_fd())
                    .chain(waiting.iter().map(|(stream, _)| stream.as_fd()))
                    .collect();
                os::wait_any(&files, CHECK_INTERVAL).map_err(failed("wait for the sender"))?;
            }
        }
        TcpStreams::new(accepted.into_values().collect(), numbering, TcpStream::peer_addr)
    }
}

/// The connections of a transfer.
pub(crate) struct TcpStreams {
    streams: Vec<TcpStream>,
}

impl TcpStreams {
    pub(crate) fn connections(&self) -> &[TcpStream] {
        &self.streams
    }

    /// `streams` are in the order of the numbers, if these are sent.
    fn new(
        mut streams: Vec<TcpStream>,
        numbering: Numbering,
        sender_address: fn(&TcpStream) -> std::io::Result<SocketAddr>,
    ) -> Result<Self, Error> {
        if numbering == Numbering::ByPort {
            streams.sort_by_cached_key(|stream| sender_address(stream).map_or(0, |address| address.port()));
        }
        for stream in &streams {
            stream.set_nonblocking(true).map_err(failed("set up a socket"))?;
        }
        Ok(TcpStreams { streams })
    }

    /// Connects `count` times, and sends the session's key over each connection. `set_up` sets their options.
    pub(crate) fn connect(
        peer: SocketAddr,
        count: u16,
        (key, numbering): (&[u8], Numbering),
        control: &mut Control<'_>,
        set_up: impl Fn(&TcpStream) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let begin = Instant::now();
        // All at the same time, because each takes a round trip.
        let what = || format!("connect to {peer}");
        let open = |_| {
            let socket = Socket::new(Domain::for_address(peer), Type::STREAM, None)?;
            begin_to_connect(&socket, peer)?;
            Ok(TcpStream::from(socket))
        };
        let streams: std::io::Result<Vec<TcpStream>> = (0..count).map(open).collect();
        let streams = streams.map_err(failed(what()))?;
        for (number, stream) in (0..).zip(&streams) {
            while !os::wait_writable(&[stream.as_fd()], CHECK_INTERVAL)
                .map_err(failed("wait for a connection"))?
                .contains(&true)
            {
                control.check()?;
                if begin.elapsed() > HANDSHAKE_TIMEOUT {
                    return Err(Error::Timeout { what: "TCP connection", after: HANDSHAKE_TIMEOUT });
                }
            }
            if let Some(error) = stream.take_error().map_err(failed(what()))? {
                return Err(failed(what())(error));
            }
            set_up(stream)?;
            // The send buffer of a new connection has space.
            let mut stream = stream;
            stream.write_all(&numbering.preface(key, number)).map_err(failed("send"))?;
        }
        TcpStreams::new(streams, numbering, TcpStream::local_addr)
    }

    /// Sends the file from byte `from`.
    pub(crate) fn send(
        &self,
        control: &mut Control<'_>,
        reader: &mut FileReader,
        from: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut blocks: Vec<OutgoingBlock> = self.streams.iter().map(|_| OutgoingBlock::default()).collect();
        let mut sent = from;
        let mut is_read = false;
        let mut turns = Turns { moved: Instant::now() };
        loop {
            let mut has_progress = false;
            for (stream, block) in self.streams.iter().zip(&mut blocks) {
                if block.is_sent() && !is_read {
                    match reader.next()? {
                        Some(part) => *block = OutgoingBlock::new(part),
                        None => is_read = true,
                    }
                }
                while !block.is_sent() {
                    match block.send(stream, reader.file()) {
                        Ok(None) => return Err(reader.shrunk()),
                        Ok(Some(count)) => {
                            sent += count;
                            has_progress = true;
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(why_ended(control, error)),
                    }
                }
            }
            progress(sent);
            if is_read && blocks.iter().all(OutgoingBlock::is_sent) {
                return Ok(());
            }
            if !turns.must_wait(control, has_progress, "progress")? {
                continue;
            }
            let unsent = self.streams.iter().zip(&blocks).filter(|(_, block)| !block.is_sent());
            let files: Vec<BorrowedFd<'_>> = unsent.map(|(stream, _)| stream.as_fd()).collect();
            os::wait_writable(&files, CHECK_INTERVAL).map_err(failed("wait for the peer"))?;
        }
    }

    /// Receives bytes `from` to `bytes` of a file into `writer`.
    pub(crate) fn receive(
        &self,
        control: &mut Control<'_>,
        (from, bytes): (u64, u64),
        writer: &mut FileWriter,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut arrived =
            ArrivedBlocks { from, bytes, contiguous: from, total: from, later: BTreeMap::new() };
        let mut blocks: Vec<IncomingBlock> = self.streams.iter().map(|_| IncomingBlock::default()).collect();
        let mut turns = Turns { moved: Instant::now() };
        while arrived.total < bytes {
            let mut has_progress = false;
            for (stream, block) in self.streams.iter().zip(&mut blocks) {
                for _ in 0..READS_PER_TURN {
                    match block.read(stream) {
                        Ok(0) => return Err(why_ended(control, ErrorKind::ConnectionReset.into())),
                        Ok(_) => has_progress = true,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(why_ended(control, error)),
                    }
                    if let Some((offset, length)) = block.header()? {
                        arrived.check(offset, length)?;
                        block.bytes = writer.buffer(length as usize);
                    }
                    if let Some((offset, data)) = block.take() {
                        arrived.insert(offset, data.len() as u64)?;
                        writer.write(offset, data)?;
                    }
                }
            }
            writer.complete_if_due(arrived.contiguous, u64::MAX)?;
            progress(arrived.total);
            if !turns.must_wait(control, has_progress, "data")? {
                continue;
            }
            let files: Vec<BorrowedFd<'_>> = self.streams.iter().map(AsFd::as_fd).collect();
            os::wait_any(&files, CHECK_INTERVAL).map_err(failed("wait for the peer"))?;
        }
        Ok(())
    }
}

/// The peer's reason for a connection that has ended, if it has sent one.
fn why_ended(control: &mut Control<'_>, error: std::io::Error) -> Error {
    match control.check() {
        Err(reason) => reason,
        Ok(()) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Error::Closed,
        Ok(()) => failed("use a data connection")(error),
    }
}

/// A block that is being sent.
#[derive(Default)]
struct OutgoingBlock {
    header: [u8; HEADER_BYTES],
    /// Number of bytes sent of the header.
    header_sent: usize,
    /// What is left of its part of the file.
    part: Range<u64>,
}

impl OutgoingBlock {
    fn new(part: Range<u64>) -> Self {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&part.start.to_be_bytes());
        header[8..].copy_from_slice(&((part.end - part.start) as u32).to_be_bytes());
        OutgoingBlock { header, header_sent: 0, part }
    }

    fn is_sent(&self) -> bool {
        self.part.is_empty()
    }

    /// Sends what the connection has space for; returns the number of bytes of the file, `None` if the file
    /// has become shorter.
    fn send(&mut self, stream: &TcpStream, file: &File) -> std::io::Result<Option<u64>> {
        if self.header_sent < HEADER_BYTES {
            let header = &self.header[self.header_sent..];
            self.header_sent +=
                SockRef::from(stream).send_with_flags(header, libc::MSG_MORE | libc::MSG_NOSIGNAL)?;
            return Ok(Some(0));
        }
        let count = send_file_part(file, stream, &self.part)? as u64;
        self.part.start += count;
        Ok((count > 0).then_some(count))
    }
}

/// A block that is being received.
#[derive(Default)]
struct IncomingBlock {
    header: [u8; HEADER_BYTES],
    bytes: AlignedBuffer,
    /// Number of bytes received, including the header.
    received: usize,
}

impl IncomingBlock {
    fn read(&mut self, mut stream: &TcpStream) -> std::io::Result<usize> {
        let space = match self.received.checked_sub(HEADER_BYTES) {
            None => &mut self.header[self.received..],
            Some(data) => &mut self.bytes[data..],
        };
        let count = stream.read(space)?;
        self.received += count;
        Ok(count)
    }

    /// Offset and length, when the header is complete and nothing else has arrived.
    fn header(&self) -> Result<Option<(u64, u32)>, Error> {
        if self.received != HEADER_BYTES || !self.bytes.is_empty() {
            return Ok(None);
        }
        let (offset, length) = self.header.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        let (offset, length) = (number(offset), number(length) as u32);
        if !(1..=MAX_BLOCK_BYTES).contains(&length) {
            return Err(Error::Protocol(format!("a block has {length} bytes")));
        }
        Ok(Some((offset, length)))
    }

    /// Takes a complete block.
    fn take(&mut self) -> Option<(u64, AlignedBuffer)> {
        if self.bytes.is_empty() || self.received < HEADER_BYTES + self.bytes.len() {
            return None;
        }
        self.received = 0;
        let offset = self.header[..8].iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        Some((offset, std::mem::take(&mut self.bytes)))
    }
}

/// The parts of a file that have arrived.
struct ArrivedBlocks {
    from: u64,
    bytes: u64,
    /// Every byte before this one has arrived.
    contiguous: u64,
    /// Number of bytes that have arrived, including those before `from`.
    total: u64,
    /// Lengths of the parts after `contiguous`, by offset. Adjacent parts are merged.
    later: BTreeMap<u64, u64>,
}

impl ArrivedBlocks {
    /// # Errors
    /// If the block is not within the file.
    fn check(&self, offset: u64, length: u32) -> Result<(), Error> {
        let end = offset.checked_add(u64::from(length));
        if offset < self.from || end.is_none_or(|end| end > self.bytes) {
            return Err(Error::Protocol(format!("a block at byte {offset} is not within the file")));
        }
        Ok(())
    }

    /// # Errors
    /// If a part of the block has already arrived, or there are too many gaps.
    fn insert(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        let before =
            self.later.range(..=offset).next_back().map_or(self.contiguous, |(at, length)| at + length);
        let after = self.later.range(offset..).next().map_or(u64::MAX, |(at, _)| *at);
        if before.max(self.contiguous) > offset || after < offset + length {
            return Err(Error::Protocol(format!("the block at byte {offset} arrived twice")));
        }
        let previous = self.later.range(..offset).next_back().map(|(at, length)| (*at, *length));
        let (mut start, mut end) = (offset, offset + length);
        if let Some((at, _)) = previous.filter(|(at, length)| at + length == offset) {
            start = at;
        }
        if let Some(next) = self.later.remove(&end) {
            end += next;
        }
        self.later.insert(start, end - start);
        self.total += length;
        while let Some(length) = self.later.remove(&self.contiguous) {
            self.contiguous += length;
        }
        if self.later.len() > MAX_PARTS {
            return Err(Error::Protocol(format!("its blocks leave more than {MAX_PARTS} gaps")));
        }
        Ok(())
    }
}

/// Decodes arbitrary bytes as block headers; for fuzzers.
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut arrived =
        ArrivedBlocks { from: 0, bytes: 1 << 20, contiguous: 0, total: 0, later: BTreeMap::new() };
    for header in bytes.chunks_exact(HEADER_BYTES) {
        let block = IncomingBlock {
            header: header.try_into().unwrap_or_default(),
            bytes: AlignedBuffer::default(),
            received: HEADER_BYTES,
        };
        let Ok(Some((offset, length))) = block.header() else { continue };
        if arrived.check(offset, length).is_ok() && arrived.insert(offset, u64::from(length)).is_ok() {
            assert!(arrived.contiguous <= arrived.total && arrived.total <= arrived.bytes);
        }
    }
}

#[cfg(test)]
mod tests;
