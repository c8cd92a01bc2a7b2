//! Paces a stream at the rate of `-b`: each burst of blocks starts when the rate allows it, counted from the
//! start, so that lateness does not accumulate. A stream that the network delayed catches up, as in iperf3.

use std::time::{Duration, Instant};

use units::BitRate;

/// When the next block may be sent.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_s: f64,
    burst_bytes: f64,
    begin: Instant,
    sent: f64,
}

impl Pace {
    /// Sends `burst` blocks back to back; 0 and 1 mean one.
    pub(crate) fn new(rate: BitRate, block: usize, burst: u32, begin: Instant) -> Self {
        let burst_bytes = block as f64 * f64::from(burst.max(1));
        Pace { bytes_per_s: rate.bytes_per_sec_f64(), burst_bytes, begin, sent: 0.0 }
    }

    /// The time from `now` until the next block may be sent.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let bursts = (self.sent / self.burst_bytes).floor();
        let due = bursts * self.burst_bytes / self.bytes_per_s;
        // At most about a year, which in practice means never.
        let due = Duration::from_secs_f64(due.min(3.0e7));
        (self.begin + due).saturating_duration_since(now)
    }

    /// Counts sent bytes.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.sent += bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_begin_when_the_rate_allows() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        // Blocks of 1000 bytes at 8 Mb/s are due every millisecond; here two are sent every two milliseconds.
        let mut pace = Pace::new(BitRate(8_000_000), 1000, 2, begin);
        assert_eq!(pace.wait(begin), ms(0));
        pace.spend(1000);
        assert_eq!(pace.wait(begin), ms(0), "the burst's second block");
        pace.spend(1000);
        assert_eq!(pace.wait(begin), ms(2));
        assert_eq!(pace.wait(begin + ms(1)), ms(1));
        assert_eq!(pace.wait(begin + ms(50)), ms(0));
    }

    #[test]
    fn a_delayed_stream_catches_up() {
        let begin = Instant::now();
        let mut pace = Pace::new(BitRate(8_000_000), 1000, 0, begin);
        let late = begin + Duration::from_millis(10);
        let mut sent = 0;
        while pace.wait(late).is_zero() {
            pace.spend(1000);
            sent += 1;
        }
        assert_eq!(sent, 11, "those of 0, 1, ... 10 ms");
    }

    #[test]
    fn the_lowest_rate_causes_no_overflow() {
        let begin = Instant::now();
        let mut pace = Pace::new(BitRate(1), 131_072, 0, begin);
        assert!(pace.wait(begin).is_zero());
        pace.spend(131_072);
        assert_eq!(pace.wait(begin), Duration::from_secs(8 * 131_072));
    }
}
