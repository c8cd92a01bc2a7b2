//! A request: the test, its ends and its time.

use std::fmt;

use serde::{Deserialize, Serialize};
use units::{BitRate, Instant, Time};

use crate::{PointName, ReservationId};

/// Which tests may overlap; the classes are pScheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Overlaps with background tests only: throughput.
    Exclusive,
    /// Overlaps with normal and background tests: a path MTU, a trace.
    Normal,
    /// Overlaps with all tests: latency at a low rate.
    Background,
}

impl Class {
    /// Whether tests of these classes exclude each other.
    pub fn excludes(self, other: Class) -> bool {
        matches!(
            (self, other),
            (Class::Exclusive, Class::Exclusive | Class::Normal) | (Class::Normal, Class::Exclusive)
        )
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Class::Exclusive => "exclusive",
            Class::Normal => "normal",
            Class::Background => "background",
        })
    }
}

/// The transport protocol of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// Neither: ICMP echo, a trace.
    Other,
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
            Transport::Other => "other",
        })
    }
}

/// A test, as far as limits and the calendar need to know it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Test {
    /// The kind: `throughput`, `latency`, `trace`.
    pub kind: String,
    /// The transport protocol.
    pub transport: Transport,
    /// The rate that the test sends at; `None` if it sends as fast as it can.
    pub rate: Option<BitRate>,
    /// Parameters for the program that runs the test; the calendar does not read them.
    pub parameters: String,
}

/// A user's request to a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The other end; `None` if only this point takes part, as in a trace.
    pub peer: Option<PointName>,
    /// The authenticated user, if any.
    pub user: Option<String>,
    /// The test.
    pub test: Test,
    /// Which other tests may overlap.
    pub class: Class,
    /// A test displaces reservations of strictly lower priority that do not run yet.
    pub priority: i32,
    /// The duration of the test.
    pub duration: Time,
    /// The earliest start, UTC.
    pub earliest: Instant,
    /// The latest start, UTC.
    pub latest: Instant,
}

/// A [`Spec`] with the points that take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The reservation that it becomes.
    pub id: ReservationId,
    /// The point that leads the agreement and starts the test.
    pub lead: PointName,
    /// The requested reservation.
    pub spec: Spec,
}

impl Request {
    /// The point that is responsible for the request at the point `own`, and the name of the user there. A
    /// lead that forwards another point's request can only claim who made it: the lead itself is responsible,
    /// and the user is one of its users.
    pub fn answerable(&self, own: &PointName) -> (&PointName, Option<String>) {
        let (origin, lead, user) = (&self.id.origin, &self.lead, &self.spec.user);
        if [own, lead].contains(&origin) || lead == own {
            (origin, user.clone())
        } else {
            (lead, user.as_ref().map(|user| format!("{user}@{lead}")))
        }
    }
}
