//! A run that the user ends early.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hosts::{Address, HostLocation, HostLocations, Observer, RunOptions, run};
use schema::FlowSample;
use units::Time;

use crate::common::{scenario, with_server};

/// Ends the run at its first rows.
struct Interrupting<'a>(&'a AtomicBool);

impl Observer for Interrupting<'_> {
    fn note(&mut self, _: &str) {}

    fn rows(&mut self, _: Time, _: &[FlowSample]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.store(true, Ordering::Release);
        Ok(())
    }
}

#[test]
fn an_interrupted_run_reports_no_unrestored_settings() {
    with_server(|port| {
        let at = HostLocation::At(Address { host: "127.0.0.1".into(), port });
        let locations = HostLocations::new([("h2".into(), at)]);
        let stop = AtomicBool::new(false);
        let options = RunOptions {
            locations: &locations,
            token: None,
            allows_tune: false,
            reconnect: Some(Duration::from_secs(1)),
            stop: &stop,
        };
        let measured = run(&scenario("h1", "h2"), &options, &mut Interrupting(&stop)).unwrap();
        assert!(measured.interrupted && !measured.rows.is_empty(), "{measured:?}");
        assert_eq!(measured.notes, [""; 0]);
    });
}
