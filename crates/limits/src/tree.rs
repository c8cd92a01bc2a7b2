//! The tree of classes, and the assignment of users and networks to them.

use std::{collections::BTreeMap, net::IpAddr};

use reservation::Transport;
use units::{BitRate, Bytes, Time};

use crate::{Error, Net};

/// The maximum priority of a root class that states none.
pub(crate) const DEFAULT_MAX_PRIORITY: i32 = 0;

/// The limits of one class. `None`: the parent's limit applies. At the root, it means that there is no limit;
/// permissions then have the default that their field states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Class {
    /// The parent; `None` for the root.
    pub parent: Option<String>,
    /// Maximum rate of UDP tests, and of all tests that state a rate.
    pub max_rate: Option<BitRate>,
    /// Maximum duration of a test.
    pub max_duration: Option<Time>,
    /// Maximum time from the request to the start of the test.
    pub max_horizon: Option<Time>,
    /// Maximum number of reservations that have not ended, of this class and its descendants.
    pub max_pending: Option<u64>,
    /// Maximum sum of the errors of both clocks. Slots are padded by this sum, so a large one would block the
    /// calendar.
    pub max_time_error: Option<Time>,
    /// Maximum priority; by default 0. A reservation displaces reservations of lower priority.
    pub max_priority: Option<i32>,
    /// Whether requests without authentication are allowed; by default they are not.
    pub allow_open: Option<bool>,
    /// Whether TCP tests are allowed; by default they are.
    pub allow_tcp: Option<bool>,
    /// Whether UDP tests are allowed; by default they are not.
    pub allow_udp: Option<bool>,
}

/// A link with a daily budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Tests with hosts in these networks use it.
    pub nets: Vec<Net>,
    /// Its rate, at which a TCP test without a rate is assumed to send.
    pub rate: BitRate,
    /// Maximum number of bytes that tests send and receive in a UTC day.
    pub daily_bytes: Bytes,
}

impl Link {
    /// Whether a test with this host uses the link.
    pub fn carries(&self, address: IpAddr) -> bool {
        self.nets.iter().any(|net| net.contains(address))
    }

    /// Whether tests with all hosts use the link, at least with one IP version.
    pub fn carries_all(&self) -> bool {
        self.nets.iter().any(|net| net.length == 0)
    }

    /// Assumed number of bytes of a test. Tests that are neither TCP nor UDP, and state no rate, send little:
    /// they measure delays.
    pub fn cost(&self, transport: Transport, rate: Option<BitRate>, duration: Time) -> Bytes {
        match (rate, transport) {
            (None, Transport::Other) => Bytes::ZERO,
            _ => rate.unwrap_or(self.rate).min(self.rate).bytes_in(duration),
        }
    }
}

/// The role of a user, or of all users of a point. It is not part of the limits file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedRole {
    /// Its name.
    pub name: String,
    /// Whether it permits requests for tests.
    pub may_reserve: bool,
    /// Its scopes, for refusals.
    pub scopes: String,
    /// The class of requests with this role; `None`: the class that they have without a role.
    pub class: Option<String>,
}

/// The limits of a point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    pub(crate) classes: BTreeMap<String, Class>,
    pub(crate) default: Option<String>,
    pub(crate) nets: BTreeMap<Net, String>,
    pub(crate) users: BTreeMap<String, String>,
    pub(crate) links: Vec<Link>,
    /// By user (`alice@b`), or for all users of a point (`@b`).
    pub(crate) roles: BTreeMap<String, AssignedRole>,
}

/// The value of a limit, which can be compared with an ancestor's, and printed.
pub(crate) trait Value: PartialOrd + Copy {
    fn text(&self) -> String;
}

macro_rules! printed {
    ($($type:ty),*) => { $(impl Value for $type { fn text(&self) -> String { self.to_string() } })* };
}
printed!(BitRate, Time, u64, i32, bool);

impl Limits {
    /// The links with budgets.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Whether there is a class of this name.
    pub fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// Replaces the roles of users (`alice@b`) and of all users of points (`@b`). Their classes must exist.
    pub fn set_roles(&mut self, roles: BTreeMap<String, AssignedRole>) {
        self.roles = roles;
    }

    /// The role of a user: its own, else that of its point.
    pub fn role_of(&self, user: Option<&str>) -> Option<&AssignedRole> {
        let user = user?;
        let of_point = || user.rfind('@').and_then(|at| self.roles.get(&user[at..]));
        self.roles.get(user).or_else(of_point)
    }

    /// The class of a request, and the assignment that selects it.
    pub fn class_of(&self, user: Option<&str>, address: Option<IpAddr>) -> Option<(&str, String)> {
        if let Some(user) = user
            && let Some(class) = self.users.get(user)
        {
            return Some((class, format!("user {user}")));
        }
        if let Some(role) = self.role_of(user)
            && let Some(class) = &role.class
        {
            return Some((class, format!("role {}", role.name)));
        }
        let nets = self.nets.iter().filter(|(net, _)| address.is_some_and(|address| net.contains(address)));
        if let Some((net, class)) = nets.max_by_key(|(net, _)| net.length) {
            return Some((class, format!("net {net}")));
        }
        self.default.as_deref().map(|class| (class, "default".into()))
    }

    /// The assignments of classes (the default, then networks, users and roles), each with the limits that
    /// apply.
    pub fn assignments(&self) -> impl Iterator<Item = (String, Class)> {
        let default = self.default.iter().map(|class| ("default".into(), class));
        let nets = self.nets.iter().map(|(net, class)| (format!("net {net}"), class));
        let users = self.users.iter().map(|(user, class)| (format!("user {user}"), class));
        let roles = self.roles.values().filter(|role| role.may_reserve);
        let roles: BTreeMap<&String, &String> =
            roles.filter_map(|role| Some((&role.name, role.class.as_ref()?))).collect();
        let roles = roles.into_iter().map(|(name, class)| (format!("role {name}"), class));
        default.chain(nets).chain(users).chain(roles).map(|(to, class)| (to, self.effective(class)))
    }

