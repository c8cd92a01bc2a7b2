//! The state that the threads of a running test share: when to begin and to end, how much remains to be sent,
//! and the control thread's wake-ups.

use std::{
    io::{PipeReader, PipeWriter, Write},
    os::fd::BorrowedFd,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use traffic::{Error, sys};

/// The timer is not set.
const NEVER: u64 = u64::MAX;
/// No limit.
const UNLIMITED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct SharedState {
    gate: Mutex<Gate>,
    /// When the gate was opened.
    begin: OnceLock<Instant>,
    opened: Condvar,
    sending_over: AtomicBool,
    over: AtomicBool,
    /// Bytes that may still be sent, of all streams together.
    left_to_send: AtomicU64,
    /// Datagrams that may still be sent.
    datagrams_left: Arc<AtomicU64>,
    /// Bytes received by all streams together, and the requested number.
    received: AtomicU64,
    requested_bytes: AtomicU64,
    failed: Mutex<Option<Error>>,
    wake: PipeWriter,
    wake_timer: WakeTimer,
}

/// Wakes the control thread at the earliest of the times that threads have requested.
#[derive(Debug)]
struct WakeTimer {
    timer: sys::Timer,
    /// Since the data began.
    set_us: Mutex<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    Open,
    Cancelled,
}

impl SharedState {
    /// Also returns a pipe that becomes readable when a thread has an event for the control thread.
    pub(crate) fn new() -> std::io::Result<(SharedState, PipeReader)> {
        let (reader, wake) = std::io::pipe()?;
        let shared = SharedState {
            gate: Mutex::new(Gate::Closed),
            begin: OnceLock::new(),
            opened: Condvar::new(),
            sending_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            left_to_send: AtomicU64::new(UNLIMITED),
            datagrams_left: Arc::new(AtomicU64::new(UNLIMITED)),
            received: AtomicU64::new(0),
            requested_bytes: AtomicU64::new(UNLIMITED),
            failed: Mutex::new(None),
            wake,
            wake_timer: WakeTimer { timer: sys::Timer::new()?, set_us: Mutex::new(NEVER) },
        };
        Ok((shared, reader))
    }

    /// Waits for the beginning of the test; false if it is cancelled.
    pub(crate) fn wait_for_begin(&self) -> bool {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while *gate == Gate::Closed {
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        *gate == Gate::Open
    }

    /// Starts the data, and returns the time.
    pub(crate) fn begin(&self) -> Instant {
        let begin = *self.begin.get_or_init(Instant::now);
        self.set_gate(Gate::Open);
        begin
    }

    /// Time since the data began, microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.begin.get().map_or(0, |begin| begin.elapsed().as_micros() as u64)
    }

    fn set_gate(&self, to: Gate) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if *gate == Gate::Closed {
            *gate = to;
        }
        self.opened.notify_all();
    }

    /// Stops senders after their current block.
    pub(crate) fn end_sending(&self) {
        self.sending_over.store(true, Ordering::Release);
    }

    /// Stops all threads.
    pub(crate) fn end(&self) {
        self.end_sending();
        self.over.store(true, Ordering::Release);
        self.set_gate(Gate::Cancelled);
    }

    pub(crate) fn sending_is_over(&self) -> bool {
        self.sending_over.load(Ordering::Acquire)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Limits what all streams together send from now on to `bytes`, or to as many datagrams of `block`
    /// bytes.
    pub(crate) fn limit_sending(&self, bytes: u64, block: u64) {
        self.left_to_send.store(bytes, Ordering::Release);
        self.datagrams_left.store(bytes.div_ceil(block.max(1)), Ordering::Release);
    }

    /// The counter that UDP senders share.
    pub(crate) fn datagrams_left(&self) -> Arc<AtomicU64> {
        self.datagrams_left.clone()
    }

    /// Wakes the control thread when this many more bytes have been received.
    pub(crate) fn expect_bytes(&self, bytes: u64) {
        let target = self.received.load(Ordering::Acquire).saturating_add(bytes);
        self.requested_bytes.store(target, Ordering::Release);
    }

    pub(crate) fn has_sent_all(&self) -> bool {
        self.left_to_send.load(Ordering::Acquire) == 0 || self.datagrams_left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn has_received_all(&self) -> bool {
        self.received.load(Ordering::Acquire) >= self.requested_bytes.load(Ordering::Acquire)
    }

    /// Claims the next block: returns how many bytes of it may be sent; 0 if all were sent.
    pub(crate) fn claim(&self, block: usize) -> usize {
        let left = &self.left_to_send;
        let take = |left: u64| (left != UNLIMITED).then(|| left.saturating_sub(block as u64));
        match left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Err(_) => block,
            Ok(before) => usize::try_from(before).unwrap_or(block).min(block),
        }
    }

    pub(crate) fn count_received(&self, bytes: u64) {
        let requested_bytes = self.requested_bytes.load(Ordering::Acquire);
        let before = self.received.fetch_add(bytes, Ordering::AcqRel);
        if before < requested_bytes && before + bytes >= requested_bytes {
            self.wake();
        }
    }

    /// Stores why a thread has failed; the first error is kept.
    pub(crate) fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.wake();
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Wakes the control thread at `at_us` since the data began, or earlier.
    pub(crate) fn wake_at(&self, at_us: u64) {
        let mut set_us = self.wake_timer.set_us.lock().unwrap_or_else(PoisonError::into_inner);
        let left = Duration::from_micros(at_us.saturating_sub(self.now_us()));
        if at_us < *set_us && self.wake_timer.timer.set(left).is_ok() {
            *set_us = at_us;
        }
    }

    /// The descriptor that becomes readable then, until [`SharedState::clear_wake_timer`].
    pub(crate) fn wake_timer(&self) -> BorrowedFd<'_> {
        self.wake_timer.timer.file()
    }

    /// Clears the timer, so that it can be set again.
    pub(crate) fn clear_wake_timer(&self) {
        let mut set_us = self.wake_timer.set_us.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake_timer.timer.clear();
        *set_us = NEVER;
    }

    pub(crate) fn wake(&self) {
        // At most a few bytes for each thread, so the pipe is never full. An error means that the reader
        // has ended.
        let _ = (&self.wake).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_amount_exactly() {
        let (shared, _reader) = SharedState::new().unwrap();
        assert_eq!(shared.claim(1000), 1000, "no limit yet");
        shared.limit_sending(10_500, 1000);
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        std::iter::repeat_with(|| shared.claim(1000)).take_while(|n| *n > 0).sum::<usize>()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(taken, 10_500);
        assert!(shared.has_sent_all());
    }

    #[test]
    fn cancelling_a_test_ends_the_wait_for_its_beginning() {
        let (shared, _reader) = SharedState::new().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| shared.wait_for_begin());
            shared.end();
            assert!(!waiting.join().unwrap());
        });
    }

    #[test]
    fn the_control_thread_is_woken_exactly_once_when_all_bytes_have_arrived() {
        use std::io::Read;
        let (shared, mut reader) = SharedState::new().unwrap();
        shared.count_received(500);
        shared.expect_bytes(1000);
        shared.count_received(999);
        assert!(!shared.has_received_all());
        shared.count_received(1);
        shared.count_received(1000);
        assert!(shared.has_received_all());
        drop(shared);
        let mut woken = Vec::new();
        reader.read_to_end(&mut woken).unwrap();
        assert_eq!(woken.len(), 1);
    }
}
