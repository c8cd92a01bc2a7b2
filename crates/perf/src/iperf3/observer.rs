//! Who is told how a test goes.

use std::time::Duration;

use schema::FlowSample;

use crate::report::{Interval, Start};

/// Hears of a test while it runs. All do nothing unless written.
pub trait Observer {
    /// Something that people should know.
    fn note(&mut self, _text: &str) {}

    /// The data begins.
    fn start(&mut self, _start: &Start) {}

    /// An interval is over.
    fn interval(&mut self, _interval: &Interval) {}

    /// How often the sockets are to be looked at for [`Observer::samples`]; `None`: not at all.
    fn sample_interval(&self) -> Option<Duration> {
        None
    }

    /// What looks at the streams showed, in order of time, some 50 times a second: flow `stream-1` and so on, times since the data
    /// began. What this end sends has the sender's metrics, what it receives the receiver's.
    fn samples(&mut self, _rows: &[FlowSample]) {}

    /// Asked all the time: whether the test may end before its time.
    fn is_enough(&mut self) -> bool {
        false
    }
}

/// The name of a stream's flow in samples.
pub fn flow_name(stream: u32) -> String {
    format!("stream-{stream}")
}
