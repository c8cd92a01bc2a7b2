//! The built-in congestion controls as side modules.
//!
//! The controllers and the interface to C are those of the program; only the way of copying an algorithm
//! differs.

#[path = "../../../cc/src/native/controller.rs"]
mod controller;
mod loaded_copy;
mod page;
#[allow(dead_code, reason = "the program's build of C files uses the rest")]
#[path = "../../../cc/src/native/runtime.rs"]
mod runtime;

use std::rc::Rc;

use computed_runs::{congestion::values, sim_engine::CongestionControls};
use scenario::Cc;
use tcp::{
    CongestionControl,
    parameters::{Parameter, ParameterType},
};

use self::{controller::Controller, loaded_copy::LoadedCopy};
use crate::Library;

/// A built-in algorithm.
#[derive(Debug)]
struct Algorithm {
    name: &'static str,
    /// The variable of type `struct tcp_congestion_ops`.
    operations: &'static str,
    /// The side module.
    module: &'static [u8],
    parameters: &'static [ParameterText],
}

/// A parameter, see [`Parameter`].
#[derive(Debug)]
struct ParameterText {
    name: &'static str,
    doc: &'static str,
    ty: ParameterType,
    scale: Option<i64>,
    default_raw: i64,
    line: u32,
}

const BUILT_IN: &[Algorithm] = include!(concat!(env!("LONGFAT_CC_MODULES"), "/algorithms.rs"));

impl Algorithm {
    fn of_name(name: &str) -> Option<&'static Algorithm> {
        BUILT_IN.iter().find(|one| one.name == name)
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |text: &ParameterText| Parameter {
            name: text.name.into(),
            doc: text.doc.into(),
            ty: text.ty,
            scale: text.scale,
            default_raw: text.default_raw,
            line: text.line,
        };
        self.parameters.iter().map(parameter).collect()
    }
}

/// The congestion controls of a run, each loaded once for each set of parameters and HZ.
#[derive(Debug, Default)]
pub struct Controls {
    copies: Vec<(Cc, u32, Rc<LoadedCopy>)>,
}

impl Controls {
    fn copy(&mut self, cc: &Cc, hz: u32) -> Result<Rc<LoadedCopy>, String> {
        let known = self.copies.iter().find(|(known, ticks, _)| known == cc && *ticks == hz);
        if let Some((_, _, copy)) = known {
            return Ok(copy.clone());
        }
        let missing = || {
            let names: Vec<&str> = self.names();
            format!("there is no congestion control {:?}; longfat has {}", cc.name(), names.join(", "))
        };
        let algorithm = Algorithm::of_name(cc.name()).filter(|_| self.has(cc)).ok_or_else(missing)?;
        let copy = LoadedCopy::load(algorithm, &values(cc), hz)?;
        self.copies.push((cc.clone(), hz, copy.clone()));
        Ok(copy)
    }
}

impl CongestionControls for Controls {
    fn has(&self, cc: &Cc) -> bool {
        !matches!(cc, Cc::File { .. }) && Algorithm::of_name(cc.name()).is_some()
    }

    fn controller(
        &mut self,
        cc: &Cc,
        hz: u32,
        seed: u64,
    ) -> Result<Box<dyn CongestionControl>, Box<dyn std::error::Error + Send + Sync>> {
        let copy = self.copy(cc, hz)?;
        let table = copy.operations;
        let mut controller = Controller::new(copy, table);
        controller.set_seed(seed);
        Ok(Box::new(controller))
    }
}

impl Library for Controls {
    fn names(&self) -> Vec<&str> {
        BUILT_IN.iter().map(|one| one.name).collect()
    }

    fn parameters(&self, name: &str) -> Option<Vec<Parameter>> {
        Algorithm::of_name(name).map(Algorithm::parameters)
    }
}
