//! The measurements of both ends of a session: samples of their connections, the time that they waited for
//! files and replies, and the time that their threads were busy.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use iperf3::wire::{Samples, is_possible_time};
use schema::FlowSample;

use crate::{ActivitySample, message::Message};

/// Maximum number of rows, and of samples of the activity, that an end sends to the other.
const MAX_SENT: usize = 4_000;
/// Number of rows, and of samples, that may be sent after every session, however few bytes its files have.
const MIN_SENT: usize = 100;
/// One row is sent for this number of bytes of files: a row has about 200 bytes, 1 % of it.
const BYTES_PER_ROW: u64 = 20_000;
/// Maximum number of rows, and of samples of the activity, that an end keeps of the other.
const MAX_RECEIVED: usize = 2 * MAX_SENT;
/// Rows, and samples of the activity, in one message: with the longest numbers it has 55 kB.
const PER_MESSAGE: usize = 40;
/// Maximum number of messages that are read of an end; no end sends more than half of them.
pub(crate) const MAX_MESSAGES: usize = MAX_RECEIVED.div_ceil(PER_MESSAGE);
/// Maximum number of samples of the activity; more are thinned.
const MAX_ACTIVITY: usize = 8_000;

/// The measurements of one end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndEvidence {
    /// Samples of its connections, in order of time: flows `stream-1` and so on, times since its data
    /// connection was opened.
    pub rows: Vec<FlowSample>,
    /// Its waits and its threads, in order of time.
    pub activity: Vec<ActivitySample>,
}

/// The task of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Transport,
    File,
    Hash,
}

/// Measures the waits and the threads of one end of a session.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    file_wait: WaitClock,
    reply_wait: WaitClock,
    threads: [Mutex<ThreadTimes>; 3],
}

/// The time of waits, including one that has not ended.
#[derive(Debug, Default)]
struct WaitClock(Mutex<(Duration, Option<Instant>)>);

/// The busy time of the threads with one task.
#[derive(Debug, Default)]
struct ThreadTimes {
    next_id: u64,
    ended: Duration,
    running: Vec<RunningThread>,
}

#[derive(Debug)]
struct RunningThread {
    id: u64,
    /// The thread's /proc/PID/task/TID/schedstat; `None` if the kernel does not count it.
    schedstat: Option<File>,
    before: Duration,
}

/// A thread with a task; it ends when this is dropped.
pub(crate) struct Working {
    meter: Arc<Meter>,
    task: Task,
    id: u64,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Meter {
            start: Instant::now(),
            file_wait: WaitClock::default(),
            reply_wait: WaitClock::default(),
            threads: Default::default(),
        })
    }

    /// Time since the data connection was opened.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits for a file.
    pub(crate) fn wait_for_file<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.file_wait.wait(wait)
    }

    /// Waits for a reply.
    pub(crate) fn wait_for_reply<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.reply_wait.wait(wait)
    }

    /// This thread begins a task.
    pub(crate) fn begin(self: &Arc<Self>, task: Task) -> Working {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let before = schedstat.as_ref().and_then(busy_time).unwrap_or_default();
        let mut threads = self.threads(task);
        let id = threads.next_id;
        threads.next_id += 1;
        threads.running.push(RunningThread { id, schedstat, before });
        drop(threads);
        Working { meter: Arc::clone(self), task, id }
    }

    fn threads(&self, task: Task) -> MutexGuard<'_, ThreadTimes> {
        self.threads[task as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sample(&self) -> ActivitySample {
        let busy = |task| self.threads(task).busy().map(micros);
        ActivitySample {
            time_us: micros(self.elapsed()),
            file_wait_us: micros(self.file_wait.total()),
            reply_wait_us: micros(self.reply_wait.total()),
            transport_busy_us: busy(Task::Transport),
            file_busy_us: busy(Task::File),
            hash_busy_us: busy(Task::Hash),
        }
    }
}

