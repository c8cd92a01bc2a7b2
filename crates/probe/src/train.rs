//! Trains of equal packets, fleets of trains, observations of received trains, and the trait of measurement
//! methods.

use units::Time;

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// Packets of one size, each with its departure time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    /// Bytes of each packet, IP header included.
    pub bytes: u32,
    /// Departure time of each packet, ns since the first; ascending.
    pub offsets_ns: Vec<u64>,
}

impl Train {
    /// A train of packets back to back.
    pub fn burst(bytes: u32, count: usize) -> Train {
        Train { bytes, offsets_ns: vec![0; count] }
    }

    /// A train with this time between two packets, ns.
    pub fn spaced(bytes: u32, count: usize, spacing_ns: u64) -> Train {
        Train {
            bytes,
            offsets_ns: (0..count as u64).map(|number| number.saturating_mul(spacing_ns)).collect(),
        }
    }

    /// A train at the constant rate `rate_bps`, bit/s of IP.
    pub fn paced(bytes: u32, count: usize, rate_bps: f64) -> Train {
        let gap = f64::from(bytes) * 8e9 / rate_bps.max(1.0);
        Train { bytes, offsets_ns: (0..count).map(|i| (i as f64 * gap) as u64).collect() }
    }

    /// A train whose rate begins at `start_bps` and grows by the factor `gamma` with each gap (pathChirp).
    pub fn chirp(bytes: u32, count: usize, start_bps: f64, gamma: f64) -> Train {
        let mut gap = f64::from(bytes) * 8e9 / start_bps.max(1.0);
        let mut offset = 0.0;
        let mut offsets_ns = Vec::with_capacity(count);
        for _ in 0..count {
            offsets_ns.push(offset as u64);
            offset += gap;
            gap /= gamma;
        }
        Train { bytes, offsets_ns }
    }

    /// Size of all packets together, bytes.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * self.offsets_ns.len() as u64
    }

    /// Time from the first packet to the last, ns.
    pub fn duration_ns(&self) -> u64 {
        self.offsets_ns.last().copied().unwrap_or(0)
    }

    /// Maximum number of bytes that it sends within any second.
    pub fn max_bytes_per_second(&self) -> u64 {
        let mut first = 0;
        let mut max_packets = 0;
        for (last, offset_ns) in self.offsets_ns.iter().enumerate() {
            while offset_ns - self.offsets_ns[first] > SECOND_NS {
                first += 1;
            }
            max_packets = max_packets.max(last + 1 - first);
        }
        max_packets as u64 * u64::from(self.bytes)
    }
}

/// Trains that are sent one after another and evaluated together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// The trains.
    pub trains: Vec<Train>,
    /// Minimum time between the end of a train and the start of the next.
    pub gap: Time,
}

/// Departure and arrival times of a train. The clocks of the two hosts need not be synchronized.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainObservation {
    /// Bytes of each packet, IP header included.
    pub bytes: u32,
    /// Departure time of each packet, ns on the sender's clock.
    pub sent_ns: Vec<i64>,
    /// Arrival time of each packet, ns on the receiver's clock; `None` if it was lost.
    pub arrived_ns: Vec<Option<i64>>,
    /// Packets dropped by a host whose buffer was full, which are not losses of the path.
    pub host_drops: u64,
}

impl TrainObservation {
    /// The packets that arrived, with their departure and arrival times.
    pub fn received(&self) -> impl DoubleEndedIterator<Item = ReceivedPacket> + '_ {
        self.sent_ns.iter().zip(&self.arrived_ns).enumerate().filter_map(|(number, (sent, arrived))| {
            arrived.map(|arrived_ns| ReceivedPacket { number, sent_ns: *sent, arrived_ns })
        })
    }

    /// Number of packets sent.
    pub fn sent(&self) -> usize {
        self.sent_ns.len()
    }

    /// Number of packets that did not arrive.
    pub fn lost(&self) -> usize {
        self.arrived_ns.iter().filter(|arrived| arrived.is_none()).count()
    }

    /// Departure rate, bit/s of IP; `None` if all packets left at the same time.
    pub fn sent_bps(&self) -> Option<f64> {
        let span = self.sent_ns.last()?.saturating_sub(*self.sent_ns.first()?);
        (span > 0).then(|| (self.sent() - 1) as f64 * f64::from(self.bytes) * 8e9 / span as f64)
    }
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// Index in the train, from 0.
    pub number: usize,
    /// Departure time, ns on the sender's clock.
    pub sent_ns: i64,
    /// Arrival time, ns on the receiver's clock.
    pub arrived_ns: i64,
}

impl ReceivedPacket {
    /// One-way delay plus the unknown offset of the clocks, ns.
    pub fn delay_ns(&self) -> f64 {
        // Times since 1970 have more digits than f64.
        self.arrived_ns.saturating_sub(self.sent_ns) as f64
    }
}

/// The next step of a method.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this fleet, and pass the observations to [`Method::add_observations`].
    Send(Fleet),
    /// The measurement is complete.
    Done,
}

/// A measurement method: decides which trains to send, and evaluates their observations. Clocks and sockets
/// belong to the caller.
pub trait Method {
    /// The type of the result.
    type Output;
    /// Decides what to send next.
    fn next_step(&mut self) -> Step;
    /// Adds the observations of the trains of the last [`Step::Send`], one for each train in the same order.
    fn add_observations(&mut self, observations: &[TrainObservation]);
    /// The result so far.
    fn result(&self) -> Self::Output;
    /// Describes the present step in one line, for progress displays.
    fn progress(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_have_the_requested_rates() {
        let train = Train::paced(1000, 5, 8e6);
        assert_eq!(train.offsets_ns, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        assert_eq!((train.total_bytes(), train.max_bytes_per_second()), (5000, 5000));
        // 8 kb/s: one packet of 1000 bytes a second, two of them in a second that begins with one.
        assert_eq!(Train::paced(1000, 5, 8e3).max_bytes_per_second(), 2000);
        let chirp = Train::chirp(1000, 3, 8e6, 2.0);
        assert_eq!(chirp.offsets_ns, [0, 1_000_000, 1_500_000]);
    }

    #[test]
    fn delays_are_exact_at_any_time() {
        let sent_ns = 1_764_000_000_123_456_789;
        let packet = ReceivedPacket { number: 0, sent_ns, arrived_ns: sent_ns + 137 };
        assert_eq!(packet.delay_ns(), 137.0);
    }
}
