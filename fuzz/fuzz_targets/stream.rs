//! Decodes arbitrary bytes as datagrams of a real-time stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bulk::stream::fuzz(bytes));
