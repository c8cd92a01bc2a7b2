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
    /// A retransmission timeout fired; the value is how many since the last sample.
    Rto,
    /// A queue overflowed; the value is how many packets it dropped.
    DropQueue,
    /// A link lost packets by its loss model; the value is how many.
    DropLoss,
    /// An echo request was not answered; the value is its sequence number.
    PingLost,
}

impl EventKind {
    /// All kinds, in storage order.
    pub const ALL: [EventKind; 8] = [
        EventKind::Start,
        EventKind::Stop,
        EventKind::CaState,
        EventKind::Retransmit,
        EventKind::Rto,
        EventKind::DropQueue,
        EventKind::DropLoss,
        EventKind::PingLost,
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
        }
    }

    /// The kind stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Something that happened to a flow or on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time since the run's start, in microseconds.
    pub time_us: i64,
    /// The flow's name, or the link and direction as `s1-s2 forward`.
    pub subject: String,
    /// What happened.
    pub kind: EventKind,
    /// The kind's number, see [`EventKind`].
    pub value: i64,
}
