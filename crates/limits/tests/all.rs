//! Limits files, decisions, imports, and limits that a point applies.

mod bwctl;
mod decisions;
mod enforced;
