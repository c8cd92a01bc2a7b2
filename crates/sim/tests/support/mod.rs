//! What tests and benches of the simulator share: the program's congestion controls, and nobody who looks on.

#![allow(dead_code, reason = "each test uses its part")]

use std::error::Error;

use cc::{Source, Value, Values, native::Library};
use scenario::{Cc, CcValue, Flow, Kind, Scenario, ScenarioFile};
use schema::{Event, FlowSample, LinkSample};
use sim::{Controllers, Machine, Observer, Outcome, Side};
use tcp::CongestionControl;
use units::Time;

/// Congestion controls by name and parameters; cubic for receivers and for flows that name none.
#[derive(Default)]
pub struct Native(Vec<(Cc, Library)>);

impl Controllers for Native {
    fn controller(
        &mut self,
        flow: &Flow,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn Error + Send + Sync>> {
        let cc = match (&flow.kind, side) {
            (Kind::Tcp(tcp), Side::Sender) => tcp.cc.clone(),
            _ => None,
        };
        let cc = cc.unwrap_or_else(|| Cc::Named("cubic".into()));
        if !self.0.iter().any(|(known, _)| *known == cc) {
            let source = Source::built_in(cc.name()).ok_or(format!("no {}", cc.name()))?;
            let value = |value: &CcValue| match *value {
                CcValue::Integer(number) => Value::Integer(number),
                CcValue::Decimal(number) => Value::Decimal(number),
                CcValue::Boolean(yes) => Value::Bool(yes),
            };
            let values: Values = cc.set().iter().map(|(name, v)| (name.clone(), value(v))).collect();
            self.0.push((cc.clone(), Library::open(&source, &values)?));
        }
        let found = self.0.iter().find(|(known, _)| *known == cc).ok_or("gone")?;
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
