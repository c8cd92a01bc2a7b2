//! Trains that grow until they fill the queue, and their evaluation.

use units::Time;

use super::{BottleneckBuffer, BufferPhase};
use crate::{
    statistics::{minimum, quantile, slope},
    train::{Fleet, ReceivedPacket, Train, TrainObservation},
};

/// Sending rate of a train, as a multiple of the capacity.
pub(super) const EXCESS_RATE: f64 = 2.0;
/// Factor by which each train is longer than the previous one.
const GROWTH: usize = 2;
/// Number of packets of the window in which losses are counted.
const WINDOW_PACKETS: usize = 32;
/// Losses are dense if the window contains at least this share of the losses that the excess rate causes.
const DENSE_SHARE: f64 = 0.5;
/// Number of trains of the final length.
pub(super) const FINAL_TRAINS: usize = 4;
/// Pause between two trains, as a multiple of a train's duration.
const PAUSE: f64 = 6.0;

/// Measurements with packets of one size.
#[derive(Debug, Clone, Default)]
pub(super) struct SizeSamples {
    pub(super) bytes: u32,
    /// Minimum one-way delay, with the clocks' offset, ns.
    pub(super) min_delay: Option<f64>,
    pub(super) trains: Vec<FullTrain>,
    /// Number of packets of a train.
    pub(super) packets: usize,
    /// Losses of the last train, if they were not dense.
    pub(super) sparse_losses: usize,
}

/// Measurements of a train that filled the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullTrain {
    /// 95th percentile of the delays of packets received among dense losses, ns.
    pub(super) full_delay: f64,
    /// Delay before the first loss, ns.
    pub(super) first_delay: f64,
    /// Difference of the 90th and 10th percentiles of these delays, ns.
    pub(super) spread: f64,
    /// Number of losses before they became dense.
    pub(super) early: usize,
    /// Expected number of losses before the first one, if packets had been lost at the same rate from the
    /// beginning.
    pub(super) expected: f64,
    /// Bytes that passed before the first loss.
    pub(super) passed: f64,
    /// Departure rate, bit/s.
    pub(super) sent_bps: f64,
    /// Arrival rate of the train while the queue grows, bit/s: cross traffic takes the remaining capacity.
    pub(super) share_bps: Option<f64>,
}

impl BottleneckBuffer {
    pub(super) fn fleet(&self, size: usize, packets: usize, count: usize) -> Fleet {
        let train = Train::paced(self.sizes[size].bytes, packets, self.send_rate_bps(size));
        let pause = Time::from_nanos((train.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Fleet { trains: vec![train; count], gap: pause }
    }

    pub(super) fn add_delays(&mut self, size: usize, observation: &TrainObservation) {
        let min = minimum(observation.received().map(|packet| packet.delay_ns()));
        let min_delay = &mut self.sizes[size].min_delay;
        *min_delay = match (*min_delay, min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Evaluates a train; `None` if its losses never become dense, so that it did not fill the queue.
    fn evaluate_full_train(&self, size: usize, observation: &TrainObservation) -> Option<FullTrain> {
        let sent = observation.sent_bps()?;
        let loss_rate = 1.0 - self.capacity_at_size_bps(size) / sent;
        let enough = (loss_rate * DENSE_SHARE * WINDOW_PACKETS as f64).max(3.0) as usize;
        let lost: Vec<bool> = observation.arrived_ns.iter().map(Option::is_none).collect();
        let first = lost.iter().position(|lost| *lost)?;
        let dense = (first..lost.len().checked_sub(WINDOW_PACKETS)?).find(|index| {
            lost[*index]
                && lost[*index..index + WINDOW_PACKETS].iter().filter(|lost| **lost).count() >= enough
        })?;
        let received: Vec<ReceivedPacket> = observation.received().collect();
        let among: Vec<f64> =
            received.iter().filter(|packet| packet.number > dense).map(|packet| packet.delay_ns()).collect();
        let among = if among.len() >= 3 {
            among
        } else {
            vec![received.iter().rfind(|p| p.number < dense)?.delay_ns()]
        };
        let first_delay = received.iter().rfind(|p| p.number < first).map_or(among[0], |p| p.delay_ns());
        let early = lost[first..dense].iter().filter(|lost| **lost).count();
        Some(FullTrain {
            full_delay: quantile(&among, 0.95)?,
            first_delay,
            spread: quantile(&among, 0.9)? - quantile(&among, 0.1)?,
            passed: first as f64 * f64::from(observation.bytes),
            sent_bps: sent,
            share_bps: {
                // Times since 1970 have more digits than f64.
                let start_ns = received.first()?.arrived_ns;
                let since_start = |p: &ReceivedPacket| p.arrived_ns.saturating_sub(start_ns) as f64;
                let growing: Vec<(f64, f64)> = received
                    .iter()
                    .take_while(|p| p.number < first)
                    .map(|p| (since_start(p), p.number as f64 * f64::from(observation.bytes) * 8e9))
                    .collect();
                slope(&growing[growing.len() / 2..])
            },
            early,
            expected: early as f64 / (dense - first).max(1) as f64 * first as f64,
        })
    }

    pub(super) fn add_growing_train(&mut self, size: usize, packets: usize, observation: &TrainObservation) {
        self.add_delays(size, observation);
        if self.evaluate_full_train(size, observation).is_some() {
            // Slightly longer, so that each of the final trains fills the queue.
            let packets = (packets * 3 / 2).min(self.max_train_packets(size));
            self.sizes[size].packets = packets;
            self.phase = BufferPhase::Fill { size, packets };
        } else if packets < self.max_train_packets(size) {
            let packets = (packets * GROWTH).min(self.max_train_packets(size));
            self.phase = BufferPhase::Grow { size, packets };
        } else {
            self.sizes[size].packets = packets;
            self.sizes[size].sparse_losses = observation.lost();
            self.set_plot(size, observation);
            self.phase = BufferPhase::Fill { size, packets };
        }
    }

    pub(super) fn add_final_trains(
        &mut self,
        size: usize,
        packets: usize,
        observations: &[TrainObservation],
    ) {
        for observation in observations {
            self.add_delays(size, observation);
        }
        let full: Vec<FullTrain> = observations
            .iter()
            .filter_map(|observation| self.evaluate_full_train(size, observation))
            .collect();
        if full.len() * 2 < observations.len() && packets < self.max_train_packets(size) {
            self.phase =
                BufferPhase::Grow { size, packets: (packets * GROWTH).min(self.max_train_packets(size)) };
            return;
        }
        self.sizes[size].trains = full;
        if size == 0 {
            if let Some(last) = observations.last() {
                self.set_plot(size, last);
            }
            // Twice as many packets of half the size also fill the queue.
            let smaller =
                (packets as f64 * f64::from(self.sizes[0].bytes) / f64::from(self.sizes[1].bytes)) as usize;
            self.phase = match self.sizes[0].trains.is_empty() {
                true => BufferPhase::Done,
                false => BufferPhase::Grow { size: 1, packets: smaller.min(self.max_train_packets(1)) },
            };
        } else {
            self.phase = BufferPhase::Done;
        }
    }

    fn set_plot(&mut self, size: usize, observation: &TrainObservation) {
        let base = self.sizes[size].min_delay.unwrap_or(0.0);
        let queueing = |(number, (sent, arrived)): (usize, (&i64, &Option<i64>))| {
            (number, arrived.map(|arrived| (arrived.saturating_sub(*sent) as f64 - base) / 1e6))
        };
        self.plot =
            observation.sent_ns.iter().zip(&observation.arrived_ns).enumerate().map(queueing).collect();
    }
}
