//! Passes arbitrary bytes to both ends of a Tsunami session.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bulk::tsunami::fuzz(bytes));
