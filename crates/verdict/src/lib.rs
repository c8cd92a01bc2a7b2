//! The verdict: the limit of a flow, sample by sample, with the evidence and the setting that would change
//! it.
//!
//! Pure: it reads only the record's rows, so it is the same for every engine. [`decide`] labels each sample,
//! and [`summarize`] computes the flow's summary from the labelled samples.
//!
//! The kernel's own counters (`rwnd_limited`, `sndbuf_limited`) are quoted for comparison, but they do not
//! decide: where the send buffer alone was the limit, Linux 6.18 showed `sndbuf_limited` at 10 to 39 %.
//!
//! A flow whose data in flight fills the peer's window in every sample:
//!
//! ```
//! use schema::{Cause, FlowKind, FlowSample};
//! use verdict::{Buffer, FlowContext, FlowTimes, LinkRows, decide, summarize};
//!
//! let sample = |i: i64| FlowSample {
//!     time_us: i * 10_000,
//!     flow: "bulk".into(),
//!     snd_mss_bytes: Some(1448),
//!     snd_cwnd_segs: Some(4000),
//!     unacked_segs: Some(1000),
//!     snd_wnd_bytes: Some(1_448_000),
//!     notsent_bytes: Some(3_000_000),
//!     srtt_us: Some(20_000),
//!     min_rtt_us: Some(20_000),
//!     bytes_received: Some(i * 724_000),
//!     ..FlowSample::default()
//! };
//! let mut rows: Vec<FlowSample> = (0..200).map(sample).collect();
//! let context = FlowContext {
//!     name: "bulk".into(),
//!     from: "h1".into(),
//!     to: "h2".into(),
//!     receive_buffer: Buffer::Tuned([4096, 131_072, 2_097_152]),
//!     ..FlowContext::default()
//! };
//! decide(&mut rows, &LinkRows::default(), &context);
//! let times = FlowTimes { kind: FlowKind::Tcp, ended_us: Some(2_000_000), ..FlowTimes::default() };
//! let summary = summarize(&rows, &[], &times, &context);
//!
//! assert_eq!(summary.verdict, Some(Cause::ReceiveWindow));
//! assert_eq!(summary.limited.share(Cause::ReceiveWindow), 1.0);
//! assert!(summary.evidence[0].contains("the data in flight (1.45 MB) filled the window that h2 advertises (1.45 MB)"));
//! assert!(summary.remedy.unwrap().starts_with("on h2: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 4194304\""));
//! ```

mod bottleneck;
mod context;
mod decide;
mod explain;
mod file_waits;
mod receiver;
mod second_limit;
mod series;
mod start_of_flow;
mod steady;
mod summarize;

pub use bottleneck::{LinkRows, bottleneck_moves, full_link};
pub use context::{Buffer, FileWaits, FlowContext, Generator, HostLoad, LoadKind, PathLink, SendingDevice};
pub use decide::{decide, retransmitted_segs};
pub use explain::busiest_load;
pub use file_waits::{FileWait, main_file_wait};
pub use receiver::judge_receiver;
pub use start_of_flow::StartOfFlow;
pub use summarize::{FlowTimes, part_goodput, summarize};
