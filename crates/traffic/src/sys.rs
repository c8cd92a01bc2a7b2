//! System calls of traffic that socket2 does not have: sending and discarding bytes without copying them,
//! timers, pacing, flow labels, timestamps.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read, Write},
    mem,
    net::{Ipv6Addr, TcpStream},
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd},
        unix::fs::FileExt,
    },
    time::Duration,
};

use socket2::Socket;

/// Bytes that one call of [`send_file_part`] copies at most.
const COPIED_BYTES: usize = 64 << 10;

/// Receives and discards up to `len` bytes without copying them (MSG_TRUNC, see tcp(7)); 0 at the end.
///
/// # Errors
/// The errors of recv(2).
pub fn discard(socket: &Socket, len: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket.
    os::check_len(unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, libc::MSG_TRUNC) })
}

/// Memory that is sent repeatedly without being copied, as a file server sends its page cache (sendfile(2)).
pub struct Pages(File);

impl Pages {
    /// `len` zeros.
    ///
    /// # Errors
    /// If the memory file cannot be created or filled.
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: the name is a zero-terminated string; the descriptor is new and has no other owner.
        let file = unsafe {
            File::from_raw_fd(os::check(libc::memfd_create(c"longfat".as_ptr(), libc::MFD_CLOEXEC))?)
        };
        // Written, not just extended: pages that were never written would be allocated again by each read.
        (&file).write_all(&vec![0; len])?;
        Ok(Pages(file))
    }

    /// A copy of `from`.
    ///
    /// # Errors
    /// If the memory file cannot be created or filled.
    pub fn of(from: &[u8]) -> io::Result<Self> {
        let pages = Pages::new(0)?;
        (&pages.0).write_all(from)?;
        Ok(pages)
    }

    /// Sends the first `len` bytes, or some of them.
    ///
    /// # Errors
    /// The errors of sendfile(2).
    pub fn send(&self, socket: &Socket, len: usize) -> io::Result<usize> {
        sendfile(&self.0, socket.as_fd(), Some(0), len)
    }
}

/// Sends the next `len` bytes of `file`, or some of them, without copying them (sendfile(2)); 0 at the end of
/// the file.
///
/// # Errors
/// The errors of sendfile(2).
pub fn send_file(file: &File, socket: &Socket, len: usize) -> io::Result<usize> {
    sendfile(file, socket.as_fd(), None, len)
}

/// Sends a part of `file`, or the beginning of the part, if possible without copying it (sendfile(2)); 0 at
/// the end of the file.
///
/// # Errors
/// The errors of sendfile(2), or of read(2) and send(2) for files that it does not support.
pub fn send_file_part(file: &File, mut socket: &TcpStream, part: &Range<u64>) -> io::Result<usize> {
    let len = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
    match sendfile(file, socket.as_fd(), Some(part.start), len) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
            let mut buffer = vec![0; len.min(COPIED_BYTES)];
            let count = file.read_at(&mut buffer, part.start)?;
            if count == 0 { Ok(0) } else { socket.write(&buffer[..count]) }
        }
        sent => sent,
    }
}

/// Without an offset the call uses and advances the file's position.
fn sendfile(file: &File, socket: BorrowedFd<'_>, offset: Option<u64>, len: usize) -> io::Result<usize> {
    let offset = offset.map(libc::off_t::try_from).transpose();
    let mut offset = offset.map_err(|_| io::ErrorKind::InvalidInput)?;
    let from = offset.as_mut().map_or(std::ptr::null_mut(), |offset| &raw mut *offset);
    // SAFETY: both descriptors are open, and `offset` lives across the call.
    os::check_len(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), from, len) })
}

/// Time for which this thread has waited for a processor (Documentation/scheduler/sched-stats.rst); `None` if
/// the kernel does not count it.
pub fn thread_wait() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// The argument of IPV6_FLOWLABEL_MGR (struct in6_flowlabel_req of linux/in6.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct FlowLabelRequest {
    to: [u8; 16],
    /// Big-endian.
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    _pad: u32,
}

