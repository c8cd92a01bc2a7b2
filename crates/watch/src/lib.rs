//! Instruments for live TCP connections: what the kernel tells of our own sockets, of those of any network namespace, and,
//! where it allows tracing, each event of theirs.
//!
//! - [`read_sender`], [`read_receiver`]: a socket of ours, by one `getsockopt` each for TCP_INFO and SO_MEMINFO.
//! - [`Diag`]: all connections of a namespace by sock_diag(7), without any privilege.
//! - [`Kernel`]: eBPF programs that look at many connections for little, and tell retransmissions, changes of state, round
//!   trips and ACKs one by one.
//! - [`Watcher`] follows the connections that a [`Filter`] means, by both; [`Tally`] counts what Linux does not.
//! - [`web100`]: the instruments of web100 (RFC 4898), and what stands for each of them here.
//!
//! Fields that an older kernel's shorter `tcp_info` has not are `None`.

mod bpf;
mod clock;
mod connection;
mod diag;
mod error;
mod filter;
mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod live;
mod notice;
mod place;
mod process;
mod row;
mod socket;
mod tally;
mod tcp_info;
pub mod web100;

pub use bpf::{Clocks, Event, EventKind, Kernel, Sample};
pub use clock::monotonic_ns;
pub use connection::{CongestionInfo, Cookie, Ends, Look, Memory, State};
pub use diag::Diag;
pub use error::Error;
pub use filter::{Filter, FilterError};
pub use follow::{Followed, Tracing, Watcher};
pub use notice::notice;
pub use place::Place;
pub use process::{Process, Processes};
pub use row::{fill_receiver, fill_sender};
pub use socket::{read_receiver, read_sender, tcp_info};
pub use tally::{Extremes, Phase, Tally};
pub use tcp_info::TcpInfo;
