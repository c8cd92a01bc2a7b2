//! Known facts about a flow in addition to its samples.

use schema::LinkDirection;

/// A tuned buffer has reached its limit at this share of it or more.
const EXHAUSTED: f64 = 0.9;

/// A flow's endpoints, path and settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowContext {
    /// The flow's name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Goodput that the slowest link allows, bit/s; `None` on a path without a rate.
    pub wire_limit_bps: Option<f64>,
    /// The link directions with a rate that the flow's data crosses.
    pub path: Vec<PathLink>,
    /// The link direction with the flow's ACKs that was full while the flow ran; see
    /// [`full_link`](crate::full_link).
    pub full_ack_link: Option<PathLink>,
    /// The path is not described, as between real hosts: only the flow itself shows whether it is full.
    pub unknown_path: bool,
    /// The sender's buffer.
    pub send_buffer: Buffer,
    /// The receiver's buffer.
    pub receive_buffer: Buffer,
    /// The sender controls its rate instead of a window, as UDT's and Tsunami's do.
    pub is_rate_controlled: bool,
    /// The requested pacing rate, bit/s.
    pub pacing_bps: Option<f64>,
    /// The option or key that requested it, as in `-b` or `pacing`.
    pub pacing_option: String,
    /// The run was in virtual time: computing takes no time, so nothing waits for a host.
    pub virtual_time: bool,
    /// The hosts are the simulator's or the model's. Unlike Linux's, their stacks have a setting to ignore
    /// drops of their own device.
    pub is_simulated: bool,
    /// The request to this program's own traffic generator, where it is at both ends; `None` for other
    /// programs.
    pub generator: Option<Generator>,
    /// Both ends are on one host, with no link between them.
    pub is_one_host: bool,
    /// How busy the simulated processors and buses of the flow's hosts were, where packets cost time; of a
    /// file transfer: its threads.
    pub host_loads: Vec<HostLoad>,
    /// How long the ends of a file transfer waited for something other than the network; `None` for other
    /// flows.
    pub file_waits: Option<FileWaits>,
    /// The sending host's own device.
    pub device: SendingDevice,
    /// How busy the hosts' processors were, one sentence each: evidence where they were the limit.
    pub host_use: Vec<String>,
}

/// How busy a processor, a bus or a thread of a host was over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLoad {
    /// Its name in words, such as `processor of h2`.
    pub name: String,
    /// The kind of the busy resource.
    pub kind: LoadKind,
    /// Times since the run's start and the time busy until then, microseconds, in order.
    pub busy_us: Vec<(i64, f64)>,
}

/// The kinds of resources that have a [`HostLoad`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoadKind {
    /// A simulated processor.
    #[default]
    Processor,
    /// A simulated bus.
    Bus,
    /// A thread of a real host: it ran or waited for a processor.
    Thread,
}

/// How long the ends of a file transfer waited, over time. Each series has times since the run's start and
/// the time waited until then, microseconds, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileWaits {
    /// The sender waited until its files were read.
    pub reading_us: Vec<(i64, f64)>,
    /// The receiver waited until its files were written; empty if unknown.
    pub writing_us: Vec<(i64, f64)>,
    /// The sender waited for replies of the receiver about its files.
    pub replies_us: Vec<(i64, f64)>,
}

/// The sending host's device towards the path, with its queueing discipline.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SendingDevice {
    /// Its name; `None` if the scenario describes it.
    pub name: Option<String>,
    /// Its root queueing discipline, as in `fq_codel`; `None` if unknown.
    pub qdisc: Option<String>,
    /// Segments that the device or its queueing discipline dropped during the flow.
    pub dropped_segs: u64,
    /// Segments that the flow retransmitted meanwhile; `None` if its samples show that.
    pub retransmitted_segs: Option<u64>,
    /// Length of its transmit queue, packets.
    pub queue_packets: Option<u32>,
    /// The length that it needs at the host's link rate, packets ([`model::transmit_queue_packets`]); `None`
    /// where the rate is unknown.
    pub round_trip_packets: Option<u64>,
}

/// The request to this program's traffic generator. Without a request it writes and reads as fast
/// as the host can.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generator {
    /// The requested write rate, bit/s.
    pub write_bps: Option<f64>,
    /// The requested read rate, bit/s.
    pub read_bps: Option<f64>,
    /// The reader was requested to pause for a while.
    pub reader_pauses: bool,
    /// Data is read from a file or written to one.
    pub uses_file: bool,
    /// Bytes to send; `None` until the end.
    pub size_bytes: Option<u64>,
}

/// One direction of a link with a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLink {
    /// The link's name.
    pub name: String,
    /// The direction of the link.
    pub direction: LinkDirection,
    /// Its rate, bit/s on the wire.
    pub rate_bps: f64,
    /// Later rates, each with the time since the run's start from which it holds, microseconds; in order of
    /// time.
    pub rate_changes: Vec<(i64, f64)>,
}

impl PathLink {
    /// Its mean rate between two instants, bit/s.
    pub(crate) fn mean_rate_bps(&self, from_us: i64, to_us: i64) -> f64 {
        if self.rate_changes.is_empty() || to_us <= from_us {
            return self.rate_bps;
        }
        let ends = self.rate_changes.iter().map(|(at, _)| *at).chain([i64::MAX]);
        let begins = [(i64::MIN, self.rate_bps)].into_iter().chain(self.rate_changes.iter().copied());
        let parts = begins.zip(ends).map(|((begin, bps), end)| {
            let overlap = end.min(to_us).saturating_sub(begin.max(from_us));
            // A link without a rate is infinitely fast.
            if overlap > 0 { overlap as f64 * bps } else { 0.0 }
        });
        parts.sum::<f64>() / (to_us - from_us) as f64
    }
}

/// How a socket buffer is set.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Buffer {
    /// Unknown.
    #[default]
    Unknown,
    /// Tuned by the kernel within `net.ipv4.tcp_rmem` or `tcp_wmem`: minimum, initial, maximum, in bytes.
    Tuned([u64; 3]),
    /// Requested by the application with SO_RCVBUF or SO_SNDBUF, in bytes as requested.
    Fixed(u64),
    /// No buffer of the kernel: the flow-control window of a transport such as QUIC, in bytes.
    FlowControl(u64),
}

impl Buffer {
    /// Whether a buffer of `bytes` cannot grow any further; false for a buffer of unknown limits.
    pub(crate) fn is_exhausted(&self, bytes: f64) -> bool {
        match self {
            Buffer::Unknown => false,
            Buffer::Tuned([_, _, largest]) => bytes >= EXHAUSTED * *largest as f64,
            Buffer::Fixed(_) | Buffer::FlowControl(_) => true,
        }
    }
}
