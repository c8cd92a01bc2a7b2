//! The messages of a probe's control connection and packets, pure. The connection begins with a cookie as an
//! iperf3 client's, so that both use one port; all other messages are fixed binary words in network byte
//! order.
//!
//! ```text
//! client                                 server
//! cookie "longfat-probe-2-..." (37 B)
//!                                        'P': it is your turn
//! (UDP) hello                            (UDP) reply
//! (UDP) a train's packets
//! number u32, packets u32                                       the train was sent
//!                                        number u32, received u32, dropped u32, stamps u32, and for each that
//!                                        was received index u32, arrival i64 (ns by the clock of the stamps)
//! (UDP) a request                        (UDP) its reply, if the request asks for one
//! ```
//!
//! A packet has the header of `traffic::udp`; the upper half of its number is the train's number, the lower
//! half the packet's index in the train. Two bits of the train's number request a reply to each packet: one
//! of the packet's size, or one of the smallest size. The reply has the packet's header and the time from the
//! packet's arrival to the reply, ns, as u64.
//!
//! A reply is never larger than its request, and the server replies only on a socket that is connected to the
//! client's address, after a hello from it: the server cannot be used for amplification, and no client can
//! make it send to other hosts.

use probe::ReplySize;
use traffic::udp::{Header, NumberWidth};

/// The prefix of a probe's cookie, which includes the version of these messages.
pub const COOKIE_PREFIX: &str = "longfat-probe-2-";
/// The message with which the server starts the client's turn.
pub const TURN: u8 = b'P';
/// Bytes of the message that a train was sent.
pub const SENT_BYTES: usize = 8;
/// Bytes of a report before its arrivals.
pub const REPORT_BYTES: usize = 16;
/// Bytes of an arrival.
pub const ARRIVAL_BYTES: usize = 12;
/// Maximum packets of a train: some seconds of 10 Gb/s.
pub const MAX_TRAIN_PACKETS: u32 = 1 << 22;

/// Bytes of UDP payload of the smallest request and reply.
pub const REPLY_BYTES: usize = 24;
/// Maximum bytes of UDP payload of a request that gets a reply: a jumbo frame.
pub const MAX_REPLY_BYTES: usize = 9216;
/// Bits of a train's number in its packets that request replies: of the packet's size, and of the smallest
/// size.
const ASKS_FOR_REPLY: u32 = 1 << 31;
const ASKS_FOR_SMALLEST: u32 = 1 << 30;

/// The clock of a report's arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalStamps {
    /// The kernel's: ns since 1970 when the packet reached the kernel.
    Software,
    /// The network card's: when it arrived at the card, ns since an unknown time.
    Hardware,
}

/// A train was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainSent {
    /// Its number.
    pub train: u32,
    /// The number of its packets.
    pub packets: u32,
}

/// The server's report of a train, before the arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainReport {
    /// The train's number.
    pub train: u32,
    /// Number of arrivals that follow.
    pub received: u32,
    /// Packets that the server's socket has dropped since the last report because its buffer was full.
    pub dropped: u32,
    /// The clock of the arrivals.
    pub stamps: ArrivalStamps,
}

/// When a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its index in the train, from 0.
    pub index: u32,
    /// ns by the clock of the report's stamps.
    pub at_ns: i64,
}

impl TrainSent {
    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; SENT_BYTES] {
        join([self.train, self.packets])
    }

    /// Reads the message; `None` if the number of packets exceeds the limit.
    pub fn from_bytes(bytes: [u8; SENT_BYTES]) -> Option<TrainSent> {
        let [train, packets] = split(bytes);
        (packets <= MAX_TRAIN_PACKETS).then_some(TrainSent { train, packets })
    }
}

impl TrainReport {
    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; REPORT_BYTES] {
        join([self.train, self.received, self.dropped, self.stamps as u32])
    }

    /// Reads the message; `None` if the number of packets exceeds the limit, or the clock is unknown.
    pub fn from_bytes(bytes: [u8; REPORT_BYTES]) -> Option<TrainReport> {
        let [train, received, dropped, stamps] = split(bytes);
        let stamps = [ArrivalStamps::Software, ArrivalStamps::Hardware].get(stamps as usize).copied()?;
        (received <= MAX_TRAIN_PACKETS).then_some(TrainReport { train, received, dropped, stamps })
    }
}

impl Arrival {
    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; ARRIVAL_BYTES] {
        let [high, low] = [(self.at_ns >> 32) as u32, self.at_ns as u32];
        join([self.index, high, low])
    }

    /// Reads the message.
    pub fn from_bytes(bytes: [u8; ARRIVAL_BYTES]) -> Arrival {
        let [index, high, low] = split(bytes);
        Arrival { index, at_ns: i64::from(high as i32) << 32 | i64::from(low) }
    }
}

/// A packet's number on the wire.
pub fn packet_number(train: u32, index: u32) -> u64 {
    u64::from(train) << 32 | u64::from(index)
}

