//! A metric of finished runs by its name. The runs' summaries are enough: their scenario is not resolved
//! again.

use scenario::{Direction, LinkMetric, Metric, MetricPath, RunMetric};
use schema::{LinkDirection, RunSummary, nearest_names};

use crate::{Error, Result, published};

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
    /// None of `runs` has such a metric, or none has a value of it.
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

    /// Its value in a run; `None` where the run has none.
    pub fn of(&self, run: &RunSummary) -> Option<f64> {
        published::figure(&self.path, run).filter(|value| value.is_finite())
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

#[cfg(test)]
mod tests {
    use schema::{FlowSummary, LinkSummary};

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
}
