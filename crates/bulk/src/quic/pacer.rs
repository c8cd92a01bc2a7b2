//! Paces datagrams at a rate: the user's limit, or the rate that the congestion control requests.

use std::time::{Duration, Instant};

/// Maximum burst of a late sender: the datagrams that the rate allows in this time.
const MAX_BURST: Duration = Duration::from_millis(2);

/// Determines when the next datagram may be sent.
#[derive(Debug)]
pub struct Pacer {
    due: Instant,
}

impl Pacer {
    /// The first datagram may be sent at `now`.
    pub fn new(now: Instant) -> Self {
        Pacer { due: now }
    }

    /// When the next datagram may be sent.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Records that a datagram was sent. `rate` is in bytes/s; `None` sets no limit.
    pub fn sent(&mut self, now: Instant, bytes: usize, rate: Option<u64>) {
        let earliest = now.checked_sub(MAX_BURST).unwrap_or(now);
        self.due = match rate {
            Some(rate) => self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64),
            None => now,
        };
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have a clock and threads")]
mod tests {
    use super::*;

    #[test]
    fn a_late_sender_catches_up_by_at_most_two_milliseconds() {
        let start = Instant::now();
        let mut pacer = Pacer::new(start);
        // 1 MB/s: a datagram of 1000 B each ms.
        pacer.sent(start, 1000, Some(1_000_000));
        assert_eq!(pacer.due(), start + Duration::from_millis(1));
        let late = start + Duration::from_millis(500);
        let mut count = 0;
        while pacer.due() <= late {
            pacer.sent(late, 1000, Some(1_000_000));
            count += 1;
        }
        assert_eq!(count, 3);
        pacer.sent(late, 1000, None);
        assert_eq!(pacer.due(), late);
    }
}
