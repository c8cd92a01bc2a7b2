//! Longfat's congestion controls for simulated connections.

use std::{collections::BTreeMap, error::Error};

use cc::{ParameterValues, Source, native::Library};
use scenario::{Cc, FlowKind, FlowSpec};
use sim::{Controllers, Side};
use tcp::CongestionControl;

/// Congestion control of flows without the key `cc`, and of receivers, which send no data.
const DEFAULT_CC: &str = "cubic";

/// Congestion controls by name, each loaded once.
#[derive(Default)]
pub struct Native(BTreeMap<String, Library>);

impl Controllers for Native {
    fn controller(
        &mut self,
        flow: &FlowSpec,
        side: Side,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn Error + Send + Sync>> {
        let name = match (&flow.kind, side) {
            (FlowKind::Tcp(tcp), Side::Sender) => tcp.cc.as_ref().map_or(DEFAULT_CC, Cc::name),
            _ => DEFAULT_CC,
        };
        if !self.0.contains_key(name) {
            let source = Source::built_in(name).ok_or(format!("longfat has no congestion control {name}"))?;
            self.0.insert(name.to_owned(), Library::open(&source, &ParameterValues::default())?);
        }
        let mut controller = self.0[name].controller(None)?;
        controller.set_seed(1 + side as u64);
        Ok(Box::new(controller))
    }
}
