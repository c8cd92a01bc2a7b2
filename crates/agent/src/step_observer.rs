//! An observer of the agent's loop: tests kill the agent at a chosen step.

use reservation::Event;

/// A moment in the handling of a batch, at which tests kill the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the events of a batch are written.
    Before,
    /// Its events are written; its messages are not yet sent.
    Written,
    /// Its messages are sent; its tests are not yet started.
    Sent,
    /// Its tests are started.
    Started,
    /// The result of a test is stored; the calendar has not yet recorded its end.
    ResultStored,
}

/// Observes the loop of an agent.
pub trait StepObserver: Send + Sync {
    /// Called when the loop is at this moment of a batch with these events.
    fn at(&self, moment: Moment, events: &[Event]);
}

/// Ignores every step.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl StepObserver for NoObserver {
    fn at(&self, _: Moment, _: &[Event]) {}
}
