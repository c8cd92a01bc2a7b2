//! Passes arbitrary datagrams with arbitrary times to a receiver's statistics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| traffic::udp::fuzz(data));
