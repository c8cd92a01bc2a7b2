//! The integration tests of this crate as one program: each file is a module, and linking is done once.

mod bundled;
mod cc;
mod docs;
mod forwarding;
mod fuzz;
mod fuzz_corpus;
mod import;
mod mistakes;
mod mistakes_network;
mod roundtrip;
mod routing;
mod sweeps;
mod traces;
