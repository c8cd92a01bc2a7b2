//! A metric of finished runs by its name. The runs' summaries are enough: their scenario is not resolved
//! again.

use model::FairnessWeight;
use scenario::{Direction, LinkMetric, Metric, MetricPath, Published, RunMetric};
use schema::{FlowSummary, LinkDirection, RunSummary, nearest_names};

use crate::{Error, Result};

/// A metric that runs have, as in `flows.bulk.goodput`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFigure {
    path: MetricPath,
}

impl RunFigure {
    /// Finds the metric with this path, as in `flows.bulk.goodput`, `links.s1-s2.utilization` or
    /// `run.goodput`.
    ///
    /// # Errors
    /// No run of `runs` has such a metric, or none has a value of it.
    pub fn find(text: &str, runs: &[&RunSummary]) -> Result<Self> {
        let wanted = text.replacen(".forward.", ".", 1);
        let known = paths(runs);
        let Some(path) = known.iter().find(|path| path.to_string() == wanted) else {
            let names: Vec<String> = known.iter().map(MetricPath::to_string).collect();
            let nearest = nearest_names(text, names.iter().map(String::as_str)).join(", ");
            return Err(Error::BadInput(format!(
                "these runs have no metric \"{text}\"; the nearest are {nearest}"
            )));
        };
        let figure = RunFigure { path: path.clone() };
        match runs.iter().any(|run| figure.of(run).is_some()) {
            true => Ok(figure),
            false => Err(Error::BadInput(format!("none of these runs has a value of {text}"))),
        }
    }

    /// Its path, as in scenario files.
    pub fn name(&self) -> String {
        self.path.to_string()
    }

    /// The unit of its values: `bit/s`, `s`, `B` or `1`.
    pub fn unit(&self) -> &'static str {
        self.path.unit()
    }

    /// Its value in a run; `None` if the run has none.
    pub fn of(&self, run: &RunSummary) -> Option<f64> {
        figure(&self.path, run).filter(|value| value.is_finite())
    }
}

/// The metrics that flows and links of these runs can have, those of the first runs first.
fn paths(runs: &[&RunSummary]) -> Vec<MetricPath> {
    let mut paths: Vec<MetricPath> = Vec::new();
    let mut add = |path: MetricPath| {
        if !paths.contains(&path) {
            paths.push(path);
        }
    };
    for run in runs {
        for flow in &run.flows {
            for metric in Metric::ALL {
                add(MetricPath::Flow { flow: flow.name.clone(), metric });
            }
        }
    }
    RunMetric::ALL.into_iter().for_each(|metric| add(MetricPath::Run(metric)));
    for run in runs {
        for link in &run.links {
            let is_this = |known: &Direction| LinkDirection::from(known.name()) == link.direction;
            let Some(direction) = Direction::BOTH.into_iter().find(is_this) else { continue };
            for metric in LinkMetric::ALL {
                add(MetricPath::Link { link: link.name.clone(), direction, metric });
            }
        }
    }
    paths
}

/// A figure of a run in its unit. `None` for closed forms, which need no run.
pub fn figure(figure: &MetricPath, run: &RunSummary) -> Option<f64> {
    match figure {
        MetricPath::Flow { flow, metric: of } => metric(run.flows.iter().find(|f| f.name == *flow)?, *of),
        MetricPath::Link { link, direction, metric } => {
            let direction = LinkDirection::from(direction.name());
            let link = run.links.iter().find(|l| l.name == *link && l.direction == direction)?;
            match metric {
                LinkMetric::Utilization => link.utilization,
                LinkMetric::MeanQueue => Some(link.mean_queue_bytes),
                LinkMetric::MaxQueue => Some(link.max_queue_bytes as f64),
            }
        }
        MetricPath::Run(RunMetric::Goodput) => {
            let goodputs: Vec<f64> = run.flows.iter().filter_map(|f| f.goodput_bps).collect();
            (!goodputs.is_empty()).then(|| goodputs.iter().sum())
        }
        MetricPath::Run(RunMetric::Jain) => run.fairness_jain,
        MetricPath::Run(RunMetric::SteadyFrom) => {
            let flows = run.flows.iter().filter(|flow| flow.is_bulk_transfer());
            let settled: Vec<f64> = flows.map(|flow| flow.steady_from_s).collect::<Option<_>>()?;
            settled.into_iter().reduce(f64::max)
        }
        MetricPath::Run(RunMetric::Transfer) => transfers(run)?.into_iter().reduce(f64::max),
        MetricPath::Run(RunMetric::ShutDown) => {
            let times = transfers(run)?;
            Some(times.iter().copied().reduce(f64::max)? - times.iter().copied().reduce(f64::min)?)
        }
        MetricPath::Run(RunMetric::JainMtu) => FairnessWeight::Mtu.index(run),
        MetricPath::Run(RunMetric::JainRtt) => FairnessWeight::Rtt.index(run),
        MetricPath::Run(RunMetric::JainMtuRtt) => FairnessWeight::MtuAndRtt.index(run),
        MetricPath::ClosedForm { .. } => None,
    }
}

