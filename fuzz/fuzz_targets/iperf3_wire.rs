//! Decodes arbitrary bytes as each of the messages between iperf3's client and server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| iperf3::wire::fuzz(bytes));