/// The train's number and the index of a packet's number, without the bits that request a reply.
pub fn train_and_index(number: u64) -> (u32, u32) {
    ((number >> 32) as u32 & !(ASKS_FOR_REPLY | ASKS_FOR_SMALLEST), number as u32)
}

/// The number of a train whose packets request replies.
pub fn asking_for_replies(train: u32, replies: ReplySize) -> u32 {
    match replies {
        ReplySize::Request => train | ASKS_FOR_REPLY,
        ReplySize::Smallest => train | ASKS_FOR_SMALLEST,
    }
}

/// Bytes of UDP payload of the reply to a packet with this number and payload; `None` if it gets none.
pub fn reply_bytes(number: u64, request_bytes: usize) -> Option<usize> {
    let train = (number >> 32) as u32;
    let bytes = match (train & ASKS_FOR_REPLY != 0, train & ASKS_FOR_SMALLEST != 0) {
        (true, _) => request_bytes,
        (_, true) => REPLY_BYTES,
        _ => return None,
    };
    (REPLY_BYTES..=MAX_REPLY_BYTES).contains(&request_bytes).then_some(bytes)
}

/// Writes the beginning of a reply to the packet with this header, `held_ns` after its arrival.
pub fn write_reply(reply: &mut [u8; REPLY_BYTES], header: Header, held_ns: u64) {
    header.write(NumberWidth::Bits64, reply);
    reply[REPLY_BYTES - 8..].copy_from_slice(&held_ns.to_be_bytes());
}

/// Reads a reply: the header of its request, and how long the server held it, ns; `None` if it is too short.
pub fn read_reply(bytes: &[u8]) -> Option<(Header, u64)> {
    let reply = bytes.first_chunk::<REPLY_BYTES>()?;
    let (header, held_ns) = reply.split_last_chunk::<8>()?;
    Some((Header::read(NumberWidth::Bits64, header)?, u64::from_be_bytes(*held_ns)))
}

fn join<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn split<const WORDS: usize, const BYTES: usize>(bytes: [u8; BYTES]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_be_bytes([from[0], from[1], from[2], from[3]]);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_have_the_documented_layout() {
        let report = TrainReport { train: 1, received: 2, dropped: 3, stamps: ArrivalStamps::Hardware };
        assert_eq!(report.to_bytes(), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1]);
        assert_eq!(TrainReport::from_bytes([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2]), None);
        let arrival = Arrival { index: 7, at_ns: -2 };
        assert_eq!(arrival.to_bytes(), [0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(TrainSent::from_bytes(join([5, MAX_TRAIN_PACKETS + 1])), None);
    }

    proptest! {
        #[test]
        fn messages_round_trip(train: u32, index: u32, at_ns: i64, packets in 0..=MAX_TRAIN_PACKETS, dropped: u32) {
            let sent = TrainSent { train, packets };
            prop_assert_eq!(TrainSent::from_bytes(sent.to_bytes()), Some(sent));
            let stamps = if dropped % 2 == 0 { ArrivalStamps::Software } else { ArrivalStamps::Hardware };
            let report = TrainReport { train, received: packets, dropped, stamps };
            prop_assert_eq!(TrainReport::from_bytes(report.to_bytes()), Some(report));
            let arrival = Arrival { index, at_ns };
            prop_assert_eq!(Arrival::from_bytes(arrival.to_bytes()), arrival);
            let train = train & !(ASKS_FOR_REPLY | ASKS_FOR_SMALLEST);
            prop_assert_eq!(train_and_index(packet_number(train, index)), (train, index));
            for replies in [ReplySize::Request, ReplySize::Smallest] {
                let number = packet_number(asking_for_replies(train, replies), index);
                prop_assert_eq!(train_and_index(number), (train, index));
            }
        }

        /// No reply is larger than its request, and packets that request no reply get none.
        #[test]
        fn no_reply_is_larger_than_its_request(number: u64, bytes in 0usize..70_000) {
            match reply_bytes(number, bytes) {
                Some(reply) => prop_assert!((REPLY_BYTES..=bytes).contains(&reply) && reply <= MAX_REPLY_BYTES),
                None => prop_assert!(number >> 62 == 0 || !(REPLY_BYTES..=MAX_REPLY_BYTES).contains(&bytes)),
            }
        }

        #[test]
        fn replies_round_trip(number: u64, micros in 0i64..4_000_000_000_000_000, held_ns: u64, rest in prop::collection::vec(any::<u8>(), 0..40)) {
            let header = Header { sent_ns: micros * 1000, number };
            let mut reply = [0; REPLY_BYTES];
            write_reply(&mut reply, header, held_ns);
            prop_assert_eq!(read_reply(&[&reply[..], &rest].concat()), Some((header, held_ns)));
            prop_assert_eq!(read_reply(&rest).is_some(), rest.len() >= REPLY_BYTES);
        }
    }
}
