//! Pathload's search for a range of rates (Jain and Dovrolis, IEEE/ACM ToN 11(4), 2003): a fleet whose delays
//! increase lowers the upper bound, a fleet whose delays do not increase raises the lower bound, and an
//! inconclusive fleet defines a grey region (the paper's term), whose edges are then searched.

/// The search ends when the range is at most this fraction of the capacity.
const MAX_RANGE: f64 = 0.02;
/// With a grey region it ends when each edge is known to this fraction of the capacity.
const MAX_GREY_EDGE: f64 = 0.03;
/// Maximum number of fleets.
const MAX_FLEETS: usize = 24;

/// The verdict of a fleet on its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FleetVerdict {
    /// Queues grew: the rate exceeds the available bandwidth.
    TooFast,
    /// Queues did not grow: the rate is available.
    Available,
    /// Most streams show neither trend.
    Inconclusive,
}

/// State of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateSearch {
    capacity: f64,
    /// Rates below `low` are available, rates above `high` are not, bit/s.
    pub(crate) low: f64,
    pub(crate) high: f64,
    grey: Option<(f64, f64)>,
    /// The next rate to try, bit/s.
    pub(crate) rate: f64,
    fleets: usize,
}

impl RateSearch {
    /// Searches between zero and slightly more than `capacity`, so that the range contains an idle path's.
    pub(crate) fn below(capacity: f64) -> RateSearch {
        let high = capacity * (1.0 + MAX_RANGE / 2.0);
        RateSearch { capacity, low: 0.0, high, grey: None, rate: high / 2.0, fleets: 0 }
    }

    /// Whether the search has ended: the range is known, or the maximum number of fleets is reached.
    pub(crate) fn is_done(&self) -> bool {
        self.is_exhausted()
            || match self.grey {
                None => self.high - self.low <= MAX_RANGE * self.capacity,
                Some((a, b)) => {
                    self.high - b <= MAX_GREY_EDGE * self.capacity
                        && a - self.low <= MAX_GREY_EDGE * self.capacity
                }
            }
    }

    /// Whether the maximum number of fleets is reached.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.fleets >= MAX_FLEETS
    }

    /// Narrows the range by the verdict of a fleet at `rate`.
    pub(crate) fn narrow(&mut self, verdict: FleetVerdict) {
        let rate = self.rate;
        self.fleets += 1;
        match verdict {
            FleetVerdict::TooFast => {
                self.high = rate;
                self.grey = self.grey.filter(|grey| grey.0 < rate).map(|(a, b)| (a, b.min(rate)));
            }
            FleetVerdict::Available => {
                self.low = rate;
                self.grey = self.grey.filter(|grey| grey.1 > rate).map(|(a, b)| (a.max(rate), b));
            }
            FleetVerdict::Inconclusive => {
                let (a, b) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((a.min(rate), b.max(rate)));
            }
        }
        self.rate = match self.grey {
            None => (self.low + self.high) / 2.0,
            Some((_, b)) if self.high - b > MAX_GREY_EDGE * self.capacity => (b + self.high) / 2.0,
            Some((a, _)) => (self.low + a) / 2.0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_converges_to_the_rate_and_to_a_grey_region() {
        let mut search = RateSearch::below(100.0);
        while !search.is_done() {
            let verdict = if search.rate > 37.0 { FleetVerdict::TooFast } else { FleetVerdict::Available };
            search.narrow(verdict);
        }
        assert!(search.low <= 37.0 && search.high > 37.0 && search.high - search.low <= 2.0, "{search:?}");
        let mut search = RateSearch::below(100.0);
        while !search.is_done() {
            let verdict = match search.rate {
                rate if rate > 60.0 => FleetVerdict::TooFast,
                rate if rate < 40.0 => FleetVerdict::Available,
                _ => FleetVerdict::Inconclusive,
            };
            search.narrow(verdict);
        }
        assert!((37.0..=40.0).contains(&search.low) && (60.0..=63.1).contains(&search.high), "{search:?}");
    }
}
