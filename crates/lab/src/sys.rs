//! The system calls of the lab, each in one small safe function.
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    os::unix::fs::OpenOptionsExt,
    time::Duration,
};

use units::Time;

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

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Effective user id 0.
pub(crate) fn is_root() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The effective user and group ids.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Moves this process (which must have one thread only) into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: plain flag argument.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// Moves this thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: plain flag argument; affects the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this thread into a network namespace.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Makes a TAP device in this thread's network namespace: Ethernet frames, each after a virtio-net
/// header of 10 bytes, with super-packets and unfinished checksums allowed. Reads do not block.
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

/// Opens a packet socket on interface `index` of this thread's network namespace; frames come and go
/// after a virtio-net header, as with [`open_tap`]. Asks for `buffer` bytes of receive buffer.
pub(crate) fn open_packet(index: u32, buffer: i32) -> io::Result<File> {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain arguments; a fresh descriptor is owned by nobody else.
    let socket = unsafe {
        let fd = check(libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            0,
        ))?;
        OwnedFd::from_raw_fd(fd)
    };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer).is_err() {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)?;
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

fn set_option(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives across the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Packets that a packet socket dropped since the last call.
pub(crate) fn packet_drops(socket: &File) -> io::Result<u64> {
    let mut stats = [0u32; 2];
    let mut len = mem::size_of_val(&stats) as libc::socklen_t;
    // SAFETY: `struct tpacket_stats` is two unsigned ints.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    })?;
    Ok(u64::from(stats[1]))
}

/// Gives this thread real-time priority `priority` (SCHED_FIFO, 1 to 99).
pub(crate) fn set_real_time(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread; the parameter lives across the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) }).map(drop)
}

/// Lets this thread, and those that it starts, go before ordinary programs (nice -20).
pub(crate) fn go_before_others() -> io::Result<()> {
    // SAFETY: takes three numbers; 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) }).map(drop)
}

/// Whether this process's first thread runs at real-time priority (`chrt` begins programs so).
pub(crate) fn is_real_time() -> bool {
    // SAFETY: takes a number and returns one.
    let policy = unsafe { libc::sched_getscheduler(libc::getpid()) };
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

/// The processors this thread may run on.
pub(crate) fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero set is empty and valid; size and pointer describe it.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        check(libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect())
    }
}

/// Restricts this thread to `cpus`.
pub(crate) fn set_allowed_cpus(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: as above; CPU_SET ignores nothing here, as the numbers came from the kernel.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        check(libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)).map(drop)
    }
}

/// Asks for large pages under buffers that were allocated together: frames in flight are more than the processor's
/// page tables hold at hand. Where it is refused, or where they do not lie side by side, nothing changes.
pub(crate) fn advise_huge_pages(buffers: &[Vec<u8>]) {
    const PAGE: usize = 4096;
    let start = buffers.iter().map(|b| b.as_ptr() as usize).min().unwrap_or(0);
    let end = buffers.iter().map(|b| b.as_ptr() as usize + b.len()).max().unwrap_or(0);
    let total: usize = buffers.iter().map(Vec::len).sum();
    if end - start < total + total / 8 {
        // SAFETY: this advice never changes what memory holds, whoever's it is in the gaps.
        unsafe {
            libc::madvise((start / PAGE * PAGE) as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE)
        };
    }
}

/// Has this thread's sleeps end within a microsecond of their time instead of fifty.
pub(crate) fn set_timer_slack() {
    // SAFETY: plain arguments. Where it fails sleeps are less exact, nothing else.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Time {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME: UTC, nanoseconds since 1970.
pub(crate) fn wall_clock() -> Time {
    read_clock(libc::CLOCK_REALTIME)
}

/// Processor time that this thread has used.
pub(crate) fn thread_time() -> Time {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time that all threads of this process have used in their own code, without the kernel's on their behalf.
pub(crate) fn own_user_time() -> Time {
    // SAFETY: an all-zero rusage is valid to write to; RUSAGE_SELF always exists.
    let used = unsafe {
        let mut used: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut used);
        used.ru_utime
    };
    Time(used.tv_sec as u64 * 1_000_000_000 + used.tv_usec as u64 * 1000)
}

fn read_clock(clock: libc::clockid_t) -> Time {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Waits for input on a descriptor for at most `timeout`; true where there is any.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one valid pollfd.
    check(unsafe { libc::poll(&raw mut poll, 1, timeout.as_millis() as libc::c_int) }).map(|ready| ready > 0)
}

/// Allows this process as many open files as may be; returns how many.
pub(crate) fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a valid rlimit that lives across the calls.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))?;
    }
    Ok(limit.rlim_cur)
}

/// Which of the polled descriptors are ready.
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Polls `files` for input.
    pub(crate) fn new<'a>(files: impl Iterator<Item = &'a File>) -> Self {
        PollSet(files.map(|f| libc::pollfd { fd: f.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect())
    }

    /// Whether input of the `index`th counts.
    pub(crate) fn heed(&mut self, index: usize, heed: bool) {
        self.0[index].events = if heed { libc::POLLIN } else { 0 };
        if !heed {
            self.0[index].revents = 0;
        }
    }

    /// Leaves the `index`th out from now on: poll(2) ignores negative descriptors, while one in error is always ready.
    pub(crate) fn forget(&mut self, index: usize) {
        self.0[index] = libc::pollfd { fd: -1, events: 0, revents: 0 };
    }

    /// Waits for input on any for at most `timeout`; returns how much of the timeout remained. A signal ends the wait as well.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<Duration> {
        let mut timeout =
            libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // The system call and not the library's function, which keeps the remaining time to itself.
        // SAFETY: pointer and count describe the vector; the timeout lives across the call; no signal mask is given.
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

    /// Whether the `index`th has input.
    pub(crate) fn ready(&self, index: usize) -> bool {
        self.0[index].revents != 0
    }
}
