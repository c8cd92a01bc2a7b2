//! Decodes arbitrary bytes as messages of a transfer's control connection, and as requests of a stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transfer::fuzz(bytes));
