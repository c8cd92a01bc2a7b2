//! iperf3's messages as plain data: no sockets, no clock. Received messages are checked: sizes have limits,
//! numbers have ranges; unknown keys are ignored, and so are missing optional ones.
//!
//! Source: esnet/iperf 3.21, `src/iperf_api.{c,h}`; Debian's 3.12 as a peer.

mod code;
mod cookie;
mod frame;
mod fuzzing;
mod latency_echo;
mod number;
mod params;
mod queue_notice;
mod results;
mod samples;
mod state;

pub use code::Code;
pub use cookie::{COOKIE_BYTES, Cookie};
pub use frame::{PARAMS_LIMIT, decode, encode, payload_len};
#[doc(hidden)]
pub use fuzzing::fuzz;
pub use latency_echo::{LATENCY_ECHO_BYTES, LatencyEcho};
pub use params::{Params, Refusal, STREAMS_MAX, default_udp_rate};
pub use queue_notice::{QUEUE_NOTICE, QUEUE_NOTICE_BYTES, QueueNotice};
pub use results::{Results, StreamResult};
pub use samples::{Samples, is_possible_time};
pub use state::State;

pub use crate::spec::default_block;