impl WaitClock {
    fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        self.lock().1 = Some(begin);
        let result = wait();
        let mut clock = self.lock();
        clock.1 = None;
        clock.0 += begin.elapsed();
        result
    }

    fn total(&self) -> Duration {
        let (ended, since) = *self.lock();
        ended + since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, (Duration, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadTimes {
    /// The busy time of all threads; `None` if there was none, or the kernel does not count it.
    fn busy(&self) -> Option<Duration> {
        let running = self.running.iter().map(|thread| {
            // A thread that is ending no longer has an entry.
            let now = thread.schedstat.as_ref().map(|file| busy_time(file).unwrap_or(thread.before));
            now.map(|now| now.saturating_sub(thread.before))
        });
        let running: Option<Duration> = running.sum();
        (self.next_id > 0).then_some(self.ended + running?)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut threads = self.meter.threads(self.task);
        if let Some(index) = threads.running.iter().position(|thread| thread.id == self.id) {
            let thread = threads.running.swap_remove(index);
            let now = thread.schedstat.as_ref().and_then(busy_time).unwrap_or(thread.before);
            threads.ended += now.saturating_sub(thread.before);
        }
    }
}

/// The time for which a thread has run or waited for a processor (Documentation/scheduler/sched-stats.rst).
fn busy_time(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 128];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some(Duration::from_nanos(numbers.next()?.ok()? + numbers.next()?.ok()?))
}

pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Samples of the activity: evenly thinned when there are too many.
#[derive(Debug)]
pub(crate) struct ActivityBuffer {
    kept: Vec<ActivitySample>,
    /// One of this number is kept.
    one_of: usize,
    seen: usize,
}

impl ActivityBuffer {
    pub(crate) fn new() -> Self {
        ActivityBuffer { kept: Vec::new(), one_of: 1, seen: 0 }
    }

    pub(crate) fn add(&mut self, sample: ActivitySample) {
        if self.seen.is_multiple_of(self.one_of) {
            self.kept.push(sample);
        }
        self.seen += 1;
        if self.kept.len() > MAX_ACTIVITY {
            self.kept = std::mem::take(&mut self.kept).into_iter().step_by(2).collect();
            self.one_of *= 2;
        }
    }

    /// The kept samples and the last one.
    pub(crate) fn finish(mut self, last: ActivitySample) -> Vec<ActivitySample> {
        self.kept.push(last);
        self.kept
    }
}

impl EndEvidence {
    /// The messages that carry it, thinned.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let max = self.max_sent();
        let rows = thinned(&self.rows, max);
        let stride = self.activity.len().div_ceil(max).max(1);
        // The last sample has the totals.
        let mut activity: Vec<ActivitySample> = self.activity.iter().rev().step_by(stride).copied().collect();
        activity.reverse();
        let count = rows.len().max(activity.len()).div_ceil(PER_MESSAGE).max(1);
        fn part<T>(all: &[T], index: usize) -> &[T] {
            all.chunks(PER_MESSAGE).nth(index).unwrap_or_default()
        }
        let message = |index| Message::Evidence {
            samples: Samples::of(part(&rows, index)),
            activity: part(&activity, index).to_vec(),
            is_last: index + 1 == count,
        };
        (0..count).map(message).collect()
    }

    /// Maximum number of rows for the other end, so that a slow path does not carry them for long.
    fn max_sent(&self) -> usize {
        let Some(last) = self.rows.last() else { return MIN_SENT };
        let at_end = self.rows.iter().rev().take_while(|row| row.time_us == last.time_us);
        let bytes = at_end.filter_map(|row| row.bytes_received.or(row.bytes_acked).or(row.bytes_sent));
        let bytes = bytes.map(i64::unsigned_abs).fold(0, u64::saturating_add);
        usize::try_from(bytes / BYTES_PER_ROW).unwrap_or(MAX_SENT).clamp(MIN_SENT, MAX_SENT)
    }

    /// Adds a part that the peer sent. Values that no end measures are ignored.
    pub(crate) fn add(&mut self, samples: Samples, activity: Vec<ActivitySample>) {
        let rows = samples.rows().into_iter();
        self.rows.extend(rows.take(MAX_RECEIVED.saturating_sub(self.rows.len())));
        let is_valid = |sample: &ActivitySample| {
            let busy = [sample.transport_busy_us, sample.file_busy_us, sample.hash_busy_us];
            let times = [sample.time_us, sample.file_wait_us, sample.reply_wait_us];
            busy.into_iter().flatten().chain(times).all(is_possible_time)
        };
        let space = MAX_RECEIVED.saturating_sub(self.activity.len());
        self.activity.extend(activity.into_iter().filter(is_valid).take(space));
    }
}

