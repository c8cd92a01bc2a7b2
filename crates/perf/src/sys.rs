//! The few socket calls that socket2 has not: sending and discarding bytes without copying them, pacing, time stamps.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read, Write},
    mem,
    net::Ipv6Addr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd},
    time::Duration,
};

use socket2::{SockAddr, Socket};

/// Receives and discards up to `len` bytes without copying them (MSG_TRUNC, see tcp(7)); 0 at the end.
pub(crate) fn discard(socket: &Socket, len: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing to the buffer of a TCP socket.
    let got = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, libc::MSG_TRUNC) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Memory that is sent again and again without being copied, as a file server sends its page cache (sendfile(2)).
pub(crate) struct Pages(File);

impl Pages {
    /// `len` zeros.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // SAFETY: the name is a string that ends in a zero; the descriptor is new and nobody else's.
        let file = unsafe {
            let raw = libc::memfd_create(c"longfat".as_ptr(), libc::MFD_CLOEXEC);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(raw)
        };
        // Written, not only made long: pages that were never written would be made anew by each read.
        (&file).write_all(&vec![0; len])?;
        Ok(Pages(file))
    }

    /// A copy of `from`.
    pub(crate) fn of(from: &[u8]) -> io::Result<Self> {
        let pages = Pages::new(0)?;
        (&pages.0).write_all(from)?;
        Ok(pages)
    }

    /// Sends the first `len` bytes, or some of them.
    pub(crate) fn send(&self, socket: &Socket, len: usize) -> io::Result<usize> {
        let mut from: libc::off_t = 0;
        // SAFETY: both descriptors are open, and `from` lives across the call.
        let sent = unsafe { libc::sendfile(socket.as_raw_fd(), self.0.as_raw_fd(), &raw mut from, len) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

/// Sends the next `len` bytes of `file`, or some of them, without copying them (sendfile(2)); 0 at its end.
pub(crate) fn send_file(file: &File, socket: &Socket, len: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open; without an offset the file's own position is used and moved.
    let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), len) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Waits until `socket` has something to read, or its end, but no longer than `wait`; false where it has not.
pub(crate) fn wait_readable(socket: &Socket, wait: Duration) -> io::Result<bool> {
    poll(&mut [libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }], wait)
}

/// Waits until one of `polls` has what it waits for; false where none had within `wait`.
fn poll(polls: &mut [libc::pollfd], wait: Duration) -> io::Result<bool> {
    let wait = libc::timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    // SAFETY: the entries live across the call and their number is true; no signal mask is given.
    let ready = unsafe {
        libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &raw const wait, std::ptr::null())
    };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Fills `bytes` with random ones (getrandom(2)).
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and the length describe `rest`.
        match unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) } {
            n if n > 0 => filled += n as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Processor time that this thread has used so far: in the program and in the kernel.
pub(crate) fn thread_time() -> (Duration, Duration) {
    // SAFETY: an all-zero rusage is a valid one to be written to; the call cannot fail with these arguments.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// How long this thread has waited for a processor (Documentation/scheduler/sched-stats.rst); `None` where the kernel does not
/// count it.
pub(crate) fn thread_wait() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Restricts this thread to one processor.
pub(crate) fn pin_thread(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is an empty one; `CPU_SET` ignores numbers beyond its size.
    let done = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether this thread may run on a processor.
pub(crate) fn may_run_on(cpu: usize) -> bool {
    // SAFETY: an all-zero set is an empty one to be written to; `CPU_ISSET` takes numbers within its size alone.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        let known = libc::sched_getaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw mut set) == 0;
        known && cpu < libc::CPU_SETSIZE as usize && libc::CPU_ISSET(cpu, &set)
    }
}

/// What IPV6_FLOWLABEL_MGR is asked (struct in6_flowlabel_req of linux/in6.h).
#[repr(C)]
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

/// Leases an IPv6 flow label for what `socket` sends to `to`, and has what it is told at connecting sent.
pub(crate) fn lease_flow_label(socket: &Socket, to: Ipv6Addr, label: u32) -> io::Result<()> {
    /// IPV6_FL_A_GET, IPV6_FL_S_ANY and IPV6_FL_F_CREATE.
    const GET: (u8, u8, u16) = (0, 255, 1);
    let (action, share, flags) = GET;
    let label = label.to_be();
    let to = to.octets();
    let request = FlowLabelRequest { to, label, action, share, flags, expires: 0, linger: 0, _pad: 0 };
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWLABEL_MGR, request)?;
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1i32)
}

/// Bytes that were received and not yet read.
pub(crate) fn unread(socket: &Socket) -> io::Result<usize> {
    queue(socket, libc::FIONREAD)
}

/// Bytes of a TCP socket that the peer has not acknowledged yet (SIOCOUTQ, tcp(7)).
pub(crate) fn unacknowledged(socket: &Socket) -> io::Result<usize> {
    queue(socket, libc::TIOCOUTQ)
}

