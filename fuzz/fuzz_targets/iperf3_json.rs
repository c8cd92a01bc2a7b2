//! Parses arbitrary text as iperf3's JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| iperf3::document::fuzz(text));
