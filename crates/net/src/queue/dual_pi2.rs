//! Dual queue coupled AQM: DualPI2 (RFC 9332 appendix A).
//!
//! A PI controller on the classic queue's delay gives p' every `update` (figure 6): p' += alpha (q - target) +
//! beta (q - q before). Classic segments are dropped or marked with p_C = p'^2; low-latency ones marked with p_L = max(p_CL,
//! step), where p_CL = k p' and the step marks all above its delay.
//! Departures from the RFC:
//! 1. The scheduler is a weighted round robin that leaves a tenth to the classic queue, as Linux's `sch_dualpi2`
//!    (`c_protection` 10 %), not a time-shifted FIFO.
//! 2. The probabilities are met by random draws, not by `recur`'s even spacing.
//! 3. Overload: p' is at most 1 / k, so p_CL at most 1 and p_C at most 1 / k^2 (p_Cmax, 25 %); beyond that both queues
//!    drop for want of room. Low-latency segments are never dropped by decision.

use super::{
    Backlog, Desk, Item,
    desk::{Fate, may_be_marked},
    lane::{Lane, Mark},
};
use crate::{DropCause, DualPi2, Ecn, Packet, fixed::Fixed};

/// Of ten bytes the classic queue gets one where both have something (`sch_dualpi2`'s `c_protection`).
const CLASSIC_SHARE: i64 = 10;

/// The low-latency queue begins with this much credit: nine packets of 1514 B before the classic one's turn.
const FIRST_CREDIT_BYTES: i64 = (CLASSIC_SHARE - 1) * 1514;

pub(crate) struct DualQueue<P> {
    dual: DualPi2,
    low: Lane<P>,
    classic: Lane<P>,
    /// p' of the RFC.
    base: f64,
    delay_before: f64,
    next_update: Fixed,
    /// Positive: the low-latency queue's turn.
    credit: i64,
    last: Option<Which>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Low,
    Classic,
}

impl<P: Packet> DualQueue<P> {
    pub(crate) fn new(dual: DualPi2, overhead: u32) -> Self {
        DualQueue {
            dual,
            low: Lane::new(overhead),
            classic: Lane::new(overhead),
            base: 0.0,
            delay_before: 0.0,
            next_update: Fixed::ZERO,
            credit: FIRST_CREDIT_BYTES,
            last: None,
        }
    }

    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        self.update(desk.now);
        let other = match class(&item.packet) {
            Which::Low => self.classic.backlog(),
            Which::Classic => self.low.backlog(),
        };
        let limit = desk.limit;
        let lane = self.lane(class(&item.packet));
        desk.admit(lane, item, |_, held, bytes| {
            let all = held.and(other.packets + 1, other.bytes + bytes);
            if all.exceeds(limit) { Fate::Drop(DropCause::Queue) } else { Fate::Enter }
        });
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        self.lane(class(&item.packet)).push(item);
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        self.update(desk.now);
        loop {
            let which = self.turn()?;
            if self.last != Some(which) {
                self.close(desk);
            }
            self.last = Some(which);
            let wanted = desk.draws.happens(self.probability(which, desk.now));
            let bytes = match which {
                Which::Classic if wanted && !may_be_marked(self.classic.head_ecn()) => {
                    self.classic.drop_head(DropCause::Aqm, desk);
                    continue;
                }
                _ => self.lane(which).take(if wanted { Mark::Ce } else { Mark::No }, desk)?,
            };
            self.pay(which, bytes as i64);
            return Some(bytes);
        }
    }

    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        self.low.close(desk);
        self.classic.close(desk);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let low = self.low.backlog();
        self.classic.backlog().and(low.packets, low.bytes)
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.low.head_at().into_iter().chain(self.classic.head_at()).min()
    }

    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        let mut items = self.low.drain(desk);
        items.extend(self.classic.drain(desk));
        items
    }

    fn lane(&mut self, which: Which) -> &mut Lane<P> {
        match which {
            Which::Low => &mut self.low,
            Which::Classic => &mut self.classic,
        }
    }

    fn turn(&self) -> Option<Which> {
        match (self.low.is_empty(), self.classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(Which::Low),
            (true, false) => Some(Which::Classic),
            (false, false) if self.credit >= 0 => Some(Which::Low),
            (false, false) => Some(Which::Classic),
        }
    }

    /// While both have something: a byte of the low-latency queue costs one, a classic one pays nine back.
    fn pay(&mut self, which: Which, bytes: i64) {
        if self.low.is_empty() || self.classic.is_empty() {
            self.credit = FIRST_CREDIT_BYTES;
            return;
        }
        self.credit += match which {
            Which::Low => -bytes,
            Which::Classic => bytes * (CLASSIC_SHARE - 1),
        };
    }

    fn probability(&self, which: Which, now: Fixed) -> f64 {
        match which {
            Which::Classic => self.base * self.base,
            Which::Low => {
                let waited = now.saturating_sub(self.low.head_at().unwrap_or(now));
                if waited > Fixed::from(self.dual.step) { 1.0 } else { self.dual.coupling * self.base }
            }
        }
    }

    /// Figure 6, for all updates that are due.
    fn update(&mut self, now: Fixed) {
        let period = Fixed::from(self.dual.update);
        if period == Fixed::ZERO || now < self.next_update {
            return;
        }
        let delay = now.saturating_sub(self.classic.head_at().unwrap_or(now)).as_secs_f64();
        let due = 1 + now.saturating_sub(self.next_update).count(period);
        let most = 1.0 / self.dual.coupling;
        // Nothing happens between two packets but the integral part going on; after a thousand it has had its say.
        for _ in 0..due.min(1000) {
            let change = self.dual.alpha * (delay - self.dual.target.as_secs_f64())
                + self.dual.beta * (delay - self.delay_before);
            self.base = (self.base + change).clamp(0.0, most);
            self.delay_before = delay;
        }
        self.next_update = self.next_update + period * due;
    }
}

