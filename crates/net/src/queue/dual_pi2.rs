//! Dual queue coupled AQM: DualPI2 (RFC 9332 appendix A).
//!
//! A PI controller on the classic queue's delay computes p' every `update` (figure 6): p' += alpha (q -
//! target) + beta (q - previous q). Classic segments are dropped or marked with p_C = p'^2; low-latency
//! segments are marked with p_L = max(p_CL, step), where p_CL = k p' and the step marks all segments above
//! its delay. Differences from the RFC:
//! 1. The scheduler is a weighted round robin that gives a tenth to the classic queue, as in Linux's
//!    `sch_dualpi2` (`c_protection` 10 %), not a time-shifted FIFO.
//! 2. The probabilities are applied with random numbers, not with the even spacing of `recur`.
//! 3. Overload: p' is at most 1 / k, so p_CL is at most 1 and p_C at most 1 / k^2 (p_Cmax, 25 %). Above that
//!    both queues drop only when full. The AQM never drops low-latency segments.

use super::{
    Backlog, QueueContext, QueuedPacket,
    segment_queue::{Admission, Mark, SegmentQueue},
};
use crate::{DropCause, DualPi2, Ecn, Packet, fixed::Fixed};

/// While both queues hold packets, one byte in this number comes from the classic queue (`sch_dualpi2`'s
/// `c_protection`).
const CLASSIC_BYTE_PERIOD: i64 = 10;

/// Initial credit of the low-latency queue: it sends nine packets of 1514 B before the classic queue's turn.
const INITIAL_CREDIT_BYTES: i64 = (CLASSIC_BYTE_PERIOD - 1) * 1514;

/// Limit of overdue updates: without packets only the integral term changes p', which has reached its bound
/// by then.
const MAX_OVERDUE_UPDATES: u64 = 1000;

pub(crate) struct DualQueue<P> {
    dual: DualPi2,
    low_latency: SegmentQueue<P>,
    classic: SegmentQueue<P>,
    /// p' of the RFC.
    base: f64,
    /// Delay of the classic queue at the previous update, s.
    previous_delay: f64,
    next_update: Fixed,
    /// If it is not negative, it is the low-latency queue's turn.
    credit: i64,
    last: Option<TrafficClass>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrafficClass {
    LowLatency,
    Classic,
}

impl<P: Packet> DualQueue<P> {
    pub(crate) fn new(dual: DualPi2, overhead: u32) -> Self {
        DualQueue {
            dual,
            low_latency: SegmentQueue::new(overhead),
            classic: SegmentQueue::new(overhead),
            base: 0.0,
            previous_delay: 0.0,
            next_update: Fixed::ZERO,
            credit: INITIAL_CREDIT_BYTES,
            last: None,
        }
    }

    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        self.update(context.now);
        let other = match classify(&queued.packet) {
            TrafficClass::LowLatency => self.classic.backlog(),
            TrafficClass::Classic => self.low_latency.backlog(),
        };
        let limit = context.limit;
        let queue = self.queue_of(classify(&queued.packet));
        queue.admit(queued, context, |_, held, bytes| {
            let total = held.plus(other.packets + 1, other.bytes + bytes);
            if total.exceeds(limit) { Admission::Drop(DropCause::Queue) } else { Admission::Accept }
        });
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        self.queue_of(classify(&queued.packet)).push(queued);
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        self.update(context.now);
        loop {
            let class = self.next_class()?;
            if self.last != Some(class) {
                self.close(context);
            }
            self.last = Some(class);
            let signals = context.draws.happens(self.probability(class, context.now));
            let bytes = match class {
                TrafficClass::Classic if signals && !self.classic.head_ecn().is_capable() => {
                    self.classic.drop_head(DropCause::Aqm, context);
                    continue;
                }
                _ => self.queue_of(class).take(if signals { Mark::Ce } else { Mark::No }, context)?,
            };
            self.update_credit(class, bytes as i64);
            return Some(bytes);
        }
    }

    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        self.low_latency.close(context);
        self.classic.close(context);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let low_latency = self.low_latency.backlog();
        self.classic.backlog().plus(low_latency.packets, low_latency.bytes)
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.low_latency.head_at().into_iter().chain(self.classic.head_at()).min()
    }

    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        let mut packets = self.low_latency.drain(context);
        packets.extend(self.classic.drain(context));
        packets
    }

    fn queue_of(&mut self, class: TrafficClass) -> &mut SegmentQueue<P> {
        match class {
            TrafficClass::LowLatency => &mut self.low_latency,
            TrafficClass::Classic => &mut self.classic,
        }
    }

    /// The class of the next segment; `None` if both queues are empty.
    fn next_class(&self) -> Option<TrafficClass> {
        match (self.low_latency.is_empty(), self.classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(TrafficClass::LowLatency),
            (true, false) => Some(TrafficClass::Classic),
            (false, false) if self.credit >= 0 => Some(TrafficClass::LowLatency),
            (false, false) => Some(TrafficClass::Classic),
        }
    }

    /// While both queues are not empty, a low-latency byte costs one byte of credit, and a classic byte
    /// returns nine.
    fn update_credit(&mut self, class: TrafficClass, bytes: i64) {
        if self.low_latency.is_empty() || self.classic.is_empty() {
            self.credit = INITIAL_CREDIT_BYTES;
            return;
        }
        self.credit += match class {
            TrafficClass::LowLatency => -bytes,
            TrafficClass::Classic => bytes * (CLASSIC_BYTE_PERIOD - 1),
        };
    }

    fn probability(&self, class: TrafficClass, now: Fixed) -> f64 {
        match class {
            TrafficClass::Classic => self.base * self.base,
            TrafficClass::LowLatency => {
                let waited = now.saturating_sub(self.low_latency.head_at().unwrap_or(now));
                if waited > Fixed::from(self.dual.step) { 1.0 } else { self.dual.coupling * self.base }
            }
        }
    }

    /// Runs all updates of figure 6 that are due.
    fn update(&mut self, now: Fixed) {
        let period = Fixed::from(self.dual.update);
        if period == Fixed::ZERO || now < self.next_update {
            return;
        }
        let delay = now.saturating_sub(self.classic.head_at().unwrap_or(now)).as_secs_f64();
        let due = 1 + now.saturating_sub(self.next_update).count(period);
        let max = 1.0 / self.dual.coupling;
        for _ in 0..due.min(MAX_OVERDUE_UPDATES) {
            let change = self.dual.alpha * (delay - self.dual.target.as_secs_f64())
                + self.dual.beta * (delay - self.previous_delay);
            self.base = (self.base + change).clamp(0.0, max);
            self.previous_delay = delay;
        }
        self.next_update = self.next_update + period * due;
    }
}

