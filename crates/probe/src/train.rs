//! What is sent and what was seen of it: trains of packets of one size, and fleets of trains.

use units::Time;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Packets of one size, each with its instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    /// Bytes of each packet, IP header included.
    pub bytes: u32,
    /// When each is sent, ns since the first, ascending.
    pub at_ns: Vec<u64>,
}

impl Train {
    /// Back to back.
    pub fn burst(bytes: u32, count: usize) -> Train {
        Train { bytes, at_ns: vec![0; count] }
    }

    /// Evenly spaced at `rate_bps` (IP bytes).
    pub fn paced(bytes: u32, count: usize, rate_bps: f64) -> Train {
        let gap = f64::from(bytes) * 8e9 / rate_bps.max(1.0);
        Train { bytes, at_ns: (0..count).map(|i| (i as f64 * gap) as u64).collect() }
    }

    /// Spaced ever closer: the rate begins at `lowest_bps` and grows by `gamma` from gap to gap (pathChirp).
    pub fn chirp(bytes: u32, count: usize, lowest_bps: f64, gamma: f64) -> Train {
        let mut gap = f64::from(bytes) * 8e9 / lowest_bps.max(1.0);
        let mut at = 0.0;
        let mut at_ns = Vec::with_capacity(count);
        for _ in 0..count {
            at_ns.push(at as u64);
            at += gap;
            gap /= gamma;
        }
        Train { bytes, at_ns }
    }

    /// Bytes of all packets.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * self.at_ns.len() as u64
    }

    /// From the first packet to the last, ns.
    pub fn duration_ns(&self) -> u64 {
        self.at_ns.last().copied().unwrap_or(0)
    }

    /// The most bytes that it sends within any second.
    pub fn most_in_a_second(&self) -> u64 {
        let mut first = 0;
        let mut most = 0;
        for (last, at) in self.at_ns.iter().enumerate() {
            while at - self.at_ns[first] > SECOND {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most as u64 * u64::from(self.bytes)
    }
}

/// Trains that are sent one after the other, and looked at together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// The trains.
    pub trains: Vec<Train>,
    /// From the end of one to the begin of the next, at least.
    pub gap: Time,
}

/// What became of a train. The clocks of the two ends need not agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Bytes of each packet, IP header included.
    pub bytes: u32,
    /// When each packet left, ns on the sender's clock.
    pub sent_ns: Vec<i64>,
    /// When each arrived, ns on the receiver's clock; `None` where it did not.
    pub arrived_ns: Vec<Option<i64>>,
    /// Packets that a host dropped for want of room: they say nothing about the path.
    pub host_drops: u64,
}

impl Seen {
    /// Number, departure and arrival of each packet that arrived.
    pub fn received(&self) -> impl DoubleEndedIterator<Item = Received> + '_ {
        self.sent_ns.iter().zip(&self.arrived_ns).enumerate().filter_map(|(number, (sent, arrived))| {
            arrived.map(|arrived_ns| Received { number, sent_ns: *sent, arrived_ns })
        })
    }

    /// How many were sent.
    pub fn sent(&self) -> usize {
        self.sent_ns.len()
    }

    /// How many did not arrive.
    pub fn lost(&self) -> usize {
        self.arrived_ns.iter().filter(|arrived| arrived.is_none()).count()
    }

    /// The rate at which it left, bit/s of IP; `None` where all left at once.
    pub fn sent_bps(&self) -> Option<f64> {
        let span = self.sent_ns.last()?.saturating_sub(*self.sent_ns.first()?);
        (span > 0).then(|| (self.sent() - 1) as f64 * f64::from(self.bytes) * 8e9 / span as f64)
    }
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its place in the train, from 0.
    pub number: usize,
    /// When it left, ns on the sender's clock.
    pub sent_ns: i64,
    /// When it arrived, ns on the receiver's clock.
    pub arrived_ns: i64,
}

impl Received {
    /// The one-way delay with the unknown difference of the clocks in it, ns.
    pub fn delay_ns(&self) -> f64 {
        self.arrived_ns as f64 - self.sent_ns as f64
    }
}

/// What a method wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this, and tell with [`Method::take`] what was seen.
    Send(Fleet),
    /// It knows what it can know.
    Done,
}

/// A way to measure: it says what to send, and takes what was seen. Time and sockets are its caller's.
pub trait Method {
    /// What it answers.
    type Answer;
    /// What to send next.
    fn next(&mut self) -> Step;
    /// What became of the trains of the last [`Step::Send`], one each in their order.
    fn take(&mut self, seen: &[Seen]);
    /// What is known so far.
    fn answer(&self) -> Self::Answer;
    /// One line on what it does now, for who waits.
    fn doing(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_have_their_rates() {
        let train = Train::paced(1000, 5, 8e6);
        assert_eq!(train.at_ns, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        assert_eq!((train.total_bytes(), train.most_in_a_second()), (5000, 5000));
        // 8 kb/s: one packet of 1000 bytes a second, two of them in a second that begins with one.
        assert_eq!(Train::paced(1000, 5, 8e3).most_in_a_second(), 2000);
        let chirp = Train::chirp(1000, 3, 8e6, 2.0);
        assert_eq!(chirp.at_ns, [0, 1_000_000, 1_500_000]);
    }
}
