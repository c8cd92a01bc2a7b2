//! The wire behind a queue: loss, corruption, duplication, then delay, jitter and reordering, in this order.
//!
//! As in netem, loss, corruption and duplication apply to each segment; jitter and reordering apply to each
//! packet as it leaves the queue (a train or a part of one). Without reordering, packets arrive in the order
//! in which they were sent, even if the delay changes.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use units::{Instant, Time};

use crate::{
    DropCause, Jitter, Packet, PipeCounters, PipeSpec, Reorder, TrainTimes,
    draws::{Draws, Purpose},
    fixed::Fixed,
    loss::Loss,
    queue::{LossDraw, PacketPart},
};

/// A packet on the wire.
#[derive(Debug)]
struct OnWire<P> {
    delivery: TrainTimes,
    number: u64,
    packet: P,
}

/// The effect of the wire on a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFate {
    Lost,
    /// `flipped` selects a bit to flip.
    Arrives {
        flipped: Option<u64>,
        copies: u32,
    },
}

impl WireFate {
    pub(crate) const UNIMPAIRED: WireFate = WireFate::Arrives { flipped: None, copies: 1 };
}

/// A wire with impairments.
pub(crate) struct ImpairedWire<P> {
    delay: Time,
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    loss: Option<Loss>,
    corrupt: f64,
    duplicate: f64,
    draws: Draws,
    /// The generator for the next loss model, while there is no loss model.
    loss_draws: Draws,
    /// Packets that arrive in the order in which they were sent.
    in_order: VecDeque<OnWire<P>>,
    /// Packets that may overtake others.
    any_order: BinaryHeap<Reverse<OnWire<P>>>,
    last_arrival: Instant,
    number: u64,
    /// Packets since the last one that overtook others.
    since_reordered: u32,
}

impl<P: Packet> ImpairedWire<P> {
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let mut wire = ImpairedWire {
            delay: Time::ZERO,
            jitter: None,
            reorder: None,
            loss: None,
            corrupt: 0.0,
            duplicate: 0.0,
            draws: Draws::new(seed, stream, Purpose::Wire),
            loss_draws: Draws::new(seed, stream, Purpose::Loss),
            in_order: VecDeque::new(),
            any_order: BinaryHeap::new(),
            last_arrival: Instant::ZERO,
            number: 0,
            since_reordered: 0,
        };
        wire.apply(spec);
        wire.loss = Loss::new(&spec.loss, seed, stream);
        wire
    }

    /// Applies a new specification. Packets on the wire keep their arrival time. A changed loss model starts
    /// in its initial state, but its generator continues.
    pub(crate) fn change(&mut self, before: &PipeSpec, spec: &PipeSpec) {
        if before.loss != spec.loss {
            if let Some(loss) = &self.loss {
                self.loss_draws = loss.draws().clone();
            }
            self.loss = Loss::with_draws(&spec.loss, self.loss_draws.clone());
        }
        self.apply(spec);
    }

    fn apply(&mut self, spec: &PipeSpec) {
        self.delay = spec.delay;
        self.jitter = spec.jitter.filter(|jitter| jitter.spread > Time::ZERO);
        self.reorder = spec.reorder;
        (self.corrupt, self.duplicate) = (spec.corrupt, spec.duplicate);
    }

    /// Takes over the loss model of another pipe, with its state.
    pub(crate) fn inherit_loss(&mut self, loss: Option<Loss>) {
        self.loss = loss;
    }

    /// Takes over a packet on another pipe's wire, with its arrival time.
    pub(crate) fn inherit(&mut self, delivery: TrainTimes, packet: P) {
        self.arrive_in_order(delivery, packet);
    }

    /// Decides on the loss of a whole packet, before it enters the queue.
    pub(crate) fn draw_for_packet(&mut self, now: Instant) -> LossDraw {
        match self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(now)) {
            true => LossDraw::Lost,
            false => LossDraw::Passes,
        }
    }

    /// Decides the fate of a segment that leaves the queue at `at`.
    pub(crate) fn fate(&mut self, loss: LossDraw, at: Instant) -> WireFate {
        let is_lost = match loss {
            LossDraw::Lost => return WireFate::UNIMPAIRED,
            LossDraw::Passes => false,
            LossDraw::Pending => self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(at)),
        };
        if is_lost {
            return WireFate::Lost;
        }
        let flipped = self.draws.happens(self.corrupt).then(|| self.draws.bits());
        let copies = 1 + u32::from(self.draws.happens(self.duplicate));
        WireFate::Arrives { flipped, copies }
    }

    /// Launches a part whose segments have the same fate. Its first segment left the queue at `first` and its
    /// last at `last`.
    pub(crate) fn launch(
        &mut self,
        (first, last): (Fixed, Fixed),
        part: PacketPart<P>,
        fate: WireFate,
        counters: &mut PipeCounters,
        drops: &mut Vec<(Instant, DropCause, P)>,
    ) {
        let segments = u64::from(part.packet.segments());
        let mut packet = part.packet;
        match fate {
            WireFate::Arrives { flipped, copies } if part.loss != LossDraw::Lost => {
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
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|next| next.delivery.last);
        let any_order = self.any_order.peek().map(|next| next.0.delivery.last);
        in_order.into_iter().chain(any_order).min()
    }

    /// Takes the next packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(TrainTimes, P)> {
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

    fn send(&mut self, first: Fixed, last: Fixed, packet: P, counters: &mut PipeCounters) {
        let (first, last) = (first.ceil(), last.ceil());
        if self.overtakes() {
            counters.reordered += 1;
            self.arrive_any_order(TrainTimes { first, last }, packet);
            return;
        }
        let delay = self.draw_delay();
        let delivery = TrainTimes { first: first + delay, last: last + delay };
        if self.jitter.is_some_and(|jitter| jitter.reorders) {
            self.arrive_any_order(delivery, packet);
        } else {
            self.arrive_in_order(delivery, packet);
        }
    }

    fn draw_delay(&mut self) -> Time {
        let Some(jitter) = self.jitter else { return self.delay };
        let deviation = self.draws.deviation(jitter.distribution) * jitter.spread.as_nanos_f64();
        Time::from_nanos(libm::round(self.delay.as_nanos_f64() + deviation) as u64)
    }

    /// As in netem: the first gap - 1 packets are delayed, then each packet overtakes with the probability;
    /// when one does, a new gap begins.
    fn overtakes(&mut self) -> bool {
        let Some(reorder) = self.reorder else { return false };
        let overtakes =
            self.since_reordered + 1 >= reorder.gap.max(1) && self.draws.happens(reorder.probability);
        self.since_reordered = if overtakes { 0 } else { self.since_reordered.saturating_add(1) };
        overtakes
    }

    fn arrive_in_order(&mut self, delivery: TrainTimes, packet: P) {
        let first = delivery.first.max(self.last_arrival);
        let last = delivery.last.max(self.last_arrival);
        self.last_arrival = last;
        self.in_order.push_back(OnWire { delivery: TrainTimes { first, last }, number: self.number, packet });
        self.number += 1;
    }

    fn arrive_any_order(&mut self, delivery: TrainTimes, packet: P) {
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