/// RFC 9331: ECT(1) and CE identify low-latency packets.
fn classify<P: Packet>(packet: &P) -> TrafficClass {
    match packet.ecn() {
        Ecn::Ect1 | Ecn::CongestionExperienced => TrafficClass::LowLatency,
        Ecn::NotCapable | Ecn::Ect0 => TrafficClass::Classic,
    }
}

#[cfg(test)]
mod tests {
    use units::{Instant, Time};

    use super::{super::LossDraw, *};
    use crate::{PipeSpec, test_packet::TestPacket};

    /// A packet of 1000 B with this ECN codepoint.
    #[derive(Debug, Clone)]
    struct EcnPacket(TestPacket, Ecn);

    impl Packet for EcnPacket {
        fn segments(&self) -> u32 {
            1
        }
        fn segment_bytes(&self) -> u32 {
            self.0.bytes
        }
        fn last_segment_bytes(&self) -> u32 {
            self.0.bytes
        }
        fn split_off(&mut self, _at: u32) -> Self {
            unreachable!("single segments")
        }
        fn ecn(&self) -> Ecn {
            self.1
        }
        fn mark_ce(&mut self) {
            self.1 = Ecn::CongestionExperienced;
        }
    }

    fn queue() -> (DualQueue<EcnPacket>, QueueContext<EcnPacket>) {
        let dual = DualPi2 { step: Time::MAX / 2, ..DualPi2::default() };
        (DualQueue::new(dual, 0), QueueContext::new(&PipeSpec::default(), 3, 0))
    }

    fn queued(ecn: Ecn, at: Fixed) -> QueuedPacket<EcnPacket> {
        let packet = EcnPacket(TestPacket::single(0, 1000), ecn);
        QueuedPacket::new(packet, at, Fixed::ZERO, LossDraw::Pending)
    }

    /// At p' = 0.2 the classic queue signals with p'^2 = 0.04 and the low-latency one with k p' = 0.4.
    #[test]
    fn the_queues_are_coupled_by_the_square_root() {
        let (mut queue, mut context) = queue();
        queue.base = 0.2;
        queue.next_update = Fixed::from(Instant::NEVER);
        let n = 200_000;
        let (mut low_latency, mut classic) = (0, 0);
        for _ in 0..n {
            for ecn in [Ecn::Ect1, Ecn::NotCapable] {
                queue.enqueue(queued(ecn, Fixed::ZERO), &mut context);
            }
            while queue.dequeue(&mut context).is_some() {
                let part = context.closed.take();
                low_latency +=
                    u32::from(part.is_some_and(|part| part.packet.1 == Ecn::CongestionExperienced));
            }
            classic += std::mem::take(&mut context.drops).len();
        }
        for (share, expected) in [(f64::from(low_latency), 0.4), (classic as f64, 0.04f64)] {
            let deviation = (expected * (1.0 - expected) / f64::from(n)).sqrt();
            let share = share / f64::from(n);
            assert!((share - expected).abs() < 2.576 * deviation, "{share}, {expected} expected");
        }
    }

    /// The head has waited for 35 ms, 20 ms above the target: the first update increases p' by alpha 0.02 +
    /// beta 0.035, later ones by alpha times the error plus beta times the growth.
    #[test]
    fn the_base_probability_follows_the_pi_controller() {
        let (mut queue, mut context) = queue();
        let ms = |n: u64| Fixed::from(Time::from_millis(n));
        queue.next_update = ms(35);
        queue.adopt(queued(Ecn::NotCapable, Fixed::ZERO));
        queue.update(ms(35));
        let first = 0.16 * 0.020 + 3.2 * 0.035;
        assert!((queue.base - first).abs() < 1e-9, "{}", queue.base);
        queue.update(ms(50));
        assert!((queue.base - first).abs() < 1e-9, "not before 16 ms have passed");
        queue.update(ms(51));
        let second = first + 0.16 * 0.036 + 3.2 * 0.016;
        assert!((queue.base - second).abs() < 1e-9, "{}", queue.base);
        context.now = ms(52);
        assert_eq!(queue.backlog().packets, 1);
    }
}
