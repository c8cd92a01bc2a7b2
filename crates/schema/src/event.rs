//! One row of `events.parquet`: something that happened at one instant.

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A flow began (connected).
    Start,
    /// A flow ended.
    Stop,
    /// The sender's congestion state changed; the value is the new `ca_state`.
    CaState,
    /// Segments were retransmitted; the value is how many.
    Retransmit,
    /// A retransmission timeout fired; the value is how many since the last sample (in the simulator: 1).
    Rto,
    /// A queue overflowed; the value is how many packets it dropped.
    DropQueue,
    /// A link lost packets by its loss model; the value is how many.
    DropLoss,
    /// An echo request was not answered; the value is its sequence number.
    PingLost,
    /// The sender marked segments lost; the value is how many. Simulator only, as all that follow.
    Lost,
    /// Recovery from a loss began; the value is the slow-start threshold that the window goes down to, in segments.
    RecoveryEnter,
    /// Recovery ended; the value is the congestion window in segments.
    RecoveryLeave,
    /// The window is reduced without a loss (ECN's mark, a tail loss probe that repaired one); the value is the
    /// slow-start threshold in segments.
    Reduction,
    /// A tail loss probe was sent; the value is 1.
    Probe,
    /// A reduction turned out to be for nothing and was undone; the value is the congestion window in segments.
    Undo,
    /// The peer closed its window; the value is the bytes that wait.
    ZeroWindow,
    /// The peer opened its window again; the value is its size in bytes.
    WindowOpen,
    /// The handshake's first segment was sent again; the value is how often so far.
    HandshakeRetry,
    /// The TCP state changed; the value is the new one (include/net/tcp_states.h). Of traced connections only.
    TcpState,
    /// The measurement was held up: the emulator (subject `emulator`) delivered nothing or late, or samples are missing
    /// (subject `sampler`); the value is for how long, in microseconds. Lab only.
    Stall,
}

impl EventKind {
    /// All kinds, in storage order.
    pub const ALL: [EventKind; 19] = [
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

/// Something that happened to a flow, on a link, or to the measurement itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time since the run's start, in microseconds.
    pub time_us: i64,
    /// The flow's name, the link and direction as `s1-s2 forward`, or [`EMULATOR`] or [`SAMPLER`].
    pub subject: String,
    /// What happened.
    pub kind: EventKind,
    /// The kind's number, see [`EventKind`].
    pub value: i64,
}
