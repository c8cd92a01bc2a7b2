//! Any bytes as messages of TWAMP's and OWAMP's control protocols, in each state of a client and a server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stamp::control::fuzz(bytes));
