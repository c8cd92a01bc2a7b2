//! The tests of this crate as one program.

mod fuzz_corpus;
