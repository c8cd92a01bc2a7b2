//! The system calls that a standing lab needs in addition to [`crate::sys`], each behind a small safe
//! function: mounts, PID namespaces, signals, and descriptors passed over a socket.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read},
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::{ffi::OsStrExt, net::UnixStream, process::CommandExt},
    path::Path,
    process::Command,
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use os::check;

/// Maximum number of descriptors in one message.
const MAX_FDS: usize = 4;

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// A kind of namespace (setns(2), unshare(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceKind {
    User,
    Mount,
    Pid,
    Net,
}

impl NamespaceKind {
    fn flag(self) -> libc::c_int {
        match self {
            NamespaceKind::User => libc::CLONE_NEWUSER,
            NamespaceKind::Mount => libc::CLONE_NEWNS,
            NamespaceKind::Pid => libc::CLONE_NEWPID,
            NamespaceKind::Net => libc::CLONE_NEWNET,
        }
    }
}

/// Moves this process into a namespace; for [`NamespaceKind::Pid`] its future children.
pub(crate) fn enter(namespace: BorrowedFd<'_>, kind: NamespaceKind) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind.flag()) }).map(drop)
}

/// Moves this single-threaded process into a new mount namespace: other processes do not see its mounts, but
/// new mounts of others appear in it (MS_SLAVE).
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: plain flags; null pointers mean "no source, no type, no data" to mount(2).
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let flags = libc::MS_REC | libc::MS_SLAVE;
        let none = std::ptr::null();
        check(libc::mount(none, c"/".as_ptr(), none, flags, none.cast())).map(drop)
    }
}

/// Isolates this process as the keeper of a standing lab does: in a mount namespace with a private /run, and
/// a PID namespace for its children. This cannot be undone, so only a process that ends after this check may
/// call it.
pub(crate) fn try_isolation() -> io::Result<()> {
    unshare_mounts()?;
    mount_tmpfs(Path::new("/run"))?;
    // SAFETY: plain flag argument; only future children are concerned.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) }).map(drop)
}

/// Mounts a tmpfs.
pub(crate) fn mount_tmpfs(at: &Path) -> io::Result<()> {
    let at = path_text(at)?;
    // SAFETY: all pointers are strings that live across the call.
    check(unsafe {
        libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, c"mode=755".as_ptr().cast())
    })
    .map(drop)
}

/// Bind-mounts `from` at `to`, with all mounts below it.
pub(crate) fn bind(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (path_text(from)?, path_text(to)?);
    let none = std::ptr::null();
    // SAFETY: both paths live across the call; type and data are not used for a bind mount.
    check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND | libc::MS_REC, none.cast()) })
        .map(drop)
}

/// Creates a PID namespace by forking its init process; returns that process's id, and a pipe. The init
/// process only reaps orphans, and exits when the pipe is closed; then the kernel kills all processes of the
/// namespace. The caller must be single-threaded.
pub(crate) fn create_pid_namespace() -> io::Result<(u32, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has space for two descriptors, whose only owners are the two OwnedFds.
    let (read, write) = unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: clone(2) without a stack and with SIGCHLD behaves as fork(2); this process is single-threaded,
    // so the child may run ordinary code.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWPID | libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(write);
            run_init(File::from(read))
        }
        pid => Ok((pid as u32, write)),
    }
}

/// The init process of a PID namespace: exits when the pipe is closed.
fn run_init(mut pipe: File) -> ! {
    // SAFETY: plain arguments. Ignoring SIGCHLD makes the kernel reap children; no other code of this process
    // uses the closed descriptors.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_NAME, c"longfat-init".as_ptr());
        let pipe_fd = pipe.as_raw_fd() as libc::c_uint;
        libc::close_range(0, pipe_fd - 1, 0);
        libc::close_range(pipe_fd + 1, libc::c_uint::MAX, 0);
    }
    let mut byte = [0];
    while !matches!(pipe.read(&mut byte), Ok(0)) {}
    // SAFETY: ends this process immediately; nothing needs to be dropped.
    unsafe { libc::_exit(0) }
}

/// Prepares `command` to run on `host`: the kernel kills it when this process dies. Where the kernel permits,
/// it gets the host's name, and /proc and /sys show only the processes and devices of its namespaces.
pub(crate) fn prepare_command(command: &mut Command, host: &str) {
    let name = host.as_bytes().to_vec();
    // SAFETY: between fork and exec only system calls are made, on memory that was prepared before.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            // These may fail (in containers, for ordinary users); programs run without them.
            if libc::unshare(libc::CLONE_NEWUTS) == 0 {
                libc::sethostname(name.as_ptr().cast(), name.len());
            }
            if libc::unshare(libc::CLONE_NEWNS) == 0 {
                let none = std::ptr::null();
                libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, none.cast());
                for (kind, at) in [(c"proc", c"/proc"), (c"sysfs", c"/sys")] {
                    libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, none.cast());
                }
            }
            Ok(())
        });
    }
}

