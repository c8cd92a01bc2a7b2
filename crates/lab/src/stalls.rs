//! What held a run up: the one definition of a stall, which the events, the warnings and the verdict of a run share.
//!
//! The emulator stalls where
//!
//! - its thread does not run although it wants to (the run's clock stops meanwhile, see [`crate::clock`]), or
//! - it delivers frames [`LATE`] or more after their time; late frames less than [`EPISODE`] apart are one stall, as long as
//!   the latest of them was late.
//!
//! The sampler stalls where it misses a sample.

use schema::{EMULATOR, Event, EventKind, SAMPLER};
use units::Time;

/// A frame delivered this late stalled, ns.
pub(crate) const LATE: u64 = 1_000_000;
/// Late frames this close to each other are one stall, ns.
const EPISODE: u64 = 10_000_000;
/// A sample taken this late, or later by a whole interval if that is longer, is missing at its time, ns.
const SAMPLE_LATE: u64 = 10_000_000;
/// Maximum number of stalls that are kept one by one; more are counted.
const MAX_KEPT: usize = 10_000;

/// A span for which nothing was delivered, or no sample taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    /// When it began, by the run's clock.
    pub(crate) at: Time,
    /// For how long, nanoseconds.
    pub(crate) length: u64,
}

/// All stalls of one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stalls {
    /// In order of time; at most [`MAX_KEPT`].
    pub(crate) kept: Vec<Stall>,
    pub(crate) count: u64,
    /// All of them together, nanoseconds.
    pub(crate) total: u64,
    /// The longest.
    pub(crate) longest: u64,
    /// Late frames that may get company.
    episode: Option<Episode>,
}

/// Late frames close to each other.
#[derive(Debug, Clone, Copy)]
struct Episode {
    stall: Stall,
    /// When the latest of its frames was due.
    until: Time,
}

impl Stalls {
    /// The thread did not run for `length` nanoseconds from `at` on.
    pub(crate) fn add(&mut self, at: Time, length: u64) {
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
        if self.kept.len() < MAX_KEPT {
            self.kept.push(Stall { at, length });
        }
    }

    /// A frame that was due at `due` was delivered `late` nanoseconds after.
    pub(crate) fn delivered(&mut self, due: Time, late: u64) {
        if late < LATE {
            return;
        }
        if let Some(episode) = &mut self.episode
            && due.0 <= episode.until.0 + EPISODE
        {
            episode.until = episode.until.max(due);
            episode.stall.length = episode.stall.length.max(late);
            return;
        }
        self.close();
        self.episode = Some(Episode { stall: Stall { at: due, length: late }, until: due });
    }

    /// A sample that was due at `due` was taken at `taken`, with an `interval` between samples.
    pub(crate) fn sampled(&mut self, due: Time, taken: Time, interval: Time) {
        let late = taken.0.saturating_sub(due.0);
        if late > SAMPLE_LATE.max(interval.0) {
            self.add(due, late);
        }
    }

    /// All of them, complete.
    pub(crate) fn finished(mut self) -> Self {
        self.close();
        self.kept.sort_by_key(|stall| stall.at);
        self
    }

    fn close(&mut self) {
        if let Some(Episode { stall, .. }) = self.episode.take() {
            self.add(stall.at, stall.length);
        }
    }

    /// Their rows of the record.
    pub(crate) fn events<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = Event> + 'a {
        let micros = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
        self.kept.iter().map(move |stall| Event {
            time_us: micros(stall.at.0),
            subject: subject.into(),
            kind: EventKind::Stall,
            value: micros(stall.length),
        })
    }

    /// As in "stalled for up to 20 ms (22 ms in total)".
    pub(crate) fn extent(&self) -> String {
        let ms = |ns: u64| match ns as f64 / 1e6 {
            ms if ms < 9.95 => format!("{ms:.1} ms"),
            ms => format!("{ms:.0} ms"),
        };
        match self.count {
            1 => format!("for {}", ms(self.longest)),
            _ => format!("for up to {} ({} in total)", ms(self.longest), ms(self.total)),
        }
    }
}

/// All stalls of a run as rows of the record, in order of time.
pub(crate) fn events(emulator: &Stalls, sampler: &Stalls) -> Vec<Event> {
    let mut events: Vec<Event> = emulator.events(EMULATOR).chain(sampler.events(SAMPLER)).collect();
    events.sort_by_key(|event| event.time_us);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(ms: u64) -> Time {
        Time(ms * MS)
    }

    #[test]
    fn late_frames_without_a_stopped_clock_are_a_stall() {
        let mut stalls = Stalls::default();
        stalls.delivered(ms(10), MS - 1);
        // One hold-up of 64 ms: frames due meanwhile are less and less late.
        for due in 0..64 {
            stalls.delivered(ms(100 + due), 64 * MS - due * MS);
        }
        stalls.delivered(ms(300), 2 * MS);
        let stalls = stalls.finished();
        assert_eq!(
            stalls.kept,
            [Stall { at: ms(100), length: 64 * MS }, Stall { at: ms(300), length: 2 * MS }]
        );
        assert_eq!((stalls.count, stalls.longest, stalls.total), (2, 64 * MS, 66 * MS));
    }

    #[test]
    fn stopped_clocks_and_late_frames_are_of_one_kind() {
        let mut stalls = Stalls::default();
        stalls.delivered(ms(50), 3 * MS);
        stalls.add(ms(20), 20 * MS);
        let mut sampler = Stalls::default();
        sampler.sampled(ms(30), ms(40), ms(10));
        sampler.sampled(ms(60), ms(165), ms(10));
        sampler.sampled(ms(200), ms(290), ms(100));
        let (stalls, sampler) = (stalls.finished(), sampler.finished());
        let told: Vec<_> =
            events(&stalls, &sampler).into_iter().map(|e| (e.time_us, e.subject, e.value)).collect();
        assert_eq!(
            told,
            [
                (20_000, "emulator".into(), 20_000),
                (50_000, "emulator".into(), 3_000),
                (60_000, "sampler".into(), 105_000)
            ]
        );
        assert_eq!(stalls.extent(), "for up to 20 ms (23 ms in total)");
        assert_eq!(sampler.extent(), "for 105 ms");
    }

    #[test]
    fn a_machine_that_stalls_all_the_time_does_not_fill_the_memory() {
        let mut stalls = Stalls::default();
        (0..2 * MAX_KEPT as u64).for_each(|n| stalls.add(ms(n), MS));
        assert_eq!((stalls.kept.len(), stalls.count, stalls.total), (MAX_KEPT, 20_000, 20_000 * MS));
    }
}
