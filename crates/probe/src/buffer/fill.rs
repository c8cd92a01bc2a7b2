//! Trains that grow until they fill the queue, and what each showed.

use units::Time;

use super::{Buffer, Phase};
use crate::{
    statistics::{least, quantile, slope},
    train::{Fleet, Received, Seen, Train},
};

/// How much faster than the capacity a train is sent.
pub(super) const EXCESS: f64 = 2.0;
/// By how much each train is longer than the one before.
const GROWTH: usize = 2;
/// Losses close together: so many packets, of which at least this share of what must be lost is.
const WINDOW: usize = 32;
const DENSE: f64 = 0.5;
/// Trains of the final length.
pub(super) const TRAINS: usize = 4;
/// Rests between two trains, in durations of a train.
const PAUSE: f64 = 6.0;

/// What packets of one size have shown.
#[derive(Debug, Clone, Default)]
pub(super) struct OfSize {
    pub(super) bytes: u32,
    pub(super) least_delay: Option<f64>,
    pub(super) trains: Vec<Full>,
    pub(super) packets: usize,
    /// Losses of the last train, where they were not dense.
    pub(super) sparse: usize,
}

/// A train that filled the queue, or did not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    /// Delay of packets received where losses are dense, ns.
    pub(super) full_delay: f64,
    /// Delay before the first loss of all, ns.
    pub(super) first_delay: f64,
    /// How the delays spread where losses are dense, ns.
    pub(super) spread: f64,
    /// Losses before they became dense.
    pub(super) early: usize,
    /// Losses that there would have been before the first, had packets been lost at that rate from the beginning.
    pub(super) expected: f64,
    /// Bytes that passed before the first loss.
    pub(super) passed: f64,
    /// The rate they were sent at, bit/s.
    pub(super) sent_bps: f64,
    /// What passes of the train while the queue grows, bit/s: the rest of the capacity is other traffic's.
    pub(super) share_bps: Option<f64>,
}

impl Buffer {
    pub(super) fn trains(&self, size: usize, packets: usize, count: usize) -> Fleet {
        let train = Train::paced(self.sizes[size].bytes, packets, self.rate_bps(size));
        let pause = Time((train.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Fleet { trains: vec![train; count], gap: pause }
    }

    pub(super) fn note_delays(&mut self, size: usize, seen: &Seen) {
        let least = least(seen.received().map(|packet| packet.delay_ns()));
        let own = &mut self.sizes[size].least_delay;
        *own = match (*own, least) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Where losses become dense, what the delays are from there on.
    fn full(&self, size: usize, seen: &Seen) -> Option<Full> {
        let sent = seen.sent_bps()?;
        let must = 1.0 - self.passes_bps(size) / sent;
        let enough = (must * DENSE * WINDOW as f64).max(3.0) as usize;
        let lost: Vec<bool> = seen.arrived_ns.iter().map(Option::is_none).collect();
        let first = lost.iter().position(|lost| *lost)?;
        let dense = (first..lost.len().checked_sub(WINDOW)?)
            .find(|at| lost[*at] && lost[*at..at + WINDOW].iter().filter(|lost| **lost).count() >= enough)?;
        let received: Vec<Received> = seen.received().collect();
        let among: Vec<f64> =
            received.iter().filter(|packet| packet.number > dense).map(|packet| packet.delay_ns()).collect();
        let among = if among.len() >= 3 {
            among
        } else {
            vec![received.iter().rfind(|p| p.number < dense)?.delay_ns()]
        };
        let first_delay = received.iter().rfind(|p| p.number < first).map_or(among[0], |p| p.delay_ns());
        let early = lost[first..dense].iter().filter(|lost| **lost).count();
        Some(Full {
            full_delay: quantile(&among, 0.95)?,
            first_delay,
            spread: quantile(&among, 0.9)? - quantile(&among, 0.1)?,
            passed: first as f64 * f64::from(seen.bytes),
            sent_bps: sent,
            share_bps: {
                let growing: Vec<(f64, f64)> = received
                    .iter()
                    .take_while(|p| p.number < first)
                    .map(|p| (p.arrived_ns as f64, p.number as f64 * f64::from(seen.bytes) * 8e9))
                    .collect();
                slope(&growing[growing.len() / 2..])
            },
            early,
            expected: early as f64 / (dense - first).max(1) as f64 * first as f64,
        })
    }

    pub(super) fn grow(&mut self, size: usize, packets: usize, seen: &Seen) {
        self.note_delays(size, seen);
        if self.full(size, seen).is_some() {
            // Somewhat more, so that each of them does.
            let packets = (packets * 3 / 2).min(self.most(size));
            self.sizes[size].packets = packets;
            self.phase = Phase::Fill { size, packets };
        } else if packets < self.most(size) {
            let packets = (packets * GROWTH).min(self.most(size));
            self.phase = Phase::Grow { size, packets };
        } else {
            self.sizes[size].packets = packets;
            self.sizes[size].sparse = seen.lost();
            self.keep_plot(size, seen);
            self.phase = Phase::Fill { size, packets };
        }
    }

    pub(super) fn fill(&mut self, size: usize, packets: usize, seen: &[Seen]) {
        for seen in seen {
            self.note_delays(size, seen);
        }
        let full: Vec<Full> = seen.iter().filter_map(|seen| self.full(size, seen)).collect();
        if full.len() * 2 < seen.len() && packets < self.most(size) {
            self.phase = Phase::Grow { size, packets: (packets * GROWTH).min(self.most(size)) };
            return;
        }
        self.sizes[size].trains = full;
        if size == 0 {
            if let Some(last) = seen.last() {
                self.keep_plot(size, last);
            }
            // Twice as many of half the size fill it as well.
            let smaller =
                (packets as f64 * f64::from(self.sizes[0].bytes) / f64::from(self.sizes[1].bytes)) as usize;
            self.phase = match self.sizes[0].trains.is_empty() {
                true => Phase::Done,
                false => Phase::Grow { size: 1, packets: smaller.min(self.most(1)) },
            };
        } else {
            self.phase = Phase::Done;
        }
    }

    fn keep_plot(&mut self, size: usize, seen: &Seen) {
        let base = self.sizes[size].least_delay.unwrap_or(0.0);
        let queueing = |(number, (sent, arrived)): (usize, (&i64, &Option<i64>))| {
            (number, arrived.map(|at| (at as f64 - *sent as f64 - base) / 1e6))
        };
        self.plot = seen.sent_ns.iter().zip(&seen.arrived_ns).enumerate().map(queueing).collect();
    }
}