/// The time that each flow with a window takes for its bytes, seconds; `None` if one has no goodput, or
/// delivered nothing.
fn transfers(run: &RunSummary) -> Option<Vec<f64>> {
    let flows = run.flows.iter().filter(|flow| flow.is_bulk_transfer());
    let time = |flow: &FlowSummary| {
        Some(flow.bytes? as f64 * 8.0 / flow.goodput_bps?).filter(|seconds| seconds.is_finite())
    };
    let times: Vec<f64> = flows.map(time).collect::<Option<_>>()?;
    (!times.is_empty()).then_some(times)
}

/// A flow's figure in the metric's unit.
pub fn metric(flow: &FlowSummary, metric: Metric) -> Option<f64> {
    let seconds = |us: Option<f64>| us.map(|us| us * 1e-6);
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    match metric {
        Metric::Goodput => flow.goodput_bps,
        Metric::SteadyGoodput => flow.steady_goodput_bps,
        Metric::SteadyFrom => flow.steady_from_s,
        Metric::MinRtt => seconds(flow.min_rtt_us),
        Metric::MeanRtt => seconds(flow.mean_rtt_us),
        Metric::MedianRtt => seconds(flow.median_rtt_us),
        Metric::MaxRtt => seconds(flow.max_rtt_us),
        Metric::FirstRtt => seconds(flow.first_rtt_us),
        Metric::MdevRtt => seconds(flow.mdev_rtt_us),
        Metric::MeanCwnd => bytes(flow.mean_cwnd_bytes),
        Metric::MaxCwnd => bytes(flow.max_cwnd_bytes),
        Metric::ReceiveWindow => bytes(flow.max_rcv_wnd_bytes),
        Metric::RetransmittedShare => {
            let sent = flow.sent_segs.filter(|sent| *sent > 0)?;
            Some(flow.retransmitted_segs? as f64 / sent as f64)
        }
        Metric::Overhead => {
            let delivered = flow.bytes.filter(|bytes| *bytes > 0)?;
            Some((flow.sent_segs? * flow.mss_bytes?) as f64 / delivered as f64)
        }
        Metric::Recovery => flow.recovery_s,
        Metric::LossShare => flow.loss_share,
        Metric::Jitter => seconds(flow.jitter_us),
        Metric::MeanOwd => seconds(flow.mean_owd_us),
    }
}

