//! The wire behind a queue: loss, corruption, duplication, then delay, jitter and reordering, in this order.
//!
//! Loss, corruption and duplication are for each segment, jitter and reordering for each packet as it leaves the queue
//! (a train or a part of one), as in netem. Without reordering nothing arrives before what was sent before it,
//! also where the delay has been changed.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use units::Time;

use crate::{
    Counters, DropCause, Jitter, Packet, PipeSpec, Reorder, Train,
    draws::{Draws, Purpose},
    fixed::Fixed,
    loss::Loss,
    queue::{LossDrawn, Part},
};

/// On its way to the other end.
#[derive(Debug)]
struct OnWire<P> {
    delivery: Train,
    number: u64,
    packet: P,
}

/// What becomes of a segment on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Arrives { flipped: Option<u64>, copies: u32 },
}

impl Fate {
    pub(crate) const PLAIN: Fate = Fate::Arrives { flipped: None, copies: 1 };
}

pub(crate) struct Wire<P> {
    delay: Time,
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    loss: Option<Loss>,
    corrupt: f64,
    duplicate: f64,
    draws: Draws,
    /// The generator of a loss model, while there is none.
    loss_draws: Draws,
    /// In order of arrival, and anyhow.
    in_order: VecDeque<OnWire<P>>,
    any_order: BinaryHeap<Reverse<OnWire<P>>>,
    last_arrival: Time,
    number: u64,
    /// Packets since one was sent past the others.
    since_reordered: u32,
}

