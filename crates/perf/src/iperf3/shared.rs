//! What the threads of a running test share: when to begin and to end, how much is left to send, and who is woken when
//! something has happened.

use std::{
    io::{PipeReader, PipeWriter, Write},
    os::fd::BorrowedFd,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Error, sys};

/// The alarm is not set.
const NEVER: u64 = u64::MAX;
/// No limit.
const UNLIMITED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shared {
    gate: Mutex<Gate>,
    /// When the gate was opened.
    begin: OnceLock<Instant>,
    opened: Condvar,
    sending_over: AtomicBool,
    over: AtomicBool,
    /// Bytes that may still be sent, of all streams together.
    left_to_send: AtomicU64,
    /// Datagrams likewise.
    datagrams_left: Arc<AtomicU64>,
    /// Bytes received of all streams together, and how many are wanted.
    received: AtomicU64,
    wanted: AtomicU64,
    failed: Mutex<Option<Error>>,
    wake: PipeWriter,
    alarm: Alarm,
}

/// Wakes who conducts the test at the earliest of the times that threads have asked for.
#[derive(Debug)]
struct Alarm {
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

impl Shared {
    /// And what becomes readable when a thread has something to tell.
    pub(crate) fn new() -> std::io::Result<(Shared, PipeReader)> {
        let (reader, wake) = std::io::pipe()?;
        let shared = Shared {
            gate: Mutex::new(Gate::Closed),
            begin: OnceLock::new(),
            opened: Condvar::new(),
            sending_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            left_to_send: AtomicU64::new(UNLIMITED),
            datagrams_left: Arc::new(AtomicU64::new(UNLIMITED)),
            received: AtomicU64::new(0),
            wanted: AtomicU64::new(UNLIMITED),
            failed: Mutex::new(None),
            wake,
            alarm: Alarm { timer: sys::Timer::new()?, set_us: Mutex::new(NEVER) },
        };
        Ok((shared, reader))
    }

    /// Waits for the test's begin; false where it never begins.
    pub(crate) fn wait_for_begin(&self) -> bool {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while *gate == Gate::Closed {
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        *gate == Gate::Open
    }

    /// Lets the data begin, and tells when.
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

    /// Senders stop after the block that they are at.
    pub(crate) fn end_sending(&self) {
        self.sending_over.store(true, Ordering::Release);
    }

    /// All stop.
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

    /// From now on so many bytes, or datagrams of `block` bytes, are to be sent, of all streams together, and no more.
    pub(crate) fn limit_sending(&self, bytes: u64, block: u64) {
        self.left_to_send.store(bytes, Ordering::Release);
        self.datagrams_left.store(bytes.div_ceil(block.max(1)), Ordering::Release);
    }

    /// What UDP's senders share.
    pub(crate) fn datagrams_left(&self) -> Arc<AtomicU64> {
        self.datagrams_left.clone()
    }

    /// From now on so many bytes are to be received; the wake pipe tells when they were.
    pub(crate) fn want(&self, bytes: u64) {
        let target = self.received.load(Ordering::Acquire).saturating_add(bytes);
        self.wanted.store(target, Ordering::Release);
    }

    pub(crate) fn has_sent_all(&self) -> bool {
        self.left_to_send.load(Ordering::Acquire) == 0 || self.datagrams_left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn has_received_all(&self) -> bool {
        self.received.load(Ordering::Acquire) >= self.wanted.load(Ordering::Acquire)
    }

    /// How many bytes of the next block may be sent; 0 when all were.
    pub(crate) fn take(&self, block: usize) -> usize {
        let left = &self.left_to_send;
        let take = |left: u64| (left != UNLIMITED).then(|| left.saturating_sub(block as u64));
        match left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Err(_) => block,
            Ok(before) => usize::try_from(before).unwrap_or(block).min(block),
        }
    }

    pub(crate) fn count_received(&self, bytes: u64) {
        let wanted = self.wanted.load(Ordering::Acquire);
        let before = self.received.fetch_add(bytes, Ordering::AcqRel);
        if before < wanted && before + bytes >= wanted {
            self.wake();
        }
    }

    /// Notes why a thread gave up; the first is kept.
    pub(crate) fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.wake();
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Has whoever conducts the test wake `at_us` since the data began, or sooner.
    pub(crate) fn wake_at(&self, at_us: u64) {
        let mut set_us = self.alarm.set_us.lock().unwrap_or_else(PoisonError::into_inner);
        let left = Duration::from_micros(at_us.saturating_sub(self.now_us()));
        if at_us < *set_us && self.alarm.timer.set(left).is_ok() {
            *set_us = at_us;
        }
    }

    /// What becomes readable then, until [`Shared::take_alarm`].
    pub(crate) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.timer.file()
    }

    /// The alarm may be set anew.
    pub(crate) fn take_alarm(&self) {
        let mut set_us = self.alarm.set_us.lock().unwrap_or_else(PoisonError::into_inner);
        self.alarm.timer.take();
        *set_us = NEVER;
    }

    pub(crate) fn wake(&self) {
        // At most a few bytes for each thread, so the pipe is never full; a reader that has gone needs no waking.
        let _ = (&self.wake).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_sent_is_shared_out_exactly() {
        let (shared, _reader) = Shared::new().unwrap();
        assert_eq!(shared.take(1000), 1000, "no limit yet");
        shared.limit_sending(10_500, 1000);
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        std::iter::repeat_with(|| shared.take(1000)).take_while(|n| *n > 0).sum::<usize>()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(taken, 10_500);
        assert!(shared.has_sent_all());
    }

    #[test]
    fn who_waits_for_a_test_that_never_begins_is_let_go() {
        let (shared, _reader) = Shared::new().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| shared.wait_for_begin());
            shared.end();
            assert!(!waiting.join().unwrap());
        });
    }

    #[test]
    fn enough_is_noticed_once() {
        use std::io::Read;
        let (shared, mut reader) = Shared::new().unwrap();
        shared.count_received(500);
        shared.want(1000);
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
