//! What is known of a flow beside its samples.

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
    /// Computing takes no time: nothing waits for a host.
    pub virtual_time: bool,
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
