//! What other traffic leaves of a path, by a probe session with a `longfat serve`.

use std::time::{Duration, Instant};

use perf::{
    iperf3,
    probe::{Error, Session, SessionOptions},
};
use probe::{Available, AvailableAnswer, Method, Seen, Step, Validity};
use units::BitRate;

use crate::{exit::Exit, output, path_test::Tests, probe_command};

/// The server may still be at the end of a test.
const PATIENCE: Duration = Duration::from_secs(10);
/// A diagnosis waits no longer for this: a lossy path may take minutes.
const MOST: Duration = Duration::from_secs(20);

/// The method, until its time is over.
struct Hurried {
    method: Available,
    until: Instant,
    is_late: bool,
}

impl Method for Hurried {
    type Answer = AvailableAnswer;

    fn next(&mut self) -> Step {
        self.is_late = Instant::now() > self.until;
        if self.is_late { Step::Done } else { self.method.next() }
    }

    fn take(&mut self, seen: &[Seen]) {
        self.method.take(seen);
    }

    fn answer(&self) -> AvailableAnswer {
        let mut answer = self.method.answer();
        if self.is_late {
            let late = format!("it was cut short after {} s", MOST.as_secs());
            let doubts = if answer.validity.valid { Vec::new() } else { answer.validity.reasons };
            answer.validity = Validity { valid: false, reasons: [doubts, vec![late]].concat() };
        }
        answer
    }

    fn doing(&self) -> String {
        self.method.doing()
    }
}

/// What is available at no more than `max_rate` averaged over any second, with packets of `mtu` bytes at most. `None`, and a note, where
/// the other end does not take part.
pub fn find(tests: &Tests, max_rate: BitRate, mtu: Option<u32>) -> anyhow::Result<Option<AvailableAnswer>> {
    let options = SessionOptions {
        host: tests.host.into(),
        port: tests.port,
        ip: None,
        max_rate,
        mtu,
        patience: PATIENCE,
    };
    let probed = || {
        let mut session = Session::open(&options, &tests.stop)?;
        let limits = session.limits();
        if !probe_command::allows_trains(limits) {
            return Ok(None);
        }
        let mut method =
            Hurried { method: Available::new(limits), until: Instant::now() + MOST, is_late: false };
        session.run(&mut method, &tests.stop, &mut |_| {}).map(Some)
    };
    match probed() {
        Ok(answer) => Ok(answer),
        Err(Error::Link(iperf3::Error::Interrupted)) => Err(Exit::Interrupted.into()),
        Err(error) => {
            output::note(&format!("longfat: what is available stays unknown: {error}"));
            Ok(None)
        }
    }
}
