//! Decides when a stream is sampled, so that there is a row of the record at each requested interval.
//! `stream_sample.rs` reads its state.
//!
//! A wake-up costs many times more than a sample. So the thread of a TCP receiver or of a UDP stream takes
//! the due samples between its own calls. The thread that runs the test (the control thread) samples TCP
//! senders, receivers that sleep while data is in flight, and every [`TICK`] all streams that were not
//! sampled. For an idle stream rows repeat the last sample: a sender that had nothing outstanding and has
//! sent nothing since, or a receiver that was not woken since and got no segment out of order.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use schema::FlowSample;

use crate::shared_state::SharedState;

/// Maximum time between two samples of a stream, and maximum time that rows wait to be reported.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// The control thread gives a stream's thread half an interval to take a sample itself, at most this,
/// microseconds.
const GRACE_US: u64 = 2000;
/// The control thread does not sample a receiver whose thread took this many samples in a row.
const MIN_OWN_SAMPLES: u32 = 16;
/// Rows are not repeated after a longer gap (in intervals): the process was stopped.
const MAX_REPEATED_ROWS: i64 = 1000;
/// No sample is due.
const NEVER: u64 = u64::MAX;

/// The sampling state of a stream, shared by its thread and the control thread. Times are microseconds since
/// the data began.
#[derive(Debug)]
pub(crate) struct StreamSampler {
    every_us: u64,
    is_udp: bool,
    due_us: AtomicU64,
    /// Data is in flight, or has been since the last sample.
    is_active: AtomicBool,
    /// The control thread's wake-up for the next sample is set.
    is_wake_up_set: AtomicBool,
    /// Number of samples that the stream's thread has taken in a row.
    own: AtomicU32,
    pending: Mutex<PendingRows>,
}

/// Rows that have not been taken yet, and the last sample, with which the next is compared.
#[derive(Debug, Default)]
struct PendingRows {
    last: Option<LastSample>,
    rows: Vec<FlowSample>,
}

/// The last sample of a stream.
#[derive(Debug)]
pub(crate) struct LastSample {
    row: FlowSample,
    arrived: i64,
    pub(crate) out_of_order: u32,
}

/// One sample.
pub(crate) struct Sample {
    pub(crate) row: FlowSample,
    /// Payload that had arrived.
    pub(crate) arrived: i64,
    /// The socket's state may change without a call of the stream's thread.
    pub(crate) is_under_way: bool,
    /// Segments that arrived out of order: they do not wake the receiver's thread.
    pub(crate) out_of_order: u32,
}

/// A stream whose state can be read.
pub(crate) trait Sampled {
    /// Reads the state at `time_us`; `None` if the kernel returns no information about the stream.
    fn sample(&self, time_us: i64, last: Option<&LastSample>) -> Option<Sample>;
}

impl StreamSampler {
    /// Takes a sample each `every`; `None`: never. The counters of a UDP stream change only in its thread's
    /// calls.
    pub(crate) fn new(every: Option<Duration>, is_udp: bool) -> Self {
        let every_us = every.map_or(NEVER, |every| every.as_micros().max(1) as u64);
        StreamSampler {
            every_us,
            is_udp,
            due_us: AtomicU64::new(every_us),
            is_active: AtomicBool::new(false),
            is_wake_up_set: AtomicBool::new(false),
            own: AtomicU32::new(0),
            pending: Mutex::default(),
        }
    }

    /// To be called before the stream's thread sends. It samples an idle stream, but not an active one:
    /// the send buffer is always at its emptiest just after the sender was woken.
    pub(crate) fn before_sending(&self, stream: &impl Sampled, shared: &SharedState) {
        if self.every_us == NEVER {
            return;
        }
        if !self.is_active.load(Ordering::SeqCst) {
            self.sample_if_due(stream, shared);
        }
        self.mark_active(shared);
    }

    /// To be called after the stream's thread has sent data.
    pub(crate) fn after_sending(&self, shared: &SharedState) {
        if self.every_us != NEVER {
            self.mark_active(shared);
        }
    }

    /// To be called after the stream's thread has received data, or sent a datagram.
    pub(crate) fn after_io(&self, stream: &impl Sampled, shared: &SharedState) {
        if self.every_us == NEVER {
            return;
        }
        if !self.sample_if_due(stream, shared) || self.is_active.load(Ordering::SeqCst) {
            self.mark_active(shared);
        }
    }

    /// To be called when the stream's thread ends.
    pub(crate) fn on_thread_end(&self) {
        self.own.store(0, Ordering::Relaxed);
    }

    fn sample_if_due(&self, stream: &impl Sampled, shared: &SharedState) -> bool {
        let is_due = shared.now_us() >= self.due_us.load(Ordering::Relaxed);
        if is_due {
            self.sample(stream, shared);
            self.own.fetch_add(1, Ordering::Relaxed);
        }
        is_due
    }

    /// Marks the stream as active. If its thread does not sample often enough itself, sets the control
    /// thread's wake-up for the next sample.
    fn mark_active(&self, shared: &SharedState) {
        if !self.is_active.load(Ordering::SeqCst) {
            self.is_active.store(true, Ordering::SeqCst);
        }
        let is_wake_up_set = self.is_wake_up_set.load(Ordering::SeqCst);
        if !is_wake_up_set && !self.samples_itself() && !self.is_wake_up_set.swap(true, Ordering::SeqCst) {
            shared.wake_at(self.overdue_us());
        }
    }

    fn samples_itself(&self) -> bool {
        self.is_udp || self.own.load(Ordering::Relaxed) >= MIN_OWN_SAMPLES
    }

