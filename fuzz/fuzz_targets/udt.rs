//! Decodes arbitrary bytes as UDT packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bulk::udt::wire::fuzz(bytes));
