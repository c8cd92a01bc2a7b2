//! Decodes arbitrary bytes as the token of an invitation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agent::fuzzing::token(bytes));
