//! Sends arbitrary frames of a host through a network.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzzing::frames(data));
