//! The system calls of the lab, each in one small safe function.
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    os::unix::fs::OpenOptionsExt,
    time::Duration,
};

use os::check;
use units::{Instant, Time};

/// `struct ifreq` as TUNSETIFF reads it: name, flags, padding (40 bytes on 64-bit machines).
#[repr(C)]
struct TapRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    padding: [u8; 22],
}

const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_TSO_ECN: libc::c_ulong = 0x08;
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Moves this process (which must have one thread only) into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: plain flag argument.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// Creates a TAP device in this thread's network namespace: Ethernet frames, each after a virtio-net
/// header of 10 bytes, with segmentation and checksum offloads. Reads do not block.
pub(crate) fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = TapRequest {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short,
        padding: [0; 22],
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which `TapRequest` mirrors in size and layout;
    // TUNSETOFFLOAD takes its argument by value.
    unsafe {
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request))?;
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads))?;
    }
    Ok(file)
}

/// Opens a packet socket on interface `index` of this thread's network namespace; frames have
/// a virtio-net header, as with [`open_tap`]. Requests `buffer` bytes of receive buffer.
pub(crate) fn open_packet(index: u32, buffer: i32) -> io::Result<File> {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain arguments; a new descriptor has no other owner.
    let socket = unsafe {
        let fd = check(libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            0,
        ))?;
        OwnedFd::from_raw_fd(fd)
    };
    os::set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    os::set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    if os::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer).is_err() {
        os::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)?;
    }
    // SAFETY: an all-zero sockaddr_ll is valid; the pointer and length describe it.
    unsafe {
        let mut address: libc::sockaddr_ll = mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = index as i32;
        check(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        ))?;
    }
    Ok(File::from(socket))
}

/// Packets that a packet socket dropped since the last call.
pub(crate) fn packet_drops(socket: &File) -> io::Result<u64> {
    // `struct tpacket_stats`: packets received and dropped.
    let mut stats = [0u32; 2];
    os::read_option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats)?;
    Ok(u64::from(stats[1]))
}

/// Gives this thread real-time priority `priority` (SCHED_FIFO, 1 to 99).
pub(crate) fn set_real_time(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread; the parameter lives across the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) }).map(drop)
}

/// Gives this thread, and threads that it starts, the highest ordinary priority (nice -20).
pub(crate) fn set_highest_nice() -> io::Result<()> {
    // SAFETY: takes three numbers; 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// Whether this process's main thread runs at real-time priority (as when started with `chrt`).
pub(crate) fn is_real_time() -> bool {
    // SAFETY: takes a number and returns one.
    let policy = unsafe { libc::sched_getscheduler(libc::getpid()) };
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

/// Requests huge pages for buffers that were allocated together: the frames in flight exceed the reach of the
/// processor's TLB. Without effect if the kernel refuses, or if the buffers are not contiguous.
pub(crate) fn advise_huge_pages(buffers: &[Vec<u8>]) {
    const PAGE: usize = 4096;
    let start = buffers.iter().map(|b| b.as_ptr() as usize).min().unwrap_or(0);
    let end = buffers.iter().map(|b| b.as_ptr() as usize + b.len()).max().unwrap_or(0);
    let total: usize = buffers.iter().map(Vec::len).sum();
    if end - start < total + total / 8 {
        // SAFETY: this advice never changes the contents of memory, so other allocations in the gaps are
        // safe.
        unsafe {
            libc::madvise((start / PAGE * PAGE) as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE)
        };
    }
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Instant {
    Instant::from_nanos(os::monotonic_ns())
}

/// Processor time of all threads of this process in user mode.
pub(crate) fn own_user_time() -> Time {
    // SAFETY: an all-zero rusage is valid to write to; RUSAGE_SELF always exists.
    let used = unsafe {
        let mut used: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut used);
        used.ru_utime
    };
    Time::from_nanos(used.tv_sec as u64 * 1_000_000_000 + used.tv_usec as u64 * 1000)
}

/// A set of descriptors for poll(2).
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Creates a set that polls `files` for input.
    pub(crate) fn new<'a>(files: impl Iterator<Item = &'a File>) -> Self {
        PollSet(files.map(|f| libc::pollfd { fd: f.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect())
    }

    /// Enables or disables polling of the `index`th descriptor.
    pub(crate) fn set_enabled(&mut self, index: usize, enabled: bool) {
        self.0[index].events = if enabled { libc::POLLIN } else { 0 };
        if !enabled {
            self.0[index].revents = 0;
        }
    }

    /// Removes the `index`th descriptor: poll(2) ignores negative ones, while one in error would always be
    /// ready.
    pub(crate) fn remove(&mut self, index: usize) {
        self.0[index] = libc::pollfd { fd: -1, events: 0, revents: 0 };
    }

    /// Waits for input on any descriptor for at most `timeout`; returns the remaining part of the timeout. A
    /// signal ends the wait too.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<Duration> {
        let mut timeout =
            libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // The system call, because the C library's function does not return the remaining time.
        // SAFETY: pointer and count describe the vector; the timeout lives across the call; no signal mask is
        // given.
        let done = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                self.0.as_mut_ptr(),
                self.0.len() as libc::nfds_t,
                &raw mut timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if let Err(e) = check(done as libc::c_int) {
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
            self.0.iter_mut().for_each(|p| p.revents = 0);
        }
        Ok(Duration::new(timeout.tv_sec.max(0) as u64, timeout.tv_nsec.max(0) as u32))
    }

    /// Whether the `index`th descriptor has input.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.0[index].revents != 0
    }
}
