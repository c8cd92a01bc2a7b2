//! A receiving application that pauses reading, like a program that computes, swaps or hangs.
//!
//! Data that arrives during the pause fills the receive buffer; then the kernel closes the window and the
//! sender probes it (RFC 9293 section 3.8.6.1). This module implements only the application's pause.

use std::time::{Duration, Instant};

use crate::Stop;

/// Interval at which a pausing application checks for a stop.
const TICK: Duration = Duration::from_millis(5);

/// The time in which the receiving application does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPause {
    /// The application stops reading at this time.
    pub from: Instant,
    /// The application resumes at this time; `None`: never.
    pub until: Option<Instant>,
}

impl ReadPause {
    /// Whether the application pauses at `now`.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        now >= self.from && self.until.is_none_or(|until| now < until)
    }

    /// The time until the pause begins; `None` once it has begun.
    pub(crate) fn begins_in(&self, now: Instant) -> Option<Duration> {
        (now < self.from).then(|| self.from - now)
    }

    /// Waits until the pause is over or `stop` is set.
    pub(crate) fn wait(&self, stop: &Stop) {
        loop {
            let now = Instant::now();
            if stop.is_set() || !self.holds(now) {
                return;
            }
            std::thread::sleep(self.until.map_or(TICK, |until| TICK.min(until - now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_includes_its_beginning_but_not_its_end() {
        let from = Instant::now() + Duration::from_secs(10);
        let second = Duration::from_secs(1);
        let pause = ReadPause { from, until: Some(from + second) };
        assert!(!pause.holds(from - second) && pause.holds(from) && !pause.holds(from + second));
        assert_eq!((pause.begins_in(from - second), pause.begins_in(from)), (Some(second), None));
        assert!(ReadPause { from, until: None }.holds(from + 1000 * second));
    }

    #[test]
    fn a_stop_ends_a_pause_that_never_ends() {
        let stop = Stop::default();
        stop.set();
        ReadPause { from: Instant::now(), until: None }.wait(&stop);
    }
}
