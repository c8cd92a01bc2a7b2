//! The system calls that a standing lab needs beside [`crate::sys`]: mounts, process namespaces, and
//! descriptors passed over a socket. Each is one small safe function.
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
    sync::atomic::{AtomicI32, Ordering},
};

/// Most descriptors that one message carries here.
const MAX_FDS: usize = 4;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// A kind of namespace, as setns(2) and unshare(2) know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Mount,
    Pid,
    Net,
}

impl Kind {
    fn flag(self) -> libc::c_int {
        match self {
            Kind::User => libc::CLONE_NEWUSER,
            Kind::Mount => libc::CLONE_NEWNS,
            Kind::Pid => libc::CLONE_NEWPID,
            Kind::Net => libc::CLONE_NEWNET,
        }
    }
}

/// Moves this process into a namespace; for [`Kind::Pid`] its future children.
pub(crate) fn enter(namespace: BorrowedFd<'_>, kind: Kind) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind.flag()) }).map(drop)
}

/// Gives this process (of one thread) mounts of its own, which others do not see. Mounts that others make
/// still appear here.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: plain flags; null pointers mean "no source, no type, no data" to mount(2).
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let flags = libc::MS_REC | libc::MS_SLAVE;
        let none = std::ptr::null();
        check(libc::mount(none, c"/".as_ptr(), none, flags, none.cast())).map(drop)
    }
}

/// Does to this process what a lab that stays up does to its own: mounts of its own with a private /run, and a PID namespace.
/// Nobody else sees it. For a process that ends soon.
pub(crate) fn try_isolation() -> io::Result<()> {
    unshare_mounts()?;
    mount_tmpfs(Path::new("/run"))?;
    // SAFETY: plain flag argument; only future children are concerned.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) }).map(drop)
}

/// Mounts a new file system of memory.
pub(crate) fn mount_tmpfs(at: &Path) -> io::Result<()> {
    let at = path_text(at)?;
    // SAFETY: all pointers are strings that live across the call.
    check(unsafe {
        libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, c"mode=755".as_ptr().cast())
    })
    .map(drop)
}

/// Makes `from` appear at `to` as well, with everything mounted below it.
pub(crate) fn bind(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (path_text(from)?, path_text(to)?);
    let none = std::ptr::null();
    // SAFETY: both paths live across the call; type and data are not used for a bind mount.
    check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND | libc::MS_REC, none.cast()) })
        .map(drop)
}

/// Begins a process namespace: forks its first process, which does nothing but bury orphans, and ends when the
/// returned pipe closes. With it end all processes of the namespace. Only for a process of one thread.
pub(crate) fn begin_processes() -> io::Result<(u32, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is room for two descriptors. They are made ours alone at once.
    let (read, write) = unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: clone(2) without a stack and with SIGCHLD behaves as fork(2); this process has one thread, so the
    // child may run ordinary code.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWPID | libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(write);
            first_process(File::from(read))
        }
        pid => Ok((pid as u32, write)),
    }
}

/// The life of the first process of a process namespace.
fn first_process(mut until_closed: File) -> ! {
    // SAFETY: plain arguments. Ignoring SIGCHLD has the kernel bury children; the standard streams are not ours.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::prctl(libc::PR_SET_NAME, c"longfat-init".as_ptr());
        let kept = until_closed.as_raw_fd() as libc::c_uint;
        libc::close_range(0, kept - 1, 0);
        libc::close_range(kept + 1, libc::c_uint::MAX, 0);
    }
    let mut byte = [0];
    while !matches!(until_closed.read(&mut byte), Ok(0)) {}
    // SAFETY: ends this process at once; nothing of it needs to be dropped.
    unsafe { libc::_exit(0) }
}

