//! System calls that only this crate needs: ethtool commands (linux/ethtool.h), the size of a page, and the
//! cookie of the network namespace.
#![allow(unsafe_code)]

use std::{io, net::UdpSocket};

use os::DeviceControl;

/// SO_NETNS_COOKIE (asm-generic/socket.h), Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Runs an ethtool command on `device`. The first word of `words` is the command; the kernel writes its
/// structure over `words`, which must be large enough.
pub(crate) fn ethtool(control: &DeviceControl, device: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: callers provide buffers as large as the structures of linux/ethtool.h.
    unsafe { control.ethtool(device, words) }
}

/// The size of a page of memory, bytes.
pub(crate) fn page_bytes() -> io::Result<u64> {
    // SAFETY: takes and returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

/// The cookie of this thread's network namespace: unique since the machine started.
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    let mut cookie = 0u64;
    os::read_option(UdpSocket::bind("0.0.0.0:0")?, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie)
}
