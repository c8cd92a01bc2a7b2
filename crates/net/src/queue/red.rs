//! Random early detection (Floyd and Jacobson, 1993), with the gentle variant (Floyd, 2000).
//!
//! avg <- (1 - w) avg + w q on each arrival, after idle time m times with q = 0; between the thresholds
//! p_b = max_p (avg - min) / (max - min) and p_a = p_b / (1 - count p_b), which spaces drops uniformly.
//! Departures from the paper:
//! 1. The transmission time that measures idle time is that of the arriving segment.
//! 2. With ECN packets are marked below the hard threshold only and dropped above (RFC 3168 section 7).
//! 3. In the gentle range p_b rises from max_p at max to 1 at twice max, spaced in the same way.

use super::{
    Backlog, Desk, Item,
    desk::{Fate, may_be_marked},
    lane::{Lane, Mark},
};
use crate::{DropCause, Packet, Red, draws::Draws, fixed::Fixed};

/// The average and the drops' spacing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Average {
    bytes: f64,
    /// Segments since the last drop; -1 below the lower threshold.
    count: i64,
}

/// What RED wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Pass,
    Early,
    Hard,
}

impl Average {
    pub(crate) fn new() -> Self {
        Average { bytes: 0.0, count: -1 }
    }

    /// A segment comes to a queue of `held` bytes; `idle` is how many segments could have been sent meanwhile.
    pub(crate) fn update(&mut self, red: &Red, held: u64, idle: f64) {
        if held == 0 && idle > 0.0 {
            self.bytes *= libm::pow(1.0 - red.weight, idle);
        } else {
            self.bytes += red.weight * (held as f64 - self.bytes);
        }
    }

    pub(crate) fn wish(&mut self, red: &Red, draws: &mut Draws) -> Wish {
        let (min, max) = (red.min.0 as f64, red.max.0 as f64);
        if self.bytes < min {
            self.count = -1;
            return Wish::Pass;
        }
        let hard = if red.gentle { 2.0 * max } else { max };
        if self.bytes >= hard {
            self.count = 0;
            return Wish::Hard;
        }
        self.count += 1;
        let base = if self.bytes < max {
            red.max_probability * (self.bytes - min) / (max - min)
        } else {
            red.max_probability + (1.0 - red.max_probability) * (self.bytes - max) / max
        };
        let spaced = 1.0 - self.count as f64 * base;
        if spaced <= base || draws.happens(base / spaced) {
            self.count = 0;
            return Wish::Early;
        }
        Wish::Pass
    }
}

pub(crate) struct RedQueue<P> {
    red: Red,
    average: Average,
    lane: Lane<P>,
}

impl<P: Packet> RedQueue<P> {
    pub(crate) fn new(red: Red, overhead: u32) -> Self {
        RedQueue { red, average: Average::new(), lane: Lane::new(overhead) }
    }

    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        let (red, average) = (self.red, &mut self.average);
        let mark = red.ecn && may_be_marked(item.packet.ecn());
        desk.admit(&mut self.lane, item, |desk, held, bytes| {
            average.update(&red, held.bytes, idle_segments(desk, bytes));
            // What has been counted is not counted again where this segment is dropped.
            desk.idle_since = desk.idle_since.map(|_| desk.now);
            match average.wish(&red, &mut desk.draws) {
                Wish::Pass => Fate::Enter,
                Wish::Early if mark => Fate::EnterMarked,
                Wish::Early | Wish::Hard => Fate::Drop(DropCause::Aqm),
            }
        });
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        self.lane.push(item);
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        self.lane.take(Mark::No, desk)
    }

    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        self.lane.close(desk);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.lane.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.lane.head_at()
    }

    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        self.lane.drain(desk)
    }
}

