//! Sends arbitrary frames of a host through routers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzzing::frames_at_routers(data));
