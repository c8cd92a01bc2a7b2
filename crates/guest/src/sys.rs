//! The system calls that the standard library does not have, each as one small safe function.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    io, mem,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::Command,
};

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// True for root.
pub(crate) fn is_root() -> bool {
    // SAFETY: always succeeds, has no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// The command's process gets SIGKILL when the thread that starts it ends, however it ends.
pub(crate) fn kill_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only prctl(2) is called, which is safe after a fork.
    unsafe {
        command.pre_exec(|| check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)));
    }
}

/// Two directories change places in one step.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let (one, other) = (path_text(one)?, path_text(other)?);
    // SAFETY: both texts end with a zero byte and live during the call.
    check(unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
    })
}

/// Bytes that an ordinary user can write to the file system of `directory`.
pub(crate) fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = path_text(directory)?;
    // SAFETY: an all-zero statvfs is valid, and the text ends with a zero byte.
    let statistics = unsafe {
        let mut statistics: libc::statvfs = mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &mut statistics))?;
        statistics
    };
    Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}
