//! A file (`-F`) that was sent is acknowledged by the server's kernel, not by its program: iperf3's server closes its streams when
//! it receives TEST_END, and drops what it has not read. So the client gives the server time to read before it sends that.
//!
//! It also ends its direction of each stream (FIN): since 3.16 iperf3's server reads whole blocks, and takes a file's last piece only
//! at the stream's end.
//!
//! The announced window shows that a program reads, but not that it has read all: the kernel limits it below the free space
//! (`rcv_ssthresh`) and does not announce each change. The time is therefore estimated: as long as the server's receive buffer
//! takes at the rate of the test, twice, within limits; longer while the window still changes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::iperf3::{Error, control::Control, running::Running, stream::Stream};

/// The wait is at least this long: a busy server's program may not run for a while.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// What the estimate is limited to.
const ESTIMATE_MAX: Duration = Duration::from_secs(5);
/// The wait is at most this long, also while the window changes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Receive buffers are assumed to be this large (Linux's `tcp_rmem` has 6 MiB), bytes.
const BUFFER_BYTES: u64 = 8 << 20;
/// How often the window is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Ends the streams, which this end sends on, and waits until the server's program has probably read what its kernel has acknowledged in `sending`. Returns for how long.
pub(super) fn settle(
    running: &Running,
    control: &Control<'_>,
    sending: Duration,
    stop: &AtomicBool,
) -> Result<Duration, Error> {
    running.streams().iter().for_each(Stream::end);
    let (begin, wait) = (Instant::now(), estimate(running.bytes(), sending));
    let mut windows = windows(running);
    let mut changed = begin;
    while begin.elapsed() < WAIT_MAX && (begin.elapsed() < wait || changed.elapsed() < WAIT_MIN / 2) {
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        if control.wait(SAMPLE_INTERVAL)? {
            // The server has something to say, or is gone.
            break;
        }
        let now = self::windows(running);
        if now != windows {
            (windows, changed) = (now, Instant::now());
        }
    }
    Ok(begin.elapsed())
}

/// Twice the time in which so many bytes' rate empties a receive buffer.
fn estimate(bytes: u64, sending: Duration) -> Duration {
    let unread = BUFFER_BYTES.min(bytes) as f64;
    let time = 2.0 * sending.as_secs_f64() * unread / (bytes.max(1) as f64);
    Duration::from_secs_f64(time.min(ESTIMATE_MAX.as_secs_f64())).max(WAIT_MIN)
}

/// The windows that the server announces.
fn windows(running: &Running) -> Vec<Option<u32>> {
    running.look().iter().map(|look| look.tcp.as_ref().and_then(|tcp| tcp.snd_wnd())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_test_waits_longer_within_limits() {
        let ms = Duration::from_millis;
        assert_eq!(estimate(20_000_000, ms(20)), WAIT_MIN);
        assert_eq!(estimate(80 << 20, ms(10_000)), ms(2000));
        assert_eq!(estimate(80 << 20, ms(1_000_000)), ESTIMATE_MAX);
        assert_eq!(estimate(0, ms(5)), WAIT_MIN);
    }
}
