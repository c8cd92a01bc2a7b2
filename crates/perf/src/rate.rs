//! The pace of an application that reads or writes slowly.

use std::time::{Duration, Instant};

use units::BitRate;

use crate::Stop;

/// How often a slow application works.
const TICK: Duration = Duration::from_millis(5);

/// Spreads bytes evenly: in any tick no more than the rate allows since the start.
pub(crate) struct Pace {
    rate: BitRate,
    start: Instant,
    done: u64,
}

impl Pace {
    pub(crate) fn new(rate: BitRate) -> Self {
        Pace { rate, start: Instant::now(), done: 0 }
    }

    /// Waits until some bytes are allowed and returns how many; 0 when stopped.
    pub(crate) fn wait(&self, stop: &Stop) -> usize {
        while !stop.is_set() {
            let allowed = (self.start.elapsed().as_secs_f64() * self.rate.as_f64() / 8.0) as u64;
            if allowed > self.done {
                return usize::try_from(allowed - self.done).unwrap_or(usize::MAX);
            }
            std::thread::sleep(TICK);
        }
        0
    }

    /// Counts bytes that were read or written, then rests for the rest of the tick.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.done += bytes as u64;
        std::thread::sleep(TICK);
    }
}
