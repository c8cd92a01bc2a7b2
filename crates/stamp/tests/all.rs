//! The tests of this crate: one program with a module per file, so that only one program is linked.

mod control;
mod fuzz_corpus;
mod loopback;
mod perfsonar;
mod perfsonar_vectors;
mod vectors;
