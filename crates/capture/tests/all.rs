//! The tests of this crate, one program: each file is a module, and linking costs once.

mod common;
mod connections;
mod files;
mod fuzz_corpus;