    /// When the control thread has to take a sample; `None` while the thread does so or the stream is idle.
    pub(crate) fn next_due_us(&self) -> Option<u64> {
        // Must come first: a thread that marks the stream active now sets the wake-up again, or the load
        // below sees the mark.
        self.is_wake_up_set.store(false, Ordering::SeqCst);
        if !self.is_active.load(Ordering::SeqCst) || self.samples_itself() {
            return None;
        }
        self.is_wake_up_set.store(true, Ordering::SeqCst);
        Some(self.overdue_us())
    }

    fn overdue_us(&self) -> u64 {
        self.due_us.load(Ordering::Relaxed).saturating_add((self.every_us / 2).min(GRACE_US))
    }

    /// The control thread takes a sample if the thread has not done so in time. `all`: also if the stream
    /// seems idle.
    pub(crate) fn sample_if_overdue(&self, stream: &impl Sampled, shared: &SharedState, all: bool) {
        let is_requested = || all || (self.is_active.load(Ordering::Relaxed) && !self.samples_itself());
        if shared.now_us() >= self.overdue_us() && is_requested() {
            self.own.store(0, Ordering::Relaxed);
            self.sample(stream, shared);
        }
    }

    fn sample(&self, stream: &impl Sampled, shared: &SharedState) {
        let mut pending = self.lock();
        let now_us = shared.now_us();
        if now_us < self.due_us.load(Ordering::Relaxed) {
            return;
        }
        // Must come before the sample: later activity belongs to the next sample.
        let was_idle = !self.is_active.swap(false, Ordering::SeqCst);
        if let Some(sample) = stream.sample(now_us as i64, pending.last.as_ref()) {
            if sample.is_under_way {
                self.is_active.store(true, Ordering::SeqCst);
            }
            pending.add(sample, was_idle, self.every_us as i64);
        }
        self.due_us.store((now_us / self.every_us + 1) * self.every_us, Ordering::Relaxed);
    }

    /// The time of the next sample: later rows are not older.
    pub(crate) fn due_us(&self) -> u64 {
        self.due_us.load(Ordering::Relaxed)
    }

    /// Moves the rows that are older than `until_us` to `into`, in order of time.
    pub(crate) fn take_rows(&self, until_us: u64, into: &mut Vec<FlowSample>) {
        let rows = &mut self.lock().rows;
        let count = rows.partition_point(|row| (row.time_us as u64) < until_us);
        into.extend(rows.drain(..count));
    }

    fn lock(&self) -> MutexGuard<'_, PendingRows> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRows {
    /// Adds a sample. If the stream was idle since the last one, first repeats its row for each missing
    /// interval of `every_us`.
    fn add(&mut self, sample: Sample, was_idle: bool, every_us: i64) {
        let Sample { mut row, arrived, out_of_order, .. } = sample;
        if let Some(last) = &self.last {
            let (before, now) = (last.row.time_us / every_us, row.time_us / every_us);
            let mut last_us = last.row.time_us;
            if was_idle && last.out_of_order == out_of_order && now - before <= MAX_REPEATED_ROWS {
                let like = FlowSample { goodput_bps: Some(0), owd_us: None, ..last.row.clone() };
                for time_us in (before + 1..now).map(|interval| interval * every_us) {
                    self.rows.push(FlowSample { time_us, ..like.clone() });
                    last_us = time_us;
                }
            }
            // Payload since the last row as a rate.
            let span_s = (row.time_us - last_us) as f64 * 1e-6;
            let bits = (arrived - last.arrived).max(0) as f64 * 8.0;
            row.goodput_bps = (span_s > 0.0).then(|| (bits / span_s) as i64);
        }
        self.rows.push(row.clone());
        self.last = Some(LastSample { row, arrived, out_of_order });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_US: i64 = 1000;

    fn sample(time_us: i64, arrived: i64, out_of_order: u32) -> Sample {
        let row = FlowSample { time_us, owd_us: Some(arrived), ..FlowSample::default() };
        Sample { row, arrived, is_under_way: false, out_of_order }
    }

    /// Time, goodput and delay of the rows after these samples.
    fn rows(samples: impl IntoIterator<Item = (Sample, bool)>) -> Vec<(i64, Option<i64>, Option<i64>)> {
        let mut pending = PendingRows::default();
        for (sample, was_idle) in samples {
            pending.add(sample, was_idle, EVERY_US);
        }
        pending.rows.iter().map(|row| (row.time_us, row.goodput_bps, row.owd_us)).collect()
    }

    #[test]
    fn rows_of_an_idle_stream_repeat_the_last_sample() {
        let found = rows([(sample(1100, 0, 0), true), (sample(4500, 1000, 0), true)]);
        let quiet = |time_us| (time_us, Some(0), None);
        // 1000 bytes since the row at 3 ms.
        let last = (4500, Some(5_333_333), Some(1000));
        assert_eq!(found, [(1100, None, Some(0)), quiet(2000), quiet(3000), last]);
    }

    #[test]
    fn unsampled_intervals_of_an_active_stream_have_no_rows() {
        for (was_idle, out_of_order) in [(false, 0), (true, 1)] {
            let found = rows([(sample(1100, 0, 0), true), (sample(4500, 1000, out_of_order), was_idle)]);
            // 8000 bits in 3.4 ms.
            assert_eq!(found[1..], [(4500, Some(2_352_941), Some(1000))]);
        }
        let hours = 3_600_000_000;
        assert_eq!(rows([(sample(1100, 0, 0), true), (sample(hours, 0, 0), true)]).len(), 2);
    }
}
