//! When the datagrams of a source are sent: at exact times, in one go or in bursts.

use units::{BitRate, Bytes, Time};

use crate::draws::Draws;

/// An on/off source's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// How long it sends.
    pub on: Time,
    /// How long it is silent.
    pub off: Time,
    /// Whether these are lengths or means.
    pub lengths: BurstLengths,
}

/// How long bursts and pauses are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BurstLengths {
    /// As said.
    #[default]
    Fixed,
    /// Exponentially distributed around what is said.
    Exponential,
}

/// What a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePlan {
    /// Payload a second, while it sends.
    pub rate: BitRate,
    /// Payload of a datagram, bytes.
    pub payload: u32,
    /// Datagrams that are due at the same instant; 0 is one.
    pub together: u32,
    /// Payload to send; `None` has no end.
    pub size: Option<Bytes>,
    /// Sends for a while and is silent for a while, in turn; `None` sends all the time.
    pub bursts: Option<Bursts>,
}

impl Default for SourcePlan {
    /// Single datagrams of a byte at a bit a second, without end.
    fn default() -> Self {
        SourcePlan { rate: BitRate(1), payload: 1, together: 1, size: None, bursts: None }
    }
}

/// When datagrams are sent: the n-th when n datagrams' time has passed in bursts.
#[derive(Debug, Clone)]
pub struct Source {
    rate: BitRate,
    payload: u32,
    together: u64,
    /// Payload still to be sent; `u64::MAX` is without end.
    left: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Payload sent.
    pub sent_bytes: u64,
    /// When the last datagram was due.
    pub last: Time,
    next: Time,
    burst: Burst,
}

/// The present burst.
#[derive(Debug, Clone)]
struct Burst {
    start: Time,
    /// Time spent in bursts before, ns.
    before_ns: u64,
    length_ns: u64,
    bursts: Option<Bursts>,
    draws: Draws,
}

impl Source {
    /// `draws` make the lengths of bursts, where those are random; the first datagram is due at `start`.
    pub fn new(plan: &SourcePlan, draws: Draws, start: Time) -> Self {
        let mut burst = Burst { start, before_ns: 0, length_ns: u64::MAX, bursts: plan.bursts, draws };
        burst.length_ns = burst.bursts.map_or(u64::MAX, |bursts| burst.length(bursts.on, bursts.lengths).0);
        let mut source = Source {
            rate: plan.rate,
            payload: plan.payload.max(1),
            together: u64::from(plan.together.max(1)),
            left: plan.size.map_or(u64::MAX, |size| size.0),
            sent: 0,
            sent_bytes: 0,
            last: start,
            next: start,
            burst,
        };
        source.next = source.burst.at(0);
        source
    }

    /// Payload of all datagrams but the last.
    pub fn payload(&self) -> u32 {
        self.payload
    }

    /// When the next datagram is due; none where all are sent.
    pub fn next(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }

    /// The next datagram's number, from 0, and payload.
    pub fn take(&mut self) -> (u64, u32) {
        let payload = u64::from(self.payload).min(self.left);
        let number = self.sent;
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.sent_bytes += payload;
        self.last = self.next;
        if self.sent.is_multiple_of(self.together) {
            let bits = u128::from(self.sent) * u128::from(self.payload) * 8;
            let passed = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
            self.next = self.burst.at(u64::try_from(passed).unwrap_or(u64::MAX));
        }
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
    use super::*;

    fn times(plan: &SourcePlan, count: usize) -> Vec<u64> {
        let mut source = Source::new(plan, Draws::new(1, 1), Time(1_000));
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
        let plan = SourcePlan { rate: BitRate(3_000_000), payload: 1000, ..SourcePlan::default() };
        assert_eq!(times(&plan, 4), [1_000, 2_667_666, 5_334_333, 8_001_000]);
        let sized = SourcePlan { size: Some(Bytes(2_500)), ..plan };
        assert_eq!(times(&sized, 9).len(), 3);
        let together = SourcePlan { together: 3, ..plan };
        assert_eq!(times(&together, 7), [1_000, 1_000, 1_000, 8_001_000, 8_001_000, 8_001_000, 16_001_000]);
    }

    #[test]
    fn bursts_alternate_with_pauses() {
        let fixed = Bursts { on: Time(2_000_000), off: Time(10_000_000), lengths: BurstLengths::Fixed };
        let plan = SourcePlan {
            rate: BitRate(8_000_000),
            payload: 1000,
            bursts: Some(fixed),
            ..SourcePlan::default()
        };
        assert_eq!(times(&plan, 5), [1_000, 1_001_000, 12_001_000, 13_001_000, 24_001_000]);
        let random = Bursts { lengths: BurstLengths::Exponential, ..fixed };
        let all = times(&SourcePlan { bursts: Some(random), ..plan }, 60_000);
        assert!(all.is_sorted());
        let mean_rate = 60_000.0 / ((all[all.len() - 1] - all[0]) as f64 * 1e-9);
        // A sixth of 1000 datagrams a second.
        assert!((mean_rate / 166.7 - 1.0).abs() < 0.03, "{mean_rate}");
    }
}
