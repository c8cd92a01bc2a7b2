//! The interface that reports the progress of a test.

use std::time::Duration;

use schema::FlowSample;

use crate::report::{Interval, Start};

/// Receives the events of a running test. The default methods do nothing.
pub trait Observer {
    /// A message for the user.
    fn note(&mut self, _text: &str) {}

    /// The data begins.
    fn start(&mut self, _start: &Start) {}

    /// An interval is over.
    fn interval(&mut self, _interval: &Interval) {}

    /// Interval at which the sockets are sampled for [`Observer::samples`]; `None`: never.
    fn sample_interval(&self) -> Option<Duration> {
        None
    }

    /// New samples of the streams in order of time, some 50 times a second: flow `stream-1` and so on, times
    /// since the data began. Streams on which this end sends have the sender's metrics, others the
    /// receiver's.
    fn samples(&mut self, _rows: &[FlowSample]) {}

    /// Whether the test may end early; called after every event.
    fn is_enough(&mut self) -> bool {
        false
    }
}

/// The name of a stream's flow in samples.
pub fn flow_name(stream: u32) -> String {
    format!("stream-{stream}")
}
