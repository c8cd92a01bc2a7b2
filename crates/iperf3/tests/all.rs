//! The tests of this crate: one program with a module per file, so that only one program is linked.

mod documents;
mod fuzz_corpus;
mod sampling;
