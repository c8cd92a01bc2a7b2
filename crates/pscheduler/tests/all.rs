//! The tests of this crate, one program.

mod methods;
mod runs;
mod schema;
