//! The curves of udpmon's pictures: heights, error bars and histograms of a result.

use super::{
    GridCell, GridResult, GridTrain, Histogram, LatencyFit, LatencyPoint, RequestResponseResult, SpacingPoint,
};

/// Error bars are this number of standard errors long in each direction.
const BAR_STANDARD_ERRORS: f64 = 2.0;

/// One-way jitter at the widest spacing, which fills the queue least.
#[derive(Debug, Clone, PartialEq)]
pub struct WidestJitter {
    /// The spacing, microseconds.
    pub spacing_us: f64,
    /// A histogram for each packet size, with the same bins.
    pub by_size: Vec<Histogram>,
    /// The bins, with the jitter of all sizes.
    pub bins: Histogram,
}

impl GridCell {
    /// The percentage of packets that were sent and not received.
    pub fn missing_percent(&self) -> f64 {
        100.0 * (self.sent - self.received) as f64 / self.sent.max(1) as f64
    }

    /// The share of packets that the path lost or a host dropped, 0 to 1; `None` without such a packet.
    pub fn lost_share(&self) -> Option<f64> {
        match self.lost + usize::try_from(self.host_drops).unwrap_or(0) {
            0 => None,
            lost => Some(lost as f64 / self.sent.max(1) as f64),
        }
    }
}

impl SpacingPoint {
    /// The ends of the error bar, microseconds: two standard errors in each direction.
    pub fn error_bar_us(&self) -> (f64, f64) {
        error_bar(self.spacing_us, self.error_us)
    }
}

impl LatencyPoint {
    /// The ends of the error bar of the minimum, microseconds: two standard errors in each direction.
    pub fn error_bar_us(&self) -> (f64, f64) {
        error_bar(self.min_us, self.error_us)
    }
}

fn error_bar(value: f64, standard_error: f64) -> (f64, f64) {
    (value - BAR_STANDARD_ERRORS * standard_error, value + BAR_STANDARD_ERRORS * standard_error)
}

impl LatencyFit {
    /// The latency of a packet on the line, microseconds.
    pub fn latency_us(&self, packet_bytes: u32) -> f64 {
        self.intercept_us.value + f64::from(packet_bytes) * self.per_byte_ns.value / 1e3
    }
}

impl RequestResponseResult {
    /// The latency that all packets have, whatever their size: the smaller intercept of the lines,
    /// microseconds; 0 without a line.
    pub fn base_us(&self) -> f64 {
        let fits = [self.round_trip, self.forward].into_iter().flatten();
        fits.map(|fit| fit.intercept_us.value).min_by(f64::total_cmp).unwrap_or(0.0).max(0.0)
    }
}

impl GridResult {
    /// The bottleneck's time for a packet by the fitted line, s; `None` without a line.
    pub fn bottleneck_time_s(&self, packet_bytes: u32) -> Option<f64> {
        let (per_byte, per_packet) = (self.per_byte_ns?, self.per_packet_us?);
        Some(per_packet.value / 1e6 + f64::from(packet_bytes) * per_byte.value / 1e9)
    }

    /// Number of packets that arrived, and how many of them arrived after a packet that was sent later.
    pub fn received_and_reordered(&self) -> (usize, usize) {
        let sum = |count: fn(&GridCell) -> usize| self.cells.iter().map(count).sum();
        (sum(|cell| cell.received), sum(|cell| cell.reordered))
    }

    /// One-way jitter at the widest spacing.
    pub fn widest_jitter(&self, trains: &[GridTrain]) -> WidestJitter {
        let widest = self.spacings_us.len().saturating_sub(1);
        let jitter_us = |size: Option<usize>| -> Vec<f64> {
            let is_included =
                |train: &&GridTrain| train.spacing == widest && size.is_none_or(|size| train.size == size);
            trains.iter().filter(is_included).flat_map(GridTrain::jitter_us).collect()
        };
        let bins = Histogram::of(&jitter_us(None));
        WidestJitter {
            spacing_us: self.spacings_us.get(widest).copied().unwrap_or(0.0),
            by_size: (0..self.sizes_bytes.len())
                .map(|size| bins.with_values(&jitter_us(Some(size))))
                .collect(),
            bins,
        }
    }
}

impl GridTrain {
    /// Time between the arrivals of a packet and of the one before, s; `None` if one of them was lost.
    pub fn interarrival_s(&self, number: usize) -> Option<f64> {
        let arrived = &self.observation.arrived_ns;
        let (before, after) = ((*arrived.get(number.checked_sub(1)?)?)?, (*arrived.get(number)?)?);
        Some(after.saturating_sub(before) as f64 / 1e9)
    }