/// Leases an IPv6 flow label for packets of `socket` to `to`, and enables sending the flow label given to
/// connect(2).
///
/// # Errors
/// If the kernel refuses the label.
pub fn lease_flow_label(socket: &Socket, to: Ipv6Addr, label: u32) -> io::Result<()> {
    /// IPV6_FL_A_GET, IPV6_FL_S_ANY and IPV6_FL_F_CREATE.
    const GET: (u8, u8, u16) = (0, 255, 1);
    let (action, share, flags) = GET;
    let label = label.to_be();
    let to = to.octets();
    let request = FlowLabelRequest { to, label, action, share, flags, expires: 0, linger: 0, _pad: 0 };
    os::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWLABEL_MGR, request)?;
    os::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1i32)
}

/// A timer descriptor that becomes readable at a time that any thread may set (timerfd_create(2)). Setting
/// the time does not wake the thread that polls the descriptor.
#[derive(Debug)]
pub struct Timer(File);

impl Timer {
    /// Disarmed.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the descriptor is new and has no other owner.
        unsafe {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            let raw = os::check(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?;
            Ok(Timer(File::from_raw_fd(raw)))
        }
    }

    /// Expires in `time`, instead of at the time set before.
    ///
    /// # Errors
    /// The errors of timerfd_settime(2).
    pub fn set(&self, time: Duration) -> io::Result<()> {
        // Zero would disarm the timer.
        let time = time.max(Duration::from_nanos(1));
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let first = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let set = libc::itimerspec { it_interval: once, it_value: first };
        // SAFETY: `set` lives across the call, and a null pointer skips the old setting.
        os::check(unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const set, std::ptr::null_mut())
        })
        .map(drop)
    }

    /// Clears the expiration: the descriptor becomes readable only when the timer expires again.
    pub fn clear(&self) {
        // An error means that the timer has not expired.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    /// The descriptor to poll.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Limits the socket's pacing to `bytes_per_second`.
///
/// # Errors
/// If the kernel refuses the option.
pub fn set_max_pacing_rate(socket: &Socket, bytes_per_second: u64) -> io::Result<()> {
    os::set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Enables timestamps of packets that `socket` sends, when the device takes them, and of packets that it
/// receives, when they arrive (Documentation/networking/timestamping.rst).
///
/// # Errors
/// If the kernel refuses an option.
pub fn enable_packet_stamps(socket: &Socket) -> io::Result<()> {
    enable_arrival_stamps(socket)?;
    let sent = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    os::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, sent)
}

/// Enables timestamps of packets that `socket` receives.
///
/// # Errors
/// If the kernel refuses the option.
pub fn enable_arrival_stamps(socket: &Socket) -> io::Result<()> {
    os::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)
}

/// Receives one datagram and the kernel's timestamp of its arrival, if it has one.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn receive_stamped(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    receive(socket, buffer, 0, libc::SCM_TIMESTAMPNS)
}

/// Reads a sent packet, with all its headers, and the kernel's timestamp of its departure from the error
/// queue; `WouldBlock` if there is none yet.
///
/// # Errors
/// The errors of recvmsg(2).
pub fn receive_departure_stamp(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    // The first of the three stamps in SCM_TIMESTAMPING is the software stamp.
    receive(socket, buffer, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, libc::SCM_TIMESTAMPING)
}

/// Returns the number of bytes and the timestamp of kind `which`.
fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    flags: i32,
    which: i32,
) -> io::Result<(usize, Option<Duration>)> {
    let mut control = [0u64; 32];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the header points at buffers that live across the call, with their true lengths.
    let got = os::check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })?;
    let mut stamp = None;
    // SAFETY: the kernel filled the message in, and a stamp of these kinds begins with a timespec.
    unsafe {
        each_control(&message, |level, kind, data| {
            if level == libc::SOL_SOCKET && kind == which {
                let at = data.cast::<libc::timespec>().read_unaligned();
                stamp = Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32));
            }
        });
    }
    Ok((got, stamp))
}

/// Calls `visit` with level, type and data of each control message (cmsg(3)); the data may be unaligned.
///
/// # Safety
///
/// The kernel has filled `message` in, and its control buffer still lives.
pub unsafe fn each_control(message: &libc::msghdr, mut visit: impl FnMut(i32, i32, *const u8)) {
    // SAFETY: the caller guarantees that the buffer holds whole headers of the given length; the macros stay
    // inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            visit((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header));
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Sets the receive buffer to `bytes`: with CAP_NET_ADMIN beyond net.core.rmem_max, otherwise up to it.
///
/// # Errors
/// If the kernel refuses the option.
pub fn widen_receive_buffer(socket: &Socket, bytes: i32) -> io::Result<()> {
    os::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| os::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}
