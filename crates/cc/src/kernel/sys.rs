//! System calls without a safe wrapper in a library, each with its `SAFETY` comment.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, c_void},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// The type of a BPF file system (linux/magic.h).
const BPF_FS_MAGIC: libc::c_long = 0xcafe_4a11;

/// The kernel's statistics of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Instructions processed by the verifier.
    pub verified_insns: u32,
    /// Calls while statistics were enabled.
    pub run_cnt: u64,
    /// Total duration of these calls, ns.
    pub run_time_ns: u64,
}

/// Enables the kernel's statistics of BPF programs until the descriptor is closed.
///
/// # Errors
/// The kernel's error.
pub fn enable_stats() -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads the statistics of a program.
///
/// # Errors
/// The kernel's error.
pub fn program_counts(program: BorrowedFd<'_>) -> io::Result<ProgramCounts> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    // SAFETY: `info` is of the length given, zeroed, and outlives the call.
    let ret = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast::<c_void>(),
            &raw mut length,
        )
    };
    if ret < 0 {
        return Err(io::Error::from_raw_os_error(-ret));
    }
    Ok(ProgramCounts {
        verified_insns: info.verified_insns,
        run_cnt: info.run_cnt,
        run_time_ns: info.run_time_ns,
    })
}

/// Whether a directory is in a BPF file system.
pub fn is_bpf_fs(path: &Path) -> bool {
    let Ok(directory) = File::open(path) else { return false };
    // SAFETY: all-zero is a valid statfs, and fstatfs writes no more than one.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a statfs that outlive the call.
    let ret = unsafe { libc::fstatfs(directory.as_raw_fd(), &raw mut found) };
    ret == 0 && found.f_type == BPF_FS_MAGIC
}

/// Mounts a BPF file system that only its owner can access.
///
/// # Errors
/// The kernel's error.
pub fn mount_bpf_fs(at: &Path) -> io::Result<()> {
    let target = c_path(at)?;
    // SAFETY: NUL-terminated strings that outlive the call.
    let ret = unsafe {
        libc::mount(
            c"longfat".as_ptr(),
            target.as_ptr(),
            c"bpf".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            c"mode=0700".as_ptr().cast(),
        )
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmounts a file system.
///
/// # Errors
/// The kernel's error.
pub fn unmount(at: &Path) -> io::Result<()> {
    let target = c_path(at)?;
    // SAFETY: a NUL-terminated string that outlives the call.
    let ret = unsafe { libc::umount2(target.as_ptr(), libc::UMOUNT_NOFOLLOW) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

/// Brings up the loopback device of this thread's network namespace.
///
/// # Errors
/// The kernel's error.
pub fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: an open socket and an ifreq with a NUL-terminated name; both outlive the call.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
