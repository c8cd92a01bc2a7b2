//! The native part of the Python package `longfat`: the module `longfat._native`.
//!
//! It has the functions that the pure part in `python/longfat/` cannot have: parsing and running scenarios,
//! series as Arrow tables, plots and closed forms. Users see only the pure part, which has the documentation
//! and the types. Figures cross the boundary as JSON, series by the Arrow C data interface (PyCapsule), so
//! that no library copies them.
//!
//! Not here: engines that change the calling process (lab, guest kernels) or take privileges. The pure part
//! runs the program for them.

mod closed_forms;
mod elf_error;
mod errors;
mod interruptible;
mod point;
mod run;
mod scenario_file;
mod stepped;
mod table;

/// Native part of the package `longfat`. Use the package, not this module.
#[pyo3::pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::{
        closed_forms::bdp,
        point::{Stop, plan, run_point, store_point, stored_point},
        run::{Run, compare, open_run, read_run, run},
        scenario_file::{Scenario, built_in_scenarios},
        stepped::Stepped,
        table::{Table, table},
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
