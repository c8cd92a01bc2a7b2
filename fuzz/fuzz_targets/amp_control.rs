//! Passes arbitrary bytes to clients and servers of TWAMP's and OWAMP's control protocols, in each state.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stamp::control::fuzz(bytes));
