//! The messages of the control connection. A frame begins with the length (32 bits) and the kind (8 bits) of
//! its body: 0 for JSON, 1 for bytes of Tsunami's dialogue, 2 for a report of SABUL.
//!
//! ```text
//! receiver -> sender   hello (challenge)
//! sender -> receiver   start (challenge, proof, transport)
//! receiver -> sender   ready (proof, port for the data)
//! for each file:
//! sender -> receiver   file (name, size)
//! receiver -> sender   resume (bytes that it already has, and their hash)
//! sender -> receiver   begin (from which byte), then the data over the transport
//! sender -> receiver   sent (hash)
//! receiver -> sender   stored
//! if both ends measure:
//! sender -> receiver   evidence (samples and waits), in several messages
//! then:
//! sender -> receiver   end
//! if both ends measure:
//! receiver -> sender   evidence
//! ```
//!
//! Ends of older versions neither measure nor number their TCP connections: they ignore the members
//! `evidence` and `numbers_streams` of the first messages, or do not send them.
//!
//! Either end sends `failed` instead and closes the connection, and `working` before messages that take long.

use iperf3::wire::Samples;
use serde::{Deserialize, Serialize};

use crate::ActivitySample;

/// Name and version of the protocol.
pub(crate) const PROTOCOL: &str = "longfat-transfer/1";
/// The longest message, bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1 << 16;
/// Random bytes of a challenge.
pub(crate) const CHALLENGE_BYTES: usize = 32;
/// Random bytes of a session's key.
pub(crate) const KEY_BYTES: usize = 32;
/// Purpose of the hashes that prove the token.
pub(crate) const PROOF_PURPOSE: &str = "longfat transfer/1";

/// The transport of the files' data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP: the control connection itself, or several connections.
    Tcp,
    /// UDT 4.
    Udt,
    /// Tsunami.
    Tsunami,
    /// QUIC.
    Quic,
    /// SABUL.
    Sabul,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Message {
    /// The receiver's first message.
    Hello {
        protocol: String,
        /// Random bytes, hexadecimal.
        challenge: String,
        needs_token: bool,
    },
    /// The sender's first message.
    Start {
        protocol: String,
        challenge: String,
        /// Hash of both challenges, and for QUIC of the directory and the certificate, keyed with the token;
        /// hexadecimal.
        proof: Option<String>,
        /// The directory for the files, relative to the receiver's directory.
        directory: String,
        transport: Transport,
        /// Largest packet with IP and UDP headers, bytes.
        mss: u32,
        /// Target rate of Tsunami.
        rate_bps: u64,
        /// The sender's certificate for QUIC (DER, hexadecimal).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
        /// Number of TCP connections for the data; `None`: the data follows on the control connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streams: Option<u16>,
        /// The sender can send the number of each of these connections.
        #[serde(default, skip_serializing_if = "is_false")]
        numbers_streams: bool,
        /// The sender measures, and requests the measurements of the receiver.
        #[serde(default, skip_serializing_if = "is_false")]
        evidence: bool,
        /// The rate that the user requested, for the receiver's verdict.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested_bps: Option<u64>,
    },
    /// The receiver agrees.
    Ready {
        proof: Option<String>,
        /// Random bytes that identify the data connection, hexadecimal.
        key: String,
        /// The receiver's UDP port, or the TCP port for several connections.
        port: Option<u16>,
        /// The receiver's certificate for QUIC (DER, hexadecimal).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
        /// Each of several TCP connections begins with the key and its number, not only with the key.
        #[serde(default, skip_serializing_if = "is_false")]
        numbers_streams: bool,
        /// The receiver measures, and accepts the measurements of the sender.
        #[serde(default, skip_serializing_if = "is_false")]
        evidence: bool,
    },
    /// The next file.
    File {
        name: String,
        bytes: u64,
        /// Permission bits.
        mode: u32,
        /// Time of the last change, ns since 1970.
        modified_ns: i64,
    },
    /// The receiver already has the file's first `bytes` bytes, with this hash.
    Resume { bytes: u64, hash: String },
    /// The data begins at this byte.
    Begin { from: u64 },
    /// All data is sent; the hash of the whole file.
    Sent { hash: String },
    /// This end still hashes or stores the file, so the other one has to wait longer.
    Working,
    /// The file is complete and durable.
    Stored,
    /// A part of the measurements of an end.
    Evidence { samples: Samples, activity: Vec<ActivitySample>, is_last: bool },
    /// There are no more files.
    End,
    /// The transfer failed at this end.
    Failed { why: String },
}

/// For serde: whether a member is omitted, because it is false.
fn is_false(value: &bool) -> bool {
    !value
}
