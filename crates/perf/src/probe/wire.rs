//! The messages of a probe's control connection, pure. The connection begins with a cookie as an iperf3 client's, so that both
//! come to one port; all that follows is fixed binary words in network byte order.
//!
//! ```text
//! client                                 server
//! cookie "longfat-probe-1-..." (37 B)
//!                                        'P': it is your turn
//! (UDP) hello                            (UDP) answer
//! (UDP) a train's packets
//! number u32, packets u32                                       the train was sent
//!                                        number u32, received u32, dropped u32, and for each that was received
//!                                        place u32, arrival i64 (ns since 1970 by the server's clock)
//! ```
//!
//! A packet's header is that of the UDP engine; the upper half of its number is the train's, the lower the packet's place
//! in it.

/// How a probe's cookie begins; the version of these messages is in it.
pub const COOKIE_PREFIX: &str = "longfat-probe-1-";
/// What a server says when it is a client's turn.
pub const TURN: u8 = b'P';
/// Bytes of the message that a train was sent.
pub const SENT_BYTES: usize = 8;
/// Bytes of a report before its arrivals.
pub const REPORT_BYTES: usize = 12;
/// Bytes of an arrival.
pub const ARRIVAL_BYTES: usize = 12;
/// Packets of a train at most: some seconds of 10 Gb/s.
pub const MOST_PACKETS: u32 = 1 << 22;

/// A train was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub train: u32,
    /// Its packets.
    pub packets: u32,
}

/// What became of a train, before the arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Its number.
    pub train: u32,
    /// How many arrivals follow.
    pub received: u32,
    /// Packets that the server's socket had no room for meanwhile.
    pub dropped: u32,
}

/// When a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in the train, from 0.
    pub place: u32,
    /// ns since 1970 by the server's clock.
    pub at_ns: i64,
}

impl Sent {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; SENT_BYTES] {
        join([self.train, self.packets])
    }

    /// As it came; `None` where no train has so many packets.
    pub fn from_bytes(bytes: [u8; SENT_BYTES]) -> Option<Sent> {
        let [train, packets] = split(bytes);
        (packets <= MOST_PACKETS).then_some(Sent { train, packets })
    }
}

impl Report {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; REPORT_BYTES] {
        join([self.train, self.received, self.dropped])
    }

    /// As it came; `None` where no train has so many packets.
    pub fn from_bytes(bytes: [u8; REPORT_BYTES]) -> Option<Report> {
        let [train, received, dropped] = split(bytes);
        (received <= MOST_PACKETS).then_some(Report { train, received, dropped })
    }
}

impl Arrival {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; ARRIVAL_BYTES] {
        let [high, low] = [(self.at_ns >> 32) as u32, self.at_ns as u32];
        join([self.place, high, low])
    }

    /// As it came.
    pub fn from_bytes(bytes: [u8; ARRIVAL_BYTES]) -> Arrival {
        let [place, high, low] = split(bytes);
        Arrival { place, at_ns: i64::from(high as i32) << 32 | i64::from(low) }
    }
}

/// A packet's number on the wire.
pub fn packet_number(train: u32, place: u32) -> u64 {
    u64::from(train) << 32 | u64::from(place)
}

/// The train and place of a packet's number.
pub fn train_and_place(number: u64) -> (u32, u32) {
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
    fn the_layout_is_the_one_above() {
        let report = Report { train: 1, received: 2, dropped: 3 };
        assert_eq!(report.to_bytes(), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        let arrival = Arrival { place: 7, at_ns: -2 };
        assert_eq!(arrival.to_bytes(), [0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 254]);
        assert_eq!(Sent::from_bytes(join([5, MOST_PACKETS + 1])), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(train: u32, place: u32, at_ns: i64, packets in 0..=MOST_PACKETS, dropped: u32) {
            let sent = Sent { train, packets };
            prop_assert_eq!(Sent::from_bytes(sent.to_bytes()), Some(sent));
            let report = Report { train, received: packets, dropped };
            prop_assert_eq!(Report::from_bytes(report.to_bytes()), Some(report));
            let arrival = Arrival { place, at_ns };
            prop_assert_eq!(Arrival::from_bytes(arrival.to_bytes()), arrival);
            prop_assert_eq!(train_and_place(packet_number(train, place)), (train, place));
        }
    }
}
