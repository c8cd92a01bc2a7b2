//! System calls that send and receive many datagrams each (sendmmsg(2), recvmmsg(2)), with their ancillary
//! data.
#![allow(unsafe_code)]

use std::{io, mem, net::SocketAddr, os::fd::AsRawFd};

use socket2::Socket;

use os::set_option;

use crate::{ancillary::address, sys::each_control};

/// Maximum messages of one call.
pub const MAX_MESSAGES: usize = 64;
/// Size of the buffer for control messages, in words of 8 bytes: a segment size, two kinds of timestamps and
/// a count, each with its header.
const CONTROL_WORDS: usize = 24;

/// An empty message.
fn empty() -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is a valid empty one.
    unsafe { mem::zeroed() }
}

/// Sends `pieces` of `buffer`, one message each and at most [`MAX_MESSAGES`]; returns how many of them were
/// sent.
///
/// # Errors
/// The errors of sendmmsg(2), if none was sent.
pub fn send(
    socket: &Socket,
    buffer: &[u8],
    pieces: impl Iterator<Item = std::ops::Range<usize>>,
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_MESSAGES];
    let mut messages = [empty(); MAX_MESSAGES];
    let mut count = 0;
    for ((part, message), piece) in parts.iter_mut().zip(&mut messages).zip(pieces) {
        let bytes = &buffer[piece];
        *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: `count` messages are filled in; each points at an iovec that points into `buffer`, which is
    // only read; all live across the call.
    os::check(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as _, libc::MSG_NOSIGNAL as _)
    })
    .map(|count| count as usize)
}

/// Segments longer messages into datagrams of `bytes` (udp(7), UDP_SEGMENT); 0 disables it.
pub fn set_segment(socket: &Socket, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, i32::from(bytes))
}

/// Enables coalescing of received datagrams of one size (udp(7), UDP_GRO).
pub fn coalesce(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1i32)
}

/// Enables the kernel's time of arrival (CLOCK_REALTIME), and the count of packets dropped because the
/// socket's buffer was full.
///
/// # Errors
/// If the kernel refuses an option.
pub fn enable_arrival_metadata(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1i32)
}

/// Enables the time of arrival by the network card, for packets that have one: the card must be set to stamp
/// all packets (Documentation/networking/timestamping.rst, SIOCSHWTSTAMP with HWTSTAMP_FILTER_ALL).
///
/// # Errors
/// If the kernel refuses the option.
pub fn enable_hardware_stamps(socket: &Socket) -> io::Result<()> {
    // Without SOF_TIMESTAMPING_SOFTWARE, packets without a stamp of the card have no control message.
    let flags = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Buffers for the messages of one call.
pub struct MessageBuffers {
    buffer: Vec<u8>,
    each: usize,
    controls: Vec<[u64; CONTROL_WORDS]>,
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    /// One address for each message, or none.
    sources: Vec<libc::sockaddr_storage>,
}

/// A received message: one datagram, or several of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedMessage<'a> {
    /// Its bytes, truncated to the buffer's size.
    pub bytes: &'a [u8],
    /// Its length.
    pub length: usize,
    /// If it has several datagrams, the size of each except the last.
    pub segment: Option<usize>,
    /// When it arrived, ns on CLOCK_REALTIME.
    pub stamp_ns: Option<i64>,
    /// When it arrived, ns on the clock of the network card, if the card stamps packets and
    /// [`enable_hardware_stamps`] was called.
    pub hardware_ns: Option<i64>,
    /// Packets dropped because the socket's buffer was full, since the socket was created, modulo 2^32.
    pub dropped: Option<u32>,
    /// Who sent it, for buffers [`MessageBuffers::with_sources`].
    pub source: Option<SocketAddr>,
}

impl MessageBuffers {
    /// Buffers for `messages` of `each` bytes.
    pub fn new(messages: usize, each: usize) -> Self {
        let messages = messages.clamp(1, MAX_MESSAGES);
        MessageBuffers {
            buffer: vec![0; messages * each],
            each,
            controls: vec![[0; CONTROL_WORDS]; messages],
            messages: vec![empty(); messages],
            parts: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; messages],
            sources: Vec::new(),
        }
    }

    /// The same buffers, which also receive the addresses of the senders: for sockets that are not connected.
    pub fn with_sources(mut self) -> Self {
        // SAFETY: an all-zero address is a valid empty one.
        self.sources = vec![unsafe { mem::zeroed() }; self.messages.len()];
        self
    }

    /// Maximum messages of one call.
    pub fn capacity(&self) -> usize {
        self.messages.len()
    }

    /// Receives the messages that have arrived; with [`WaitMode::ForFirst`] waits for the first, at most the
    /// socket's timeout. Bytes that do not fit are dropped; [`ReceivedMessage::length`] counts them.
    ///
    /// # Errors
    /// The errors of recvmmsg(2).
    pub fn receive(&mut self, socket: &Socket, wait: WaitMode) -> io::Result<usize> {
        let all = self.buffer.chunks_exact_mut(self.each).zip(&mut self.controls);
        for ((message, part), (bytes, control)) in self.messages.iter_mut().zip(&mut self.parts).zip(all) {
            *part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            *message = empty();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
        }
        for (message, source) in self.messages.iter_mut().zip(&mut self.sources) {
            message.msg_hdr.msg_name = (&raw mut *source).cast();
            message.msg_hdr.msg_namelen = mem::size_of_val(source) as _;
        }
        let flags = match wait {
            WaitMode::ForFirst => libc::MSG_TRUNC | libc::MSG_WAITFORONE,
            WaitMode::Never => libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        };
        // SAFETY: every message points at buffers of the given lengths, which live in `self` across the call;
        // no timeout is given.
        os::check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as _,
                flags as _,
                std::ptr::null_mut(),
            )
        })
        .map(|count| count as usize)
    }

    /// The message number `index` of the last call.
    pub fn message(&self, index: usize) -> ReceivedMessage<'_> {
        let header = &self.messages[index];
        let length = header.msg_len as usize;
        let start = index * self.each;
        let bytes = &self.buffer[start..start + length.min(self.each)];
        let mut message = ReceivedMessage {
            bytes,
            length,
            segment: None,
            stamp_ns: None,
            hardware_ns: None,
            dropped: None,
            source: self.sources.get(index).and_then(address),
        };
        let read = |level: i32, kind: i32, data: *const u8| {
            // SAFETY: the kernel writes timespecs (three with SCM_TIMESTAMPING), an int or a u32 with these
            // kinds; they may be unaligned.
            unsafe {
                match (level, kind) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = data.cast::<libc::timespec>().read_unaligned();
                        message.stamp_ns = Some(at.tv_sec * 1_000_000_000 + at.tv_nsec);
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                        // The first is the software timestamp, the second is unused, the third is the card's.
                        let [_, _, card] = data.cast::<[libc::timespec; 3]>().read_unaligned();
                        let ns = card.tv_sec.saturating_mul(1_000_000_000).saturating_add(card.tv_nsec);
                        message.hardware_ns = Some(ns).filter(|ns| *ns != 0);
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        message.dropped = Some(data.cast::<u32>().read_unaligned());
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let size = data.cast::<i32>().read_unaligned();
                        message.segment = usize::try_from(size).ok().filter(|size| *size > 0);
                    }
                    _ => {}
                }
            }
        };
        // SAFETY: the kernel filled the message in, and its control buffer lives in `self`.
        unsafe { each_control(&header.msg_hdr, read) };
        message
    }
}

/// Whether to wait for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Wait for the first message only.
    ForFirst,
    /// Return immediately.
    Never,
}
