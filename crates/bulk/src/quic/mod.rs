//! Parts of a QUIC connection around quinn's state machine (`quinn-proto`), without I/O. Crate `quic` adds
//! sockets and TLS to them, [`flow`](crate::flow) a [plain session](PlainCrypto).
//!
//! quinn uses instants of the operating system's clock (`std::time::Instant`). Targets without an operating
//! system have no such clock, so this module does not exist for them.

mod congestion;
mod events;
mod pacer;
mod plain;

pub use self::{
    congestion::{Congestion, CongestionState},
    events::run_timers_and_events,
    pacer::Pacer,
    plain::{PlainCrypto, PlainKey},
};
