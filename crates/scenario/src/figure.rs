//! The path of a metric: of a flow, a link, the run, or a closed form of a flow's path.

use std::fmt;

use net::Direction;

use crate::{
    metric::{LinkMetric, Metric, RunMetric},
    suggest::{suggest, suggest_few},
    types::{FlowSpec, Link, Scenario},
};

/// Keys of the closed forms that `longfat bdp --json` prints for a flow's path. A key's suffix is its unit.
pub const CLOSED_FORM_KEYS: [&str; 20] = [
    "bdp_bytes",
    "bdp_segs",
    "buffer_bytes",
    "buffer_bbr_loss_bytes",
    "hol_share_1bdp",
    "largest_window_bytes",
    "utilization",
    "window_throughput_bps",
    "window_on_wire_s",
    "tcp_goodput_bps",
    "udp_goodput_bps",
    "reno_recovery_s",
    "reno_delayed_ack_recovery_s",
    "cubic_recovery_s",
    "fair_increase",
    "queue_full_use_reno_bytes",
    "queue_delay_s",
    "reno_utilization",
    "mathis_bps",
    "pftk_bps",
];

/// Names a metric of a scenario's results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricPath {
    /// `flows.NAME.METRIC`.
    Flow {
        /// The flow.
        flow: String,
        /// The metric.
        metric: Metric,
    },
    /// `links.NAME.METRIC`, or `links.NAME.backward.METRIC`.
    Link {
        /// The link.
        link: String,
        /// The direction.
        direction: Direction,
        /// The metric.
        metric: LinkMetric,
    },
    /// `run.METRIC`.
    Run(RunMetric),
    /// `model.NAME.KEY`: one of [`CLOSED_FORM_KEYS`] for the path of a flow.
    ClosedForm {
        /// The flow.
        flow: String,
        /// The closed form's key.
        key: &'static str,
    },
}

/// A mistake in a metric's path: message and help.
pub(crate) type FigureMistake = (String, String);

impl Scenario {
    /// Parses a metric's path, as in `flows.bulk.goodput`.
    ///
    /// # Errors
    /// The mistake with its help, in one line.
    pub fn figure(&self, text: &str) -> Result<MetricPath, String> {
        MetricPath::parse(text, &self.flows, &self.links).map_err(|(wrong, help)| format!("{wrong}; {help}"))
    }
}

impl MetricPath {
    /// Parses a metric's path.
    pub(crate) fn parse(text: &str, flows: &[FlowSpec], links: &[Link]) -> Result<Self, FigureMistake> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            ["flows", flow, metric] => of_flow(find_flow(flow, flows)?, metric),
            ["links", link, metric] => of_link(link, Direction::Forward, metric, links),
            ["links", link, "forward", metric] => of_link(link, Direction::Forward, metric, links),
            ["links", link, "backward", metric] => of_link(link, Direction::Backward, metric, links),
            ["run", metric] => {
                let found = RunMetric::ALL.into_iter().find(|m| m.name() == metric);
                found.map(MetricPath::Run).ok_or_else(|| unknown(metric, RunMetric::ALL.map(RunMetric::name)))
            }
            ["model", flow, key] => {
                let flow = find_flow(flow, flows)?.name.clone();
                let key = CLOSED_FORM_KEYS.into_iter().find(|known| *known == key).ok_or_else(|| unknown(key, CLOSED_FORM_KEYS))?;
                Ok(MetricPath::ClosedForm { flow, key })
            }
            _ => Err((
                format!("unknown metric \"{text}\""),
                "write flows.NAME.METRIC, as in flows.bulk.goodput, or links.NAME.METRIC, run.METRIC, model.FLOW.KEY".into(),
            )),
        }
    }

    /// `bit/s`, `s`, `B`, `segs` or `1`.
    pub fn unit(&self) -> &'static str {
        match self {
            MetricPath::Flow { metric, .. } => metric.unit(),
            MetricPath::Link { metric, .. } => metric.unit(),
            MetricPath::Run(metric) => metric.unit(),
            MetricPath::ClosedForm { key, .. } => match key.rsplit('_').next() {
                Some("bps") => "bit/s",
                Some("bytes") => "B",
                Some("s") => "s",
                Some("segs" | "increase") => "segs",
                _ => "1",
            },
        }
    }

    /// True if it needs no run.
    pub fn is_closed_form(&self) -> bool {
        matches!(self, MetricPath::ClosedForm { .. })
    }
}

/// As in scenario files.
impl fmt::Display for MetricPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricPath::Flow { flow, metric } => write!(f, "flows.{flow}.{}", metric.name()),
            MetricPath::Link { link, direction: Direction::Forward, metric } => {
                write!(f, "links.{link}.{}", metric.name())
            }
            MetricPath::Link { link, direction, metric } => {
                write!(f, "links.{link}.{direction}.{}", metric.name())
            }
            MetricPath::Run(metric) => write!(f, "run.{}", metric.name()),
            MetricPath::ClosedForm { flow, key } => write!(f, "model.{flow}.{key}"),
        }
    }
}

fn unknown<const N: usize>(metric: &str, known: [&str; N]) -> FigureMistake {
    (format!("unknown metric \"{metric}\""), suggest_few(metric, known))
}

fn find_flow<'a>(name: &str, flows: &'a [FlowSpec]) -> Result<&'a FlowSpec, FigureMistake> {
    flows.iter().find(|f| f.name == name).ok_or_else(|| {
        (format!("unknown flow \"{name}\""), suggest(name, flows.iter().map(|f| f.name.as_str())))
    })
}

fn of_flow(flow: &FlowSpec, metric: &str) -> Result<MetricPath, FigureMistake> {
    let applicable = || Metric::ALL.into_iter().filter(|m| m.applies_to(&flow.kind)).map(Metric::name);
    match Metric::from_name(metric) {
        Some(metric) if metric.applies_to(&flow.kind) => {
            Ok(MetricPath::Flow { flow: flow.name.clone(), metric })
        }
        Some(_) => {
            let help = format!("it has {}", applicable().collect::<Vec<_>>().join(", "));
            Err((format!("a {} flow has no {metric}", flow.kind.name()), help))
        }
        None => Err((format!("unknown metric \"{metric}\""), suggest_few(metric, applicable()))),
    }
}

fn of_link(
    name: &str,
    direction: Direction,
    metric: &str,
    links: &[Link],
) -> Result<MetricPath, FigureMistake> {
    if !links.iter().any(|l| l.name == name) {
        let help = suggest(name, links.iter().map(|l| l.name.as_str()));
        return Err((format!("unknown link \"{name}\""), help));
    }
    let metric = LinkMetric::ALL
        .into_iter()
        .find(|m| m.name() == metric)
        .ok_or_else(|| unknown(metric, LinkMetric::ALL.map(LinkMetric::name)))?;
    Ok(MetricPath::Link { link: name.to_owned(), direction, metric })
}
