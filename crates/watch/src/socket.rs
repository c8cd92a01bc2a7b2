//! Reads a socket's state into a row of the record.
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use schema::FlowSample;
use socket2::{Domain, Socket, Type};

use crate::{
    Error, Memory, TcpInfo,
    error::Attempted,
    row::{fill_receiver, fill_sender},
    tcp_info::TCP_INFO_BYTES,
};

const MEMINFO_WORDS: usize = 9;
const SO_MEMINFO: i32 = 55;

/// Fills in the sender's metrics, and tells what they were made of. One call takes about 2 us.
pub fn read_sender(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<TcpInfo> {
    let info = tcp_info(socket)?;
    fill_sender(&info, meminfo(socket)?.as_ref(), row);
    Ok(info)
}

/// Fills in the receiver's metrics, and tells what they were made of.
pub fn read_receiver(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<TcpInfo> {
    let info = tcp_info(socket)?;
    fill_receiver(&info, meminfo(socket)?.as_ref(), unread(socket).ok(), row);
    Ok(info)
}

/// The kernel's own account of a TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; TCP_INFO_BYTES];
    let len = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(TcpInfo::from_bytes(&bytes[..len]))
}

/// Bytes of `struct tcp_info` in this kernel.
pub(crate) fn length_of_tcp_info() -> Result<u32, Error> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).attempted(|| "make a TCP socket".into())?;
    let mut bytes = [0u8; TCP_INFO_BYTES];
    let length = get_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes);
    length.map(|length| length as u32).attempted(|| "read TCP_INFO".into())
}

fn meminfo(socket: BorrowedFd<'_>) -> io::Result<Option<Memory>> {
    let mut words = [0u32; MEMINFO_WORDS];
    let len = get_option(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut words)?;
    Ok(Memory::from_words(&words[..len / mem::size_of::<u32>()]))
}

/// Reads an option into `value`; returns the bytes that the kernel filled.
fn get_option<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &mut T) -> io::Result<usize> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `T` is an array of plain integers of `len` bytes; the kernel writes at most `len` of them.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (value as *mut T).cast(), &raw mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}

/// Bytes received in order and not yet read (SIOCINQ, tcp(7)).
fn unread(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u32) }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn a_loopback_connection_shows_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(&[0; 10_000]).unwrap();
        let mut row = FlowSample::default();
        for _ in 0..1000 {
            read_sender(sender.as_fd(), &mut row).unwrap();
            read_receiver(receiver.as_fd(), &mut row).unwrap();
            if row.bytes_acked == Some(10_001) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // The SYN counts as a byte acknowledged.
        assert_eq!(row.bytes_acked, Some(10_001));
        assert_eq!(row.bytes_received, Some(10_000));
        assert_eq!(row.rcv_queue_bytes, Some(10_000));
        assert_eq!(row.state, Some(1));
        assert_eq!(row.snd_ssthresh_segs, None, "infinite before any loss");
        assert!(row.snd_cwnd_segs >= Some(10) && row.snd_mss_bytes > Some(1000));
        assert!(row.sndbuf_bytes > Some(0) && row.rcvbuf_bytes > Some(0));
    }

    #[test]
    fn a_socket_that_is_not_tcp_is_an_error() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(read_sender(udp.as_fd(), &mut FlowSample::default()).is_err());
    }
}
