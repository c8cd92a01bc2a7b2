//! The integration tests of this crate in one program: each file is a module, so that linking is needed only
//! once.

mod chain;
mod paths;
mod properties;
mod router_robustness;
mod routers;