/// RFC 9331: ECT(1) and CE say low latency.
fn class<P: Packet>(packet: &P) -> Which {
    match packet.ecn() {
        Ecn::Ect1 | Ecn::CongestionExperienced => Which::Low,
        Ecn::NotCapable | Ecn::Ect0 => Which::Classic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PipeSpec, test_packet::TestPacket};

    /// A packet of 1000 B and this codepoint.
    #[derive(Debug, Clone)]
    struct Coded(TestPacket, Ecn);

    impl Packet for Coded {
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

    fn queue() -> (DualQueue<Coded>, Desk<Coded>) {
        let dual = DualPi2 { step: units::Time(u64::MAX / 2), ..DualPi2::default() };
        (DualQueue::new(dual, 0), Desk::new(&PipeSpec::default(), 3, 0))
    }

    fn item(ecn: Ecn, at: Fixed) -> Item<Coded> {
        Item::new(Coded(TestPacket::single(0, 1000), ecn), at, Fixed::ZERO, super::super::LossDrawn::NotYet)
    }

    /// At p' = 0.2 the classic queue signals with p'^2 = 0.04 and the low-latency one with k p' = 0.4.
    #[test]
    fn the_queues_are_coupled_by_the_square_root() {
        let (mut queue, mut desk) = queue();
        queue.base = 0.2;
        queue.next_update = Fixed::from(units::Time(u64::MAX));
        let n = 200_000;
        let (mut low, mut classic) = (0, 0);
        for _ in 0..n {
            for ecn in [Ecn::Ect1, Ecn::NotCapable] {
                queue.enqueue(item(ecn, Fixed::ZERO), &mut desk);
            }
            while queue.dequeue(&mut desk).is_some() {
                let part = desk.closed.take();
                low += u32::from(part.is_some_and(|part| part.packet.1 == Ecn::CongestionExperienced));
            }
            classic += std::mem::take(&mut desk.drops).len();
        }
        for (share, expected) in [(f64::from(low), 0.4), (classic as f64, 0.04f64)] {
            let deviation = (expected * (1.0 - expected) / f64::from(n)).sqrt();
            let share = share / f64::from(n);
            assert!((share - expected).abs() < 2.576 * deviation, "{share}, {expected} expected");
        }
    }

    /// With a head that waits 35 ms, 20 above the target: p' grows by alpha 0.02 + beta 0.035 at first, then by
    /// alpha times the error and beta times the growth.
    #[test]
    fn the_base_probability_follows_the_pi_controller() {
        let (mut queue, mut desk) = queue();
        let ms = |n: u64| Fixed::from(units::Time(n * 1_000_000));
        queue.next_update = ms(35);
        queue.adopt(item(Ecn::NotCapable, Fixed::ZERO));
        queue.update(ms(35));
        let first = 0.16 * 0.020 + 3.2 * 0.035;
        assert!((queue.base - first).abs() < 1e-9, "{}", queue.base);
        queue.update(ms(50));
        assert!((queue.base - first).abs() < 1e-9, "not before 16 ms have passed");
        queue.update(ms(51));
        let second = first + 0.16 * 0.036 + 3.2 * 0.016;
        assert!((queue.base - second).abs() < 1e-9, "{}", queue.base);
        desk.now = ms(52);
        assert_eq!(queue.backlog().packets, 1);
    }
}
