//! The integration tests of this crate as one program: each file is a module, and linking is done once.

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
mod shipped;
mod sweeps;
mod traces;
