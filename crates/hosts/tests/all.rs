//! Integration tests: one test program.

mod common;
mod flood;
mod interruption;
mod requests;
mod vanishing;
