//! iperf3's messages as plain data: no sockets here, no clock. What is read is checked: sizes have limits, numbers have ranges,
//! unknown keys are passed over and missing ones that can be done without are.
//!
//! Source: esnet/iperf 3.21, `src/iperf_api.{c,h}`; Debian's 3.12 as a peer.

mod code;
mod cookie;
mod echo;
mod frame;
mod fuzzing;
mod number;
mod params;
mod queue_notice;
mod results;
mod samples;
mod state;

pub use code::Code;
pub use cookie::{COOKIE_BYTES, Cookie};
pub use echo::{ECHO_BYTES, Echo};
pub use frame::{PARAMS_LIMIT, decode, encode, payload_len};
#[doc(hidden)]
pub use fuzzing::fuzz;
pub use params::{Params, Refusal, STREAMS_MAX, default_block, default_udp_rate};
pub use queue_notice::{QUEUE_NOTICE, QUEUE_NOTICE_BYTES, QueueNotice};
pub use results::{Results, StreamResult};
pub use samples::Samples;
pub use state::State;
