//! The native build: a congestion control as a shared object in this process.
//!
//! [`build`] returns the shared object of a [`Source`](crate::Source) with its description. [`Library`] is a
//! loaded copy of it with values of its parameters. [`Controller`] is the congestion control of one socket in
//! a library.

mod compile;
mod controller;
#[cfg_attr(target_feature = "crt-static", path = "static_image.rs")]
mod image;
mod inspect;
#[cfg(test)]
mod layout_tests;
mod library;
mod library_error;
mod loaded_copy;
mod object;
mod parameters;
mod runtime;
mod signatures;
#[cfg(all(test, not(target_feature = "crt-static")))]
mod static_image;
mod trial;

pub use controller::Controller;
pub use library::Library;
pub use library_error::LibraryError;
pub use object::{SharedObject, build};
pub use trial::{NativeTrial, run_trial};

pub use crate::{
    build_error::{BuildError, Diagnostic},
    compiler::MISSING as NO_COMPILER,
};
