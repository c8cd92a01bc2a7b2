//! Shared by tests and benches of the simulator: the program's congestion controls, an observer that ignores
//! all rows, and a scenario of one path.

#![allow(dead_code, reason = "each test uses a part")]

pub mod reference;

use std::error::Error;

use cc::{ParameterValue, ParameterValues, Source, native::Library};
use scenario::{Cc, CcValue, FlowKind, FlowSpec, Scenario, ScenarioFile};
use sim::{Controllers, HostDefaults, Outcome, Side};
use tcp::CongestionControl;

/// Congestion controls by name and parameters: cubic for receivers and for flows that name none.
#[derive(Default)]
pub struct Native(Vec<(Cc, Library)>);

impl Controllers for Native {
    fn controller(
        &mut self,
        flow: &FlowSpec,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn Error + Send + Sync>> {
        let cc = match (&flow.kind, side) {
            (FlowKind::Tcp(tcp), Side::Sender) => tcp.cc.clone(),
            (FlowKind::Quic(quic), Side::Sender) => quic.cc.clone(),
            _ => None,
        };
        let cc = cc.unwrap_or_else(|| Cc::Named("cubic".into()));
        if !self.0.iter().any(|(known, _)| *known == cc) {
            let source = Source::built_in(cc.name()).ok_or(format!("no congestion control {}", cc.name()))?;
            let value = |value: &CcValue| match *value {
                CcValue::Integer(number) => ParameterValue::Integer(number),
                CcValue::Decimal(number) => ParameterValue::Decimal(number),
                CcValue::Boolean(yes) => ParameterValue::Bool(yes),
            };
            let values: ParameterValues = cc.set().iter().map(|(name, v)| (name.clone(), value(v))).collect();
            self.0.push((cc.clone(), Library::open(&source, &values)?));
        }
        let found = self.0.iter().find(|(known, _)| *known == cc).ok_or("not loaded")?;
        let mut controller = found.1.controller(None)?;
        controller.set_seed(1 + side as u64);
        Ok(Box::new(controller))
    }
}

/// A scenario with h1, a switch and h2. Empty fields leave the keys out.
#[derive(Default)]
pub struct Path<'a> {
    /// Top-level keys, such as `duration`.
    pub top: &'a str,
    /// Keys of all hosts.
    pub hosts: &'a str,
    /// The direction from the switch to h2, as in `rate = "1gbit"`; the link of h1 is ideal.
    pub forward: &'a str,
    /// The direction from h2 to the switch.
    pub backward: &'a str,
    /// The keys of each flow without its name (f1, f2 and so on) and its hosts.
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

    /// Simulates it.
    pub fn run(&self) -> Outcome {
        self.run_with(&HostDefaults::default())
    }

    /// Simulates it with hosts of these defaults.
    pub fn run_with(&self, defaults: &HostDefaults) -> Outcome {
        run(&self.text(), defaults)
    }
}

/// Resolves the scenario of a file's text.
pub fn scenario(text: &str) -> Scenario {
    ScenarioFile::parse("test.toml", text).unwrap().resolve(None, &[]).unwrap()
}

/// Simulates the scenario of a file's text.
pub fn run(text: &str, defaults: &HostDefaults) -> Outcome {
    sim::run(&scenario(text), defaults, &mut Native::default(), &mut ()).unwrap()
}
