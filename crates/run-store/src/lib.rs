//! Records in an object store that speaks S3's protocol: `--runs s3://bucket/prefix`.
//!
//! ```text
//! s3://bucket/prefix/SCENARIO/run=ID/summary.json, scenario.toml, flows.parquet, ...
//! s3://bucket/prefix/.points/3f/3f0c...9a.json     results of sweep points
//! s3://bucket/prefix/.index/TAG                    summaries of many runs
//! ```
//!
//! Reading: [`S3Store`] has a cache on this machine, which is a directory of records. Listing needs a request
//! for each scenario and for each thousand runs, and the summaries that the cache does not have; files with
//! rows are fetched when they are read. A finished record never changes. See `cache.rs`.
//!
//! Writing: records are written to a directory first, the outbox, and uploaded in the background. See
//! `outbox.rs`.
//!
//! Credentials and the endpoint are those of the usual environment variables, `AWS_ACCESS_KEY_ID`,
//! `AWS_ENDPOINT_URL` and so on. The first request starts the client and its threads. Each request has a
//! deadline. This crate prints nothing.

mod address;
mod cache;
mod client;
mod directories;
mod error;
mod http;
mod index;
mod journal;
mod outbox;
mod settings;
mod store;
#[cfg(test)]
mod takeover_tests;
mod uplink;
mod upload;

pub use address::is_address;
pub use error::Error;
pub use store::S3Store;
