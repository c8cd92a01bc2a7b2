//! iperf3's protocol, both ends: any iperf3 may be the other one.
//!
//! - [`wire`]: the messages, pure;
//! - [`test()`]: a client;
//! - [`Server`]: a server for many clients, who wait for their turn;
//! - both tell an [`Observer`] how it goes, and give a [`crate::report::Report`].
//!
//! Departures from iperf3:
//!
//! 1. A test of an amount (`-n`, `-k`) sends exactly that much, and lasts until the last of it is acknowledged.
//! 2. A receiver counts what had arrived when the test was over, not only what it had read.
//!    A server receives all that a client sends in a test of an amount or of a file, also what arrives after its end, and a
//!    client gives an iperf3 server time to read a file before it ends the test.
//! 3. Processor time is that of the test's own threads, so that tests side by side do not count each other's.
//! 4. Between two longfats the samples of the server's sockets come with its results (a key that iperf3 passes over), and what
//!    its host is like, if asked for; and a client that wants to know the latency under load asks at the server's port by UDP
//!    ([`wire::Echo`]).

mod account;
mod auth;
mod client;
pub(crate) mod control;
mod drive;
mod error;
mod latency;
mod looking;
mod looks;
mod observer;
mod pace;
mod payload;
mod running;
mod server;
mod settle;
mod shared;
mod socket;
mod stream;
mod tally;
mod token;
pub(crate) mod udp_stream;
mod wakes;
pub mod wire;

pub use auth::{AuthError, Authority, Credentials, Padding, TIME_SKEW};
pub use client::{ClientOptions, IpVersion, Tested, test};
pub use error::Error;
pub use looks::Looks;
pub use observer::{Observer, flow_name};
pub use server::{Server, ServerObserver, ServerOptions};
pub use token::{Token, TokenGate};
