//! The wait for an iperf3 server to read a sent file (`-F`). It is the server's kernel that acknowledges the
//! file, not its program: iperf3's server closes its streams when it receives TEST_END, and drops the bytes
//! that it has not read. So the client gives the server time to read before it sends TEST_END.
//!
//! The client also ends its direction of each stream (FIN): since 3.16 iperf3's server reads whole blocks,
//! and takes the last part of a file only at the stream's end.
//!
//! The announced window shows that a program reads, but not that it has read everything: the kernel limits it
//! below the free space (`rcv_ssthresh`) and does not announce each change. The time is therefore estimated:
//! twice the time in which the test's rate fills the server's receive buffer, within limits; longer while the
//! window still changes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{Error, control::Control, stream::Stream, stream_threads::StreamThreads};

/// Minimum wait: a busy server's program may not run for a while.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Maximum of the estimate.
const ESTIMATE_MAX: Duration = Duration::from_secs(5);
/// Maximum wait, also while the window changes.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Assumed size of the receive buffer (Linux's `tcp_rmem` has 6 MiB), bytes.
const BUFFER_BYTES: u64 = 8 << 20;
/// Interval at which the window is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Ends the streams, on all of which this end sends, and waits until the server's program has probably read
/// the bytes that its kernel has acknowledged in the time `sending`. Returns the length of the wait.
///
/// # Errors
/// [`Error::Interrupted`] if `stop` is set, or an error of the control connection.
pub(super) fn wait_for_server_to_read(
    running: &StreamThreads,
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
            // The server has sent a message, or has disconnected.
            break;
        }
        let now = self::windows(running);
        if now != windows {
            (windows, changed) = (now, Instant::now());
        }
    }
    Ok(begin.elapsed())
}

/// Twice the time in which a receive buffer is read at the test's rate: `bytes` in the time `sending`.
fn estimate(bytes: u64, sending: Duration) -> Duration {
    let unread = BUFFER_BYTES.min(bytes) as f64;
    let time = 2.0 * sending.as_secs_f64() * unread / (bytes.max(1) as f64);
    Duration::from_secs_f64(time.min(ESTIMATE_MAX.as_secs_f64())).max(WAIT_MIN)
}

/// The windows that the server has announced.
fn windows(running: &StreamThreads) -> Vec<Option<u32>> {
    running.snapshots().iter().map(|snapshot| snapshot.tcp.as_ref().and_then(|tcp| tcp.snd_wnd())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_longer_after_a_slow_test_within_limits() {
        let ms = Duration::from_millis;
        assert_eq!(estimate(20_000_000, ms(20)), WAIT_MIN);
        assert_eq!(estimate(80 << 20, ms(10_000)), ms(2000));
        assert_eq!(estimate(80 << 20, ms(1_000_000)), ESTIMATE_MAX);
        assert_eq!(estimate(0, ms(5)), WAIT_MIN);
    }
}
