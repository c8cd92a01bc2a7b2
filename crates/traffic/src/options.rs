//! Options of a TCP flow's sockets and applications.

use units::{BitRate, Bytes};

use crate::ReadPause;

/// Options of one TCP flow. `None` is the host's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TcpOptions {
    /// Congestion control of the sender (TCP_CONGESTION).
    pub cc: Option<String>,
    /// Stop after this number of bytes.
    pub size: Option<Bytes>,
    /// Largest segment that the receiver announces and the sender uses (TCP_MAXSEG).
    pub mss: Option<u32>,
    /// The sender's SO_SNDBUF as requested; the kernel doubles it and disables autotuning.
    pub send_buffer: Option<Bytes>,
    /// The receiver's SO_RCVBUF as requested; the kernel doubles it and disables autotuning.
    pub receive_buffer: Option<Bytes>,
    /// Maximum pacing rate (SO_MAX_PACING_RATE).
    pub pacing: Option<BitRate>,
    /// Maximum rate at which the receiving application reads.
    pub read_rate: Option<BitRate>,
    /// The pause of the receiving application.
    pub read_pause: Option<ReadPause>,
    /// Maximum rate at which the sending application writes.
    pub write_rate: Option<BitRate>,
    /// Size of its writes; 64 KiB by default.
    pub write_size: Option<Bytes>,
}
