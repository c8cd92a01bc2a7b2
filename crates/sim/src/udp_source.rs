//! When the datagrams of a UDP flow are sent: at exact times, in one go or in bursts.

use scenario::{BurstLengths, Bursts, Udp};
use units::{BitRate, Time};

use crate::draws::Draws;

/// When datagrams are sent: the n-th when n datagrams' time has passed in bursts.
#[derive(Debug)]
pub(crate) struct Source {
    rate: BitRate,
    payload: u32,
    /// Payload still to be sent; `u64::MAX` is without end.
    left: u64,
    /// Datagrams sent.
    pub(crate) sent: u64,
    /// Payload sent.
    pub(crate) sent_bytes: u64,
    /// When the last datagram was due.
    pub(crate) last: Time,
    next: Time,
    burst: Burst,
}

/// The present burst.
#[derive(Debug)]
struct Burst {
    start: Time,
    /// Time spent in bursts before, ns.
    before_ns: u64,
    length_ns: u64,
    bursts: Option<Bursts>,
    draws: Draws,
}

impl Source {
    pub(crate) fn new(udp: &Udp, most: u32, draws: Draws, start: Time) -> Self {
        let payload = udp.packet.map_or(most, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
        let mut burst = Burst { start, before_ns: 0, length_ns: u64::MAX, bursts: udp.bursts, draws };
        burst.length_ns = burst.bursts.map_or(u64::MAX, |bursts| burst.length(bursts.on, bursts.lengths).0);
        let mut source = Source {
            rate: udp.rate,
            payload: payload.max(1),
            left: udp.size.map_or(u64::MAX, |size| size.0),
            sent: 0,
            sent_bytes: 0,
            last: start,
            next: start,
            burst,
        };
        source.next = source.burst.at(0);
        source
    }

    /// When the next datagram is due; none where all are sent.
    pub(crate) fn next(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }

    /// The next datagram's number and payload.
    pub(crate) fn take(&mut self) -> (u64, u32) {
        let payload = u64::from(self.payload).min(self.left);
        let number = self.sent;
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.sent_bytes += payload;
        self.last = self.next;
        let bits = u128::from(self.sent) * u128::from(self.payload) * 8;
        let passed = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
        self.next = self.burst.at(u64::try_from(passed).unwrap_or(u64::MAX));
        (number, payload as u32)
    }
}

impl Burst {
    /// The instant at which so much time has been spent in bursts.
    fn at(&mut self, spent_ns: u64) -> Time {
        while let Some(bursts) = self.bursts
            && spent_ns - self.before_ns >= self.length_ns
            && self.start < Time(u64::MAX / 2)
        {
            let pause = self.length(bursts.off, bursts.lengths);
            self.before_ns += self.length_ns;
            self.start = Time(self.start.0.saturating_add(self.length_ns).saturating_add(pause.0));
            self.length_ns = self.length(bursts.on, bursts.lengths).0;
        }
        Time(self.start.0.saturating_add(spent_ns - self.before_ns))
    }

    fn length(&mut self, said: Time, lengths: BurstLengths) -> Time {
        match lengths {
            BurstLengths::Fixed => said,
            BurstLengths::Exponential => self.draws.exponential(said),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    fn times(udp: &Udp, count: usize) -> Vec<u64> {
        let mut source = Source::new(udp, 1472, Draws::new(1, 1), Time(1_000));
        let mut times = Vec::new();
        while let Some(at) = source.next().filter(|_| times.len() < count) {
            times.push(at.0);
            source.take();
        }
        times
    }

    #[test]
    fn spaces_are_exact_and_errors_never_add_up() {
        // 1000 bytes at 3 Mb/s: 2,666,666.67 ns.
        let udp = Udp { rate: BitRate(3_000_000), packet: Some(Bytes(1000)), ..Udp::default() };
        assert_eq!(times(&udp, 4), [1_000, 2_667_666, 5_334_333, 8_001_000]);
        let sized = Udp { size: Some(Bytes(2_500)), ..udp };
        assert_eq!(times(&sized, 9).len(), 3);
    }

    #[test]
    fn bursts_alternate_with_pauses() {
        let fixed = Bursts { on: Time(2_000_000), off: Time(10_000_000), lengths: BurstLengths::Fixed };
        let udp = Udp {
            rate: BitRate(8_000_000),
            packet: Some(Bytes(1000)),
            bursts: Some(fixed),
            ..Udp::default()
        };
        assert_eq!(times(&udp, 5), [1_000, 1_001_000, 12_001_000, 13_001_000, 24_001_000]);
        let random = Bursts { lengths: BurstLengths::Exponential, ..fixed };
        let all = times(&Udp { bursts: Some(random), ..udp }, 60_000);
        assert!(all.is_sorted());
        let mean_rate = 60_000.0 / ((all[all.len() - 1] - all[0]) as f64 * 1e-9);
        // A sixth of 1000 datagrams a second.
        assert!((mean_rate / 166.7 - 1.0).abs() < 0.03, "{mean_rate}");
    }
}
