//! All integration tests, in one program.

mod hostile;
mod libudt;
mod loopback;
