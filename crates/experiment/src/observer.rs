//! Who watches runs while they are made.

use lab::Progress;
use schema::{Event, FlowSample, LinkSample};
use units::Time;

/// Watches the runs of an experiment, some of which are made side by side. `()` watches nothing.
pub trait Observer: Sync {
    /// So many runs are about to be made.
    fn begin(&self, runs: usize) {
        let _ = runs;
    }

    /// A run of this duration begins. Its title is for people, as in `lab8 tuned queue=100p 2/5`. What is returned
    /// gets its rows and its progress, and is dropped at its end.
    fn run(&self, title: &str, duration: Time) -> Box<dyn RunObserver + '_> {
        let _ = (title, duration);
        Box::new(())
    }

    /// Something that people should know while runs are made, in a sentence.
    fn note(&self, sentence: &str) {
        let _ = sentence;
    }

    /// One of the runs was made, or failed.
    fn run_ended(&self) {}

    /// All of them were, or no more are made.
    fn end(&self) {}
}

/// Watches one run.
pub trait RunObserver {
    /// Rows as they are measured; those of a flow are not labelled yet. The model has none, a guest's come at its end.
    fn rows(&mut self, flows: &[FlowSample], links: &[LinkSample], events: &[Event]) {
        let _ = (flows, links, events);
    }

    /// How far the run is, a few times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

impl Observer for () {}

impl RunObserver for () {}
