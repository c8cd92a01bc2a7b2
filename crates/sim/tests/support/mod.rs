//! What tests and benches of the simulator share: the program's congestion controls, and nobody who looks on.

#![allow(dead_code, reason = "each test uses its part")]

pub mod reference;

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

/// h1, a switch and h2. What is not said is as in a scenario that does not say it.
#[derive(Default)]
pub struct Path<'a> {
    /// Lines at the top, `duration` for one.
    pub top: &'a str,
    /// What all hosts have.
    pub hosts: &'a str,
    /// The direction from the switch to h2, as in `rate = "1gbit"`; the link of h1 is ideal.
    pub forward: &'a str,
    /// The direction from h2 to the switch.
    pub backward: &'a str,
    /// The keys of each flow beside its name (f1, f2 and so on) and its hosts.
    pub flows: &'a [&'a str],
}

impl Path<'_> {
    /// The scenario file's text.
    pub fn text(&self) -> String {
        let Path { top, hosts, forward, backward, flows } = self;
        let flow = |(n, keys): (usize, &&str)| {
            format!("[[flows]]\nname = \"f{}\"\nfrom = \"h1\"\nto = \"h2\"\n{keys}\n", n + 1)
        };
        let flows: String = flows.iter().enumerate().map(flow).collect();
        format!(
            r#"
{top}
[hosts."*"]
{hosts}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
[[links]]
ends = ["s1", "h2"]
forward = {{ {forward} }}
backward = {{ {backward} }}
{flows}"#
        )
    }

    /// A run of it.
    pub fn run(&self) -> Outcome {
        run(&self.text(), &Machine::default())
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
