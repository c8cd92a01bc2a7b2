//! Paces an application that reads or writes at a limited rate.

use std::time::{Duration, Instant};

use units::BitRate;

use crate::Stop;

/// Interval at which a slow application reads or writes, and checks for a stop.
const TICK: Duration = Duration::from_millis(5);

/// Spreads bytes evenly: the total never exceeds the rate times the time since the start.
pub(crate) struct Pace {
    rate: BitRate,
    start: Instant,
    done: u64,
}

impl Pace {
    pub(crate) fn new(rate: BitRate) -> Self {
        Pace { rate, start: Instant::now(), done: 0 }
    }

    /// Waits until one tick's bytes are allowed, or `max` bytes if that is less. Returns the number of
    /// allowed bytes, at most `max`, or 0 when stopped. Does not wait when behind.
    pub(crate) fn wait(&self, stop: &Stop, max: usize) -> usize {
        let bytes_per_second = self.rate.as_f64() / 8.0;
        let tick = (bytes_per_second * TICK.as_secs_f64()) as u64;
        let needed = tick.clamp(1, max as u64);
        while !stop.is_set() {
            let allowed = (self.start.elapsed().as_secs_f64() * bytes_per_second) as u64;
            let due = allowed.saturating_sub(self.done);
            if due >= needed {
                return due.min(max as u64) as usize;
            }
            let missing = Duration::from_secs_f64((needed - due) as f64 / bytes_per_second);
            std::thread::sleep(missing.min(TICK));
        }
        0
    }

    /// Counts bytes that were read or written.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.done += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate requires far more than one write of 64 KiB per tick, and the application must reach it.
    #[test]
    fn a_high_rate_is_reached_with_small_writes() {
        let mut pace = Pace::new(BitRate(1_000_000_000));
        let stop = Stop::default();
        let mut taken = 0;
        while pace.start.elapsed() < Duration::from_millis(200) {
            let bytes = pace.wait(&stop, 65_536);
            pace.spend(bytes);
            taken += bytes;
        }
        let allowed = pace.start.elapsed().as_secs_f64() * 125e6;
        assert!(taken as f64 <= allowed, "{taken} of {allowed}");
        assert!(taken as f64 >= 0.9 * 0.2 * 125e6, "{taken}");
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::default();
        stop.set();
        assert_eq!(Pace::new(BitRate(8)).wait(&stop, 1000), 0);
    }
}
