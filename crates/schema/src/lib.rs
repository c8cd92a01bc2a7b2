//! The record's tables and the run summary as plain types: what every engine writes and every report reads.
//!
//! Pure: no I/O. `record` stores these rows as Parquet and the summary as JSON, `verdict` labels and
//! summarizes them, and `view` plots them. Column names are the Linux kernel's `tcp_info` names with the unit
//! as suffix (`_us`, `_bytes`, `_segs`, `_bps`). Within `longfat.summary/1` fields may be added, but never
//! renamed or removed.

mod cause;
mod event;
mod flow_sample;
mod flow_summary;
mod host_summary;
mod link_sample;
mod link_summary;
mod name;
mod nearest;
mod published;
mod quality;
mod receiver_verdict;
mod stream_summary;
mod summary;
mod sweep;
mod table;
mod trace_row;

pub use cause::Cause;
pub use event::{EMULATOR, Event, EventKind, SAMPLER};
pub use flow_sample::FlowSample;
pub use flow_summary::{Fix, FixCommand, FlowSummary, Limited, PartGoodput, Setting};
pub use host_summary::HostSummary;
pub use link_sample::LinkSample;
pub use link_summary::LinkSummary;
pub use name::{EngineName, FigureBound, FlowKind, LinkDirection};
pub use nearest::{by_similarity, nearest_names};
pub use published::{
    EngineCoverage, EngineVerdict, FigureKind, KernelFigure, PublishedResult, PublishedVerdict,
    UncoveredFigures,
};
pub use quality::{BUSY_SHARE, DiscardedRun, Quality, Reliability};
pub use receiver_verdict::{ReceiverFinding, ReceiverVerdict};
pub use stream_summary::StreamSummary;
pub use summary::{HostInfo, PathComparison, PathQuantity, RunSummary, SUMMARY_SCHEMA, Summary};
pub use sweep::{
    Fit, FitDocument, FitFigure, FitTried, SWEEP_SCHEMA, Sweep, SweepKnee, SweepPoint, SweptBuffers,
    SweptField, SweptValue, Unknown, WindowLaw,
};
pub use table::{ColumnInfo, Metrics};
pub use trace_row::{TraceKind, TraceRow};
