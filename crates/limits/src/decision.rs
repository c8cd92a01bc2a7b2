//! Decides on requests: compares a request with the rules of its classes and links.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use reservation::Transport;
use serde::Serialize;
use units::Bytes;

use crate::{Class, Limits, Link, TestRequest, tree::DEFAULT_MAX_PRIORITY};

/// The rule of roles: a role without the scope to reserve refuses all tests.
const MAY: &str = "may";

/// The reservations so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Reservations that have not ended.
    pub pending: Vec<Pending>,
    /// The reserved part of each link's budget on the day of the request.
    pub reserved_today: BTreeMap<String, Bytes>,
}

/// The reservations of a user that have not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The user; `None` without authentication.
    pub user: Option<String>,
    /// The address of the requests.
    pub address: Option<IpAddr>,
    /// Number of reservations.
    pub count: u64,
}

/// One rule that was compared with the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The rule's key in the limits file.
    pub rule: &'static str,
    /// The class, the link or the role that has it.
    pub of: String,
    /// The request's value.
    pub requested: String,
    /// The rule's limit.
    pub limit: String,
    /// Whether it passes.
    pub passes: bool,
}

/// The decision on a request: all rules that apply, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The request's class; `None` if none is assigned.
    pub class: Option<String>,
    /// The origin of the class: the user, a role, a network, or the default.
    pub assigned_by: Option<String>,
    /// The classes that it must pass, up to the root.
    pub classes: Vec<String>,
    /// The compared rules. The first that does not pass refuses the request.
    pub checks: Vec<Check>,
}

impl Decision {
    /// Whether all rules pass.
    pub fn is_allowed(&self) -> bool {
        self.class.is_some() && self.checks.iter().all(|check| check.passes)
    }

    /// The rule that refuses.
    pub fn refused_by(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passes)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.class, self.refused_by()) {
            (_, Some(check)) if check.rule == MAY => {
                let Check { of, requested, limit, .. } = check;
                write!(out, "refused by role {of}: {requested} is not among its scopes ({limit})")
            }
            (None, _) => out
                .write_str("refused: no class is assigned to this user and address, and there is no default"),
            (_, Some(check)) => {
                let group = if check.rule == "daily_bytes" { "link" } else { "class" };
                let Check { rule, of, requested, limit, .. } = check;
                if rule.starts_with("allow_") {
                    return write!(out, "refused by {rule} = {limit} of {group} {of}: {requested}");
                }
                write!(out, "refused by {rule} of {group} {of}: {requested} requested, at most {limit}")
            }
            (Some(class), None) => write!(out, "allowed in class {class}"),
        }
    }
}

impl Limits {
    /// Decides on a request.
    pub fn decide(&self, request: &TestRequest, usage: &Usage) -> Decision {
        let class = self.class_of(request.user.as_deref(), request.address);
        let classes: Vec<(&str, &Class)> = class.iter().flat_map(|(class, _)| self.chain(class)).collect();
        let mut checks = Vec::new();
        if let Some(role) = self.role_of(request.user.as_deref()) {
            checks.push(Check {
                rule: MAY,
                of: role.name.clone(),
                requested: "reserve".into(),
                limit: role.scopes.clone(),
                passes: role.may_reserve,
            });
        }
        for (index, (name, class)) in classes.iter().enumerate() {
            let is_root = index + 1 == classes.len();
            self.check_class(name, class, is_root, request, usage, &mut checks);
        }
        let other_end = request.other_end.or(request.address.filter(|_| !request.is_with_server));
        let loads = |link: &Link| match other_end {
            Some(address) => link.carries(address),
            None => request.is_with_server && link.carries_all(),
        };
        for link in &self.links {
            if class.is_some() && loads(link) {
                let reserved = usage.reserved_today.get(&link.name).copied().unwrap_or(Bytes::ZERO);
                let cost = link.cost(request.transport, request.rate, request.duration);
                let remaining = link.daily_bytes.saturating_sub(reserved);
                checks.push(Check {
                    rule: "daily_bytes",
                    of: link.name.clone(),
                    requested: cost.to_string(),
                    limit: format!("{remaining} (of {} a day, {reserved} reserved)", link.daily_bytes),
                    passes: cost <= remaining,
                });
            }
        }
        Decision {
            class: class.as_ref().map(|(class, _)| (*class).into()),
            assigned_by: class.map(|(_, by)| by),
            classes: classes.iter().map(|(name, _)| (*name).into()).collect(),
            checks,
        }
    }

    fn check_class(
        &self,
        name: &str,
        class: &Class,
        is_root: bool,
        request: &TestRequest,
        usage: &Usage,
        checks: &mut Vec<Check>,
    ) {
        let mut check = |rule, requested: String, limit: String, passes| {
            checks.push(Check { rule, of: name.into(), requested, limit, passes });
        };
        let allowed = |limit: Option<bool>, default| limit.or(is_root.then_some(default));
        if request.user.is_none()
            && let Some(allow) = allowed(class.allow_open, false)
        {
            check("allow_open", "a request without authentication".into(), allow.to_string(), allow);
        }
        let transport = match request.transport {
            Transport::Tcp => allowed(class.allow_tcp, true).map(|allow| ("allow_tcp", allow)),
            Transport::Udp => allowed(class.allow_udp, false).map(|allow| ("allow_udp", allow)),
            Transport::Other => None,
        };
        if let Some((rule, allow)) = transport {
            check(rule, format!("a {} test", request.transport), allow.to_string(), allow);
        }
        let rate = match (request.rate, request.transport) {
            // A UDP test without a rate sends as fast as it can.
            (None, Transport::Udp) => Some(("an unlimited rate".into(), None)),
            (rate, _) => rate.map(|rate| (rate.to_string(), Some(rate))),
        };
        if let (Some(limit), Some((requested, rate))) = (class.max_rate, rate) {
            check("max_rate", requested, limit.to_string(), rate.is_some_and(|rate| rate <= limit));
        }
        if let Some(limit) = class.max_duration {
            let passes = request.duration <= limit;
            check("max_duration", request.duration.to_string(), limit.to_string(), passes);
        }
        if let Some(limit) = class.max_horizon {
            let passes = request.starts_in <= limit;
            check("max_horizon", format!("a start in {}", request.starts_in), limit.to_string(), passes);
        }
        if let Some(limit) = class.max_time_error {
            let passes = request.time_error <= limit;
            check("max_time_error", request.time_error.to_string(), limit.to_string(), passes);
        }
        let limit = class.max_priority.or(is_root.then_some(DEFAULT_MAX_PRIORITY));
        if let (Some(limit), Some(priority)) = (limit, request.priority)
            && (class.max_priority.is_some() || priority > limit)
        {
            check("max_priority", format!("priority {priority}"), limit.to_string(), priority <= limit);
        }
        if let Some(limit) = class.max_pending {
            let is_counted = |pending: &&Pending| {
                let class = self.class_of(pending.user.as_deref(), pending.address);
                class.is_some_and(|(class, _)| self.chain(class).any(|(above, _)| above == name))
            };
            let pending: u64 = usage.pending.iter().filter(is_counted).map(|pending| pending.count).sum();
            let requested = format!("one more than {pending} pending");
            check("max_pending", requested, limit.to_string(), pending < limit);
        }
    }
}
