//! Pathload's search for a range of rates (Jain and Dovrolis, IEEE/ACM ToN 11(4), 2003): a fleet that rises lowers the upper bound, one
//! that does not raises the lower, and one that does both makes a grey region, whose edges are then searched.

/// The search ends where the range is within this share of the capacity; the same for the edges of a grey region.
const RANGE: f64 = 0.02;
const GREY_EDGE: f64 = 0.03;
/// Fleets at most.
const FLEETS: usize = 24;

/// What a fleet of one rate says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Queues grew: it is more than what is available.
    TooFast,
    /// They did not.
    HasRoom,
    /// Neither of most streams.
    Grey,
}

/// Where the search is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Search {
    capacity: f64,
    /// Rates below which there is room, and above which there is not, bit/s.
    pub(crate) low: f64,
    pub(crate) high: f64,
    grey: Option<(f64, f64)>,
    /// What to try next, bit/s.
    pub(crate) rate: f64,
    fleets: usize,
}

impl Search {
    /// Between nothing and `capacity`, and a little above, so that an idle path is inside.
    pub(crate) fn below(capacity: f64) -> Search {
        let high = capacity * (1.0 + RANGE / 2.0);
        Search { capacity, low: 0.0, high, grey: None, rate: high / 2.0, fleets: 0 }
    }

    /// The range is known, or not to be had.
    pub(crate) fn is_done(&self) -> bool {
        self.is_exhausted()
            || match self.grey {
                None => self.high - self.low <= RANGE * self.capacity,
                Some((a, b)) => {
                    self.high - b <= GREY_EDGE * self.capacity && a - self.low <= GREY_EDGE * self.capacity
                }
            }
    }

    /// It did not come to an end.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.fleets >= FLEETS
    }

    /// The fleet at the rate to be tried said this.
    pub(crate) fn narrow(&mut self, verdict: Verdict) {
        let rate = self.rate;
        self.fleets += 1;
        match verdict {
            Verdict::TooFast => {
                self.high = rate;
                self.grey = self.grey.filter(|grey| grey.0 < rate).map(|(a, b)| (a, b.min(rate)));
            }
            Verdict::HasRoom => {
                self.low = rate;
                self.grey = self.grey.filter(|grey| grey.1 > rate).map(|(a, b)| (a.max(rate), b));
            }
            Verdict::Grey => {
                let (a, b) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((a.min(rate), b.max(rate)));
            }
        }
        self.rate = match self.grey {
            None => (self.low + self.high) / 2.0,
            Some((_, b)) if self.high - b > GREY_EDGE * self.capacity => (b + self.high) / 2.0,
            Some((a, _)) => (self.low + a) / 2.0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_closes_in_on_the_rate_and_on_a_grey_region() {
        let mut search = Search::below(100.0);
        while !search.is_done() {
            let verdict = if search.rate > 37.0 { Verdict::TooFast } else { Verdict::HasRoom };
            search.narrow(verdict);
        }
        assert!(search.low <= 37.0 && search.high > 37.0 && search.high - search.low <= 2.0, "{search:?}");
        let mut search = Search::below(100.0);
        while !search.is_done() {
            let verdict = match search.rate {
                rate if rate > 60.0 => Verdict::TooFast,
                rate if rate < 40.0 => Verdict::HasRoom,
                _ => Verdict::Grey,
            };
            search.narrow(verdict);
        }
        assert!((37.0..=40.0).contains(&search.low) && (60.0..=63.1).contains(&search.high), "{search:?}");
    }
}
