//! Repeats runs that a busy machine disturbed: a bounded number of times, for a bounded time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use schema::DiscardedRun;

use crate::Result;

/// Maximum number of tries of a run.
pub const MAX_TRIES: usize = 3;
/// Maximum total time of all repeats of a command.
const MAX_REPEAT_TIME: Duration = Duration::from_secs(5 * 60);

/// Remaining time for the repeats of a command.
pub struct RepeatTime(Mutex<Duration>);

impl Default for RepeatTime {
    fn default() -> Self {
        RepeatTime(Mutex::new(MAX_REPEAT_TIME))
    }
}

impl RepeatTime {
    /// Deducts `needed` from the remaining time; returns false if less remains.
    fn take(&self, needed: Duration) -> bool {
        let mut remaining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match remaining.checked_sub(needed) {
            Some(remainder) => {
                *remaining = remainder;
                true
            }
            None => false,
        }
    }
}

/// One try of a run.
pub struct Try<T> {
    pub result: T,
    /// Real time of the try.
    pub duration: Duration,
    /// The entry that is recorded if the machine disturbed the try and it is discarded.
    pub disturbed: Option<DiscardedRun>,
}

/// Repeats a run until it is undisturbed, at most [`MAX_TRIES`] times, and returns the last try. Each try
/// receives the discarded tries before it; `discard` receives a try before the next one starts.
///
/// # Errors
/// The error of the try that failed; it is not repeated.
pub fn until_undisturbed<T>(
    time: &RepeatTime,
    mut attempt: impl FnMut(&[DiscardedRun]) -> Result<Try<T>>,
    mut discard: impl FnMut(T, &DiscardedRun, usize),
) -> Result<T> {
    let mut discarded = Vec::new();
    loop {
        let Try { result, duration, disturbed } = attempt(&discarded)?;
        let tries = discarded.len() + 1;
        match disturbed {
            Some(why) if tries < MAX_TRIES && time.take(duration) => {
                discard(result, &why, tries);
                discarded.push(why);
            }
            _ => return Ok(result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    /// Executes runs numbered from 1, the first `disturbed` of which are disturbed. Returns the kept run, the
    /// discarded ones, and how many discarded ones the last try received.
    fn runs(disturbed: usize, duration: Duration, time: &RepeatTime) -> (usize, Vec<usize>, usize) {
        let (mut started, mut discarded, mut received) = (0, Vec::new(), 0);
        let attempt = |discarded: &[DiscardedRun]| {
            started += 1;
            received = discarded.len();
            let why = DiscardedRun { started: format!("run {started}"), faults: vec!["stalled".into()] };
            Ok(Try { result: started, duration, disturbed: (started <= disturbed).then_some(why) })
        };
        let kept = until_undisturbed(time, attempt, |run, why, tries| {
            assert_eq!((why.started.as_str(), tries), (format!("run {run}").as_str(), run));
            discarded.push(run);
        });
        (kept.unwrap(), discarded, received)
    }

    #[test]
    fn a_disturbed_run_is_repeated_at_most_twice() {
        let second = Duration::from_secs(1);
        assert_eq!(
            runs(0, second, &RepeatTime::default()),
            (1, vec![], 0),
            "an undisturbed run is not repeated"
        );
        assert_eq!(runs(1, second, &RepeatTime::default()), (2, vec![1], 1));
        assert_eq!(runs(9, second, &RepeatTime::default()), (3, vec![1, 2], 2), "the last is kept");
    }

    #[test]
    fn all_repeats_of_a_command_share_a_limited_time() {
        let time = RepeatTime::default();
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 3);
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 2, "100 s remain");
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 1);
        assert_eq!(runs(9, MAX_REPEAT_TIME * 2, &RepeatTime::default()).0, 1, "too long to be repeated");
    }

    #[test]
    fn a_run_that_fails_is_not_repeated() {
        let fail = |_: &[DiscardedRun]| -> Result<Try<()>> { Err(Error::Failed("no".into())) };
        assert!(until_undisturbed(&RepeatTime::default(), fail, |(), _, _| ()).is_err());
    }
}
