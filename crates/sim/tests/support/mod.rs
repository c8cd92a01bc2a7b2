//! What tests and benches of the simulator share: the program's congestion controls, and nobody who looks on.

#![allow(dead_code, reason = "each test uses its part")]

pub mod reference;

use std::error::Error;

use cc::{Source, Values, native::Library};
use scenario::{Flow, Kind, Scenario, ScenarioFile};
use schema::{Event, FlowSample, LinkSample};
use sim::{Controllers, Machine, Observer, Outcome, Side};
use tcp::CongestionControl;
use units::Time;

/// Congestion controls by name; cubic for receivers and for flows that name none.
#[derive(Default)]
pub struct Native(Vec<(String, Library)>);

impl Controllers for Native {
    fn controller(
        &mut self,
        flow: &Flow,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn Error + Send + Sync>> {
        let name = match (&flow.kind, side) {
            (Kind::Tcp(tcp), Side::Sender) => tcp.cc.as_ref().map_or("cubic", |cc| cc.name()),
            _ => "cubic",
        };
        if !self.0.iter().any(|(known, _)| known == name) {
            let source = Source::built_in(name).ok_or(format!("no {name}"))?;
            self.0.push((name.into(), Library::open(&source, &Values::new())?));
        }
        let found = self.0.iter().find(|(known, _)| known == name).ok_or("gone")?;
        let mut controller = found.1.controller(None)?;
        controller.set_seed(1 + side as u64);
        Ok(Box::new(controller))
    }
}

/// Looks on and does nothing.
pub struct Nobody;

impl Observer for Nobody {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
    fn progress(&mut self, _: Time, _: &[FlowSample]) -> bool {
        true
    }
}

/// The scenario of a file's text.
pub fn scenario(text: &str) -> Scenario {
    ScenarioFile::parse("test.toml", text).unwrap().resolve(None, &[]).unwrap()
}

/// A run of it.
pub fn run(text: &str, machine: &Machine) -> Outcome {
    sim::run(&scenario(text), machine, &mut Native::default(), &mut Nobody).unwrap()
}
