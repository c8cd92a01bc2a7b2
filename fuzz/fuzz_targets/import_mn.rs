//! Imports arbitrary text as a MiniEdit topology (.mn).
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| drop(scenario::import_mn(text, "fuzz")));
