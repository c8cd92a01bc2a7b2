//! Parses arbitrary text as a log of ss.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| drop(capture::ss::parse(text, 1000)));
