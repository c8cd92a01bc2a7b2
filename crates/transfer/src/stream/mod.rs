//! Real-time streams between this host and a `longfat serve`: the ends of [`bulk::flow`] over UDP, controlled
//! over TCP.
//!
//! The client connects to the server's port, proves the token if the server has one, and requests a stream in
//! either direction. Then it opens a UDP socket to the same port. The server sends data only over a socket
//! that is connected to the address of the control connection, and only after the receiver's start has
//! arrived over both connections: a client cannot direct a stream to another host.
//!
//! Both ends report their counts over the control connection, so that each end has the counts of both.

mod client;
mod message;
mod recorder;
mod service;
mod session;

pub use bulk::stream::{Parameters, vdif};
pub use client::{StreamClient, StreamOptions, run_stream};
pub use message::Direction;
pub use recorder::{RecorderOptions, send_to_recorder};
pub use service::StreamService;
pub use session::StreamSample;

/// Decodes any bytes as the request of a stream; an accepted one has a play-out buffer of bounded size.
pub(crate) fn fuzz(bytes: &[u8]) {
    let request: Result<message::Request, _> = serde_json::from_slice(bytes);
    if let Ok(Ok(parameters)) = request.map(|request| request.parameters()) {
        let buffered = parameters.rate.0 / 8 / u64::from(parameters.payload_bytes);
        assert!(buffered <= 1 << 26 && parameters.payload_bytes <= 9000);
    }
}
