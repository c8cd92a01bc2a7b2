//! The available bandwidth of a path, by a probe session with `longfat serve`.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use probe::{AvailableBandwidth, AvailableBandwidthResult, Method, Step, TrainObservation, Validity};
use probe_transport::{Error, Session, SessionOptions};
use units::BitRate;

use super::{Error as PathError, series::TestSeries};

/// Timeout for opening a session: the server may still be completing a test.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of this measurement in a diagnosis: a lossy path may take minutes.
const MAX_TIME: Duration = Duration::from_secs(20);

/// A method with a deadline.
struct WithDeadline {
    method: AvailableBandwidth,
    begin: Instant,
    deadline: Instant,
    is_late: bool,
}

impl Method for WithDeadline {
    type Output = AvailableBandwidthResult;

    fn next_step(&mut self) -> Step {
        self.is_late = Instant::now() > self.deadline;
        if self.is_late { Step::Done } else { self.method.next_step() }
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        self.method.add_observations(observations);
    }

    fn result(&self) -> AvailableBandwidthResult {
        let mut result = self.method.result();
        if self.is_late {
            let time = self.deadline.saturating_duration_since(self.begin);
            let late = format!("the measurement was ended after {} s", time.as_secs());
            let doubts = if result.validity.valid { Vec::new() } else { result.validity.reasons };
            result.validity = Validity { valid: false, reasons: [doubts, vec![late]].concat() };
        }
        result
    }

    fn progress(&self) -> String {
        self.method.progress()
    }
}

/// Measures the available bandwidth of a session's path until `until`. If the measurement is not complete
/// then, the result is the estimate so far, marked invalid. Trains on their way are completed. `None`: the
/// session's maximum rate allows no useful train.
///
/// # Errors
/// If a socket fails, the server closes the connection, or `stop` is set.
pub fn probe_available(
    session: &mut Session,
    until: Instant,
    stop: &AtomicBool,
) -> Result<Option<AvailableBandwidthResult>, Error> {
    let limits = session.limits();
    if !limits.allow_trains() {
        return Ok(None);
    }
    let mut method = WithDeadline {
        method: AvailableBandwidth::new(limits),
        begin: Instant::now(),
        deadline: until,
        is_late: false,
    };
    session.run(&mut method, stop, &mut |_| {}).map(Some)
}

/// The available bandwidth, with at most `max_rate` averaged over any second and packets of at most `mtu`
/// bytes. `None`, and a note, if the other end does not reply to probes.
pub fn measure(
    tests: &mut TestSeries,
    max_rate: BitRate,
    mtu: Option<u32>,
) -> Result<Option<AvailableBandwidthResult>, PathError> {
    let options = SessionOptions {
        host: tests.peer.host.clone(),
        port: tests.peer.port,
        ip: None,
        max_rate,
        mtu,
        timeout: SESSION_TIMEOUT,
        secret: None,
    };
    let probed = || {
        let mut session = Session::open(&options, &tests.stop)?;
        probe_available(&mut session, Instant::now() + MAX_TIME, &tests.stop)
    };
    match probed() {
        Ok(found) => Ok(found),
        Err(Error::Link(iperf3::Error::Interrupted)) => Err(PathError::Interrupted),
        Err(error) => {
            tests.progress.note(&format!("the available bandwidth stays unknown: {error}"));
            Ok(None)
        }
    }
}
