//! Watched connections as flows: their records, and the last seconds of each with its verdict.

mod ack_samples;
mod aggregates;
mod devices;
pub mod flows;
mod history;
mod recording;
mod trail;

pub use self::{
    aggregates::Aggregates,
    recording::Recording,
    trail::{Curve, PathChange, SPACING, Trail, Trails},
};
