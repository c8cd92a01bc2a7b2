//! The tests of this crate, one program: each file is a module, and linking costs once.

mod chain;
mod properties;
mod router_garbage;
mod routers;
mod ways;
