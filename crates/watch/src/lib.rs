//! Instruments for live TCP connections: what the kernel reports about this process's own sockets, about all
//! sockets of any network namespace, and, where tracing is allowed, each of their events.
//!
//! - [`read_sender`], [`read_receiver`]: one of this process's sockets, by one `getsockopt` each for TCP_INFO
//!   and SO_MEMINFO.
//! - [`Diag`]: all connections of a namespace by sock_diag(7), without any privilege.
//! - [`BpfTracer`]: eBPF programs that sample many connections cheaply, and report each retransmission,
//!   change of state, round trip and ACK.
//! - [`Watcher`] samples the connections that match a [`Filter`], by both; [`ConnectionCounters`] counts what
//!   Linux does not.
//! - [`modify`]: changes settings of live connections, and restores them.
//! - [`web100`]: the instruments of web100 (RFC 4898), and which value replaces each of them here.
//!
//! Fields that an older kernel's shorter `tcp_info` lacks are `None`.

mod bpf;
mod counters;
mod detect_events;
mod diag;
mod error;
mod filter;
#[doc(hidden)]
pub mod fuzzing;
mod live_connections;
pub mod modify;
mod namespace;
mod row;
mod socket;
mod socket_owners;
mod socket_sample;
mod tcp_info;
mod tracked_connection;
mod watcher;
pub mod web100;

pub use bpf::{BpfSample, BpfTracer, Clocks, SocketEvent, SocketEventKind, WindowLimits};
pub use counters::{ConnectionCounters, MinMax, SenderPhase};
pub use detect_events::detect_events;
pub use diag::Diag;
pub use error::Error;
pub use filter::{Filter, FilterError};
pub use namespace::NetNamespace;
pub use os::monotonic_ns;
pub use row::{fill_receiver, fill_sender};
pub use socket::{read_receiver, read_sender, read_tcp_info};
pub use socket_owners::{Process, SocketOwners};
pub use socket_sample::{
    CongestionInfo, SocketAddresses, SocketCookie, SocketMemory, SocketSample, SocketState,
};
pub use tcp_info::TcpInfo;
pub use tracked_connection::TrackedConnection;
pub use watcher::{TracingMode, Watcher};
