//! All integration tests, in one program.

mod common;
mod fuzz_corpus;
mod stream;
mod tsunami;
mod udt;
