//! Sends batches of datagrams: several messages per call, each with up to 64 datagrams that
//! the kernel or the device segments as late as possible (UDP_SEGMENT, Linux 4.18), if supported.

use std::io;

use socket2::Socket;

use super::{Header, NumberWidth, mmsg};

/// Maximum datagrams of one message (UDP_MAX_SEGMENTS of include/linux/udp.h before Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// Maximum payload of one message, bytes: the length field of an IPv6 packet, its header included
/// (net/ipv6/ip6_output.c).
const MAX_PAYLOAD: usize = 65_535 - 40 - 8;
/// Messages of several datagrams in one call: with more of them the first is no longer in the cache when its
/// header is rewritten.
const LONG_MESSAGES: usize = 4;

/// Buffer for the datagrams of one call.
#[derive(Debug)]
pub struct Batch {
    buffer: Vec<u8>,
    block: usize,
    numbers: NumberWidth,
    /// Datagrams of one message.
    segments: usize,
}

impl Batch {
    /// Creates a batch for datagrams of `block` bytes on `socket`, and enables segmentation there if it is
    /// supported.
    pub fn new(socket: &Socket, block: usize, numbers: NumberWidth) -> Self {
        let block = block.max(numbers.header_bytes());
        let segments = (MAX_PAYLOAD / block).clamp(1, MAX_SEGMENTS);
        let is_supported =
            segments > 1 && u16::try_from(block).is_ok_and(|block| mmsg::set_segment(socket, block).is_ok());
        let capacity = (segments * LONG_MESSAGES).max(1);
        Batch {
            buffer: filled(capacity * block),
            block,
            numbers,
            segments: if is_supported { segments } else { 1 },
        }
    }

    /// Maximum datagrams of one call.
    pub fn capacity(&self) -> usize {
        (self.buffer.len() / self.block).min(self.segments * mmsg::MAX_MESSAGES)
    }

    /// Sends `count` datagrams with the numbers from `first` (from 1) and the send time `now_ns`; the last
    /// has `last` bytes. Returns how many were sent, at least one.
    ///
    /// # Errors
    /// The errors of sendmmsg(2).
    pub fn send(
        &mut self,
        socket: &Socket,
        first: u64,
        count: usize,
        last: usize,
        now_ns: i64,
    ) -> io::Result<usize> {
        let (count, last) =
            if count > self.capacity() { (self.capacity(), self.block) } else { (count, last) };
        for (datagram, number) in self.buffer.chunks_exact_mut(self.block).zip(first..).take(count) {
            Header { sent_ns: now_ns, number }.write(self.numbers, datagram);
        }
        let end = (count - 1) * self.block + last.clamp(self.numbers.header_bytes(), self.block);
        loop {
            let step = self.segments * self.block;
            let pieces = (0..end).step_by(step).map(|start| start..(start + step).min(end));
            match mmsg::send(socket, &self.buffer, pieces) {
                // The last message may have fewer datagrams.
                Ok(messages) => return Ok((messages * self.segments).min(count)),
                Err(error) if self.segments > 1 && refuses_segments(&error) => {
                    self.segments = 1;
                    // Disables segmentation; if this fails too, it was never enabled.
                    let _ = mmsg::set_segment(socket, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The device cannot compute checksums (EIO), or the path's MTU is smaller than a datagram (EMSGSIZE, EINVAL
/// on older kernels).
fn refuses_segments(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

/// Incompressible bytes, the same in each run.
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
        let (sender, receiver) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (sender.into(), receiver)
    }

    /// Lengths and numbers of the next datagrams.
    fn receive(receiver: &UdpSocket, count: usize) -> Vec<(usize, u64)> {
        let mut buffer = [0; 65_536];
        let mut read = || {
            let length = receiver.recv(&mut buffer).unwrap();
            (length, Header::read(NumberWidth::Bits64, &buffer[..length]).unwrap().number)
        };
        (0..count).map(|_| read()).collect()
    }

    #[test]
    fn many_datagrams_are_sent_in_one_call_and_the_last_may_be_short() {
        let (sender, receiver) = pair();
        let mut batch = Batch::new(&sender, 1000, NumberWidth::Bits64);
        assert!(batch.capacity() >= 64, "{}", batch.capacity());
        assert_eq!(batch.send(&sender, 7, 50, 300, 0).unwrap(), 50);
        let expected: Vec<(usize, u64)> =
            (7..57).map(|number| (if number == 56 { 300 } else { 1000 }, number)).collect();
        assert_eq!(receive(&receiver, 50), expected);
        let sent = batch.send(&sender, 1, usize::MAX, 300, 0).unwrap();
        assert_eq!(sent, batch.capacity());
        assert_eq!(
            receive(&receiver, 1),
            [(1000, 1)],
            "the last datagram of a truncated batch has full length"
        );
    }

    #[test]
    fn the_longest_and_the_shortest_datagrams_can_be_sent() {
        let (sender, receiver) = pair();
        let mut batch = Batch::new(&sender, 65_507, NumberWidth::Bits64);
        assert_eq!(batch.send(&sender, 1, 1, 65_507, 0).unwrap(), 1);
        assert_eq!(receive(&receiver, 1), [(65_507, 1)]);
        let mut batch = Batch::new(&sender, 0, NumberWidth::Bits64);
        assert_eq!(batch.send(&sender, 2, 3, 0, 0).unwrap(), 3);
        assert_eq!(receive(&receiver, 3), [(16, 2), (16, 3), (16, 4)]);
    }

    #[test]
    fn without_segmentation_each_datagram_is_a_message() {
        let (sender, receiver) = pair();
        let mut batch = Batch::new(&sender, 1000, NumberWidth::Bits64);
        // Without checksums the kernel refuses segmentation (net/ipv4/udp.c, udp_send_skb).
        os::set_option(&sender, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1i32).unwrap();
        assert_eq!(batch.send(&sender, 1, 20, 1000, 0).unwrap(), 20);
        assert_eq!(batch.segments, 1);
        assert_eq!(receive(&receiver, 20), (1..21).map(|number| (1000, number)).collect::<Vec<_>>());
    }
}
