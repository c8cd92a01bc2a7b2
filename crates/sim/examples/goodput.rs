//! Simulates a scenario file and prints each flow's goodput every second:
//! `cargo run -p longfat-sim --release --example goodput scenarios/lab8.toml`

use std::error::Error;

use cc::{ParameterValues, Source, native::Library};
use scenario::{Cc, FlowKind, FlowSpec, ScenarioFile};
use schema::{Event, FlowSample, LinkSample};
use sim::{Controllers, HostDefaults, Observer, Side};

type BoxedError = Box<dyn Error + Send + Sync>;

/// The program's built-in congestion controls, `cubic` unless the flow names another.
struct BuiltIn;

impl Controllers for BuiltIn {
    fn controller(
        &mut self,
        flow: &FlowSpec,
        side: Side,
    ) -> Result<Box<dyn tcp::CongestionControl>, BoxedError> {
        let name = match (&flow.kind, side) {
            (FlowKind::Tcp(tcp), Side::Sender) => tcp.cc.as_ref().map_or("cubic", Cc::name),
            _ => "cubic",
        };
        let source = Source::built_in(name).ok_or_else(|| format!("no congestion control {name}"))?;
        Ok(Box::new(Library::open(&source, &ParameterValues::default())?.controller(None)?))
    }
}

/// Prints rows as they arrive.
struct Printer;

impl Observer for Printer {
    fn rows(&mut self, flows: &[FlowSample], _: &[LinkSample], _: &[Event]) -> Result<(), BoxedError> {
        for row in flows.iter().filter(|row| row.time_us % 1_000_000 == 0) {
            let mbps = row.goodput_bps.unwrap_or(0) as f64 / 1e6;
            println!("{:3} s  {:12} {mbps:9.1} Mb/s", row.time_us / 1_000_000, row.flow);
        }
        Ok(())
    }

    fn progress(&mut self, _: units::Time, _: &[FlowSample]) -> bool {
        true
    }
}

#[allow(clippy::disallowed_methods, reason = "the example reads a file")]
fn main() -> Result<(), BoxedError> {
    let path = std::env::args().nth(1).ok_or("usage: goodput SCENARIO.toml")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let scenario = ScenarioFile::parse(&path, &text)?.resolve(None, &[])?;
    let outcome = sim::run(&scenario, &HostDefaults::default(), &mut BuiltIn, &mut Printer)?;
    for flow in &outcome.flow_totals {
        println!("{}: {} bytes received", flow.name, flow.bytes);
    }
    Ok(())
}
