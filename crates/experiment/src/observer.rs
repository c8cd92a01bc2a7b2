//! Receivers of progress and rows during runs.

use lab::Progress;
use schema::{Event, FlowSample, LinkSample};
use units::Time;

/// Receives the progress of an experiment's runs, several of which may run in parallel. `()` ignores
/// everything.
pub trait Observer: Sync {
    /// A batch of this many runs starts.
    fn begin(&self, runs: usize) {
        let _ = runs;
    }

    /// A run starts; `duration` is in the run's own time. Titles are like `lab8 tuned queue=100p 2/5`. The
    /// returned observer receives its rows and progress, and is dropped when it ends.
    fn run(&self, title: &str, duration: Time) -> Box<dyn RunObserver + '_> {
        let _ = (title, duration);
        Box::new(())
    }

    /// A message for the user, one sentence.
    fn note(&self, sentence: &str) {
        let _ = sentence;
    }

    /// A run of the batch ended or failed.
    fn run_ended(&self) {}

    /// The batch has ended.
    fn end(&self) {}
}

/// Receives rows and progress of one run.
pub trait RunObserver {
    /// Rows as they are measured. The model has none; a guest's arrive when it ends. Rows of flows have no
    /// `limited_by` yet.
    fn rows(&mut self, flows: &[FlowSample], links: &[LinkSample], events: &[Event]) {
        let _ = (flows, links, events);
    }

    /// A message for the user while the run waits, one sentence.
    fn note(&mut self, sentence: &str) {
        let _ = sentence;
    }

    /// Elapsed time and latest samples, several times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

impl Observer for () {}

impl RunObserver for () {}
