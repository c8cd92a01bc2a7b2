//! The messages of a probe's control connection, pure. The connection begins with a cookie as an iperf3
//! client's, so that both use one port; all other messages are fixed binary words in network byte order.
//!
//! ```text
//! client                                 server
//! cookie "longfat-probe-1-..." (37 B)
//!                                        'P': it is your turn
//! (UDP) hello                            (UDP) reply
//! (UDP) a train's packets
//! number u32, packets u32                                       the train was sent
//!                                        number u32, received u32, dropped u32, and for each that was received
//!                                        index u32, arrival i64 (ns since 1970 by the server's clock)
//! ```
//!
//! A packet has the header of `traffic::udp`; the upper half of its number is the train's number, the lower
//! half the packet's index in the train.

/// The prefix of a probe's cookie, which includes the version of these messages.
pub const COOKIE_PREFIX: &str = "longfat-probe-1-";
/// The server's message that it is the client's turn.
pub const TURN: u8 = b'P';
/// Bytes of the message that a train was sent.
pub const SENT_BYTES: usize = 8;
/// Bytes of a report before its arrivals.
pub const REPORT_BYTES: usize = 12;
/// Bytes of an arrival.
pub const ARRIVAL_BYTES: usize = 12;
/// Maximum packets of a train: some seconds of 10 Gb/s.
pub const MAX_TRAIN_PACKETS: u32 = 1 << 22;

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
    /// How many arrivals follow.
    pub received: u32,
    /// Packets that the server's socket has dropped since the last report because its buffer was full.
    pub dropped: u32,
}

/// When a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its index in the train, from 0.
    pub index: u32,
    /// ns since 1970 by the server's clock.
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
        join([self.train, self.received, self.dropped])
    }

    /// Reads the message; `None` if the number of packets exceeds the limit.
    pub fn from_bytes(bytes: [u8; REPORT_BYTES]) -> Option<TrainReport> {
        let [train, received, dropped] = split(bytes);
        (received <= MAX_TRAIN_PACKETS).then_some(TrainReport { train, received, dropped })
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

/// The train's number and the index of a packet's number.
pub fn train_and_index(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
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
    fn the_layout_is_the_documented_one() {
        let report = TrainReport { train: 1, received: 2, dropped: 3 };
        assert_eq!(report.to_bytes(), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        let arrival = Arrival { index: 7, at_ns: -2 };
        assert_eq!(arrival.to_bytes(), [0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(TrainSent::from_bytes(join([5, MAX_TRAIN_PACKETS + 1])), None);
    }

    proptest! {
        #[test]
        fn messages_round_trip(train: u32, index: u32, at_ns: i64, packets in 0..=MAX_TRAIN_PACKETS, dropped: u32) {
            let sent = TrainSent { train, packets };
            prop_assert_eq!(TrainSent::from_bytes(sent.to_bytes()), Some(sent));
            let report = TrainReport { train, received: packets, dropped };
            prop_assert_eq!(TrainReport::from_bytes(report.to_bytes()), Some(report));
            let arrival = Arrival { index, at_ns };
            prop_assert_eq!(Arrival::from_bytes(arrival.to_bytes()), arrival);
            prop_assert_eq!(train_and_index(packet_number(train, index)), (train, index));
        }
    }
}
