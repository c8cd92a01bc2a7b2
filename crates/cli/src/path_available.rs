//! What other traffic leaves of a path, by a probe session with a `longfat serve`.

use std::time::Duration;

use perf::{
    iperf3,
    probe::{Error, Session, SessionOptions},
};
use probe::{Available, AvailableAnswer};
use units::BitRate;

use crate::{exit::Exit, output, path_test::Tests, probe_command};

/// The server may still be at the end of a test.
const PATIENCE: Duration = Duration::from_secs(10);

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
        session.run(&mut Available::new(limits), &tests.stop, &mut |_| {}).map(Some)
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