impl<P: Packet> Wire<P> {
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let mut wire = Wire {
            delay: Time(0),
            jitter: None,
            reorder: None,
            loss: None,
            corrupt: 0.0,
            duplicate: 0.0,
            draws: Draws::new(seed, stream, Purpose::Wire),
            loss_draws: Draws::new(seed, stream, Purpose::Loss),
            in_order: VecDeque::new(),
            any_order: BinaryHeap::new(),
            last_arrival: Time(0),
            number: 0,
            since_reordered: 0,
        };
        wire.set(spec);
        wire.loss = Loss::new(&spec.loss, seed, stream);
        wire
    }

    /// New values; what is on the wire keeps its arrival. A loss model that changes starts anew, its generator goes on.
    pub(crate) fn change(&mut self, before: &PipeSpec, spec: &PipeSpec) {
        if before.loss != spec.loss {
            if let Some(loss) = &self.loss {
                self.loss_draws = loss.draws().clone();
            }
            self.loss = Loss::with_draws(&spec.loss, self.loss_draws.clone());
        }
        self.set(spec);
    }

    fn set(&mut self, spec: &PipeSpec) {
        self.delay = spec.delay;
        self.jitter = spec.jitter.filter(|jitter| jitter.spread > Time(0));
        self.reorder = spec.reorder;
        (self.corrupt, self.duplicate) = (spec.corrupt, spec.duplicate);
    }

    /// Takes over the draws of another pipe's losses.
    pub(crate) fn inherit_loss(&mut self, loss: Option<Loss>) {
        self.loss = loss;
    }

    /// Puts something on the wire that arrives as is.
    pub(crate) fn inherit(&mut self, delivery: Train, packet: P) {
        self.arrive_in_order(delivery, packet);
    }

    /// One draw for a whole packet, before it enters the queue.
    pub(crate) fn draw_whole(&mut self, now: Time) -> LossDrawn {
        match self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(now)) {
            true => LossDrawn::Lost,
            false => LossDrawn::Passes,
        }
    }

    /// What becomes of a segment that leaves the queue at `at`.
    pub(crate) fn fate(&mut self, loss: LossDrawn, at: Time) -> Fate {
        let is_lost = match loss {
            LossDrawn::Lost => return Fate::PLAIN,
            LossDrawn::Passes => false,
            LossDrawn::NotYet => self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(at)),
        };
        if is_lost {
            return Fate::Lost;
        }
        let flipped = self.draws.happens(self.corrupt).then(|| self.draws.bits());
        let copies = 1 + u32::from(self.draws.happens(self.duplicate));
        Fate::Arrives { flipped, copies }
    }

    /// A packet with one fate has left the queue, its first segment at `first` and its last at `last`.
    pub(crate) fn launch(
        &mut self,
        (first, last): (Fixed, Fixed),
        part: Part<P>,
        fate: Fate,
        counters: &mut Counters,
        drops: &mut Vec<(Time, DropCause, P)>,
    ) {
        let segments = u64::from(part.packet.segments());
        let mut packet = part.packet;
        match fate {
            Fate::Arrives { flipped, copies } if part.loss != LossDrawn::Lost => {
                if let Some(random) = flipped {
                    packet.corrupt(random);
                    counters.corrupted += segments;
                }
                for _ in 1..copies {
                    counters.duplicated += segments;
                    self.send(first, last, packet.clone(), counters);
                }
                self.send(first, last, packet, counters);
            }
            _ => {
                counters.dropped_loss += segments;
                drops.push((last.ceil(), DropCause::Loss, packet));
            }
        }
    }

    /// When the next packet arrives.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let in_order = self.in_order.front().map(|next| next.delivery.last);
        let any_order = self.any_order.peek().map(|next| next.0.delivery.last);
        in_order.into_iter().chain(any_order).min()
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Train, P)> {
        let key = |next: &OnWire<P>| (next.delivery.last, next.number);
        let (ring, heap) = (self.in_order.front().map(key), self.any_order.peek().map(|next| key(&next.0)));
        let from_ring = match (ring, heap) {
            (Some(ring), Some(heap)) => ring < heap,
            (ring, _) => ring.is_some(),
        };
        if self.next_due()? > now {
            return None;
        }
        let next =
            if from_ring { self.in_order.pop_front() } else { self.any_order.pop().map(|next| next.0) };
        next.map(|next| (next.delivery, next.packet))
    }

    fn send(&mut self, first: Fixed, last: Fixed, packet: P, counters: &mut Counters) {
        let (first, last) = (first.ceil(), last.ceil());
        if self.overtakes() {
            counters.reordered += 1;
            self.arrive_any_order(Train { first, last }, packet);
            return;
        }
        let delay = self.delay_of_one();
        let delivery = Train { first: first + delay, last: last + delay };
        if self.jitter.is_some_and(|jitter| jitter.reorders) {
            self.arrive_any_order(delivery, packet);
        } else {
            self.arrive_in_order(delivery, packet);
        }
    }

    fn delay_of_one(&mut self) -> Time {
        let Some(jitter) = self.jitter else { return self.delay };
        let deviation = self.draws.deviation(jitter.distribution) * jitter.spread.0 as f64;
        Time(libm::round(self.delay.0 as f64 + deviation) as u64)
    }

    /// As in netem: the first gap - 1 packets are delayed, then each overtakes with the probability; one that does
    /// begins a new gap.
    fn overtakes(&mut self) -> bool {
        let Some(reorder) = self.reorder else { return false };
        let overtakes =
            self.since_reordered + 1 >= reorder.gap.max(1) && self.draws.happens(reorder.probability);
        self.since_reordered = if overtakes { 0 } else { self.since_reordered.saturating_add(1) };
        overtakes
    }

    fn arrive_in_order(&mut self, delivery: Train, packet: P) {
        let first = delivery.first.max(self.last_arrival);
        let last = delivery.last.max(self.last_arrival);
        self.last_arrival = last;
        self.in_order.push_back(OnWire { delivery: Train { first, last }, number: self.number, packet });
        self.number += 1;
    }

    fn arrive_any_order(&mut self, delivery: Train, packet: P) {
        self.any_order.push(Reverse(OnWire { delivery, number: self.number, packet }));
        self.number += 1;
    }
}

impl<P> PartialEq for OnWire<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for OnWire<P> {}

impl<P> PartialOrd for OnWire<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for OnWire<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.delivery.last, self.number).cmp(&(other.delivery.last, other.number))
    }
}
