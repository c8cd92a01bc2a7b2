//! Determines the kind and the size of the queue that trains filled.

use super::{
    BottleneckBuffer, BufferKind, ETHERNET_HEADER_BYTES,
    fill::{EXCESS_RATE, FullTrain},
};
use crate::{
    capacity::CapacityResult,
    statistics::{median, quantile},
};

/// Minimum cross traffic that counts, as a share of the capacity.
const MIN_CROSS_SHARE: f64 = 0.1;

/// Minimum number of losses expected before the first one, for a lossy link to be excluded: the probability
/// of none is e to the minus this.
const MIN_EXPECTED_LOSSES: f64 = 3.0;

impl BottleneckBuffer {
    /// Queueing delay of a full queue of packets of this size, ns.
    pub(super) fn full_delay(&self, size: usize) -> Option<f64> {
        let samples = &self.sizes[size];
        let full = median(&samples.trains.iter().map(|t| t.full_delay).collect::<Vec<_>>())?;
        Some((full - samples.min_delay?).max(0.0))
    }

    /// Transmission time of a packet of this size, ns.
    pub(super) fn packet_ns(&self, size: usize) -> f64 {
        f64::from(self.sizes[size].bytes) * 8e9 / self.capacity_at_size_bps(size).max(1.0)
    }

    /// Size of a policer's bucket, bytes: the bytes that passed before the first loss, minus the tokens
    /// that arrived meanwhile. The bucket fills at the capacity; the train and cross traffic empty it.
    fn policer_bucket_bytes(&self, capacity: &CapacityResult) -> Option<f64> {
        let drained = |train: &FullTrain| {
            let sent = train.sent_bps.min(capacity.peak_bps.unwrap_or(f64::INFINITY));
            train.passed * (1.0 - (self.capacity_at_size_bps(0) - capacity.cross_bps.unwrap_or(0.0)) / sent)
        };
        // Cross traffic empties the bucket, so the maximum counts.
        quantile(&self.sizes[0].trains.iter().map(drained).collect::<Vec<_>>(), 1.0)
    }

    /// Whether each train lost its first packet at the same position, as without cross traffic.
    fn is_regular(&self) -> bool {
        let passed: Vec<f64> = self.sizes[0].trains.iter().map(|train| train.passed).collect();
        let range = quantile(&passed, 1.0).zip(quantile(&passed, 0.0)).map_or(0.0, |(max, min)| max - min);
        range <= 2.0 * f64::from(self.sizes[0].bytes)
    }

    pub(super) fn classify(&self, warnings: &mut Vec<String>) -> (BufferKind, Option<f64>) {
        let Some(known) = &self.capacity_result else { return (BufferKind::Unknown, None) };
        let (Some(delay), gap) = (self.full_delay(0), self.packet_ns(0)) else {
            if self.sizes[0].sparse_losses > 0 {
                warnings.push(
                    "packets were dropped although the queue was not full: an active queue, or a lossy link"
                        .into(),
                );
                return (BufferKind::ActiveQueue, None);
            }
            return (BufferKind::Unknown, None);
        };
        let bytes = f64::from(self.sizes[0].bytes);
        let bucket = known.bucket_bytes;
        let noise = 3.0 * self.limits.resolution_ns;
        if let Some(bucket) = bucket {
            if delay < (3.0 * gap).max(noise) {
                if known.cross_bps.is_some_and(|cross| cross > MIN_CROSS_SHARE * self.capacity_bps())
                    || !self.is_regular()
                {
                    warnings.push(
                        "cross traffic empties the policer's bucket too: the value is a lower bound of its \
                        size"
                            .into(),
                    );
                }
                return (BufferKind::Policer, Some(self.policer_bucket_bytes(known).unwrap_or(bucket)));
            }
            // Packets that pass with tokens have no transmission time, so the minimum delay does not contain
            // it.
            return (BufferKind::Shaper, Some(delay * self.capacity_at_size_bps(0) / 8e9));
        }
        let trains = &self.sizes[0].trains;
        let typical =
            |of: fn(&FullTrain) -> f64| median(&trains.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
        let base = self.sizes[0].min_delay.unwrap_or(0.0);
        let (first, early, spread) =
            (typical(|t| t.first_delay) - base, typical(|t| t.early as f64), typical(|t| t.spread));
        if delay < (2.0 * gap).max(noise) {
            warnings.push(
                "packets were lost although the delay did not increase: a policer, or a queue of one or two \
                packets"
                    .into(),
            );
            return (BufferKind::Policer, None);
        }
        if early >= 3.0 && first < 0.8 * delay && first > 2.0 * gap {
            // A link with random losses would have lost packets before the queue grew.
            if trains.iter().map(|t| t.expected).sum::<f64>() < MIN_EXPECTED_LOSSES {
                warnings.push(
                    "packets were dropped before the queue was full: an active queue, or a lossy link".into(),
                );
            }
            return (BufferKind::ActiveQueue, Some((delay / gap + 1.0) * bytes));
        }
        if spread > (0.3 * delay).max(4.0 * gap).max(noise) {
            warnings
                .push("packets were lost at very different delays: an active queue has no fixed size".into());
            return (BufferKind::ActiveQueue, None);
        }
        // The queue is full at `packets` packets of this size. Compare with the other size.
        let packets = delay / gap + 1.0;
        let Some(smaller) = self.full_delay(1).map(|delay| delay / self.packet_ns(1) + 1.0) else {
            warnings.push(
                "smaller packets did not fill the queue: whether it is limited in bytes or packets is unknown"
                    .into(),
            );
            return (BufferKind::DropTailBytes, Some(packets * bytes));
        };
        let wire = |size: usize| f64::from(self.sizes[size].bytes) + ETHERNET_HEADER_BYTES;
        let by_packets = (smaller / packets - 1.0).abs();
        let by_bytes = (smaller * wire(1) / (packets * wire(0)) - 1.0).abs();
        if by_packets.min(by_bytes) > 0.15 {
            warnings.push("packets of two sizes disagree on the size of the queue".into());
        }
        // One more packet of either size would not have fitted: the smaller packets give the limit in bytes
        // more precisely.
        if by_packets < by_bytes {
            let shares: Vec<f64> = trains.iter().filter_map(|t| t.share_bps).collect();
            if median(&shares).is_none_or(|share| {
                share < self.capacity_at_size_bps(0) / (1.0 + MIN_CROSS_SHARE / EXCESS_RATE)
            }) {
                warnings.push(
                    "cross traffic, whose packets may be smaller, shares a queue that is limited \
                    in packets: the value is a lower bound"
                        .into(),
                );
            }
            (BufferKind::DropTailPackets, Some(packets * bytes))
        } else {
            let precise = smaller * wire(1) / wire(0) * bytes;
            (BufferKind::DropTailBytes, Some(precise.clamp(packets * bytes, (packets + 1.0) * bytes)))
        }
    }
}
