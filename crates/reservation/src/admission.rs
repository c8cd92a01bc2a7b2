//! Admission of reservations: the interface that a point's limits implement.

use units::{Instant, Time};

use crate::{Now, PointState, Request};

/// A request that a point is about to accept.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The request.
    pub request: &'a Request,
    /// The start of the proposed slot, UTC.
    pub start: Instant,
    /// The point's time, and its clock's error.
    pub now: Now,
    /// The error of the other end's clock; zero if unknown.
    pub other_error: Time,
    /// The state of the point, with all its reservations.
    pub point: &'a PointState,
}

/// The limits of a point.
pub trait Admission {
    /// Accepts a request.
    ///
    /// # Errors
    /// The rule that does not allow it, in words.
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), String>;
}

/// Accepts all requests.
#[derive(Debug, Clone, Copy)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn admit(&self, _: &Candidate<'_>) -> Result<(), String> {
        Ok(())
    }
}
