//! Measurements between real hosts and their records: longfat's tests, and measurements of other programs.
//!
//! [`test`](mod@test) turns a test's samples and report into a record with its verdict; [`iperf3`] imports
//! iperf3's JSON, [`captures`] captures and logs of `ss`; [`export`] converts any record to iperf3's report.
//! [`steadiness`] decides during a test whether its goodput is known precisely enough. [`watched`] records
//! live connections. [`path`] measures a path between this host and another, for a [`diagnosis`].
//!
//! [`unattended`] runs and records a test that no user watches, [`stream`] records a real-time stream,
//! [`file_transfer`] a file transfer.
//!
//! Not here: the tests themselves ([`iperf3`](::iperf3), [`transfer`]).

pub mod captures;
pub mod delay;
pub mod export;
mod exported_stream;
pub mod file_transfer;
pub mod iperf3;
pub mod latency;
pub mod path;
pub mod record;
pub mod steadiness;
pub mod stream;
mod streams;
pub mod test;
pub mod unattended;
pub mod watched;

pub use experiment::{Error, Result, error};
