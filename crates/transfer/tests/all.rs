//! All integration tests, in one program.

mod evidence;
mod fuzz_corpus;
mod hostile;
mod libudt;
mod loopback;
mod quic;
mod stream;
