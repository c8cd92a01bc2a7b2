//! Parses arbitrary text as the output of iperf 2: CSV or text.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| iperf2::document::fuzz(text));
