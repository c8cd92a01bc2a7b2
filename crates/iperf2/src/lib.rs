//! iperf 2's protocol, client and server: the other end may be any iperf 2 (tested with Debian's 2.1.8).
//!
//! - [`wire`]: the messages, pure;
//! - [`test()`]: a client, with the options and the report of [`iperf3`];
//! - [`Server`]: a server for TCP and UDP on one port;
//! - [`document`]: reports from iperf 2's CSV and text.
//!
//! Differences from iperf 2:
//!
//! 1. A sender's time ends when the last byte is acknowledged, and a test of a given number of bytes sends
//!    exactly that number.
//! 2. The server refuses UDP tests in which it would send (`-R`, `-d`, `-r`, `--full-duplex`): the sender's
//!    address of a datagram can be forged, and the server would flood another host.
//! 3. Bounce-back tests, permit keys, isochronous traffic and multicast are not supported.
//! 4. `-d` and `-r` of a TCP client: the server connects back only to the client's own address.

mod client;
pub mod document;
mod server;
mod test_set_up;
mod udp_client;
mod udp_totals;
pub mod wire;

pub use client::{DEFAULT_PORT, test};
pub use server::{Server, ServerOptions};
