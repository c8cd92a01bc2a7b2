//! All integration tests, in one program.

mod aioquic;
mod hostile;
mod loopback;
