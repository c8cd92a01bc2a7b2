//! The agent's event loop: passes events to the point, and executes its steps.
//!
//! All events arrive in one queue, and all queued events are handled as one batch: the calendar's events are
//! written in one transaction, then messages are sent, then tests are started. A storage error ends the
//! agent; at the next start, the point is rebuilt from its events.
//!
//! All parts work on the same [`state`], and call each other in one direction: [`run`] calls [`requests`],
//! then come [`running_tests`], [`maintenance`], [`alertmanager`], [`members`] and [`reports`].

mod alertmanager;
mod alertmanager_state;
mod batch;
mod maintenance;
mod maintenance_schedule;
mod members;
mod reports;
mod requests;
mod run;
mod running_tests;
mod state;
mod test_run;

pub(crate) use state::EventLoop;
