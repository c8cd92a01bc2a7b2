//! Decodes arbitrary bytes as each of the messages between iperf 2's client and server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| iperf2::wire::fuzz(bytes));
