//! The method of udpmon (R. Hughes-Jones): trains of each packet size and spacing show the path's
//! throughput, losses and reordering, and requests of each size show the time per byte.
//!
//! - [`UdpmonGrid`]: throughput, loss, reordering, jitter and inter-arrival times by size and spacing. When
//!   trains that are faster than the bottleneck leave it, the time between two packets is the bottleneck's
//!   time for one packet, so that it grows with the size by the time per byte.
//! - [`RequestResponse`]: the time to a reply grows with the size by the time per byte of all links, one
//!   after another.
//!
//! Difference from udpmon: requests have replies of their own size and replies of the smallest size. The
//! difference separates the two directions. No reply is larger than its request.

use serde::Serialize;

use crate::Validity;

mod cell;
mod curves;
mod grid;
mod histogram;
mod plan;
mod request_response;

pub use curves::WidestJitter;
pub use grid::{GridCell, GridResult, GridTrain, SpacingPoint, UdpmonGrid};
pub use histogram::Histogram;
pub use plan::{PlanRefused, UdpmonPlan};
pub use request_response::{
    LatencyFit, LatencyPoint, ReplySize, RequestResponse, RequestResponseResult, RequestTrain,
};

/// The results of both parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UdpmonResult {
    /// The grid of size and spacing.
    pub grid: GridResult,
    /// Latency by size.
    pub latency: RequestResponseResult,
    /// Whether both are reliable.
    pub validity: Validity,
}

impl UdpmonResult {
    /// The result of a grid and of its requests.
    pub fn new(grid: GridResult, latency: RequestResponseResult) -> Self {
        let both = || [("grid", &grid.validity), ("latency", &latency.validity)].into_iter();
        let valid = both().all(|(_, validity)| validity.valid);
        let counts = |validity: &Validity| validity.valid == valid;
        let reasons = both()
            .filter(|(_, validity)| counts(validity))
            .flat_map(|(part, validity)| {
                validity.reasons.iter().map(move |reason| format!("{part}: {reason}"))
            })
            .collect();
        UdpmonResult { validity: Validity { valid, reasons }, grid, latency }
    }
}
