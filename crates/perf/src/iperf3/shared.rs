//! What the threads of a running test share: when to begin and to end, how much is left to send, and who is woken when
//! something has happened.

use std::{
    io::{PipeReader, PipeWriter, Write},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::Error;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shared {
    gate: Mutex<Gate>,
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
            opened: Condvar::new(),
            sending_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            left_to_send: AtomicU64::new(UNLIMITED),
            datagrams_left: Arc::new(AtomicU64::new(UNLIMITED)),
            received: AtomicU64::new(0),
            wanted: AtomicU64::new(UNLIMITED),
            failed: Mutex::new(None),
            wake,
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

    pub(crate) fn begin(&self) {
        self.set_gate(Gate::Open);
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