/// At most `max` rows, at evenly spaced instants; the last one, which has the totals, is kept.
fn thinned(rows: &[FlowSample], max: usize) -> Vec<FlowSample> {
    let stride = rows.len().div_ceil(max).max(1);
    let mut instant = 0;
    let mut last_us = None;
    let mut is_kept = |row: &FlowSample| {
        instant += usize::from(last_us.is_some_and(|last| last != row.time_us));
        last_us = Some(row.time_us);
        instant.is_multiple_of(stride)
    };
    let mut kept: Vec<FlowSample> = rows.iter().rev().filter(|row| is_kept(row)).cloned().collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use schema::Metrics;

    use super::*;

    fn evidence(count: i64) -> EndEvidence {
        let row = |i: i64| FlowSample {
            time_us: i * 20_000,
            flow: "stream-1".into(),
            snd_mss_bytes: Some(1448),
            bytes_acked: Some(i * 1_000_000),
            ..FlowSample::default()
        };
        let activity = |i: i64| ActivitySample {
            time_us: i * 100_000,
            file_wait_us: i * 90_000,
            file_busy_us: Some(i),
            ..ActivitySample::default()
        };
        EndEvidence { rows: (0..count).map(row).collect(), activity: (0..count / 5).map(activity).collect() }
    }

    fn received(messages: &[Message]) -> EndEvidence {
        let mut evidence = EndEvidence::default();
        for (index, message) in messages.iter().enumerate() {
            let text = serde_json::to_vec(message).unwrap();
            assert!(text.len() < crate::message::MAX_MESSAGE_BYTES, "{}", text.len());
            let Message::Evidence { samples, activity, is_last } = serde_json::from_slice(&text).unwrap()
            else {
                panic!("{message:?}");
            };
            assert_eq!(is_last, index + 1 == messages.len());
            evidence.add(samples, activity);
        }
        evidence
    }

    #[test]
    fn evidence_crosses_the_control_connection_in_parts() {
        for count in [0, 1, 39, 40, 41, 3_000] {
            let sent = evidence(count);
            assert_eq!(received(&sent.messages()), sent, "{count} rows");
        }
        let sent = evidence(10 * MAX_SENT as i64);
        let thin = received(&sent.messages());
        assert!((MAX_SENT / 2..=MAX_SENT).contains(&thin.rows.len()), "{}", thin.rows.len());
        assert_eq!(thin.rows[1].time_us - thin.rows[0].time_us, 10 * sent.rows[1].time_us);
        assert_eq!(thin.rows.last(), sent.rows.last());
        assert_eq!(thin.activity.last(), sent.activity.last());
        let mut small = evidence(3_000);
        small.rows.iter_mut().for_each(|row| row.bytes_acked = Some(50_000));
        let thin = received(&small.messages());
        assert!((MIN_SENT / 2..=MIN_SENT).contains(&thin.rows.len()), "{}", thin.rows.len());
        assert!((MIN_SENT / 2..=MIN_SENT).contains(&thin.activity.len()), "{}", thin.activity.len());
    }

    #[test]
    fn the_last_sample_is_sent_whatever_the_number_of_samples() {
        for count in [MIN_SENT as i64, MIN_SENT as i64 + 1, 3 * MIN_SENT as i64 - 1] {
            let all = EndEvidence { activity: Vec::new(), ..evidence(count) };
            let kept = thinned(&all.rows, MIN_SENT);
            assert!(kept.len() <= MIN_SENT, "{count}");
            assert_eq!(kept.last(), all.rows.last(), "{count}");
        }
    }

    #[test]
    fn the_longest_values_fit_into_a_message() {
        let mut row = FlowSample { time_us: 1 << 52, flow: "stream-64".into(), ..FlowSample::default() };
        for index in 0..FlowSample::COLUMNS.len() {
            row.set_metric(index, Some(i64::MIN));
        }
        let messages = EndEvidence { rows: vec![row; PER_MESSAGE], activity: Vec::new() }.messages();
        assert_eq!(messages.len(), 1);
        let kept = received(&messages);
        assert_eq!(kept.rows.len(), PER_MESSAGE);
        assert!(kept.rows[0].metric(0).is_none(), "no end measures negative values");
    }

    #[test]
    fn a_peer_cannot_send_evidence_without_end_or_overflowing_values() {
        let mut kept = EndEvidence::default();
        for _ in 0..10 {
            let all = evidence(MAX_SENT as i64);
            kept.add(Samples::of(&all.rows), all.activity.repeat(5));
        }
        assert_eq!((kept.rows.len(), kept.activity.len()), (MAX_RECEIVED, MAX_RECEIVED));
        let mut kept = EndEvidence::default();
        let huge = FlowSample {
            unacked_segs: Some(i64::MAX),
            snd_mss_bytes: Some(i64::MAX),
            srtt_us: Some(7),
            ..FlowSample::default()
        };
        let early = FlowSample { time_us: i64::MIN, ..huge.clone() };
        kept.add(Samples::of(&[huge, early]), vec![ActivitySample { time_us: -1, ..Default::default() }]);
        assert_eq!(kept.rows, [FlowSample { srtt_us: Some(7), ..FlowSample::default() }]);
        assert_eq!(kept.activity, []);
    }

    #[test]
    fn waits_count_while_they_last_and_threads_while_they_run() {
        let meter = Meter::new();
        meter.wait_for_reply(|| {
            std::thread::sleep(Duration::from_millis(20));
            assert!(meter.sample().reply_wait_us >= 20_000);
        });
        meter.wait_for_file(|| std::thread::sleep(Duration::from_millis(5)));
        let begun = meter.sample();
        assert!(begun.reply_wait_us >= 20_000 && begun.file_wait_us >= 5_000, "{begun:?}");
        assert_eq!(begun.file_busy_us, None, "no thread had this task");
        let working = Arc::clone(&meter);
        std::thread::spawn(move || {
            let _working = working.begin(Task::File);
            let before = os::thread_cpu_time();
            while os::thread_cpu_time() < before + Duration::from_millis(30) {}
        })
        .join()
        .unwrap();
        let busy = meter.sample().file_busy_us.unwrap();
        // The kernel may have counted a part of a tick before the thread's task began.
        assert!(busy >= 20_000, "{busy}");
        assert_eq!(meter.sample().file_busy_us, Some(busy), "an ended thread is not busy");
    }

    #[test]
    fn the_activity_of_a_long_session_is_thinned() {
        let mut buffer = ActivityBuffer::new();
        let sample = |time_us| ActivitySample { time_us, ..ActivitySample::default() };
        (0..50_000).for_each(|time_us| buffer.add(sample(time_us)));
        let kept = buffer.finish(sample(50_000));
        assert!((MAX_ACTIVITY / 2..=MAX_ACTIVITY + 1).contains(&kept.len()), "{}", kept.len());
        let spacing = kept[1].time_us - kept[0].time_us;
        assert!(kept[..kept.len() - 1].windows(2).all(|pair| pair[1].time_us - pair[0].time_us == spacing));
        assert_eq!(kept.last().unwrap().time_us, 50_000);
    }
}