fn queue(socket: &Socket, request: libc::Ioctl) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as usize) }
}

/// Which of `files` can be read (or have ended) within this time.
pub(crate) fn wait_any(files: &[BorrowedFd<'_>], wait: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = files
        .iter()
        .map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN | libc::POLLRDHUP, revents: 0 })
        .collect();
    match poll(&mut polls, wait) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

/// Becomes readable at a time that any thread may set (timerfd_create(2)): who waits for it sleeps on meanwhile.
#[derive(Debug)]
pub(crate) struct Timer(File);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the descriptor is new and nobody else's.
        unsafe {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            let raw = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            if raw < 0 { Err(io::Error::last_os_error()) } else { Ok(Timer(File::from_raw_fd(raw))) }
        }
    }

    /// In so much time, and not when it was set to before.
    pub(crate) fn set(&self, time: Duration) -> io::Result<()> {
        // Zero would be never.
        let time = time.max(Duration::from_nanos(1));
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let first = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let set = libc::itimerspec { it_interval: once, it_value: first };
        // SAFETY: `set` lives across the call, and the old setting is not asked for.
        let done =
            unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const set, std::ptr::null_mut()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// It is not readable any more, until the time that is set next.
    pub(crate) fn take(&self) {
        // Where it is not readable there is nothing to take.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets an integer socket option.
pub(crate) fn set_option<T>(socket: &Socket, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives across the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An integer socket option.
pub(crate) fn option(socket: &Socket, level: i32, name: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointers describe `value` and its length, which live across the call.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Limits the socket's pacing to `bytes_per_second`.
pub(crate) fn set_max_pacing_rate(socket: &Socket, bytes_per_second: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// The wall clock since the epoch, as the kernel stamps packets.
pub(crate) fn wall_clock() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Asks the kernel to stamp what `socket` sends as the device takes it, and what it receives as it comes in
/// (Documentation/networking/timestamping.rst).
pub(crate) fn stamp_packets(socket: &Socket) -> io::Result<()> {
    stamp_arrivals(socket)?;
    let sent = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, sent)
}

/// Asks the kernel to stamp what `socket` receives.
pub(crate) fn stamp_arrivals(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1i32)
}

/// Receives one datagram and the kernel's stamp of its arrival, if it gave one.
pub(crate) fn receive_stamped(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    receive(socket, buffer, 0, libc::SCM_TIMESTAMPNS)
}

/// The same, and who sent it. Does not block: `WouldBlock` where there is none.
pub(crate) fn receive_stamped_from(
    socket: &Socket,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<Duration>, SockAddr)> {
    let mut received = None;
    // SAFETY: the storage is as large as its length says, and the kernel tells how much of it it wrote.
    let ((), from) = unsafe {
        SockAddr::try_init(|storage, len| {
            let name = (storage.cast(), *len);
            let (bytes, stamp, named) =
                receive_named(socket, buffer, libc::MSG_DONTWAIT, libc::SCM_TIMESTAMPNS, name)?;
            (received, *len) = (Some((bytes, stamp)), named);
            Ok(())
        })?
    };
    let (bytes, stamp) = received.unwrap_or_default();
    Ok((bytes, stamp, from))
}

/// A packet that was sent, with all its headers, and the kernel's stamp of its departure; `WouldBlock` where there is none
/// (yet).
pub(crate) fn sent_stamped(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    // Of the three stamps in SCM_TIMESTAMPING the first is the software's.
    receive(socket, buffer, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, libc::SCM_TIMESTAMPING)
}

fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    flags: i32,
    which: i32,
) -> io::Result<(usize, Option<Duration>)> {
    // SAFETY: no name is asked for.
    let (bytes, stamp, _) =
        unsafe { receive_named(socket, buffer, flags, which, (std::ptr::null_mut(), 0))? };
    Ok((bytes, stamp))
}

/// Gives bytes, the stamp of kind `which`, and how long the sender's name is.
///
/// # Safety
///
/// `name` may be written to for as long as it says, or is null.
unsafe fn receive_named(
    socket: &Socket,
    buffer: &mut [u8],
    flags: i32,
    which: i32,
    name: (*mut libc::c_void, libc::socklen_t),
) -> io::Result<(usize, Option<Duration>, libc::socklen_t)> {
    let mut control = [0u64; 32];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero msghdr is a valid empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    (message.msg_name, message.msg_namelen) = name;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the header points at buffers that live across the call, with their true lengths.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
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
    Ok((got as usize, stamp, message.msg_namelen))
}

/// Tells level, kind and data of each word that the kernel wrote beside a message; the data may lie unaligned.
///
/// # Safety
///
/// The kernel has filled `message` in, and its control buffer still lives.
pub(crate) unsafe fn each_control(message: &libc::msghdr, mut tell: impl FnMut(i32, i32, *const u8)) {
    // SAFETY: by the caller's word the buffer holds whole headers of the length told; the macros stay inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            tell((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header));
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
