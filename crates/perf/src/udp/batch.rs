//! Datagrams that are written and sent together: several messages a call, and in each, where the kernel and the device can, up
//! to 64 datagrams that are cut apart as late as possible (UDP_SEGMENT, Linux 4.18).

use std::io;

use socket2::Socket;

use super::{Header, Numbers, sys};

/// Datagrams of one message at most (UDP_MAX_SEGMENTS of include/linux/udp.h before Linux 6.9).
const MOST_SEGMENTS: usize = 64;
/// Payload of one message at most: what fits the length of an IPv6 packet whose header counts (net/ipv6/ip6_output.c).
const MOST_PAYLOAD: usize = 65_535 - 40 - 8;
/// Messages of several datagrams in one call: with more of them the first would be cold in the cache when it is stamped anew.
const LONG_MESSAGES: usize = 4;

/// Room for the datagrams of one call.
#[derive(Debug)]
pub(crate) struct Batch {
    buffer: Vec<u8>,
    block: usize,
    numbers: Numbers,
    /// Datagrams of one message.
    segments: usize,
}

impl Batch {
    /// Datagrams of `block` bytes on `socket`, which is told to cut them if it can.
    pub(crate) fn new(socket: &Socket, block: usize, numbers: Numbers) -> Self {
        let block = block.max(numbers.header_bytes());
        let most = (MOST_PAYLOAD / block).clamp(1, MOST_SEGMENTS);
        let cuts =
            most > 1 && u16::try_from(block).is_ok_and(|block| sys::set_segment(socket, block).is_ok());
        let room = (most * LONG_MESSAGES).max(1);
        Batch { buffer: filled(room * block), block, numbers, segments: if cuts { most } else { 1 } }
    }

    /// Datagrams of one call at most.
    pub(crate) fn room(&self) -> usize {
        (self.buffer.len() / self.block).min(self.segments * sys::MOST_MESSAGES)
    }

    /// Sends `count` datagrams that begin with number `first` (from 1) and were sent at `now_ns`; the last has `last` bytes.
    /// Returns how many went, at least one.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        first: u64,
        count: usize,
        last: usize,
        now_ns: i64,
    ) -> io::Result<usize> {
        let (count, last) = if count > self.room() { (self.room(), self.block) } else { (count, last) };
        for (datagram, number) in self.buffer.chunks_exact_mut(self.block).zip(first..).take(count) {
            Header { sent_ns: now_ns, number }.write(self.numbers, datagram);
        }
        let end = (count - 1) * self.block + last.clamp(self.numbers.header_bytes(), self.block);
        loop {
            let step = self.segments * self.block;
            let pieces = (0..end).step_by(step).map(|start| start..(start + step).min(end));
            match sys::send(socket, &self.buffer, pieces) {
                // The last message may hold fewer.
                Ok(messages) => return Ok((messages * self.segments).min(count)),
                Err(error) if self.segments > 1 && refuses_segments(&error) => {
                    self.segments = 1;
                    // Off: where this fails too it was never on.
                    let _ = sys::set_segment(socket, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The device cannot do checksums (EIO), the path's MTU is smaller than a datagram (EMSGSIZE, EINVAL on older kernels).
fn refuses_segments(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

/// Bytes that no device compresses, the same each time.
fn filled(length: usize) -> Vec<u8> {
    let mut draws = datagrams::Draws::new(0, 0);
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| draws.bits().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, time::Duration};

    use super::*;

    fn pair() -> (Socket, UdpSocket) {
        let (here, there) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        there.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (here.into(), there)
    }

    /// Lengths and numbers of what comes.
    fn come(there: &UdpSocket, count: usize) -> Vec<(usize, u64)> {
        let mut buffer = [0; 65_536];
        let mut read = || {
            let length = there.recv(&mut buffer).unwrap();
            (length, Header::read(Numbers::Bits64, &buffer[..length]).unwrap().number)
        };
        (0..count).map(|_| read()).collect()
    }

    #[test]
    fn many_datagrams_go_in_one_call_and_the_last_may_be_short() {
        let (here, there) = pair();
        let mut batch = Batch::new(&here, 1000, Numbers::Bits64);
        assert!(batch.room() >= 64, "{}", batch.room());
        assert_eq!(batch.send(&here, 7, 50, 300, 0).unwrap(), 50);
        let expected: Vec<(usize, u64)> =
            (7..57).map(|number| (if number == 56 { 300 } else { 1000 }, number)).collect();
        assert_eq!(come(&there, 50), expected);
        let went = batch.send(&here, 1, usize::MAX, 300, 0).unwrap();
        assert_eq!(went, batch.room());
        assert_eq!(come(&there, 1), [(1000, 1)], "what is cut off is no short one");
    }

    #[test]
    fn the_longest_and_the_shortest() {
        let (here, there) = pair();
        let mut batch = Batch::new(&here, 65_507, Numbers::Bits64);
        assert_eq!(batch.send(&here, 1, 1, 65_507, 0).unwrap(), 1);
        assert_eq!(come(&there, 1), [(65_507, 1)]);
        let mut batch = Batch::new(&here, 0, Numbers::Bits64);
        assert_eq!(batch.send(&here, 2, 3, 0, 0).unwrap(), 3);
        assert_eq!(come(&there, 3), [(16, 2), (16, 3), (16, 4)]);
    }

    #[test]
    fn where_the_kernel_does_not_cut_datagrams_go_one_by_one() {
        let (here, there) = pair();
        let mut batch = Batch::new(&here, 1000, Numbers::Bits64);
        // Without checksums nothing is cut (net/ipv4/udp.c, udp_send_skb).
        crate::sys::set_option(&here, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1i32).unwrap();
        assert_eq!(batch.send(&here, 1, 20, 1000, 0).unwrap(), 20);
        assert_eq!(batch.segments, 1);
        assert_eq!(come(&there, 20), (1..21).map(|number| (1000, number)).collect::<Vec<_>>());
    }
}
