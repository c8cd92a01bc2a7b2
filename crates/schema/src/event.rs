//! One row of `events.parquet`: an event of a flow, a link or the measurement.

/// The kind of an event, and the meaning of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A flow began (connected).
    Start,
    /// A flow ended.
    Stop,
    /// The sender's congestion state changed. Value: the new `ca_state`.
    CaState,
    /// Segments were retransmitted. Value: their number.
    Retransmit,
    /// A retransmission timeout fired. Value: the number since the last sample (in the simulator: 1).
    Rto,
    /// A queue overflowed. Value: the number of packets dropped.
    DropQueue,
    /// A link lost packets by its loss model. Value: their number.
    DropLoss,
    /// An echo request got no reply. Value: its sequence number.
    PingLost,
    /// The sender marked segments lost. Value: their number. This kind and the following ones up to
    /// `HandshakeRetry` are reported by the simulator, and some of them by captures and traced connections.
    Lost,
    /// Recovery from a loss began. Value: the slow-start threshold to which the window decreases, in
    /// segments.
    RecoveryEnter,
    /// Recovery ended. Value: the congestion window in segments.
    RecoveryLeave,
    /// The window is reduced without recovery (after an ECN mark, or a loss that a tail loss probe repaired).
    /// Value: the slow-start threshold in segments.
    Reduction,
    /// A tail loss probe was sent. Value: 1.
    Probe,
    /// A reduction was spurious and was undone. Value: the congestion window in segments.
    Undo,
    /// The peer closed its window. Value: the bytes waiting to be sent.
    ZeroWindow,
    /// The peer opened its window again. Value: its size in bytes.
    WindowOpen,
    /// The SYN was retransmitted. Value: the number of retransmissions so far.
    HandshakeRetry,
    /// The receiver of a udt or tsunami flow reported lost packets (UDT's NAKs, Tsunami's requests for
    /// blocks). Value: the number of reports since the last sample.
    Nak,
    /// The TCP state changed. Value: the new state (include/net/tcp_states.h). Traced connections only.
    TcpState,
    /// The measurement stalled: the emulator (subject `emulator`) delivered late or nothing, or samples are
    /// missing (subject `sampler`). Value: the stall's duration in microseconds. Lab only.
    Stall,
}

impl EventKind {
    /// All kinds, in storage order.
    pub const ALL: [EventKind; 20] = [
        EventKind::Start,
        EventKind::Stop,
        EventKind::CaState,
        EventKind::Retransmit,
        EventKind::Rto,
        EventKind::DropQueue,
        EventKind::DropLoss,
        EventKind::PingLost,
        EventKind::Lost,
        EventKind::RecoveryEnter,
        EventKind::RecoveryLeave,
        EventKind::Reduction,
        EventKind::Probe,
        EventKind::Undo,
        EventKind::ZeroWindow,
        EventKind::WindowOpen,
        EventKind::HandshakeRetry,
        EventKind::Nak,
        EventKind::TcpState,
        EventKind::Stall,
    ];

    /// The name stored in the `kind` column.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Start => "start",
            EventKind::Stop => "stop",
            EventKind::CaState => "ca_state",
            EventKind::Retransmit => "retransmit",
            EventKind::Rto => "rto",
            EventKind::DropQueue => "drop_queue",
            EventKind::DropLoss => "drop_loss",
            EventKind::PingLost => "ping_lost",
            EventKind::Lost => "lost",
            EventKind::RecoveryEnter => "recovery_enter",
            EventKind::RecoveryLeave => "recovery_leave",
            EventKind::Reduction => "reduction",
            EventKind::Probe => "probe",
            EventKind::Undo => "undo",
            EventKind::ZeroWindow => "zero_window",
            EventKind::WindowOpen => "window_open",
            EventKind::HandshakeRetry => "handshake_retry",
            EventKind::Nak => "nak",
            EventKind::TcpState => "tcp_state",
            EventKind::Stall => "stall",
        }
    }

    /// The kind stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Subject of the emulator's stalls.
pub const EMULATOR: &str = "emulator";
/// Subject of the sampler's stalls.
pub const SAMPLER: &str = "sampler";

/// An event of a flow, of a link, or of the measurement itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time since the run's start, in microseconds.
    pub time_us: i64,
    /// The flow's name, the link and direction as `s1-s2 forward`, or [`EMULATOR`] or [`SAMPLER`].
    pub subject: String,
    /// The kind of event.
    pub kind: EventKind,
    /// The value, whose meaning depends on the kind: see [`EventKind`].
    pub value: i64,
}