    /// For each packet its departure since the first departure, and its arrival since the first arrival, ns
    /// by the clock of each host.
    pub fn relative_times_ns(&self) -> impl Iterator<Item = (i64, Option<i64>)> + '_ {
        let (sent, arrived) = (&self.observation.sent_ns, &self.observation.arrived_ns);
        let first_sent = sent.first().copied().unwrap_or(0);
        let first_arrived = arrived.iter().flatten().min().copied().unwrap_or(0);
        sent.iter().zip(arrived).map(move |(sent, arrived)| {
            (sent.saturating_sub(first_sent), arrived.map(|at| at.saturating_sub(first_arrived)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, TrainObservation, Validity};

    fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    fn cell(sent: usize, received: usize, host_drops: u64) -> GridCell {
        GridCell {
            packet_bytes: 1500,
            spacing_us: 10.0,
            trains: 1,
            sent,
            received,
            lost: sent - received - host_drops as usize,
            host_drops,
            reordered: 3,
            sent_bps: None,
            received_bps: None,
            sent_spacing_us: 10.0,
            received_spacing_us: None,
            is_saturated: false,
            delay_variation_us: None,
            jitter: Histogram::default(),
            interarrival: Histogram::default(),
        }
    }

    fn train(spacing: usize, size: usize, arrived_ns: Vec<Option<i64>>) -> GridTrain {
        let sent_ns = (0..arrived_ns.len() as i64).map(|number| 500 + 1000 * number).collect();
        GridTrain {
            spacing,
            size,
            round: 0,
            observation: TrainObservation { bytes: 1500, sent_ns, arrived_ns, host_drops: 0 },
        }
    }

    fn grid(cells: Vec<GridCell>) -> GridResult {
        GridResult {
            sizes_bytes: vec![100, 1500],
            spacings_us: vec![0.0, 1.0],
            packets: 4,
            rounds: 1,
            cells,
            bottleneck: Vec::new(),
            per_byte_ns: Some(exact(80.0)),
            per_packet_us: Some(exact(3.0)),
            rate_bps: None,
            overhead_bytes: None,
            validity: Validity { valid: true, reasons: Vec::new() },
        }
    }

    #[test]
    fn losses_of_the_path_and_of_the_hosts_are_counted_together() {
        assert_eq!((cell(8, 8, 0).missing_percent(), cell(8, 8, 0).lost_share()), (0.0, None));
        assert_eq!((cell(8, 5, 1).missing_percent(), cell(8, 5, 1).lost_share()), (37.5, Some(0.375)));
        assert_eq!(grid(vec![cell(8, 5, 1), cell(8, 8, 0)]).received_and_reordered(), (13, 6));
    }

    #[test]
    fn lines_have_an_intercept_and_a_slope() {
        // 3 us, and 80 ns for each of 1500 bytes.
        assert!((grid(Vec::new()).bottleneck_time_s(1500).unwrap() - 123e-6).abs() < 1e-12);
        let fit = |us| LatencyFit { per_byte_ns: exact(80.0), intercept_us: exact(us) };
        assert!((fit(40.0).latency_us(1500) - 160.0).abs() < 1e-9);
        let requests = |round_trip, forward| RequestResponseResult {
            points: Vec::new(),
            round_trip,
            forward,
            backward_per_byte_ns: None,
            validity: Validity { valid: true, reasons: Vec::new() },
        };
        assert_eq!(requests(Some(fit(40.0)), Some(fit(35.0))).base_us(), 35.0);
        assert_eq!(requests(Some(fit(-2.0)), None).base_us(), 0.0, "latencies are not negative");
        assert_eq!(requests(None, None).base_us(), 0.0);
    }

    #[test]
    fn a_train_shows_when_its_packets_left_and_arrived() {
        let train = train(0, 0, vec![Some(9000), None, Some(11_000), Some(12_500)]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|number| train.interarrival_s(number)),
            [None, None, None, Some(1.5e-6), None]
        );
        let times: Vec<_> = train.relative_times_ns().collect();
        assert_eq!(times, [(0, Some(0)), (1000, None), (2000, Some(2000)), (3000, Some(3500))]);
    }

    #[test]
    fn jitter_is_taken_at_the_widest_spacing() {
        let arrivals = |jitter: i64| vec![Some(9000), Some(10_000 + jitter), Some(11_000 + jitter)];
        let trains = [train(0, 0, arrivals(77_000)), train(1, 0, arrivals(0)), train(1, 1, arrivals(400))];
        let jitter = grid(Vec::new()).widest_jitter(&trains);
        assert_eq!((jitter.spacing_us, jitter.bins.total()), (1.0, 4));
        assert_eq!(jitter.by_size.iter().map(Histogram::total).collect::<Vec<_>>(), [2, 2]);
        assert!(jitter.by_size.iter().all(|own| own.counts.len() == jitter.bins.counts.len()));
        assert_eq!(jitter.bins.above, 0, "77 us are of another spacing");
    }

    #[test]
    fn error_bars_are_two_standard_errors_long() {
        assert_eq!(error_bar(10.0, 1.5), (7.0, 13.0));
    }
}
