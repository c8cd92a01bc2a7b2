//! iperf3's protocol, client and server: the other end may be any iperf3.
//!
//! - [`wire`]: the messages, pure;
//! - [`test()`]: a client;
//! - [`Server`]: a server for many clients, with a queue; a [`service::Service`] adds another protocol to its
//!   port;
//! - [`report`]: the report that both ends return; an [`Observer`] receives their progress;
//! - [`document`]: reports as iperf3's JSON and text.
//!
//! Differences from iperf3:
//!
//! 1. A test of an amount (`-n`, `-k`) sends exactly that amount, and lasts until the last byte is
//!    acknowledged.
//! 2. A receiver counts all data that had arrived at the end of the test, not only the data that it had read.
//!    A server receives everything that a client sends in a test of an amount or of a file, including data
//!    that arrives after the end of the test, and a client gives an iperf3 server time to read a file before
//!    it ends the test.
//! 3. Processor time is that of the test's own threads, so that simultaneous tests do not count each other's.
//! 4. Between two longfat ends the server sends, on request, samples of its sockets and information about its
//!    host with its results (in keys that iperf3 ignores), and replies to the client's UDP probes that
//!    measure the latency under load ([`wire::LatencyEcho`]).

mod arrival;
mod auth;
mod channel;
mod client;
mod client_options;
mod connect;
mod control;
mod data_phase;
pub mod document;
mod error;
mod greeting;
mod interval_counter;
mod ip_version;
mod joined_samples;
mod latency;
mod listening_socket;
mod observer;
mod pace;
mod payload;
pub mod plain_streams;
mod renewal;
pub mod report;
mod report_builder;
pub mod reverse;
mod sample_buffer;
mod server;
mod server_read_wait;
pub mod service;
mod shared_state;
mod socket;
mod spec;
mod stream;
mod stream_sample;
mod stream_sampler;
mod stream_threads;
mod token;
mod udp_stream;
mod wake_threshold;
pub mod wire;

pub use auth::{AuthError, Authority, Credentials, Padding, TIME_SKEW};
pub use client::{TestOutcome, test};
pub use client_options::ClientOptions;
pub use error::Error;
pub use ip_version::IpVersion;
pub use joined_samples::join_samples;
pub use observer::{Observer, flow_name};
pub use sample_buffer::SampleBuffer;
pub use server::{Server, ServerObserver, ServerOptions};
pub use token::{Token, TokenGate};
