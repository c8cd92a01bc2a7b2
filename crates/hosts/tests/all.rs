//! Integration tests: one test program.

mod common;
mod requests;
mod vanishing;
