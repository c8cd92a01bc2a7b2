//! What is known of a flow beside its samples.

/// A tuned buffer has reached its limit from this share of it on.
const EXHAUSTED: f64 = 0.9;

/// A flow's surroundings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowContext {
    /// The flow's name.
    pub name: String,
    /// Sending and receiving host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Goodput that the slowest link allows; `None` on a path without a rate.
    pub wire_limit_bps: Option<f64>,
    /// The directions of links with a rate that the flow's data crosses.
    pub path: Vec<PathLink>,
    /// The path was not described, as between real hosts: whether it is full must show in the flow itself.
    pub unknown_path: bool,
    /// The sender's buffer.
    pub send_buffer: Buffer,
    /// The receiver's buffer.
    pub receive_buffer: Buffer,
    /// The pacing rate asked for, bit/s.
    pub pacing_bps: Option<f64>,
    /// How that rate was asked for, in the user's words, as in `-b` or `pacing`.
    pub pacing_option: String,
    /// Computing takes no time: nothing waits for a host.
    pub virtual_time: bool,
    /// The traffic generator at both ends where it is this program's own; `None` for foreign programs, of which nothing is known.
    pub generator: Option<Generator>,
    /// Both ends are on one host: no link is between them.
    pub is_one_host: bool,
    /// Segments that the sending host's own device, or its queueing discipline, dropped while the flow was there.
    pub device_drops: u64,
    /// How busy the computers were, one sentence each: evidence where they were the limit.
    pub host_use: Vec<String>,
}

/// What this program's traffic generator was asked to do. Where nothing is asked for, it writes and reads as fast as the
/// computer lets it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generator {
    /// The rate at which the application is to write, bit/s.
    pub write_bps: Option<f64>,
    /// The rate at which the application is to read, bit/s.
    pub read_bps: Option<f64>,
    /// The reader is to pause for a while.
    pub reader_pauses: bool,
    /// Data comes from a file, or goes to one.
    pub uses_file: bool,
    /// Bytes to send; `None` until the end.
    pub size_bytes: Option<u64>,
}

/// One direction of a link with a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLink {
    /// The link's name.
    pub name: String,
    /// `forward` or `backward`.
    pub direction: String,
    /// Its rate, bit/s on the wire.
    pub rate_bps: f64,
}

/// How a socket buffer is set.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Buffer {
    /// Not known.
    #[default]
    Unknown,
    /// Tuned by the kernel within `net.ipv4.tcp_rmem` or `tcp_wmem`: least, first, largest, in bytes.
    Tuned([u64; 3]),
    /// Asked for by the application with SO_RCVBUF or SO_SNDBUF, in bytes as asked.
    Fixed(u64),
}

impl Buffer {
    /// Whether a buffer of `bytes` is as large as it may become. A buffer of unknown limits is not known to be.
    pub(crate) fn is_exhausted(&self, bytes: f64) -> bool {
        match self {
            Buffer::Unknown => false,
            Buffer::Tuned([_, _, largest]) => bytes >= EXHAUSTED * *largest as f64,
            Buffer::Fixed(_) => true,
        }
    }
}
