//! The routes of the interface: one table for the server and for its OpenAPI document.

use std::collections::BTreeMap;

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
    Pair,
    Results,
    Calendar,
}

/// A path that is served to programs.
pub(super) struct Route {
    pub path: &'static str,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
    pub response: Response,
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
        response: Response::Mesh,
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
        response: Response::Pair,
    },
    Route {
        path: "/api/v1/results",
        summary: "Tests and their figures, newest first",
        parameters: &[
            text("from", "The point that sends"),
            text("to", "The point that receives"),
            text("kind", "The kind of test: throughput, latency or diagnose"),
            SINCE,
            LIMIT,
        ],
        response: Response::Results,
    },
    Route {
        path: "/api/v1/calendar",
        summary: "The occupied slots of a point",
        parameters: &[
            text("point", "The point; this one if absent"),
            number("seconds", "How far into the future; 86400 if absent"),
        ],
        response: Response::Calendar,
    },
    Route {
        path: "/api/v1/status",
        summary: "The state of this point",
        parameters: &[],
        response: Response::Status,
    },
    Route {
        path: "/api/v1/openapi.json",
        summary: "This description of the interface",
        parameters: &[],
        response: Response::AnyJson,
    },
    Route {
        path: "/metrics",
        summary: "Metrics in the text format of Prometheus",
        parameters: &[],
        response: Response::Text,
    },
];

/// The parameters of a request.
pub(super) struct Query<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Query<'a> {
    /// Reads the parameters of a route. Values are names and numbers, which need no percent-encoding.
    pub fn parse(route: &Route, text: &'a str) -> Result<Query<'a>, String> {
        let mut found = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
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
        self.0.get(name).map(|value| (*value).to_string())
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
        let pair = &ROUTES[1];
        let query = Query::parse(pair, "from=a&to=b&since_us=-5").ok().unwrap();
        assert_eq!((query.text("to").as_deref(), query.number("since_us")), (Some("b"), Some(-5)));
        assert_eq!(query.number("limit"), None);
        for (text, part) in [
            ("from=a", "needs the parameter to"),
            ("from=a&to=b&limit=x", "must be an integer"),
            ("from=a&to=b&color=x", "has no parameter \"color\""),
            ("from=a&to=b&to=c", "needs one value"),
            ("from=&to=b", "needs one value"),
        ] {
            let error = Query::parse(pair, text).err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }
}
