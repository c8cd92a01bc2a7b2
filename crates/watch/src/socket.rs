//! Reads a socket's state into a row of the record.
use std::{io, mem, os::fd::BorrowedFd};

use schema::FlowSample;
use socket2::{Domain, Socket, Type};

use crate::{
    Error, SocketMemory, TcpInfo,
    error::Attempted,
    row::{fill_receiver, fill_sender},
    tcp_info::TCP_INFO_BYTES,
};

const MEMINFO_WORDS: usize = 9;
/// From include/uapi/asm-generic/socket.h; libc lacks it.
const SO_MEMINFO: i32 = 55;

/// Reads a TCP socket and fills in the sender's metrics; returns the `tcp_info` that they come from. One call
/// takes about 2 us.
///
/// # Errors
/// If the socket is not TCP, or getsockopt(2) fails.
pub fn read_sender(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<TcpInfo> {
    let info = read_tcp_info(socket)?;
    fill_sender(&info, meminfo(socket)?.as_ref(), row);
    Ok(info)
}

/// Reads a TCP socket and fills in the receiver's metrics; returns the `tcp_info` that they come from.
///
/// # Errors
/// If the socket is not TCP, or getsockopt(2) fails.
pub fn read_receiver(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<TcpInfo> {
    let info = read_tcp_info(socket)?;
    fill_receiver(&info, meminfo(socket)?.as_ref(), unread(socket), row);
    Ok(info)
}

/// Reads `struct tcp_info` of a socket.
///
/// # Errors
/// If the socket is not TCP, or getsockopt(2) fails.
pub fn read_tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; TCP_INFO_BYTES];
    let len = os::read_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(TcpInfo::from_bytes(&bytes[..len]))
}

/// Size of this kernel's `struct tcp_info`, bytes.
pub(crate) fn tcp_info_length() -> Result<u32, Error> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).attempted(|| "create a TCP socket".into())?;
    let mut bytes = [0u8; TCP_INFO_BYTES];
    let length = os::read_option(&socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes);
    length.map(|length| length as u32).attempted(|| "read TCP_INFO".into())
}

fn meminfo(socket: BorrowedFd<'_>) -> io::Result<Option<SocketMemory>> {
    let mut words = [0u32; MEMINFO_WORDS];
    let len = os::read_option(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut words)?;
    Ok(SocketMemory::from_words(&words[..len / mem::size_of::<u32>()]))
}

/// Bytes received in order and not yet read.
fn unread(socket: BorrowedFd<'_>) -> Option<u32> {
    os::unread_bytes(socket).ok().and_then(|bytes| u32::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        os::fd::AsFd,
    };

    use super::*;

    #[test]
    fn both_ends_of_a_loopback_connection_count_its_bytes() {
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
