//! A metric of a run as the command line names it: `flows.bulk.goodput`.

use scenario::{Kind, Metric, Scenario};
use schema::RunSummary;

use crate::{exit::Exit, published};

/// A metric of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPath {
    flow: String,
    metric: Metric,
}

impl MetricPath {
    /// Reads `flows.NAME.METRIC` for a scenario that has the flow.
    pub fn parse(text: &str, scenario: &Scenario) -> Result<Self, Exit> {
        let bad = |why: String| Exit::BadInput(format!("--metric {text}: {why}"));
        let parts: Vec<&str> = text.split('.').collect();
        let ["flows", flow, name] = parts[..] else {
            return Err(bad("write flows.NAME.METRIC, as in flows.bulk.goodput".into()));
        };
        let Some(flow) = scenario.flows.iter().find(|f| f.name == flow) else {
            let names: Vec<&str> = scenario.flows.iter().map(|f| f.name.as_str()).collect();
            return Err(bad(format!("no such flow; there are {}", names.join(", "))));
        };
        let usable: Vec<Metric> =
            Metric::ALL.into_iter().filter(|metric| metric.applies_to(&flow.kind)).collect();
        let Some(metric) = usable.iter().find(|metric| metric.name() == name) else {
            let names: Vec<&str> = usable.iter().map(|metric| metric.name()).collect();
            return Err(bad(format!("a {} flow has {}", flow.kind.name(), names.join(", "))));
        };
        Ok(MetricPath { flow: flow.name.clone(), metric: *metric })
    }

    /// What a sweep measures where nothing is said: the first TCP flow's goodput, else the first flow's mean RTT.
    pub fn default_of(scenario: &Scenario) -> Result<Self, Exit> {
        let tcp = scenario.flows.iter().find(|flow| matches!(flow.kind, Kind::Tcp(_)));
        let (flow, metric) = match tcp {
            Some(flow) => (flow, Metric::Goodput),
            None => {
                let first = scenario.flows.first();
                (first.ok_or_else(|| Exit::BadInput("the scenario has no flows".into()))?, Metric::MeanRtt)
            }
        };
        Ok(MetricPath { flow: flow.name.clone(), metric })
    }

    /// Its value in a run.
    pub fn of(&self, run: &RunSummary) -> Option<f64> {
        published::metric(run.flows.iter().find(|flow| flow.name == self.flow)?, self.metric)
    }

    /// The unit of its values.
    pub fn unit(&self) -> &'static str {
        self.metric.unit()
    }
}

impl std::fmt::Display for MetricPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flows.{}.{}", self.flow, self.metric.name())
    }
}
