//! Integration tests: one test program.

mod vanishing;
