//! The progress reports of a transfer.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use schema::FlowSample;
use serde::Serialize;
use units::BitRate;

use crate::{EndEvidence, Transport};

/// Receives the progress of a transfer.
pub trait Observer: Sync {
    /// A file begins; the receiver already has `resumed` bytes.
    fn begin(&self, name: &str, bytes: u64, resumed: u64);
    /// Bytes of the current file that were sent or received, the resumed ones included.
    fn progress(&self, bytes: u64);
    /// A file is complete.
    fn end(&self, report: &FileReport);
    /// The data connection of a session is open.
    fn connected(&self, _session: &Session) {}
    /// New samples of this end's connections, in order of time.
    fn samples(&self, _session: &Session, _rows: &[FlowSample]) {}
    /// A session with data is over: the measurements of its ends, and why it is incomplete. The peer's
    /// evidence is `None` if its version does not measure, or the session is incomplete, and empty if it did
    /// not arrive.
    fn measured(
        &self,
        _session: &Session,
        _own: EndEvidence,
        _peer: Option<EndEvidence>,
        _error: Option<&crate::Error>,
    ) {
    }
    /// A sender's session at a receiver ended: complete, or with an error.
    fn session(&self, _peer: SocketAddr, _error: Option<&crate::Error>) {}
    /// Something that was skipped, and why.
    fn note(&self, text: &str);
}

/// A session with an open data connection.
#[derive(Debug, Clone)]
pub struct Session {
    /// This end sends.
    pub is_sender: bool,
    /// The transport of the data.
    pub transport: Transport,
    /// Number of data connections.
    pub streams: u16,
    /// This end of the control connection.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// When the data connection was opened.
    pub started: SystemTime,
    /// The rate that was requested for the data packets; with Tsunami also the default rate.
    pub rate: Option<BitRate>,
    /// At the sender: the congestion control.
    pub congestion: Option<String>,
    /// Largest packet of UDT, SABUL, Tsunami and QUIC with IP and UDP headers, bytes.
    pub mss: u32,
}

/// A file that was transferred.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Bytes that an earlier transfer had stored.
    pub resumed_bytes: u64,
    /// From the file's announcement until it was stored, s.
    pub duration_s: f64,
    /// Bytes of this transfer over its duration, bit/s.
    pub goodput_bps: f64,
    /// BLAKE3 hash of the whole file.
    pub blake3: String,
    /// Data packets that this end sent; `None` with TCP and at receivers.
    pub sent_packets: Option<u64>,
    /// Of these, retransmissions.
    pub retransmitted_packets: Option<u64>,
}

impl FileReport {
    pub(crate) fn new(
        name: &str,
        bytes: u64,
        resumed_bytes: u64,
        duration: Duration,
        blake3: String,
    ) -> Self {
        let duration_s = duration.as_secs_f64();
        FileReport {
            name: name.to_string(),
            bytes,
            resumed_bytes,
            duration_s,
            goodput_bps: (bytes - resumed_bytes) as f64 * 8.0 / duration_s.max(1e-9),
            blake3,
            sent_packets: None,
            retransmitted_packets: None,
        }
    }
}
