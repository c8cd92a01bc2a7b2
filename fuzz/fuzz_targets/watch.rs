//! Parses arbitrary bytes as a reply of sock_diag, and as a filter.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    watch::fuzzing::sock_diag(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        watch::fuzzing::filter(text);
    }
});
