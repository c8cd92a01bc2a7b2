//! Decodes arbitrary bytes as frames of other points and requests of local users.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agent::fuzzing::frames(bytes));
