//! The schedule of a source of datagrams: at exact times, continuously or in on/off bursts.

use units::{BitRate, Bytes, Instant, Time};

use crate::draws::Draws;

/// The periods of an on/off source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst.
    pub on: Time,
    /// Length of a pause.
    pub off: Time,
    /// Whether the lengths are fixed or means.
    pub lengths: BurstLengths,
}

/// The distribution of burst and pause lengths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BurstLengths {
    /// Every period has the given length.
    #[default]
    Fixed,
    /// Exponentially distributed with the given mean.
    Exponential,
}

/// Rate, size and bursts of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePlan {
    /// Payload rate during a burst.
    pub rate: BitRate,
    /// Payload of a datagram, bytes.
    pub payload: u32,
    /// Number of datagrams sent back to back at one instant; 0 counts as 1.
    pub back_to_back: u32,
    /// Total payload to send; `None` for no limit.
    pub size: Option<Bytes>,
    /// Bursts and pauses; `None` sends continuously.
    pub bursts: Option<Bursts>,
}

impl Default for SourcePlan {
    /// Single datagrams of one byte at 1 bit/s, without a limit.
    fn default() -> Self {
        SourcePlan { rate: BitRate(1), payload: 1, back_to_back: 1, size: None, bursts: None }
    }
}

/// Computes when datagrams are due: the n-th after the transmission time of n datagrams, not counting pauses.
/// Rounding errors therefore do not accumulate.
#[derive(Debug, Clone)]
pub struct DatagramSource {
    rate: BitRate,
    payload: u32,
    back_to_back: u64,
    /// Payload not sent yet, bytes; `u64::MAX` for no limit.
    remaining_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Payload sent, bytes.
    pub sent_bytes: u64,
    /// When the last datagram was due.
    pub last: Instant,
    next: Instant,
    burst: CurrentBurst,
}

#[derive(Debug, Clone)]
struct CurrentBurst {
    start: Instant,
    length: Time,
    /// Total length of the previous bursts.
    earlier_bursts: Time,
    bursts: Option<Bursts>,
    draws: Draws,
}

impl DatagramSource {
    /// The first datagram is due at `start`. `draws` gives the lengths of random bursts.
    pub fn new(plan: &SourcePlan, draws: Draws, start: Instant) -> Self {
        let (length, earlier_bursts) = (Time::MAX, Time::ZERO);
        let mut burst = CurrentBurst { start, length, earlier_bursts, bursts: plan.bursts, draws };
        burst.length = burst.bursts.map_or(Time::MAX, |bursts| burst.draw_length(bursts.on, bursts.lengths));
        let mut source = DatagramSource {
            rate: plan.rate,
            payload: plan.payload.max(1),
            back_to_back: u64::from(plan.back_to_back.max(1)),
            remaining_bytes: plan.size.map_or(u64::MAX, |size| size.0),
            sent: 0,
            sent_bytes: 0,
            last: start,
            next: start,
            burst,
        };
        source.next = source.burst.instant_after(Time::ZERO);
        source
    }

    /// Payload of each datagram but the last, bytes.
    pub fn payload(&self) -> u32 {
        self.payload
    }

    /// When the next datagram is due; `None` if all are sent.
    pub fn next(&self) -> Option<Instant> {
        (self.remaining_bytes > 0).then_some(self.next)
    }

    /// Removes the next datagram from the schedule; returns its number, from 0, and its payload in bytes.
    pub fn take(&mut self) -> (u64, u32) {
        let payload = u64::from(self.payload).min(self.remaining_bytes);
        let number = self.sent;
        if self.remaining_bytes != u64::MAX {
            self.remaining_bytes -= payload;
        }
        self.sent += 1;
        self.sent_bytes += payload;
        self.last = self.next;
        if self.sent.is_multiple_of(self.back_to_back) {
            let bits = u128::from(self.sent) * u128::from(self.payload) * 8;
            let elapsed = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
            self.next = self.burst.instant_after(u64::try_from(elapsed).map_or(Time::MAX, Time::from_nanos));
        }
        (number, payload as u32)
    }
}

impl CurrentBurst {
    /// The instant at which bursts of this total length have passed.
    fn instant_after(&mut self, total: Time) -> Instant {
        while let Some(bursts) = self.bursts
            && total.minus(self.earlier_bursts) >= self.length
            // Livelock guard: bursts of length zero never add up to `total`.
            && self.start < Instant::from_nanos(u64::MAX / 2)
        {
            let pause = self.draw_length(bursts.off, bursts.lengths);
            self.earlier_bursts += self.length;
            self.start = self.start + self.length + pause;
            self.length = self.draw_length(bursts.on, bursts.lengths);
        }
        self.start + total.minus(self.earlier_bursts)
    }

    fn draw_length(&mut self, given: Time, lengths: BurstLengths) -> Time {
        match lengths {
            BurstLengths::Fixed => given,
            BurstLengths::Exponential => self.draws.exponential(given),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(plan: &SourcePlan, count: usize) -> Vec<u64> {
        let mut source = DatagramSource::new(plan, Draws::new(1, 1), Instant::from_nanos(1_000));
        let mut times = Vec::new();
        while let Some(at) = source.next().filter(|_| times.len() < count) {
            times.push(at.as_nanos());
            source.take();
        }
        times
    }

    #[test]
    fn intervals_are_exact_and_errors_do_not_accumulate() {
        // 1000 bytes at 3 Mb/s: 2,666,666.67 ns.
        let plan = SourcePlan { rate: BitRate(3_000_000), payload: 1000, ..SourcePlan::default() };
        assert_eq!(times(&plan, 4), [1_000, 2_667_666, 5_334_333, 8_001_000]);
        let sized = SourcePlan { size: Some(Bytes(2_500)), ..plan };
        assert_eq!(times(&sized, 9).len(), 3);
        let plan_of_three = SourcePlan { back_to_back: 3, ..plan };
        assert_eq!(
            times(&plan_of_three, 7),
            [1_000, 1_000, 1_000, 8_001_000, 8_001_000, 8_001_000, 16_001_000]
        );
    }

    #[test]
    fn bursts_alternate_with_pauses() {
        let fixed =
            Bursts { on: Time::from_millis(2), off: Time::from_millis(10), lengths: BurstLengths::Fixed };
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
