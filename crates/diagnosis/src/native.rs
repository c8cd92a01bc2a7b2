//! The program's own congestion controls for simulated connections.

use std::{collections::BTreeMap, error::Error};

use cc::{Source, Values, native::Library};
use scenario::{Cc, Flow, Kind};
use sim::{Controllers, Side};
use tcp::CongestionControl;

/// What connections have that name no congestion control, and receivers, which send nothing.
const DEFAULT: &str = "cubic";

/// Congestion controls by name, each loaded once.
#[derive(Default)]
pub struct Native(BTreeMap<String, Library>);

impl Controllers for Native {
    fn controller(
        &mut self,
        flow: &Flow,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn Error + Send + Sync>> {
        let name = match (&flow.kind, side) {
            (Kind::Tcp(tcp), Side::Sender) => tcp.cc.as_ref().map_or(DEFAULT, Cc::name),
            _ => DEFAULT,
        };
        if !self.0.contains_key(name) {
            let source = Source::built_in(name).ok_or(format!("longfat has no congestion control {name}"))?;
            self.0.insert(name.to_owned(), Library::open(&source, &Values::default())?);
        }
        let mut controller = self.0[name].controller(None)?;
        controller.set_seed(1 + side as u64);
        Ok(Box::new(controller))
    }
}
