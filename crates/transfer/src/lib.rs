//! Sends files between two hosts over TCP, UDT 4, SABUL, Tsunami or QUIC, and real-time streams ([`stream`]):
//! the sockets around the cores of `bulk`.
//!
//! A [`Receiver`] listens; [`send`] connects to it. Both agree on everything over one TCP connection, whose
//! messages `message.rs` lists. Files are complete or absent: they are written under a temporary name,
//! compared by their BLAKE3 hashes, made durable and renamed. A transfer that was interrupted continues after
//! the bytes that the receiver already has, if both ends' hashes of them agree.
//!
//! A token authenticates both ends (`proof.rs`). Only QUIC encrypts the data. [`UdtStream`] is UDT over a
//! socket without the control connection, to interoperate with other programs.

mod activity_sample;
mod buffers;
mod control;
mod data;
mod data_stream;
mod error;
mod evidence;
mod file_reader;
mod message;
mod name;
mod observer;
mod partial_file;
mod prefix_hash;
mod progress;
mod proof;
mod receiver;
mod sampler;
mod sender;
pub mod stream;
mod tcp_streams;
mod tsunami;
mod udt_stream;
mod wait;

pub use activity_sample::ActivitySample;
pub use bulk::udt::RateChoice;
pub use error::Error;
pub use evidence::EndEvidence;
pub use iperf3::Token;
pub use message::Transport;
pub use observer::{FileReport, Observer, Session};
pub use progress::FileProgress;
pub use receiver::{Receiver, ReceiverOptions};
pub use sender::{SenderOptions, send};
pub use udt_stream::{Attendant, UdtListener, UdtStream};

/// The default TCP port of receivers.
pub const PORT: u16 = 46225;

/// Decodes any bytes as a message of a transfer's control connection and as the request of a stream; for
/// fuzzers.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(message::Message::File { name, .. }) = serde_json::from_slice(bytes)
        && let Ok(path) = name::join(std::path::Path::new("/data"), &name)
    {
        assert!(path.starts_with("/data"), "{name:?} leaves the directory");
    }
    tcp_streams::fuzz(bytes);
    stream::fuzz(bytes);
}