/// How many segments of `bytes` could have been sent while the server had nothing to do.
fn idle_segments<P>(desk: &Desk<P>, bytes: u64) -> f64 {
    let (Some(since), Some(byte)) = (desk.idle_since, desk.per_byte) else { return 0.0 };
    desk.now.saturating_sub(since).as_nanos_f64() / (byte * bytes.max(1)).as_nanos_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Purpose;
    use units::{Bytes, Time};

    const RED: Red = Red {
        min: Bytes(100_000),
        max: Bytes(300_000),
        max_probability: 0.1,
        weight: 0.002,
        gentle: true,
        ecn: false,
    };

    /// Gaps between early drops at a fixed average.
    fn gaps(bytes: f64, n: usize) -> Vec<u64> {
        let mut draws = Draws::new(1, 1, Purpose::Queue);
        let mut average = Average { bytes, count: 0 };
        let (mut gaps, mut gap) = (Vec::new(), 0);
        while gaps.len() < n {
            gap += 1;
            if average.wish(&RED, &mut draws) != Wish::Pass {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    /// By the paper's figure 2 the segment after a drop has count = 1, so that the gap is uniform over 1 to 1/p_b - 1.
    #[test]
    fn drops_are_spaced_uniformly() {
        for (bytes, most) in [(200_000.0, 19.0f64), (140_000.0, 49.0), (300_000.0, 9.0), (120_000.0, 99.0)] {
            let gaps = gaps(bytes, 20_000);
            assert_eq!(gaps.iter().max().copied(), Some(most as u64), "at {bytes}");
            let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
            let deviation = ((most * most - 1.0) / 12.0).sqrt() / (gaps.len() as f64).sqrt();
            assert!((mean - (most + 1.0) / 2.0).abs() < 2.576 * deviation, "mean gap {mean} at {bytes}");
        }
    }

    #[test]
    fn nothing_is_dropped_below_min_and_everything_above_twice_max() {
        let mut draws = Draws::new(1, 1, Purpose::Queue);
        let wish = |bytes, draws: &mut Draws| Average { bytes, count: 0 }.wish(&RED, draws);
        assert!((0..1000).all(|_| wish(99_999.0, &mut draws) == Wish::Pass));
        assert!((0..1000).all(|_| wish(600_000.0, &mut draws) == Wish::Hard));
    }

    #[test]
    fn the_average_follows_the_queue_with_its_weight_and_decays_when_idle() {
        let mut average = Average::new();
        (0..500).for_each(|_| average.update(&RED, 100_000, 0.0));
        let expected = 100_000.0 * (1.0 - 0.998f64.powi(500));
        assert!((average.bytes - expected).abs() < 1e-6, "{}", average.bytes);
        average.update(&RED, 0, 500.0);
        assert!((average.bytes - expected * 0.998f64.powi(500)).abs() < 1e-6);
    }

    /// An idle time counts once, also where what ends it is dropped (as `red_end_of_idle_period` in Linux).
    #[test]
    fn an_idle_time_counts_once() {
        use crate::{PipeSpec, Rate, test_packet::TestPacket};
        let red = Red { min: Bytes(1), max: Bytes(2), weight: 0.1, gentle: false, ..RED };
        // A segment of 1000 B takes 1 ms.
        let rate = Rate::Constant(units::BitRate(8_000_000));
        let mut desk = Desk::new(&PipeSpec { rate, overhead: 0, ..PipeSpec::default() }, 1, 1);
        let mut queue = RedQueue::new(red, 0);
        queue.average.bytes = 1e6;
        desk.now = Fixed::from(Time(10_000_000));
        let two = TestPacket { first: 0, segments: 2, bytes: 1000, last_bytes: 1000 };
        queue.enqueue(Item::new(two, desk.now, Fixed::ZERO, super::super::LossDrawn::Passes), &mut desk);
        assert_eq!(desk.drops.iter().map(|(_, dropped)| dropped.segments).sum::<u32>(), 2);
        // Ten segments of nothing for the first, then one more arrival at an empty queue.
        let expected = 1e6 * 0.9f64.powi(11);
        assert!((queue.average.bytes - expected).abs() < 1e-3, "{}", queue.average.bytes);
    }
}
