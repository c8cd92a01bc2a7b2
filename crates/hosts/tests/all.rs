//! Integration tests: one test program.

mod common;
mod interruption;
mod requests;
mod vanishing;
