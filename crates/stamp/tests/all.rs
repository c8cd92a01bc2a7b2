//! The tests of this crate, one program: each file is a module, and linking costs once.

mod fuzz_corpus;
mod vectors;
