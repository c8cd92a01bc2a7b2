//! The tests of this crate that need a server.