/// Process id of the child that gets forwarded signals.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// From now on, signals that end programs end this process's child instead of this process. The child gets
/// those of the terminal (Ctrl-C, Ctrl-\) directly; those sent by a process (kill, timeout) are forwarded to
/// it. Signals that were ignored at the start stay ignored.
pub(crate) fn forward_signals_to(child: u32) {
    CHILD.store(child as i32, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: an all-zero sigaction is valid; the handler only makes a system call, with a number that
        // was stored before.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                continue;
            }
            action = mem::zeroed();
            action.sa_sigaction = forward_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn forward_signal(signal: libc::c_int, info: *const libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to handlers set with SA_SIGINFO; kill(2) may be called here.
    unsafe {
        // Codes of signals from the kernel, including those of a terminal, are positive (sigaction(2)). When
        // the terminal closes, only the session leader, which may be this process, gets SIGHUP.
        if (*info).si_code <= 0 || signal == libc::SIGHUP {
            libc::kill(CHILD.load(Ordering::Relaxed), signal);
        }
    }
}

/// Makes this process ignore Ctrl-C and Ctrl-\, which are for the child in the terminal's foreground.
/// Children that [`Command`] starts later do receive them.
pub fn ignore_terminal_signals() {
    // SAFETY: as in `forward_signals_to`. Handlers, unlike SIG_IGN, are not inherited through exec.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = ignore_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGQUIT, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn ignore_signal(_signal: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// Number of signals that [`ignore_terminal_signals`] has ignored.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Number of times that Ctrl-C or Ctrl-\ reached this process since [`ignore_terminal_signals`]: a command of
/// several programs ends when the number changes.
pub fn terminal_interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Starts a new session without a terminal, and closes files inherited from the parent process: a standing
/// lab must not hold the parent's locks and pipes. Must be called before this process opens files.
pub fn start_session() {
    // SAFETY: plain arguments. setsid fails only for the leader of a process group, which is not in its
    // parent's group anyway.
    unsafe {
        libc::setsid();
        libc::close_range(3, libc::c_uint::MAX, 0);
    }
}

/// Redirects the standard streams to /dev/null: a process that reads them until end of file must not wait for
/// this one.
pub fn detach_standard_streams() {
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
    for stream in 0..3 {
        // SAFETY: `null` is open; dup2 closes `stream` first if it is open.
        unsafe { libc::dup2(null.as_raw_fd(), stream) };
    }
}

/// Sends one byte with descriptors (SCM_RIGHTS, unix(7)).
pub(crate) fn send_fds(socket: &UnixStream, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = fds.iter().take(MAX_FDS).map(AsRawFd::as_raw_fd).collect();
    let mut byte = [1u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // u64, so that it has the alignment of a cmsghdr.
    let mut control = [0u64; 8];
    let payload = (raw.len() * mem::size_of::<RawFd>()) as u32;
    // SAFETY: an all-zero msghdr is valid; CMSG_SPACE of four descriptors is 32 bytes, `control` has 64; the
    // first header is inside it, and at most four descriptors are copied.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(payload) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
        std::ptr::copy_nonoverlapping(raw.as_ptr(), libc::CMSG_DATA(header).cast(), raw.len());
        match libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Receives the descriptors of [`send_fds`]; empty if the peer closed the socket instead.
pub(crate) fn receive_fds(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 8];
    let mut fds = Vec::new();
    // SAFETY: as in `send_fds`; this process owns the received descriptors, and each is taken once.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data: *const RawFd = libc::CMSG_DATA(header).cast();
            for i in 0..bytes / mem::size_of::<RawFd>() {
                fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
            }
        }
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Seek, Write},
        os::fd::AsFd,
    };

    use super::*;

    #[test]
    fn descriptors_cross_a_socket() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        send_fds(&a, &[file.as_fd(), a.as_fd()]).unwrap();
        let mut received = receive_fds(&b).unwrap();
        assert_eq!(received.len(), 2);
        let mut same = File::from(received.remove(0));
        same.rewind().unwrap();
        let mut text = String::new();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        drop((a, received));
        assert!(receive_fds(&b).unwrap().is_empty());
    }
}
