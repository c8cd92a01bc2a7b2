//! The routes of the interface: one table for the server and for its OpenAPI document.

use std::collections::BTreeMap;

use crate::{Scope, percent_encoding::decode};

/// A query parameter.
pub(super) struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub is_required: bool,
    pub is_number: bool,
}

/// The document that a route returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Response {
    /// Metrics.
    Text,
    /// The OpenAPI document.
    AnyJson,
    Status,
    Mesh,
    Directory,
    Pair,
    Results,
    Calendar,
    Reservations,
    Alerts,
    Plan,
}

/// The document that a route reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// [`NewReservation`](crate::NewReservation).
    Reservation,
    /// [`Cancellation`](super::documents::Cancellation).
    Cancellation,
    /// [`TransferResult`](super::documents::TransferResult).
    Report,
    /// [`AcknowledgeRequest`](super::documents::AcknowledgeRequest).
    Acknowledge,
    /// [`MuteRequest`](super::documents::MuteRequest).
    Mute,
}

impl Body {
    /// The name of the request in the audit log.
    pub fn action(self) -> &'static str {
        match self {
            Body::Reservation => "reserve",
            Body::Cancellation => "cancel",
            Body::Report => "report",
            Body::Acknowledge => "acknowledge",
            Body::Mute => "mute",
        }
    }

    /// The scopes of which a program's token needs one.
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Body::Reservation => &[Scope::Reserve],
            Body::Cancellation => &[Scope::Reserve, Scope::Cancel],
            Body::Report => &[Scope::Report],
            Body::Acknowledge | Body::Mute => &[Scope::Alerts],
        }
    }
}

/// A path that is served to programs.
pub(super) struct Route {
    pub path: &'static str,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    /// `None`: the route reads nothing and changes nothing.
    pub body: Option<Body>,
    pub response: Response,
}

impl Route {
    /// The scopes of which a program's token needs one, if the route needs a token.
    pub fn scopes(&self) -> &'static [Scope] {
        match self.body {
            Some(body) => body.scopes(),
            None => &[Scope::Read],
        }
    }
}

/// A route that changes something.
const fn change(path: &'static str, summary: &'static str, body: Body) -> Route {
    Route { path, summary, parameters: &[], body: Some(body), response: Response::Reservations }
}

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, is_required: false, is_number: false }
}

const fn number(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, is_required: false, is_number: true }
}

const fn required(parameter: Parameter) -> Parameter {
    Parameter { is_required: true, ..parameter }
}

const SINCE: Parameter =
    number("since_us", "Only tests that started at or after this time, microseconds since 1970");
const LIMIT: Parameter = number("limit", "Maximum number of tests, 1 to 10000; 1000 if absent");

