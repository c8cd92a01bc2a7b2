//! Checks requests against the limits when a calendar admits them.

use std::{collections::BTreeMap, net::IpAddr};

use reservation::{Admission, Candidate, Outcome, Phase, PointName, Request, Reservation, Test};
use units::{Bytes, Instant, Time};

use crate::{Limits, Link, Pending, TestRequest, Usage};

/// A day of UTC; leap seconds are not counted in Unix time.
const DAY: Time = Time::from_secs(86_400);

/// The number of the day of an instant of UTC.
fn day_of(utc: Instant) -> u64 {
    utc.since_origin() / DAY
}

/// Limits together with the addresses of the points that they are applied to.
#[derive(Debug, Clone, Default)]
pub struct Enforced {
    /// The limits.
    pub limits: Limits,
    /// Addresses of points. A point without one loads no link, and no network assigns a class to its
    /// requests.
    pub addresses: BTreeMap<PointName, IpAddr>,
    /// Returns the address of the server at the other end of a test without a peer; `None` if only its name
    /// is known.
    pub server_address: Option<fn(&Test) -> Option<IpAddr>>,
}

impl Enforced {
    fn address(&self, point: &PointName) -> Option<IpAddr> {
        self.addresses.get(point).copied()
    }

    fn other_end(&self, own: &PointName, request: &Request) -> Option<IpAddr> {
        if is_with_server(own, request) {
            return self.server_address.and_then(|address| address(&request.spec.test));
        }
        let other = if request.lead == *own { request.spec.peer.as_ref() } else { Some(&request.lead) };
        other.and_then(|other| self.address(other))
    }

    fn loads(&self, link: &Link, own: &PointName, request: &Request) -> bool {
        match self.other_end(own, request) {
            Some(address) => link.carries(address),
            None => is_with_server(own, request) && link.carries_all(),
        }
    }

    fn usage(&self, candidate: &Candidate<'_>) -> Usage {
        let mut usage = Usage::default();
        let own = candidate.point.name();
        let day = day_of(candidate.start);
        let own_reservation = candidate.point.reservation(&candidate.request.id);
        let own_reservation = own_reservation.filter(|known| !known.has_ended());
        let its_user = own_reservation.map(|known| known.request.answerable(own));
        for (point, user, count) in candidate.point.open() {
            // The candidate itself does not count.
            let is_candidate = its_user
                .as_ref()
                .is_some_and(|(its_point, its_user)| *its_point == point && its_user.as_deref() == user);
            let count = count - u64::from(is_candidate);
            let (user, address) = (user.map(str::to_owned), self.address(point));
            usage.pending.push(Pending { user, address, count });
        }
        if self.limits.links().is_empty() {
            return usage;
        }
        let others = candidate.point.reservations().filter(|known| known.request.id != candidate.request.id);
        for known in others {
            let request = &known.request;
            if !occupies(known) || known.slot.is_none_or(|slot| day_of(slot.start) != day) {
                continue;
            }
            for link in self.limits.links().iter().filter(|link| self.loads(link, own, request)) {
                let test = &request.spec.test;
                let cost = link.cost(test.transport, test.rate, request.spec.duration);
                let reserved = usage.reserved_today.entry(link.name.clone()).or_insert(Bytes::ZERO);
                *reserved = reserved.saturating_add(cost);
            }
        }
        usage
    }
}

/// Whether the other end of a test that this point leads is a server outside the mesh.
fn is_with_server(own: &PointName, request: &Request) -> bool {
    request.lead == *own && request.spec.peer.is_none()
}

/// Whether the bytes of a reservation will be, or may have been, sent.
fn occupies(known: &Reservation) -> bool {
    known.has_slot() || matches!(known.phase, Phase::Ended(Outcome::Finished | Outcome::Failed(_)))
}

impl Enforced {
    /// Decides on a request. `priority`: `None` if its user may displace reservations of any priority.
    ///
    /// # Errors
    /// The rule that does not allow it, in words.
    pub fn admit_with(&self, candidate: &Candidate<'_>, priority: Option<i32>) -> Result<(), String> {
        let request = candidate.request;
        let (point, user) = request.answerable(candidate.point.name());
        let test = TestRequest {
            user,
            address: self.address(point),
            other_end: self.other_end(candidate.point.name(), request),
            is_with_server: is_with_server(candidate.point.name(), request),
            transport: request.spec.test.transport,
            rate: request.spec.test.rate,
            duration: request.spec.duration,
            starts_in: candidate.start.saturating_since(candidate.now.utc),
            time_error: candidate.now.error + candidate.other_error,
            priority,
        };
        let decision = self.limits.decide(&test, &self.usage(candidate));
        if decision.is_allowed() { Ok(()) } else { Err(decision.to_string()) }
    }
}

impl Admission for Enforced {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), String> {
        self.admit_with(candidate, Some(candidate.request.spec.priority))
    }
}
