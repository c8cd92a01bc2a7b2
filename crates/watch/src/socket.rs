//! Reads a socket's state into a row of the record.
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd},
};

use schema::FlowSample;

use crate::{TcpInfo, tcp_info::TCP_INFO_BYTES};

/// SK_MEMINFO_* of include/uapi/linux/sock_diag.h.
const RMEM_ALLOC: usize = 0;
const RCVBUF: usize = 1;
const SNDBUF: usize = 3;
const WMEM_QUEUED: usize = 5;
const MEMINFO_WORDS: usize = 9;
const SO_MEMINFO: i32 = 55;
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Fills in the sender's metrics. One call takes about 2 us.
pub fn read_sender(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<()> {
    let info = tcp_info(socket)?;
    let memory = meminfo(socket)?;
    row.state = wide(info.state());
    row.ca_state = wide(info.ca_state());
    row.snd_cwnd_segs = wide(info.snd_cwnd());
    row.snd_ssthresh_segs = wide(info.snd_ssthresh().filter(|s| *s < INFINITE_SSTHRESH));
    row.snd_mss_bytes = wide(info.snd_mss());
    row.snd_wnd_bytes = wide(info.snd_wnd());
    row.unacked_segs = wide(info.unacked());
    row.sacked_segs = wide(info.sacked());
    row.lost_segs = wide(info.lost());
    row.retrans_segs = wide(info.retrans());
    row.total_retrans_segs = wide(info.total_retrans());
    row.bytes_acked = long(info.bytes_acked());
    row.bytes_sent = long(info.bytes_sent());
    row.bytes_retrans = long(info.bytes_retrans());
    row.segs_out = wide(info.segs_out());
    row.data_segs_out_segs = wide(info.data_segs_out());
    row.delivered_segs = wide(info.delivered());
    row.notsent_bytes = wide(info.notsent_bytes());
    row.srtt_us = wide(info.rtt_us().filter(|rtt| *rtt > 0));
    row.rttvar_us = wide(info.rttvar_us());
    row.min_rtt_us = wide(info.min_rtt_us().filter(|rtt| *rtt < u32::MAX));
    row.rto_us = wide(info.rto_us());
    row.pacing_rate_bps = bits(info.pacing_rate());
    row.delivery_rate_bps = bits(info.delivery_rate());
    row.delivery_rate_app_limited = info.delivery_rate_app_limited().map(i64::from);
    row.busy_time_us = long(info.busy_time_us());
    row.rwnd_limited_us = long(info.rwnd_limited_us());
    row.sndbuf_limited_us = long(info.sndbuf_limited_us());
    row.total_rto = wide(info.total_rto());
    row.sndbuf_bytes = wide(memory.get(SNDBUF).copied());
    row.wmem_queued_bytes = wide(memory.get(WMEM_QUEUED).copied());
    Ok(())
}

/// Fills in the receiver's metrics.
pub fn read_receiver(socket: BorrowedFd<'_>, row: &mut FlowSample) -> io::Result<()> {
    let info = tcp_info(socket)?;
    let memory = meminfo(socket)?;
    row.rcv_wnd_bytes = wide(info.rcv_wnd());
    row.rcv_space_bytes = wide(info.rcv_space());
    row.rcv_ssthresh_bytes = wide(info.rcv_ssthresh());
    row.rcv_rtt_us = wide(info.rcv_rtt_us().filter(|rtt| *rtt > 0));
    row.bytes_received = long(info.bytes_received());
    row.rcvbuf_bytes = wide(memory.get(RCVBUF).copied());
    row.rmem_alloc_bytes = wide(memory.get(RMEM_ALLOC).copied());
    row.rcv_queue_bytes = unread(socket).ok();
    Ok(())
}

fn wide<T: Into<i64>>(value: Option<T>) -> Option<i64> {
    value.map(Into::into)
}

fn long(value: Option<u64>) -> Option<i64> {
    value.and_then(|v| i64::try_from(v).ok())
}

/// Bytes a second as bits a second; `None` where the kernel says unlimited.
fn bits(value: Option<u64>) -> Option<i64> {
    long(value.and_then(|v| v.checked_mul(8)))
}

/// The kernel's own account of a TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; TCP_INFO_BYTES];
    let len = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(TcpInfo::from_bytes(&bytes[..len]))
}

fn meminfo(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut words = [0u32; MEMINFO_WORDS];
    let len = get_option(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut words)?;
    Ok(words[..len / mem::size_of::<u32>()].to_vec())
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
fn unread(socket: BorrowedFd<'_>) -> io::Result<i64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(i64::from(bytes)) }
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
