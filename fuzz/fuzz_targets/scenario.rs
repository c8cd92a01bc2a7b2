//! Parses arbitrary text as a scenario file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scenario::fuzzing::scenario(data));
