//! The traffic of udpmon: the sizes and spacings of the grid, and the requests.

use units::Time;

use crate::Train;

/// Number of packet sizes unless they are given.
const SIZES: u32 = 6;
/// Spacings unless they are given, as multiples of the bottleneck's time for the largest packet.
const AUTOMATIC_SPACINGS: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0];

/// A measurement by udpmon.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpmonPlan {
    /// Packet sizes, bytes of IP; ascending.
    pub sizes: Vec<u32>,
    /// Times between two packets, ascending; `None`: multiples of the time that the bottleneck takes for the
    /// largest packet, which is measured first.
    pub spacings: Option<Vec<Time>>,
    /// Number of packets of a train.
    pub packets: usize,
    /// Number of trains of each size and spacing.
    pub rounds: usize,
    /// Number of requests of each size and kind of reply in a round.
    pub requests: usize,
    /// Size of the smallest packet that fits a request and a reply, bytes of IP.
    pub smallest_request: u32,
}

impl UdpmonPlan {
    /// Equally spaced sizes up to `mtu`.
    pub fn default_sizes(mtu: u32) -> Vec<u32> {
        (1..=SIZES).map(|part| mtu * part / SIZES).collect()
    }

    /// Number of spacings.
    pub fn spacing_count(&self) -> usize {
        self.spacings.as_ref().map_or(AUTOMATIC_SPACINGS.len(), Vec::len)
    }

    /// Number of trains of the grid.
    pub fn trains(&self) -> usize {
        self.sizes.len() * self.spacing_count() * self.rounds
    }

    /// Number of trains of a grid with this many sizes and spacings; 0 stands for the default number.
    pub fn count_trains(sizes: usize, spacings: usize, rounds: usize) -> usize {
        let or_default = |given: usize, default: usize| if given == 0 { default } else { given };
        or_default(sizes, SIZES as usize) * or_default(spacings, AUTOMATIC_SPACINGS.len()) * rounds
    }

    /// Sizes of the requests: those of the grid and the smallest.
    pub fn request_sizes(&self) -> Vec<u32> {
        let larger = self.sizes.iter().copied().filter(|bytes| *bytes > self.smallest_request);
        std::iter::once(self.smallest_request).chain(larger).collect()
    }

    /// The load that this host will send: packets, and bytes of IP. The replies have at most the size of the
    /// requests.
    pub fn load(&self) -> (u64, u64) {
        let trains = (self.spacing_count() * self.rounds * self.packets) as u64;
        let requests = (2 * self.requests * self.rounds) as u64;
        let sum = |sizes: &[u32]| sizes.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
        let request_sizes = self.request_sizes();
        (
            trains * self.sizes.len() as u64 + requests * request_sizes.len() as u64,
            trains * sum(&self.sizes) + requests * sum(&request_sizes),
        )
    }

    /// Number of requests that this host will send.
    pub fn request_count(&self) -> u64 {
        self.load().0 - (self.trains() * self.packets) as u64
    }

    /// Minimum duration at an average rate of `max_bps`, s.
    pub fn min_duration_s(&self, max_bps: u64) -> f64 {
        self.load().1 as f64 * 8.0 / max_bps.max(1) as f64
    }

    /// Compares the plan with the maximum rate within a second and the maximum number of bytes in total.
    ///
    /// # Errors
    /// A train or the whole plan exceeds them.
    pub fn check_load(&self, max_bps: u64, max_bytes: Option<u64>) -> Result<(), PlanRefused> {
        let bytes_per_second = self.largest_train().max_bytes_per_second();
        if bytes_per_second > max_bps / 8 {
            return Err(PlanRefused::Train { bytes_per_second });
        }
        let (_, bytes) = self.load();
        match max_bytes {
            Some(limit) if bytes > limit => Err(PlanRefused::Total { bytes }),
            _ => Ok(()),
        }
    }

    /// The train with the most bytes within a second.
    pub fn largest_train(&self) -> Train {
        let min_spacing =
            self.spacings.as_ref().and_then(|all| all.first()).map_or(0, |spacing| spacing.as_nanos());
        Train::spaced(self.sizes.last().copied().unwrap_or(0), self.packets, min_spacing)
    }

    /// The spacings, ns, given the bottleneck's time for the largest packet; rounded to two digits.
    pub(super) fn spacings_ns(&self, largest_ns: f64) -> Vec<u64> {
        match &self.spacings {
            Some(given) => given.iter().map(|spacing| spacing.as_nanos()).collect(),
            None => AUTOMATIC_SPACINGS.iter().map(|multiple| rounded(multiple * largest_ns)).collect(),
        }
    }
}

/// Why a plan exceeds its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanRefused {
    /// A train has this many bytes within a second.
    Train {
        /// Bytes of IP.
        bytes_per_second: u64,
    },
    /// All packets together have this many bytes.
    Total {
        /// Bytes of IP.
        bytes: u64,
    },
}

/// Rounds to two digits.
fn rounded(ns: f64) -> u64 {
    if !(ns.is_finite() && ns >= 1.0) {
        return 0;
    }
    let unit = 10f64.powf((ns.log10().floor() - 1.0).max(0.0));
    ((ns / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_the_sum_of_all_packets() {
        let plan = UdpmonPlan {
            sizes: vec![100, 200],
            spacings: Some(vec![Time::ZERO, Time::from_nanos(1000), Time::from_nanos(2000)]),
            packets: 10,
            rounds: 2,
            requests: 5,
            smallest_request: 52,
        };
        // 12 trains of 10 packets; 20 requests of each of the sizes 52, 100, 200.
        assert_eq!(plan.load(), (120 + 60, 60 * 300 + 20 * 352));
        assert_eq!(plan.request_sizes(), [52, 100, 200]);
        assert_eq!((plan.trains(), plan.request_count()), (12, 60));
        assert_eq!(plan.largest_train(), Train::burst(200, 10));
        assert_eq!(plan.min_duration_s(200_320), 1.0);
        assert_eq!(plan.check_load(16_000, Some(25_040)), Ok(()));
        assert_eq!(plan.check_load(15_992, None), Err(PlanRefused::Train { bytes_per_second: 2000 }));
        assert_eq!(plan.check_load(16_000, Some(25_039)), Err(PlanRefused::Total { bytes: 25_040 }));
        assert_eq!(UdpmonPlan::count_trains(2, 3, 2), plan.trains());
        assert_eq!(UdpmonPlan::count_trains(0, 0, 3), 6 * 7 * 3);
    }

    #[test]
    fn automatic_spacings_are_round_multiples() {
        let plan = UdpmonPlan {
            sizes: UdpmonPlan::default_sizes(1500),
            spacings: None,
            packets: 10,
            rounds: 1,
            requests: 1,
            smallest_request: 52,
        };
        assert_eq!(plan.sizes, [250, 500, 750, 1000, 1250, 1500]);
        assert_eq!(plan.spacings_ns(121_120.0), [0, 30_000, 61_000, 91_000, 120_000, 180_000, 240_000]);
        assert_eq!(plan.spacings_ns(f64::NAN), [0; 7]);
        assert_eq!(rounded(7.0), 7);
    }
}
