//! Dissects arbitrary bytes as a capture file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| capture::fuzz(bytes));
