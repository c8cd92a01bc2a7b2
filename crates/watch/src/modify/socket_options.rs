//! Reads and sets the options of a socket of another process.

use std::{io, os::fd::BorrowedFd};

use super::setting::{Buffer, Setting, SettingKey};

/// From include/uapi/asm-generic/socket.h; libc lacks it. Linux 5.14.
const SO_BUF_LOCK: i32 = 72;
const SNDBUF_LOCK: i32 = 1;
const RCVBUF_LOCK: i32 = 2;
/// No limit of the pacing rate (`sk_max_pacing_rate`, net/core/sock.c).
const UNLIMITED_RATE: u64 = u64::MAX;
/// TCP_CA_NAME_MAX, include/net/tcp.h.
const CC_NAME_BYTES: usize = 16;

/// Reads a setting; `None` for those that are not socket options.
pub(crate) fn read(socket: BorrowedFd<'_>, key: SettingKey) -> io::Result<Option<Setting>> {
    Ok(Some(match key {
        SettingKey::Cc => Setting::Cc(congestion_control(socket)?),
        SettingKey::Pacing => {
            let mut rate = 0u64;
            os::read_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
            Setting::Pacing(Some(rate).filter(|rate| *rate != UNLIMITED_RATE))
        }
        SettingKey::Sndbuf => {
            let bytes = integer(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
            Setting::Sndbuf(buffer(bytes, SNDBUF_LOCK, buffer_locks(socket)?))
        }
        SettingKey::Rcvbuf => {
            let bytes = integer(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
            let clamp = integer(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)?;
            let buffer = buffer(bytes, RCVBUF_LOCK, buffer_locks(socket)?);
            Setting::Rcvbuf(Buffer { window_clamp: u32::try_from(clamp).ok(), ..buffer })
        }
        SettingKey::CwndClamp => return Ok(None),
    }))
}

/// Sets a socket option. Settings that are not socket options are ignored.
pub(crate) fn set(socket: BorrowedFd<'_>, setting: &Setting) -> io::Result<()> {
    match setting {
        Setting::Cc(name) => {
            let mut bytes = [0u8; CC_NAME_BYTES];
            bytes.iter_mut().zip(name.bytes()).for_each(|(byte, letter)| *byte = letter);
            os::set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, bytes)
        }
        Setting::Pacing(rate) => {
            let rate = rate.unwrap_or(UNLIMITED_RATE);
            os::set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
        }
        Setting::Sndbuf(buffer) => {
            set_buffer(socket, *buffer, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SNDBUF_LOCK)
        }
        Setting::Rcvbuf(buffer) => {
            set_buffer(socket, *buffer, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], RCVBUF_LOCK)?;
            // The window limit does not follow a buffer of fixed size, so a larger buffer alone would change
            // nothing.
            match buffer.window_clamp.or(buffer.bytes.filter(|_| buffer.is_fixed)) {
                Some(clamp) if clamp > 0 => {
                    os::set_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp as i32)
                }
                _ => Ok(()),
            }
        }
        Setting::CwndClamp(_) => Ok(()),
    }
}

fn congestion_control(socket: BorrowedFd<'_>) -> io::Result<String> {
    let mut bytes = [0u8; CC_NAME_BYTES];
    os::read_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut bytes)?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into())
}

fn integer(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0;
    os::read_option(socket, level, name, &mut value)?;
    Ok(value)
}

/// Which buffers have a fixed size; `None` before Linux 5.14.
fn buffer_locks(socket: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    match integer(socket, libc::SOL_SOCKET, SO_BUF_LOCK) {
        Ok(locks) => Ok(Some(locks)),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// If the kernel does not report the locks, the size counts as fixed, because it cannot be unlocked.
fn buffer(bytes: i32, lock: i32, locks: Option<i32>) -> Buffer {
    Buffer {
        bytes: u32::try_from(bytes).ok(),
        is_fixed: locks.is_none_or(|locks| locks & lock != 0),
        window_clamp: None,
    }
}

/// Sets the size by the first option that this user may use (SO_*BUFFORCE needs CAP_NET_ADMIN and is not
/// limited by net.core.*mem_max), and the lock.
fn set_buffer(socket: BorrowedFd<'_>, buffer: Buffer, options: [i32; 2], lock: i32) -> io::Result<()> {
    if let Some(bytes) = buffer.bytes {
        let requested = (bytes / 2) as i32;
        let [force, limited] = options;
        os::set_option(socket, libc::SOL_SOCKET, force, requested)
            .or_else(|_| os::set_option(socket, libc::SOL_SOCKET, limited, requested))?;
    }
    let Some(locks) = buffer_locks(socket)? else {
        return match buffer.is_fixed {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel cannot make a fixed size automatic again (SO_BUF_LOCK, Linux 5.14)",
            )),
        };
    };
    let wanted = if buffer.is_fixed { locks | lock } else { locks & !lock };
    match wanted == locks {
        true => Ok(()),
        false => os::set_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, wanted),
    }
}
