//! Any datagrams at any times, as a receiver's statistics take them in.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| traffic::udp::fuzz(data));
