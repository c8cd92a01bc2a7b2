//! Parses arbitrary text as a trace of a link's rate, in both formats.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| drop((net::RateTrace::parse_mahimahi(text), net::RateTrace::parse_csv(text))));
