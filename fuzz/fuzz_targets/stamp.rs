//! Decodes arbitrary bytes as STAMP packets, unauthenticated and authenticated.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stamp::wire::fuzz(bytes));
