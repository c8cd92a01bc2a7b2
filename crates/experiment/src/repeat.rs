//! Repeats runs that a busy machine disturbed: a bounded number of times, for a bounded time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use schema::DiscardedRun;

use crate::Result;

/// Maximum number of times a run is made.
pub const MAX_TRIES: usize = 3;
/// Maximum time that all repeats of a command take together.
const MAX_REPEAT_TIME: Duration = Duration::from_secs(5 * 60);

/// How much time a command's repeats may still take.
pub struct RepeatTime(Mutex<Duration>);

impl Default for RepeatTime {
    fn default() -> Self {
        RepeatTime(Mutex::new(MAX_REPEAT_TIME))
    }
}

impl RepeatTime {
    /// Takes `needed` from what is left, if there is as much.
    fn take(&self, needed: Duration) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match left.checked_sub(needed) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

/// A run that was made, and why it is to be made again.
pub struct Try<T> {
    pub made: T,
    /// How long it took.
    pub took: Duration,
    /// Where the machine disturbed it: what is said of it if it is discarded.
    pub disturbed: Option<DiscardedRun>,
}

/// Makes a run until it is not disturbed, at most [`MAX_TRIES`] times, and returns the last. Each try gets those that were
/// discarded before it; a run is handed to `discard` before the next is begun.
pub fn until_undisturbed<T>(
    time: &RepeatTime,
    mut attempt: impl FnMut(&[DiscardedRun]) -> Result<Try<T>>,
    mut discard: impl FnMut(T, &DiscardedRun, usize),
) -> Result<T> {
    let mut discarded = Vec::new();
    loop {
        let Try { made, took, disturbed } = attempt(&discarded)?;
        let tries = discarded.len() + 1;
        match disturbed {
            Some(why) if tries < MAX_TRIES && time.take(took) => {
                discard(made, &why, tries);
                discarded.push(why);
            }
            _ => return Ok(made),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    /// Makes runs numbered from 1, of which the first `disturbed` are disturbed; returns which is kept and which were discarded.
    fn runs(disturbed: usize, took: Duration, time: &RepeatTime) -> (usize, Vec<usize>, usize) {
        let (mut begun, mut discarded, mut known) = (0, Vec::new(), 0);
        let attempt = |discarded: &[DiscardedRun]| {
            begun += 1;
            known = discarded.len();
            let why = DiscardedRun { started: format!("run {begun}"), faults: vec!["stalled".into()] };
            Ok(Try { made: begun, took, disturbed: (begun <= disturbed).then_some(why) })
        };
        let kept = until_undisturbed(time, attempt, |made, why, tries| {
            assert_eq!((why.started.as_str(), tries), (format!("run {made}").as_str(), made));
            discarded.push(made);
        });
        (kept.unwrap(), discarded, known)
    }

    #[test]
    fn a_disturbed_run_is_repeated_at_most_twice() {
        let second = Duration::from_secs(1);
        assert_eq!(runs(0, second, &RepeatTime::default()), (1, vec![], 0), "a quiet run is made once");
        assert_eq!(runs(1, second, &RepeatTime::default()), (2, vec![1], 1));
        assert_eq!(runs(9, second, &RepeatTime::default()), (3, vec![1, 2], 2), "the last is kept");
    }

    #[test]
    fn all_repeats_of_a_command_share_a_limited_time() {
        let time = RepeatTime::default();
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 3);
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 2, "100 s are left");
        assert_eq!(runs(9, Duration::from_secs(100), &time).0, 1);
        assert_eq!(runs(9, MAX_REPEAT_TIME * 2, &RepeatTime::default()).0, 1, "too long to be repeated");
    }

    #[test]
    fn a_run_that_fails_is_not_repeated() {
        let fail = |_: &[DiscardedRun]| -> Result<Try<()>> { Err(Error::Failed("no".into())) };
        assert!(until_undisturbed(&RepeatTime::default(), fail, |(), _, _| ()).is_err());
    }
}
