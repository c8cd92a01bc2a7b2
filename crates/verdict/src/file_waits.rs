//! How long the ends of a file transfer waited for something other than the network.

use schema::{Cause, FlowSample};

use crate::{
    FileWaits, FlowContext,
    series::{Cumulative, RATE_ROUND_TRIPS},
};

/// A wait limits the transfer where it takes at least this share of the time.
const MIN_WAIT_SHARE: f64 = 0.5;
/// Waits are shares of at least this time, microseconds: a piece of a file may take long, and the next ones
/// are then read ahead.
const MIN_WAIT_TIME_US: i64 = 300_000;

/// A reason, other than the network, for which an end of a file transfer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileWait {
    /// The sender waits until its file is read.
    Reading,
    /// The receiver waits until its file is written.
    Writing,
    /// The sender waits for a reply of the receiver about a file.
    Replies,
}

/// [`FileWaits`] that can be read at any time.
pub(crate) struct FileWaitSeries {
    reading: Cumulative,
    writing: Cumulative,
    replies: Cumulative,
}

impl FileWaitSeries {
    pub(crate) fn of(waits: &FileWaits) -> Self {
        let series = |samples: &[(i64, f64)]| {
            let mut series = Cumulative::default();
            samples.iter().for_each(|(time_us, waited_us)| series.push(*time_us, *waited_us));
            series
        };
        FileWaitSeries {
            reading: series(&waits.reading_us),
            writing: series(&waits.writing_us),
            replies: series(&waits.replies_us),
        }
    }

    /// The reason for which an end waited in most of the time between two instants around `time_us`.
    pub(crate) fn longest_at(&self, time_us: i64, from_us: i64, to_us: i64) -> Option<FileWait> {
        let (from, to) =
            (from_us.min(time_us - MIN_WAIT_TIME_US / 2), to_us.max(time_us + MIN_WAIT_TIME_US / 2));
        let share = |series: &Cumulative| series.rate(from, to).map_or(0.0, |us_per_s| us_per_s * 1e-6);
        let (reading, writing, replies) = (share(&self.reading), share(&self.writing), share(&self.replies));
        // The receiver replies after it has written the file.
        if writing >= MIN_WAIT_SHARE || (replies >= MIN_WAIT_SHARE && writing >= replies / 2.0) {
            return Some(FileWait::Writing);
        }
        if replies >= MIN_WAIT_SHARE {
            return Some(FileWait::Replies);
        }
        (reading >= MIN_WAIT_SHARE).then_some(FileWait::Reading)
    }
}

/// The reason for which the ends of a file transfer waited in most of the samples whose limit is the
/// application; `None` if they did not wait.
pub fn main_file_wait<'a>(
    rows: impl IntoIterator<Item = &'a FlowSample>,
    context: &FlowContext,
) -> Option<FileWait> {
    let series = FileWaitSeries::of(context.file_waits.as_ref()?);
    let own = rows.into_iter().filter(|row| row.flow == context.name);
    let limited = own.filter(|row| row.limited_by == Some(Cause::Application));
    let longest = |row: &FlowSample| {
        let half = RATE_ROUND_TRIPS * row.srtt_us.unwrap_or(0) / 2;
        series.longest_at(row.time_us, row.time_us - half, row.time_us + half)
    };
    let waits: Vec<FileWait> = limited.filter_map(longest).collect();
    let count = |wait: FileWait| waits.iter().filter(|one| **one == wait).count();
    let all = [FileWait::Reading, FileWait::Writing, FileWait::Replies];
    all.into_iter().filter(|wait| count(*wait) > 0).max_by_key(|wait| count(*wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Series that grow by these shares of the time, over ten seconds.
    fn waits(reading: f64, writing: f64, replies: f64) -> FileWaits {
        let series =
            |share: f64| (0..=100).map(|i| (i * 100_000, i as f64 * 100_000.0 * share)).collect::<Vec<_>>();
        FileWaits { reading_us: series(reading), writing_us: series(writing), replies_us: series(replies) }
    }

    #[test]
    fn the_longest_wait_takes_at_least_half_of_the_time() {
        let longest = |reading, writing, replies| {
            FileWaitSeries::of(&waits(reading, writing, replies)).longest_at(5_000_000, 5_000_000, 5_000_000)
        };
        assert_eq!(longest(0.9, 0.0, 0.0), Some(FileWait::Reading));
        assert_eq!(longest(0.1, 0.8, 0.0), Some(FileWait::Writing));
        assert_eq!(longest(0.1, 0.6, 0.9), Some(FileWait::Writing), "the sender waits meanwhile");
        assert_eq!(longest(0.1, 0.2, 0.9), Some(FileWait::Replies));
        assert_eq!(longest(0.4, 0.4, 0.0), None);
        assert_eq!(FileWaitSeries::of(&FileWaits::default()).longest_at(0, 0, 0), None);
    }

    #[test]
    fn a_wait_counts_only_in_samples_that_the_application_limits() {
        let row = |i: i64, limited_by| FlowSample {
            time_us: i * 100_000,
            flow: "f".into(),
            limited_by,
            ..FlowSample::default()
        };
        let context = FlowContext {
            name: "f".into(),
            file_waits: Some(waits(0.0, 0.9, 0.9)),
            ..FlowContext::default()
        };
        let limited = [row(1, Some(Cause::Application)), row(2, None)];
        assert_eq!(main_file_wait(&limited, &context), Some(FileWait::Writing));
        let other = [row(1, Some(Cause::Loss)), row(2, None)];
        assert_eq!(main_file_wait(&other, &context), None);
    }
}