/// A run's figure in the unit of the published one; the metric of this run if the figure is of several
/// variants.
pub(crate) fn published_value(published: &Published, run: &RunSummary) -> Option<f64> {
    let value = match (&published.between, &published.figure) {
        (Some((from, to)), MetricPath::Flow { flow, .. }) => {
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            let flow = run.flows.iter().find(|f| f.name == *flow)?;
            flow.parts.iter().find(|part| part.from_s == from && part.to_s == to)?.goodput_bps
        }
        _ => figure(&published.figure, run)?,
    };
    match &published.over {
        None => Some(value),
        Some(over) => Some(value / figure(over, run)?).filter(|ratio| ratio.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use schema::LinkSummary;

    use super::*;

    fn run(goodput: Option<f64>) -> RunSummary {
        let flow = FlowSummary {
            name: "bulk".into(),
            goodput_bps: goodput,
            min_rtt_us: Some(20_500.0),
            ..FlowSummary::default()
        };
        let link = |direction: &str, utilization| LinkSummary {
            name: "a-b".into(),
            direction: LinkDirection::from(direction),
            utilization: Some(utilization),
            ..LinkSummary::default()
        };
        RunSummary {
            flows: vec![flow],
            links: vec![link("forward", 0.5), link("backward", 0.25)],
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        }
    }

    #[test]
    fn figures_are_in_base_units() {
        let (a, b) = (run(Some(3e9)), run(None));
        let goodput = RunFigure::find("flows.bulk.goodput", &[&a, &b]).unwrap();
        assert_eq!((goodput.of(&a), goodput.of(&b), goodput.unit()), (Some(3e9), None, "bit/s"));
        let rtt = RunFigure::find("flows.bulk.min_rtt", &[&a]).unwrap();
        assert!((rtt.of(&a).unwrap() - 0.0205).abs() < 1e-12 && rtt.unit() == "s");
        let of = |text: &str| RunFigure::find(text, &[&a]).unwrap().of(&a);
        assert_eq!(
            (of("links.a-b.utilization"), of("links.a-b.forward.utilization")),
            (Some(0.5), Some(0.5))
        );
        assert_eq!((of("links.a-b.backward.utilization"), of("run.goodput")), (Some(0.25), Some(3e9)));
    }

    #[test]
    fn an_unknown_metric_gets_the_nearest_and_one_without_values_is_refused() {
        let a = run(None);
        let error = |text: &str| RunFigure::find(text, &[&a]).unwrap_err().to_string();
        assert!(error("flows.bulk.godput").contains("nearest are flows.bulk.goodput"));
        assert!(error("flows.bulk.goodput").contains("none of these runs has a value"));
        assert!(error("model.bulk.bdp_bytes").contains("have no metric"));
    }

    #[test]
    fn a_run_has_settling_transfer_and_shut_down_times() {
        let mut one = run(Some(1e8));
        let flow = |bytes, goodput, settled| FlowSummary {
            kind: schema::FlowKind::Tcp,
            bytes: Some(bytes),
            goodput_bps: Some(goodput),
            steady_from_s: Some(settled),
            ..FlowSummary::default()
        };
        one.flows = vec![flow(1_000_000, 8e5, 1.0), flow(1_000_000, 1e6, 2.0)];
        let of = |metric| figure(&MetricPath::Run(metric), &one);
        assert_eq!((of(RunMetric::Transfer), of(RunMetric::ShutDown)), (Some(10.0), Some(2.0)));
        assert_eq!(of(RunMetric::SteadyFrom), Some(2.0));
        // A blocked flow: NaN would become `null` among the figures of a sweep.
        one.flows[1] = flow(0, 0.0, 2.0);
        let of = |metric| figure(&MetricPath::Run(metric), &one);
        assert_eq!((of(RunMetric::Transfer), of(RunMetric::ShutDown)), (None, None));
    }

    #[test]
    fn fairness_is_plain_or_weighted() {
        let mut one = run(Some(1e8));
        let flow = |mss, rtt, goodput| FlowSummary {
            kind: schema::FlowKind::Tcp,
            mss_bytes: Some(mss),
            min_rtt_us: Some(rtt),
            goodput_bps: Some(goodput),
            ..FlowSummary::default()
        };
        one.flows = vec![flow(3000, 100.0, 1e8), flow(9000, 100.0, 3e8)];
        let of = |metric, one: &RunSummary| figure(&MetricPath::Run(metric), one).unwrap();
        assert!((of(RunMetric::JainMtu, &one) - 1.0).abs() < 1e-9, "in proportion to the packets");
        assert!((of(RunMetric::JainRtt, &one) - 0.8).abs() < 1e-9, "equal round-trip times: as plain");
        one.flows = vec![flow(1500, 200.0, 1e8), flow(1500, 100.0, 2e8)];
        assert!((of(RunMetric::JainRtt, &one) - 1.0).abs() < 1e-9, "equal windows");
        assert!((of(RunMetric::JainMtu, &one) - 0.9).abs() < 1e-9);
        one.flows = vec![flow(3000, 200.0, 1e8), flow(9000, 100.0, 6e8)];
        assert!((of(RunMetric::JainMtuRtt, &one) - 1.0).abs() < 1e-9, "equal windows in segments");
    }
}