/// Makes `command` run as `host`: it dies with us, and sees as far as the system allows the processes and the devices of
/// its own namespaces only, under the host's name.
pub(crate) fn dress(command: &mut Command, host: &str) {
    let name = host.as_bytes().to_vec();
    // SAFETY: between fork and exec only system calls are made, on memory that was prepared before.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            // What is refused here (in containers, to ordinary users) is only a nicety.
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

/// Gets signals for a child that is about to be started; a signal of before is lost to it.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// From here on signals that end programs are the child's: what the terminal sends (Ctrl-C, Ctrl-\) reaches it anyway,
/// what a process sends us (kill, timeout) is passed on. One that we were started to ignore stays ignored.
pub(crate) fn leave_signals_to(child: u32) {
    CHILD.store(child as i32, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: an all-zero sigaction is valid; the handler only makes a system call, on a number that was stored before.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                continue;
            }
            action = mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn pass_on(signal: libc::c_int, info: *const libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to handlers set with SA_SIGINFO; kill(2) may be called here.
    unsafe {
        // Codes of the kernel's own signals, a terminal's among them, are positive (sigaction(2)). That the terminal was
        // closed is told to the session's leader alone, which may be us.
        if (*info).si_code <= 0 || signal == libc::SIGHUP {
            libc::kill(CHILD.load(Ordering::Relaxed), signal);
        }
    }
}

/// While children have the terminal, Ctrl-C and Ctrl-\ are for them and not for us. Children that are started later by
/// [`Command`] get these keys all the same.
pub fn leave_keys_to_children() {
    // SAFETY: as in `leave_signals_to`. Handlers, unlike SIG_IGN, are not inherited through exec.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGQUIT, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// Begins a session of its own, without a terminal and without files that whoever started us had open: a lock or a pipe
/// of theirs must not be held for as long as a lab is up. Only before files of our own are open.
pub fn begin_session() {
    // SAFETY: plain arguments. setsid fails for the leader of a process group only, which then is in its own already.
    unsafe {
        libc::setsid();
        libc::close_range(3, libc::c_uint::MAX, 0);
    }
}

/// Lets go of the standard streams, so that whoever waits for their end does not wait for us.
pub fn leave_terminal() {
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
    for stream in 0..3 {
        // SAFETY: both are open descriptors or free numbers; what was there is closed.
        unsafe { libc::dup2(null.as_raw_fd(), stream) };
    }
}

/// The MTU of a device of the network namespace that `socket` was made in (netdevice(7), SIOCGIFMTU).
pub(crate) fn device_mtu(socket: BorrowedFd<'_>, device: &str) -> io::Result<u32> {
    // SAFETY: all of ifreq is plain numbers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request lives across the call; the kernel fills in ifru_mtu.
    let mtu = unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request))?;
        request.ifr_ifru.ifru_mtu
    };
    Ok(mtu as u32)
}

/// Sends one byte with descriptors.
pub(crate) fn send_fds(socket: &UnixStream, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = fds.iter().take(MAX_FDS).map(AsRawFd::as_raw_fd).collect();
    let mut byte = [1u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Of 8 bytes each, so that it is aligned as a cmsghdr must be.
    let mut control = [0u64; 8];
    let payload = (raw.len() * mem::size_of::<RawFd>()) as u32;
    // SAFETY: an all-zero msghdr is valid; CMSG_SPACE of four descriptors is 32 bytes, `control` has 64; the first header lies
    // inside it, and as many descriptors are copied as it has room for.
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

/// Receives what [`send_fds`] sent; empty where the other side closed instead.
pub(crate) fn receive_fds(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 8];
    let mut fds = Vec::new();
    // SAFETY: as in `send_fds`; descriptors that the kernel put there are ours, and each is taken once.
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
        let mut got = receive_fds(&b).unwrap();
        assert_eq!(got.len(), 2);
        let mut same = File::from(got.remove(0));
        same.rewind().unwrap();
        let mut text = String::new();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        drop((a, got));
        assert!(receive_fds(&b).unwrap().is_empty());
    }
}
