//! Stalls of a run. Its events, warnings and quality share this definition.
//!
//! The emulator stalls when
//!
//! - its thread is ready but does not run (the run's clock stops meanwhile, see [`crate::clock`]), or
//! - it delivers frames [`LATE_NS`] or more after their time; late frames less than [`EPISODE_NS`] apart form
//!   one stall, whose length is the maximum lateness of its frames.
//!
//! The sampler stalls when it misses a sample.

use schema::{EMULATOR, Event, EventKind, SAMPLER};
use units::{Instant, Time};

/// Lateness from which on a delivered frame counts as stalled, ns.
pub(crate) const LATE_NS: u64 = 1_000_000;
/// Late frames at most this far apart belong to one stall, ns.
const EPISODE_NS: u64 = 10_000_000;
/// A sample later than this, and later than one interval, counts as missing, ns.
const SAMPLE_LATE_NS: u64 = 10_000_000;
/// Maximum number of stalls that are stored individually; further ones are only counted.
const MAX_STORED: usize = 10_000;

/// A period in which no frame was delivered or no sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    /// Its start, by the run's clock.
    pub(crate) at: Instant,
    /// Its length, ns.
    pub(crate) length: u64,
}

/// All stalls of one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stalls {
    /// In order of time; at most [`MAX_STORED`].
    pub(crate) stored: Vec<Stall>,
    pub(crate) count: u64,
    /// Total length, ns.
    pub(crate) total: u64,
    /// Maximum length, ns.
    pub(crate) longest: u64,
    /// The current series of late frames, to which more may be added.
    episode: Option<Episode>,
}

/// A series of late frames close to each other.
#[derive(Debug, Clone, Copy)]
struct Episode {
    stall: Stall,
    /// When the latest of its frames was due.
    until: Instant,
}

impl Stalls {
    /// Records that the thread did not run for `length` nanoseconds from `at` on.
    pub(crate) fn add(&mut self, at: Instant, length: u64) {
        tracing::warn!(
            at_us = at.as_micros(),
            us = length / 1000,
            thread = std::thread::current().name(),
            "stalled"
        );
        self.count += 1;
        self.total += length;
        self.longest = self.longest.max(length);
        if self.stored.len() < MAX_STORED {
            self.stored.push(Stall { at, length });
        }
    }

    /// Records that a frame due at `due` was delivered `late` nanoseconds later.
    pub(crate) fn delivered(&mut self, due: Instant, late: u64) {
        if late < LATE_NS {
            return;
        }
        if let Some(episode) = &mut self.episode
            && due.as_nanos() <= episode.until.as_nanos() + EPISODE_NS
        {
            episode.until = episode.until.max(due);
            episode.stall.length = episode.stall.length.max(late);
            return;
        }
        self.close();
        self.episode = Some(Episode { stall: Stall { at: due, length: late }, until: due });
    }

    /// Records that a sample due at `due` was taken at `taken`, with an `interval` between samples.
    pub(crate) fn sampled(&mut self, due: Instant, taken: Instant, interval: Time) {
        let late = taken.saturating_since(due).as_nanos();
        if late > SAMPLE_LATE_NS.max(interval.as_nanos()) {
            self.add(due, late);
        }
    }

    /// The completed list, at the end of the run.
    pub(crate) fn finished(mut self) -> Self {
        self.close();
        self.stored.sort_by_key(|stall| stall.at);
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
        self.stored.iter().map(move |stall| Event {
            time_us: micros(stall.at.as_nanos()),
            subject: subject.into(),
            kind: EventKind::Stall,
            value: micros(stall.length),
        })
    }

    /// The part of a message such as "stalled for up to 20 ms (22 ms in total)".
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

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_series_of_late_frames_is_one_stall() {
        let mut stalls = Stalls::default();
        stalls.delivered(ms(10), MS - 1);
        // One interruption of 64 ms: a frame due later within it is less late.
        for due in 0..64 {
            stalls.delivered(ms(100 + due), 64 * MS - due * MS);
        }
        stalls.delivered(ms(300), 2 * MS);
        let stalls = stalls.finished();
        assert_eq!(
            stalls.stored,
            [Stall { at: ms(100), length: 64 * MS }, Stall { at: ms(300), length: 2 * MS }]
        );
        assert_eq!((stalls.count, stalls.longest, stalls.total), (2, 64 * MS, 66 * MS));
    }

    #[test]
    fn stopped_clocks_and_late_frames_produce_the_same_events() {
        let mut stalls = Stalls::default();
        stalls.delivered(ms(50), 3 * MS);
        stalls.add(ms(20), 20 * MS);
        let mut sampler = Stalls::default();
        sampler.sampled(ms(30), ms(40), Time::from_millis(10));
        sampler.sampled(ms(60), ms(165), Time::from_millis(10));
        sampler.sampled(ms(200), ms(290), Time::from_millis(100));
        let (stalls, sampler) = (stalls.finished(), sampler.finished());
        let rows: Vec<_> =
            events(&stalls, &sampler).into_iter().map(|e| (e.time_us, e.subject, e.value)).collect();
        assert_eq!(
            rows,
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
    fn the_number_of_stored_stalls_is_limited() {
        let mut stalls = Stalls::default();
        (0..2 * MAX_STORED as u64).for_each(|n| stalls.add(ms(n), MS));
        assert_eq!((stalls.stored.len(), stalls.count, stalls.total), (MAX_STORED, 20_000, 20_000 * MS));
    }
}
