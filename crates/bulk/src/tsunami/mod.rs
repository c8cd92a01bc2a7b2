//! Tsunami, revision 2006-10-25, without I/O: a control dialogue over a byte stream, and blocks over UDP.
//!
//! The [`Server`] sends a file's blocks at the client's target rate and slows down while the [`Client`]
//! reports errors above its threshold. The client requests missing blocks on the control connection.
//!
//! Tsunami is designed for otherwise idle paths: it does not share them fairly with TCP. Nothing is
//! encrypted. The server sends to any UDP port of the host that has the control connection. Only the secret
//! prevents misuse of this, so use another one than [`wire::DEFAULT_SECRET`].

mod client;
mod control;
mod error;
mod server;
pub mod wire;

pub use client::{Client, ClientStatistics, Received};
pub use error::SessionError;
pub use server::{Block, Server, ServerStatistics};

/// Feeds arbitrary bytes to both ends, in pieces; for fuzzers.
pub fn fuzz(bytes: &[u8]) {
    use units::{Instant, Time};
    let parameters = wire::Parameters { block_bytes: 4, ..wire::Parameters::default() };
    let mut client = Client::new(b"s", "f", parameters, 1, 8);
    let mut server = Server::new(b"s", [0; wire::CHALLENGE_BYTES]);
    // Both ends share the secret, so that the fuzzer's bytes get past the authentication.
    client.handle_control(Instant::ZERO, &wire::REVISION.to_be_bytes());
    client.handle_control(Instant::ZERO, &[0; wire::CHALLENGE_BYTES + 2]);
    server.handle_control(Instant::ZERO, &wire::REVISION.to_be_bytes());
    server.handle_control(Instant::ZERO, &wire::proof(&[0; wire::CHALLENGE_BYTES], b"s"));
    let mut now = Instant::ZERO;
    for piece in bytes.chunks(20) {
        now += Time::from_millis(90);
        client.handle_control(now, piece);
        client.handle_datagram(now, piece);
        server.handle_control(now, piece);
        server.offer(now, 1 << 20, 0);
        server.poll_transmit(now);
        client.take_control();
        server.take_control();
    }
}
