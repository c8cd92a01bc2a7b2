//! Names of points, tasks and reservations.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a point, unique in the mesh.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PointName(pub String);

impl From<&str> for PointName {
    fn from(name: &str) -> Self {
        PointName(name.into())
    }
}

impl fmt::Display for PointName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The name of a recurring test at a point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskName(pub String);

impl From<&str> for TaskName {
    fn from(name: &str) -> Self {
        TaskName(name.into())
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The id of a reservation, the same at all points that take part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReservationId {
    /// Counts the origin's requests. It is durable before the first message, so that a crash does not repeat
    /// it.
    pub number: u64,
    /// The point at which the user made the request; not always one of the two that measure.
    pub origin: PointName,
}

impl fmt::Display for ReservationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.origin, self.number)
    }
}
