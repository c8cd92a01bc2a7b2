//! Records of measurements between real hosts: tests that longfat made, and those of other programs.
//!
//! [`test`](mod@test) turns a test's samples and report into a record with its verdict; [`iperf3`] imports iperf3's JSON, [`captures`] captures
//! and logs of `ss`; [`export`] is any record as iperf3's report. [`steadiness`] finds out during a test whether its goodput is
//! known well enough.
//!
//! Not here: the tests themselves (`perf`), and the diagnosis of a path (`diagnosis`).

pub mod captures;
pub mod export;
mod exported_stream;
pub mod iperf3;
pub mod latency;
pub mod record;
pub mod steadiness;
mod streams;
pub mod test;

pub use experiment::{Error, Result, error};
