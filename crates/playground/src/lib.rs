//! The model and the simulator in a browser: a WebAssembly module that takes the text of a scenario file and
//! returns the run's summary and its rows.
//!
//! [`compute`] does the work and builds for every target, so tests compare it with the program's own runs.
//! The other modules are for WebAssembly only: `interface` has the functions that the page calls, `controls`
//! the built-in congestion controls. Each of them is a side module (`crates/cc/examples/wasm_modules.rs`), of
//! which the page instantiates a copy with separate variables for each set of parameters, as the program
//! loads a copy of a shared object.
//!
//! Browsers have no kernel, so the machine is a Linux 6.18 with its default settings:
//! `longfat run --kernel 6.18` computes the same figures.

mod compute;
#[cfg(target_arch = "wasm32")]
mod controls;
#[cfg(target_arch = "wasm32")]
mod interface;
#[path = "../../view/src/page/topology.rs"]
mod topology;

pub use compute::{Answer, Computed, Library, Mistake, Request, compute};
