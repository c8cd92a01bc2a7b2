//! Which figure of a scenario a published one is: of a flow, a link, the run, or a closed form of a flow's path.

use std::fmt;

use crate::{
    metric::{LinkMetric, Metric, RunMetric},
    suggest::suggest,
    types::{Flow, Link, Scenario},
};

/// What can be published about a flow's path without any run: keys of what `longfat bdp --json` prints. The key's
/// ending is its unit.
pub const FORMS: [&str; 20] = [
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

/// A figure of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// `flows.NAME.METRIC`.
    Flow {
        /// The flow.
        flow: String,
        /// What of it.
        metric: Metric,
    },
    /// `links.NAME.METRIC`, or `links.NAME.backward.METRIC`.
    Link {
        /// The link.
        link: String,
        /// True of the direction from its second end to its first.
        reversed: bool,
        /// What of it.
        metric: LinkMetric,
    },
    /// `run.METRIC`.
    Run(RunMetric),
    /// `model.NAME.KEY`: one of [`FORMS`] for the path of a flow.
    Form {
        /// The flow.
        flow: String,
        /// The closed form's key.
        key: &'static str,
    },
}

/// A mistake in a figure's name, and what would be right.
pub(crate) type Wrong = (String, String);

impl Scenario {
    /// The figure called `text`, as in `flows.bulk.goodput`; the error says what is wrong and what would be right.
    pub fn figure(&self, text: &str) -> Result<Figure, String> {
        Figure::parse(text, &self.flows, &self.links).map_err(|(wrong, help)| format!("{wrong}; {help}"))
    }
}

impl Figure {
    /// Reads a figure's name.
    pub(crate) fn parse(text: &str, flows: &[Flow], links: &[Link]) -> Result<Self, Wrong> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            ["flows", flow, metric] => of_flow(find_flow(flow, flows)?, metric),
            ["links", link, metric] => of_link(link, false, metric, links),
            ["links", link, "forward", metric] => of_link(link, false, metric, links),
            ["links", link, "backward", metric] => of_link(link, true, metric, links),
            ["run", metric] => {
                let found = RunMetric::ALL.into_iter().find(|m| m.name() == metric);
                found.map(Figure::Run).ok_or_else(|| unknown(metric, RunMetric::ALL.map(RunMetric::name)))
            }
            ["model", flow, key] => {
                let flow = find_flow(flow, flows)?.name.clone();
                let key = FORMS.into_iter().find(|known| *known == key).ok_or_else(|| unknown(key, FORMS))?;
                Ok(Figure::Form { flow, key })
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
            Figure::Flow { metric, .. } => metric.unit(),
            Figure::Link { metric, .. } => metric.unit(),
            Figure::Run(metric) => metric.unit(),
            Figure::Form { key, .. } => match key.rsplit('_').next() {
                Some("bps") => "bit/s",
                Some("bytes") => "B",
                Some("s") => "s",
                Some("segs" | "increase") => "segs",
                _ => "1",
            },
        }
    }

    /// True where nothing needs to be run for it.
    pub fn is_closed_form(&self) -> bool {
        matches!(self, Figure::Form { .. })
    }
}

/// As it is written in files.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Flow { flow, metric } => write!(f, "flows.{flow}.{}", metric.name()),
            Figure::Link { link, reversed: false, metric } => write!(f, "links.{link}.{}", metric.name()),
            Figure::Link { link, reversed: true, metric } => {
                write!(f, "links.{link}.backward.{}", metric.name())
            }
            Figure::Run(metric) => write!(f, "run.{}", metric.name()),
            Figure::Form { flow, key } => write!(f, "model.{flow}.{key}"),
        }
    }
}

fn unknown<const N: usize>(metric: &str, known: [&str; N]) -> Wrong {
    (format!("unknown metric \"{metric}\""), suggest(metric, known))
}

fn find_flow<'a>(name: &str, flows: &'a [Flow]) -> Result<&'a Flow, Wrong> {
    flows.iter().find(|f| f.name == name).ok_or_else(|| {
        (format!("unknown flow \"{name}\""), suggest(name, flows.iter().map(|f| f.name.as_str())))
    })
}

fn of_flow(flow: &Flow, metric: &str) -> Result<Figure, Wrong> {
    let usable = || Metric::ALL.into_iter().filter(|m| m.applies_to(&flow.kind)).map(Metric::name);
    match Metric::from_name(metric) {
        Some(metric) if metric.applies_to(&flow.kind) => Ok(Figure::Flow { flow: flow.name.clone(), metric }),
        Some(_) => {
            let help = format!("it has {}", usable().collect::<Vec<_>>().join(", "));
            Err((format!("a {} flow has no {metric}", flow.kind.name()), help))
        }
        None => Err((format!("unknown metric \"{metric}\""), suggest(metric, usable()))),
    }
}

fn of_link(name: &str, reversed: bool, metric: &str, links: &[Link]) -> Result<Figure, Wrong> {
    if !links.iter().any(|l| l.name == name) {
        let help = suggest(name, links.iter().map(|l| l.name.as_str()));
        return Err((format!("unknown link \"{name}\""), help));
    }
    let metric = LinkMetric::ALL
        .into_iter()
        .find(|m| m.name() == metric)
        .ok_or_else(|| unknown(metric, LinkMetric::ALL.map(LinkMetric::name)))?;
    Ok(Figure::Link { link: name.to_owned(), reversed, metric })
}
