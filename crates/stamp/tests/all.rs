//! The tests of this crate, one program: each file is a module, and linking costs once.

mod control;
mod fuzz_corpus;
mod loopback;
mod perfsonar;
mod perfsonar_vectors;
mod vectors;
