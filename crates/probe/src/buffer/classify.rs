//! What kind of queue it is that trains filled, and what it holds.

use super::{
    Buffer, BufferKind, ETHERNET,
    fill::{EXCESS, Full},
};
use crate::{
    capacity::CapacityAnswer,
    statistics::{median, quantile},
};

/// Other traffic counts from this share of the capacity.
const SOME_CROSS: f64 = 0.1;

/// Losses expected of all trains, of which there were none: e to the minus this is the chance of it.
const SURELY: f64 = 3.0;

impl Buffer {
    /// The queueing delay of a full queue of packets of this size, with what the packet itself takes, ns.
    pub(super) fn full_delay(&self, size: usize) -> Option<f64> {
        let own = &self.sizes[size];
        let full = median(&own.trains.iter().map(|t| t.full_delay).collect::<Vec<_>>())?;
        Some((full - own.least_delay?).max(0.0))
    }

    /// Time of a packet of this size on the link, ns.
    pub(super) fn packet_ns(&self, size: usize) -> f64 {
        f64::from(self.sizes[size].bytes) * 8e9 / self.passes_bps(size).max(1.0)
    }

    /// What a policer's bucket holds: what passed before the first loss, less what tokens came meanwhile. It fills at the capacity
    /// and is emptied by the train and by cross traffic.
    fn policer(&self, known: &CapacityAnswer) -> Option<f64> {
        let drained = |train: &Full| {
            let sent = train.sent_bps.min(known.peak_bps.unwrap_or(f64::INFINITY));
            train.passed * (1.0 - (self.passes_bps(0) - known.cross_bps.unwrap_or(0.0)) / sent)
        };
        // Cross traffic leaves it emptier: the fullest of them.
        quantile(&self.sizes[0].trains.iter().map(drained).collect::<Vec<_>>(), 1.0)
    }

    /// Each train lost its first packet at the same place, as where nobody else takes tokens.
    fn is_regular(&self) -> bool {
        let passed: Vec<f64> = self.sizes[0].trains.iter().map(|train| train.passed).collect();
        let range =
            quantile(&passed, 1.0).zip(quantile(&passed, 0.0)).map_or(0.0, |(most, least)| most - least);
        range <= 2.0 * f64::from(self.sizes[0].bytes)
    }

    pub(super) fn classify(&self, doubts: &mut Vec<String>) -> (BufferKind, Option<f64>) {
        let Some(known) = &self.known else { return (BufferKind::Unknown, None) };
        let (Some(delay), gap) = (self.full_delay(0), self.packet_ns(0)) else {
            if self.sizes[0].sparse > 0 {
                doubts.push(
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
                if known.cross_bps.is_some_and(|cross| cross > SOME_CROSS * self.capacity_bps())
                    || !self.is_regular()
                {
                    doubts.push(
                        "other traffic empties the policer's bucket as well: it holds at least this".into(),
                    );
                }
                return (BufferKind::Policer, Some(self.policer(known).unwrap_or(bucket)));
            }
            // A packet that the bucket pays for takes no time: its own is not in the least delay.
            return (BufferKind::Shaper, Some(delay * self.passes_bps(0) / 8e9));
        }
        let trains = &self.sizes[0].trains;
        let typical =
            |of: fn(&Full) -> f64| median(&trains.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
        let base = self.sizes[0].least_delay.unwrap_or(0.0);
        let (first, early, spread) =
            (typical(|t| t.first_delay) - base, typical(|t| t.early as f64), typical(|t| t.spread));
        if delay < (2.0 * gap).max(noise) {
            doubts.push(
                "packets are lost although the delay does not grow: a policer, or a queue of a packet or two"
                    .into(),
            );
            return (BufferKind::Policer, None);
        }
        if early >= 3.0 && first < 0.8 * delay && first > 2.0 * gap {
            // A link that loses at random would have lost some before a queue stood.
            if trains.iter().map(|t| t.expected).sum::<f64>() < SURELY {
                doubts.push(
                    "packets were dropped before the queue was full: an active queue, or a lossy link".into(),
                );
            }
            return (BufferKind::ActiveQueue, Some((delay / gap + 1.0) * bytes));
        }
        if spread > (0.3 * delay).max(4.0 * gap).max(noise) {
            doubts.push("packets were lost at very different delays: an active queue has no one size".into());
            return (BufferKind::ActiveQueue, None);
        }
        // Full at `packets` of this size; of the other size?
        let packets = delay / gap + 1.0;
        let Some(smaller) = self.full_delay(1).map(|delay| delay / self.packet_ns(1) + 1.0) else {
            doubts.push(
                "packets of a smaller size did not fill it: whether it counts bytes or packets is not known"
                    .into(),
            );
            return (BufferKind::DropTailBytes, Some(packets * bytes));
        };
        let wire = |size: usize| f64::from(self.sizes[size].bytes) + ETHERNET;
        let by_packets = (smaller / packets - 1.0).abs();
        let by_bytes = (smaller * wire(1) / (packets * wire(0)) - 1.0).abs();
        if by_packets.min(by_bytes) > 0.15 {
            doubts.push("packets of two sizes disagree on what the queue holds".into());
        }
        // A packet more would not have fitted, of either size: in bytes the smaller ones are the finer measure.
        if by_packets < by_bytes {
            let shares: Vec<f64> = trains.iter().filter_map(|t| t.share_bps).collect();
            if median(&shares).is_none_or(|share| share < self.passes_bps(0) / (1.0 + SOME_CROSS / EXCESS)) {
                doubts.push("other traffic, whose packets may be smaller, shares a queue that counts packets: it holds at least these".into());
            }
            (BufferKind::DropTailPackets, Some(packets * bytes))
        } else {
            let finer = smaller * wire(1) / wire(0) * bytes;
            (BufferKind::DropTailBytes, Some(finer.clamp(packets * bytes, (packets + 1.0) * bytes)))
        }
    }
}