    /// The limits of a class with those that it inherits. A class can only narrow the limits of its
    /// ancestors, so the nearest value applies.
    fn effective(&self, class: &str) -> Class {
        let mut effective = Class::default();
        for (_, above) in self.chain(class) {
            effective = Class {
                parent: None,
                max_rate: effective.max_rate.or(above.max_rate),
                max_duration: effective.max_duration.or(above.max_duration),
                max_horizon: effective.max_horizon.or(above.max_horizon),
                max_pending: effective.max_pending.or(above.max_pending),
                max_time_error: effective.max_time_error.or(above.max_time_error),
                max_priority: effective.max_priority.or(above.max_priority),
                allow_open: effective.allow_open.or(above.allow_open),
                allow_tcp: effective.allow_tcp.or(above.allow_tcp),
                allow_udp: effective.allow_udp.or(above.allow_udp),
            };
        }
        effective
    }

    /// A class and its ancestors, up to the root.
    pub(crate) fn chain(&self, class: &str) -> impl Iterator<Item = (&str, &Class)> {
        let first = self.classes.get_key_value(class);
        std::iter::successors(first, |(_, class)| self.classes.get_key_value(class.parent.as_deref()?))
            .map(|(name, class)| (name.as_str(), class))
    }

    /// Checks the names and the tree, and that no class widens a limit of its ancestors.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let unknown = |location: String, class: &str| Error::UnknownClass { location, class: class.into() };
        for (name, class) in &self.classes {
            if let Some(parent) = &class.parent
                && !self.classes.contains_key(parent)
            {
                return Err(unknown(format!("class {name}: parent"), parent));
            }
            // More steps than classes: a cycle.
            if self.chain(name).nth(self.classes.len()).is_some() {
                return Err(Error::Cycle { class: name.clone() });
            }
        }
        let roots: Vec<&str> = self
            .classes
            .iter()
            .filter(|(_, class)| class.parent.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        if roots.len() != 1 {
            let names = if roots.is_empty() { "none".into() } else { roots.join(", ") };
            return Err(Error::Roots { names });
        }
        let assigned = self.users.iter().map(|(user, class)| (format!("assign.users.{user}"), class));
        let nets = self.nets.iter().map(|(net, class)| (format!("assign.nets.{net}"), class));
        let default = self.default.iter().map(|class| ("assign.default".to_owned(), class));
        for (location, class) in assigned.chain(nets).chain(default) {
            if !self.classes.contains_key(class) {
                return Err(unknown(location, class));
            }
        }
        for name in self.classes.keys() {
            self.check_limit(name, "max_rate", |class| class.max_rate, None)?;
            self.check_limit(name, "max_duration", |class| class.max_duration, None)?;
            self.check_limit(name, "max_horizon", |class| class.max_horizon, None)?;
            self.check_limit(name, "max_pending", |class| class.max_pending, None)?;
            self.check_limit(name, "max_time_error", |class| class.max_time_error, None)?;
            self.check_limit(name, "max_priority", |class| class.max_priority, Some(DEFAULT_MAX_PRIORITY))?;
            self.check_limit(name, "allow_open", |class| class.allow_open, Some(false))?;
            self.check_limit(name, "allow_tcp", |class| class.allow_tcp, Some(true))?;
            self.check_limit(name, "allow_udp", |class| class.allow_udp, Some(false))?;
        }
        Ok(())
    }

    /// Checks one limit of a class against the nearest ancestor that has it, or the root's default. `false`
    /// is less than `true`.
    fn check_limit<T: Value>(
        &self,
        name: &str,
        key: &'static str,
        limit: impl Fn(&Class) -> Option<T>,
        root_default: Option<T>,
    ) -> Result<(), Error> {
        let Some(value) = limit(&self.classes[name]) else { return Ok(()) };
        let mut above = self.chain(name).skip(1).peekable();
        let mut ancestor = None;
        while let Some((class, limits)) = above.next() {
            let is_root = above.peek().is_none();
            let its = limit(limits).or(root_default.filter(|_| is_root));
            if let Some(its) = its {
                ancestor = Some((class, its));
                break;
            }
        }
        match ancestor {
            Some((ancestor, above)) if value > above => Err(Error::Widens {
                class: name.into(),
                key,
                value: value.text(),
                ancestor: ancestor.into(),
                above: above.text(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_have_inherited_limits() {
        let limits: Limits = r#"
            [classes.root]
            max_duration = "60s"
            allow_udp = true
            [classes.guests]
            parent = "root"
            max_duration = "10s"
            [assign]
            default = "guests"
            [assign.users]
            "alice@b" = "root"
            [assign.nets]
            "192.0.2.0/24" = "guests"
        "#
        .parse()
        .unwrap();
        let assignments: Vec<(String, Class)> = limits.assignments().collect();
        let names: Vec<&str> = assignments.iter().map(|(to, _)| to.as_str()).collect();
        assert_eq!(names, ["default", "net 192.0.2.0/24", "user alice@b"]);
        let durations: Vec<Option<Time>> = assignments.iter().map(|(_, class)| class.max_duration).collect();
        let [short, long] = [10, 60].map(|seconds| Some(Time::from_secs(seconds)));
        assert_eq!(durations, [short, short, long]);
        assert!(assignments.iter().all(|(_, class)| class.allow_udp == Some(true)));
    }
}
