//! The system calls of the UDP engine: many datagrams a call, what the kernel tells beside them, exact sleeps.
#![allow(unsafe_code)]

use std::{io, mem, os::fd::AsRawFd};

use socket2::Socket;

use crate::sys::{each_control, set_option, wall_clock};

/// The most messages of one call.
pub(crate) const MOST_MESSAGES: usize = 64;
/// Room for the kernel's words beside a message: a segment size, a time stamp and a count, each with its header.
const CONTROL_WORDS: usize = 16;

/// An empty message.
fn empty() -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is a valid empty one.
    unsafe { mem::zeroed() }
}

/// Sends `pieces` of `buffer`, one message each; returns how many of them went.
pub(crate) fn send(
    socket: &Socket,
    buffer: &[u8],
    pieces: impl Iterator<Item = std::ops::Range<usize>>,
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_MESSAGES];
    let mut messages = [empty(); MOST_MESSAGES];
    let mut count = 0;
    for ((part, message), piece) in parts.iter_mut().zip(&mut messages).zip(pieces) {
        let bytes = &buffer[piece];
        *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: `count` messages are filled in; each points at a part that points into `buffer`, which is only read; all live
    // across the call.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as _, libc::MSG_NOSIGNAL as _)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Has everything longer than `bytes` cut into datagrams of `bytes` (udp(7), UDP_SEGMENT; 0 is off).
pub(crate) fn set_segment(socket: &Socket, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, i32::from(bytes))
}

/// Asks for datagrams of one size in one piece (udp(7), UDP_GRO).
pub(crate) fn coalesce(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1i32)
}

/// Asks for the kernel's time of arrival (CLOCK_REALTIME) and for how many packets the full socket dropped.
pub(crate) fn tell_arrivals(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1i32)
}

/// Asks for a receive buffer of `bytes`: past the machine's limit where we may, else up to it.
pub(crate) fn widen(socket: &Socket, bytes: i32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}

/// Buffers for the messages of one call.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    each: usize,
    controls: Vec<[u64; CONTROL_WORDS]>,
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
}

/// A message that came: one datagram, or several of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// As many of its first bytes as there was room for.
    pub(crate) bytes: &'a [u8],
    /// Its length.
    pub(crate) length: usize,
    /// The size of its datagrams but the last, where it has several.
    pub(crate) segment: Option<usize>,
    /// When it came, ns on CLOCK_REALTIME.
    pub(crate) stamp_ns: Option<i64>,
    /// Packets dropped at the full socket since it was made, modulo 2^32.
    pub(crate) dropped: Option<u32>,
}

impl Inbox {
    /// Room for `messages` with `each` bytes.
    pub(crate) fn new(messages: usize, each: usize) -> Self {
        let messages = messages.clamp(1, MOST_MESSAGES);
        Inbox {
            buffer: vec![0; messages * each],
            each,
            controls: vec![[0; CONTROL_WORDS]; messages],
            messages: vec![empty(); messages],
            parts: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; messages],
        }
    }

    /// How many messages a call takes at most.
    pub(crate) fn room(&self) -> usize {
        self.messages.len()
    }

    /// Takes the messages that are there; with `wait` it waits for the first, as long as the socket's timeout says.
    /// What does not fit is dropped, but its length told.
    pub(crate) fn receive(&mut self, socket: &Socket, wait: Wait) -> io::Result<usize> {
        let all = self.buffer.chunks_exact_mut(self.each).zip(&mut self.controls);
        for ((message, part), (bytes, control)) in self.messages.iter_mut().zip(&mut self.parts).zip(all) {
            *part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            *message = empty();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
        }
        let flags = match wait {
            Wait::ForOne => libc::MSG_TRUNC | libc::MSG_WAITFORONE,
            Wait::Never => libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        };
        // SAFETY: every message points at buffers of the lengths told, which live in `self` across the call; no timeout is
        // given.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as _,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }

    /// The message number `index` of the last call.
    pub(crate) fn message(&self, index: usize) -> Message<'_> {
        let header = &self.messages[index];
        let length = header.msg_len as usize;
        let start = index * self.each;
        let bytes = &self.buffer[start..start + length.min(self.each)];
        let mut message = Message { bytes, length, segment: None, stamp_ns: None, dropped: None };
        let told = |level: i32, kind: i32, data: *const u8| {
            // SAFETY: the kernel writes a timespec, an int or a u32 with these kinds; they may lie unaligned.
            unsafe {
                match (level, kind) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = data.cast::<libc::timespec>().read_unaligned();
                        message.stamp_ns = Some(at.tv_sec * 1_000_000_000 + at.tv_nsec);
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
        unsafe { each_control(&header.msg_hdr, told) };
        message
    }
}

/// Whether to wait for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For the first, but not for more.
    ForOne,
    /// Take what is there.
    Never,
}

/// Has this thread's sleeps end within a microsecond of their time instead of fifty.
pub(crate) fn sleep_exactly() {
    // SAFETY: plain arguments. Where it fails sleeps are less exact, nothing else.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Sleeps until CLOCK_MONOTONIC says `at_ns`, or until a signal.
pub(crate) fn sleep_until(at_ns: u64) {
    let at = libc::timespec { tv_sec: (at_ns / 1_000_000_000) as _, tv_nsec: (at_ns % 1_000_000_000) as _ };
    // SAFETY: the time lives across the call; the rest is not asked for.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    };
}

/// CLOCK_MONOTONIC, ns.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn realtime_ns() -> i64 {
    wall_clock().as_nanos() as i64
}
