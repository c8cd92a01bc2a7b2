//! Parses arbitrary text as agent.toml.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agent::fuzzing::config(bytes));
