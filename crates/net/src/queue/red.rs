//! Random early detection (Floyd and Jacobson, 1993), with the gentle variant (Floyd, 2000).
//!
//! avg <- (1 - w) avg + w q on each arrival; after an idle time m times with q = 0. Between the thresholds
//! p_b = max_p (avg - min) / (max - min) and p_a = p_b / (1 - count p_b), which spaces drops uniformly.
//! Differences from the paper:
//! 1. The idle time is divided by the transmission time of the arriving segment.
//! 2. With ECN, packets are marked only below the hard threshold, and dropped above it (RFC 3168 section 7).
//! 3. In the gentle range p_b rises from max_p at max to 1 at twice max, spaced in the same way.

use super::{
    Backlog, QueueContext, QueuedPacket,
    segment_queue::{Admission, Mark, SegmentQueue},
};
use crate::{DropCause, Packet, Red, draws::Draws, fixed::Fixed};

/// The average queue length and the spacing of drops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AverageQueue {
    bytes: f64,
    /// Segments since the last drop; -1 below the lower threshold.
    count: i64,
}

/// RED's decision on an arriving segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedDecision {
    Pass,
    /// Drop or mark with a probability, between the thresholds.
    Early,
    /// Drop above the upper threshold.
    Hard,
}

impl AverageQueue {
    pub(crate) fn new() -> Self {
        AverageQueue { bytes: 0.0, count: -1 }
    }

    /// Updates the average when a segment finds `held` bytes in the queue; `idle` is the number of segments
    /// that the server could have sent while it was idle.
    pub(crate) fn update(&mut self, red: &Red, held: u64, idle: f64) {
        if held == 0 && idle > 0.0 {
            self.bytes *= libm::pow(1.0 - red.weight, idle);
        } else {
            self.bytes += red.weight * (held as f64 - self.bytes);
        }
    }

    pub(crate) fn decide(&mut self, red: &Red, draws: &mut Draws) -> RedDecision {
        let (min, max) = (red.min.0 as f64, red.max.0 as f64);
        if self.bytes < min {
            self.count = -1;
            return RedDecision::Pass;
        }
        let hard = if red.gentle { 2.0 * max } else { max };
        if self.bytes >= hard {
            self.count = 0;
            return RedDecision::Hard;
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
            return RedDecision::Early;
        }
        RedDecision::Pass
    }
}

pub(crate) struct RedQueue<P> {
    red: Red,
    average: AverageQueue,
    segments: SegmentQueue<P>,
}

impl<P: Packet> RedQueue<P> {
    pub(crate) fn new(red: Red, overhead: u32) -> Self {
        RedQueue { red, average: AverageQueue::new(), segments: SegmentQueue::new(overhead) }
    }

    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        let (red, average) = (self.red, &mut self.average);
        let mark = red.ecn && queued.packet.ecn().is_capable();
        self.segments.admit(queued, context, |context, held, bytes| {
            average.update(&red, held.bytes, idle_segments(context, bytes));
            // The idle time must not count again if this segment is dropped and the server stays idle.
            context.idle_since = context.idle_since.map(|_| context.now);
            match average.decide(&red, &mut context.draws) {
                RedDecision::Pass => Admission::Accept,
                RedDecision::Early if mark => Admission::AcceptMarked,
                RedDecision::Early | RedDecision::Hard => Admission::Drop(DropCause::Aqm),
            }
        });
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        self.segments.push(queued);
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        self.segments.take(Mark::No, context)
    }

    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        self.segments.close(context);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.segments.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.segments.head_at()
    }

    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        self.segments.drain(context)
    }
}

/// The number of segments of `bytes` that could have been sent while the server was idle.
fn idle_segments<P>(context: &QueueContext<P>, bytes: u64) -> f64 {
    let (Some(since), Some(byte)) = (context.idle_since, context.per_byte) else { return 0.0 };
    context.now.saturating_sub(since).as_nanos_f64() / (byte * bytes.max(1)).as_nanos_f64()
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
        let mut average = AverageQueue { bytes, count: 0 };
        let (mut gaps, mut gap) = (Vec::new(), 0);
        while gaps.len() < n {
            gap += 1;
            if average.decide(&RED, &mut draws) != RedDecision::Pass {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    /// In the paper's figure 2 the segment after a drop has count = 1, so that the gap is uniform over 1 to
    /// 1/p_b - 1.
    #[test]
    fn drops_are_spaced_uniformly() {
        for (bytes, max) in [(200_000.0, 19.0f64), (140_000.0, 49.0), (300_000.0, 9.0), (120_000.0, 99.0)] {
            let gaps = gaps(bytes, 20_000);
            assert_eq!(gaps.iter().max().copied(), Some(max as u64), "at {bytes}");
            let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
            let deviation = ((max * max - 1.0) / 12.0).sqrt() / (gaps.len() as f64).sqrt();
            assert!((mean - (max + 1.0) / 2.0).abs() < 2.576 * deviation, "mean gap {mean} at {bytes}");
        }
    }

    #[test]
    fn no_segment_is_dropped_below_min_and_all_are_dropped_above_twice_max() {
        let mut draws = Draws::new(1, 1, Purpose::Queue);
        let decide = |bytes, draws: &mut Draws| AverageQueue { bytes, count: 0 }.decide(&RED, draws);
        assert!((0..1000).all(|_| decide(99_999.0, &mut draws) == RedDecision::Pass));
        assert!((0..1000).all(|_| decide(600_000.0, &mut draws) == RedDecision::Hard));
    }

    #[test]
    fn the_average_follows_the_queue_with_its_weight_and_decays_when_idle() {
        let mut average = AverageQueue::new();
        (0..500).for_each(|_| average.update(&RED, 100_000, 0.0));
        let expected = 100_000.0 * (1.0 - 0.998f64.powi(500));
        assert!((average.bytes - expected).abs() < 1e-6, "{}", average.bytes);
        average.update(&RED, 0, 500.0);
        assert!((average.bytes - expected * 0.998f64.powi(500)).abs() < 1e-6);
    }

    /// An idle time counts once, even if the segment that ends it is dropped (as with Linux's
    /// `red_end_of_idle_period`).
    #[test]
    fn an_idle_time_counts_once() {
        use crate::{PipeSpec, Rate, test_packet::TestPacket};
        let red = Red { min: Bytes(1), max: Bytes(2), weight: 0.1, gentle: false, ..RED };
        // A segment of 1000 B takes 1 ms.
        let rate = Rate::Constant(units::BitRate(8_000_000));
        let mut context = QueueContext::new(&PipeSpec { rate, overhead: 0, ..PipeSpec::default() }, 1, 1);
        let mut queue = RedQueue::new(red, 0);
        queue.average.bytes = 1e6;
        context.now = Fixed::from(Time::from_millis(10));
        let two = TestPacket { first: 0, segments: 2, bytes: 1000, last_bytes: 1000 };
        queue.enqueue(
            QueuedPacket::new(two, context.now, Fixed::ZERO, super::super::LossDraw::Passes),
            &mut context,
        );
        assert_eq!(context.drops.iter().map(|(_, dropped)| dropped.segments).sum::<u32>(), 2);
        // Idle time for ten segments at the first segment, then one more arrival at an empty queue.
        let expected = 1e6 * 0.9f64.powi(11);
        assert!((queue.average.bytes - expected).abs() < 1e-3, "{}", queue.average.bytes);
    }
}
