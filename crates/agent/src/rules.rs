//! The admission of tests: a point accepts tests that it can run and that its limits allow. The point that
//! requests a test must name one of its own users.

use std::{collections::BTreeMap, net::IpAddr};

use limits::{AssignedRole, Enforced, Limits};
use reservation::{Admission, Candidate, PointName, Test};

use crate::{
    Members,
    address::host_and_port,
    test::{TestParameters, server_of},
    tokens,
};

/// The rules by which a point accepts tests.
#[derive(Debug)]
pub(crate) struct Rules {
    enforced: Enforced,
}

impl Rules {
    pub fn new(limits: Limits) -> Self {
        let server_address = Some(server_address as fn(&Test) -> Option<IpAddr>);
        Rules { enforced: Enforced { limits, addresses: BTreeMap::new(), server_address } }
    }

    /// Replaces the limits. Reservations that are booked stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.enforced.limits = limits;
    }

    /// Replaces the roles of users, points and tokens.
    pub fn set_roles(&mut self, roles: BTreeMap<String, AssignedRole>) {
        self.enforced.limits.set_roles(roles);
    }

    /// Stores the members' IP addresses. The IP address of a member with a host name becomes known when it
    /// connects.
    pub fn set_members(&mut self, members: &Members) {
        let addresses = &mut self.enforced.addresses;
        addresses.retain(|name, _| members.address(name).is_some());
        for member in &members.members {
            let host = host_and_port(&member.address).map(|(host, _)| host);
            if let Some(ip) = host.and_then(|host| host.parse::<IpAddr>().ok()) {
                addresses.insert(member.name.clone(), ip);
            }
        }
    }

    /// Stores the address of a point, as its connection shows it.
    pub fn set_address(&mut self, name: &PointName, ip: IpAddr) {
        self.enforced.addresses.insert(name.clone(), ip);
    }
}

/// The address of the server at the other end of a test; `None` if only its name is known.
fn server_address(test: &Test) -> Option<IpAddr> {
    server_of(test).ok()??.host.parse().ok()
}

impl Admission for Rules {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), String> {
        let spec = &candidate.request.spec;
        let parameters = TestParameters::of(&spec.test, spec.duration)?;
        if spec.class != parameters.class() {
            let (kind, class) = (parameters.kind, parameters.class());
            return Err(format!("a test of the kind {kind} has the class {class}, not {}", spec.class));
        }
        let is_with_server = server_of(&spec.test)?.is_some();
        if spec.peer.is_none() != is_with_server {
            return Err(format!("a test of the kind {} has two ends", parameters.kind));
        }
        // Only this point chooses the servers to which it sends.
        if is_with_server && candidate.request.id.origin != *candidate.point.name() {
            return Err(format!("only users of {} may test with its servers", candidate.point.name()));
        }
        // A point can request tests only for its own users.
        let origin = &candidate.request.id.origin;
        let is_of_origin = |user: &String| user.rsplit_once('@').is_some_and(|(_, point)| point == origin.0);
        if !spec.user.as_ref().is_some_and(is_of_origin) {
            return Err(format!("the user is not a user of {origin}, which requests the test"));
        }
        if spec.user.as_ref().is_some_and(|user| user.contains(char::is_control)) {
            return Err("the user's name has control characters".into());
        }
        // The point's own users and recurring tests, but neither its programs nor users with a role, may
        // displace any tests at this point.
        let is_program = spec.user.as_deref().is_some_and(tokens::is_program);
        let has_role = self.enforced.limits.role_of(spec.user.as_deref()).is_some();
        let is_operator = *origin == *candidate.point.name() && !is_program && !has_role;
        self.enforced.admit_with(candidate, (!is_operator).then_some(spec.priority))
    }
}

#[cfg(test)]
mod tests {
    use reservation::{Class, Now, Outcome, Phase, Point, Reason, Settings, Spec};
    use units::{Instant, Time};

    use super::*;
    use crate::test::Kind;

    #[test]
    fn mislabelled_tests_and_foreign_users_are_refused_with_the_rule() {
        let limits = "[classes.mesh]\n[assign]\ndefault = \"mesh\"\n".parse::<Limits>().unwrap();
        let rules = Rules::new(limits);
        let now = Now { steady: Instant::ZERO, utc: Instant::from_secs(1_800_000_000), error: Time::ZERO };
        let parameters = TestParameters { kind: Kind::Throughput, duration: Time::from_secs(10), rate: None };
        let spec = Spec {
            peer: Some("b".into()),
            user: Some("alice@a".into()),
            test: parameters.test(),
            class: parameters.class(),
            priority: 0,
            duration: parameters.duration,
            earliest: now.utc,
            latest: now.utc + Time::from_secs(100),
        };
        let refused = |spec: Spec| {
            let mut point = Point::new("a".into(), Settings::default());
            let (id, _) = point.reserve(now, spec, &rules);
            match &point.reservation(&id).unwrap().phase {
                Phase::Ended(Outcome::NotRun(Reason::Rule { rule, .. })) => rule.clone(),
                _ => String::new(),
            }
        };
        assert_eq!(refused(spec.clone()), "");
        let high = |user: &str| Spec { priority: 1, user: Some(user.into()), ..spec.clone() };
        assert_eq!(refused(high("alice@a")), "", "the operator of the point");
        assert_eq!(refused(high("recurring@a")), "");
        assert_eq!(
            refused(high("token:backup@a")),
            "refused by max_priority of class mesh: priority 1 requested, at most 0"
        );
        let control = Spec { user: Some("\u{1b}[2Jalice@a".into()), ..spec.clone() };
        assert_eq!(refused(control), "the user's name has control characters");
        let background = Spec { class: Class::Background, ..spec.clone() };
        assert_eq!(
            refused(background),
            "a test of the kind throughput has the class exclusive, not background"
        );
        for user in [None, Some("alice"), Some("alice@b")] {
            let foreign = Spec { user: user.map(str::to_owned), ..spec.clone() };
            assert_eq!(refused(foreign), "the user is not a user of a, which requests the test");
        }
        let mut other = spec.clone();
        other.test.kind = "dns".into();
        assert!(refused(other).contains("is not a kind of test"));
        assert!(refused(Spec { peer: None, ..spec }).contains("two ends"));
    }
}
