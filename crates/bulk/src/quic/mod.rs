//! Parts of a QUIC connection around quinn's state machine (`quinn-proto`), without I/O. Crate `quic` adds sockets and TLS to them,
//! [`flow`](crate::flow) a [plain session](PlainCrypto).
//!
//! quinn has the instants of the operating system's clock (`std::time::Instant`), which targets without an operating system lack:
//! there, this module does not exist.

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
