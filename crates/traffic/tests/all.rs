//! The tests of this crate: one program with a module per file, so that only one program is linked.

mod fuzz_corpus;
mod udp;
