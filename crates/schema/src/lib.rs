//! The record's tables and the run summary as plain types: what every engine writes and every report reads.
//!
//! Pure: no files here. `record` stores these rows as Parquet and the summary as JSON; `verdict`
//! reads and completes them; `view` draws them. Column names are the Linux kernel's `tcp_info` names
//! with the unit as suffix (`_us`, `_bytes`, `_segs`, `_bps`). Fields may be added, never renamed or
//! removed within `longfat.summary/1`.

mod cause;
mod event;
mod flow_sample;
mod link_sample;
mod summary;
mod sweep;
mod table;
mod trace_row;

pub use cause::Cause;
pub use event::{EMULATOR, Event, EventKind, SAMPLER};
pub use flow_sample::FlowSample;
pub use link_sample::LinkSample;
pub use summary::{
    BUSY_SHARE, DiscardedRun, FlowSummary, HostInfo, KernelFigure, Limited, LinkSummary, PublishedResult,
    PublishedVerdict, Quality, RunSummary, SUMMARY_SCHEMA, Setting, Summary,
};
pub use sweep::{
    Fit, FitDocument, FitFigure, FitTried, SWEEP_SCHEMA, Sweep, SweepKnee, SweepPoint, SweptField,
    SweptValue, Unknown, WindowLaw,
};
pub use table::{ColumnInfo, Metrics};
pub use trace_row::{TraceKind, TraceRow};