/// All paths for programs.
pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/api/v1/mesh",
        summary: "The points, and all pairs of points with what limits them, worst first",
        parameters: &[],
        body: None,
        response: Response::Mesh,
    },
    Route {
        path: "/api/v1/directory",
        summary: "Points by place, network and capability; the closest to a position, or to the hops of a path, first",
        parameters: &[
            text("place", "Part of the place in words, or of the name"),
            text("near", "LATITUDE,LONGITUDE in degrees, or a point"),
            text("network", "A network of the point: a name, an address or a prefix"),
            text("capability", "A kind of test that the point allows to some users, or udp"),
            text("hops", "IP addresses of the hops of a path, separated by commas"),
        ],
        body: None,
        response: Response::Directory,
    },
    Route {
        path: "/api/v1/pair",
        summary: "One pair over time: tests, hours, and changes of the cause",
        parameters: &[
            required(text("from", "The point that sends")),
            required(text("to", "The point that receives")),
            SINCE,
            LIMIT,
        ],
        body: None,
        response: Response::Pair,
    },
    Route {
        path: "/api/v1/results",
        summary: "Tests and their figures, newest first",
        parameters: &[
            text("from", "The point that sends"),
            text("to", "The point that receives"),
            text("kind", "The kind of test: throughput, latency, diagnose, probe, trace, stream or transfer"),
            SINCE,
            LIMIT,
        ],
        body: None,
        response: Response::Results,
    },
    Route {
        path: "/api/v1/calendar",
        summary: "The occupied slots of a point",
        parameters: &[
            text("point", "The point; this one if absent"),
            number("seconds", "How far into the future; 86400 if absent"),
        ],
        body: None,
        response: Response::Calendar,
    },
    Route {
        path: "/api/v1/plan",
        summary: "Which rate, settings and slot a transfer needs to be complete by a deadline; reserves nothing",
        parameters: &[
            required(text("from", "The point that sends")),
            required(text(
                "to",
                "The point that receives, or a server outside the mesh in the configuration of this point",
            )),
            required(number("bytes", "Payload, bytes")),
            required(number("deadline_us", "When it must be complete, microseconds since 1970")),
        ],
        body: None,
        response: Response::Plan,
    },
    Route {
        path: "/api/v1/reservation",
        summary: "The state of a reservation, with the rule or the conflict and with its result; or the last reservations of a recurring test",
        parameters: &[required(text("id", "The reservation, as in a/12, or the name of a recurring test"))],
        body: None,
        response: Response::Reservations,
    },
    change(
        "/api/v1/reserve",
        "Reserves a test, or a slot for the program's own transfer; a rule that refuses it is in the reply",
        Body::Reservation,
    ),
    change(
        "/api/v1/cancel",
        "Cancels a reservation of the same token; with the scope cancel any reservation",
        Body::Cancellation,
    ),
    change(
        "/api/v1/report",
        "Reports a transfer of the same token, which ends its slot; the reply has what limited it",
        Body::Report,
    ),
    Route {
        path: "/api/v1/alerts",
        summary: "The causes that users have acknowledged, and the pairs whose alerts are muted",
        parameters: &[],
        body: None,
        response: Response::Alerts,
    },
    Route {
        path: "/api/v1/acknowledge",
        summary: "Acknowledges the cause of a pair: no alert for it is sent until the cause changes",
        parameters: &[],
        body: Some(Body::Acknowledge),
        response: Response::Alerts,
    },
    Route {
        path: "/api/v1/mute",
        summary: "Mutes the alerts of pairs for a time",
        parameters: &[],
        body: Some(Body::Mute),
        response: Response::Alerts,
    },
    Route {
        path: "/api/v1/status",
        summary: "The state of this point",
        parameters: &[],
        body: None,
        response: Response::Status,
    },
    Route {
        path: "/api/v1/openapi.json",
        summary: "This description of the interface",
        parameters: &[],
        body: None,
        response: Response::AnyJson,
    },
    Route {
        path: "/metrics",
        summary: "Metrics in the text format of Prometheus",
        parameters: &[],
        body: None,
        response: Response::Text,
    },
];

/// The parameters of a request.
pub(super) struct Query(BTreeMap<&'static str, String>);

impl Query {
    /// Reads the parameters of a route.
    pub fn parse(route: &Route, text: &str) -> Result<Query, String> {
        let mut found = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or_else(|| format!("{name}: the percent-encoding is not valid"))?;
            let Some(parameter) = route.parameters.iter().find(|known| known.name == name) else {
                let known: Vec<&str> = route.parameters.iter().map(|known| known.name).collect();
                let known = if known.is_empty() { "it has none".into() } else { known.join(", ") };
                return Err(format!("{} has no parameter {name:?}; parameters: {known}", route.path));
            };
            if parameter.is_number && value.parse::<i64>().is_err() {
                return Err(format!("{name}={value}: the value must be an integer"));
            }
            if value.is_empty() || found.insert(parameter.name, value).is_some() {
                return Err(format!("the parameter {name} needs one value"));
            }
        }
        match route.parameters.iter().find(|known| known.is_required && !found.contains_key(known.name)) {
            Some(missing) => Err(format!("{} needs the parameter {}", route.path, missing.name)),
            None => Ok(Query(found)),
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let pair = ROUTES.iter().find(|route| route.path == "/api/v1/pair").unwrap();
        let query = Query::parse(pair, "from=a&to=b&since_us=-5").ok().unwrap();
        assert_eq!((query.text("to").as_deref(), query.number("since_us")), (Some("b"), Some(-5)));
        assert_eq!(query.number("limit"), None);
        assert_eq!(Query::parse(pair, "from=a%2F1&to=b").ok().unwrap().text("from").as_deref(), Some("a/1"));
        for (text, part) in [
            ("from=a", "needs the parameter to"),
            ("from=a&to=b&limit=x", "must be an integer"),
            ("from=a&to=b&color=x", "has no parameter \"color\""),
            ("from=a&to=b&to=c", "needs one value"),
            ("from=&to=b", "needs one value"),
            ("from=%4&to=b", "percent-encoding is not valid"),
            ("from=%ff&to=b", "percent-encoding is not valid"),
        ] {
            let error = Query::parse(pair, text).err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }
}
