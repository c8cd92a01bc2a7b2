//! All integration tests, in one program.

mod common;
mod fuzz_corpus;
mod tsunami;
mod udt;
