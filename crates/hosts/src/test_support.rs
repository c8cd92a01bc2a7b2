//! Pieces of the unit tests of several modules.

use std::sync::atomic::AtomicBool;

use scenario::{Scenario, ScenarioFile};
use schema::FlowSample;
use units::Time;

use crate::{HostLocations, Observer, RunOptions};

/// An observer of a run that discards everything.
pub(crate) struct Silent;

impl Observer for Silent {
    fn note(&mut self, _: &str) {}

    fn rows(&mut self, _: Time, _: &[FlowSample]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Ten seconds of these flows (the list `flows` of a scenario file) between hosts `h1` and `h2`.
pub(crate) fn scenario(flows: &str) -> Scenario {
    let text = format!(
        r#"
        duration = "10s"
        hosts.h1.address = "10.0.0.1/24"
        hosts.h2.address = "10.0.0.2/24"
        links = [{{ ends = ["h1", "h2"] }}]
        flows = {flows}
        "#
    );
    ScenarioFile::parse("x", &text).unwrap().resolve(None, &[]).unwrap()
}

/// A run without token, changed settings and reconnections.
pub(crate) fn options<'a>(locations: &'a HostLocations, stop: &'a AtomicBool) -> RunOptions<'a> {
    RunOptions { locations, token: None, allows_tune: false, reconnect: None, stop }
}
