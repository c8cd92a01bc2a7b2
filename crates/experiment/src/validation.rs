//! Checks a scenario file in all its variants, with the congestion controls and their parameters, without
//! running it.

use std::path::Path;

use scenario::Scenario;
use serde::Serialize;

use crate::{Error, Experiment, scenario_file};

/// Summary of a valid scenario file. Counts are those of its first variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileSummary {
    /// The scenario's name.
    pub name: String,
    /// One line for readers.
    pub title: String,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of routers.
    pub routers: usize,
    /// Number of links.
    pub links: usize,
    /// Number of flows; 0 in a file that only describes a network.
    pub flows: usize,
    /// The variants' names.
    pub variants: Vec<String>,
    /// Number of points of its sweeps; 1 without sweeps.
    pub points: usize,
    /// Number of published figures.
    pub published: usize,
    /// Duration of a run, seconds.
    pub duration_s: f64,
}

/// Checks the scenario file at `path`, or the built-in scenario of this name: the base and all variants and
/// points. `note` receives a sentence about each ignored setting of a MiniEdit topology.
///
/// # Errors
/// All mistakes. A mistake that several variants share occurs once.
pub fn validate(path: &Path, note: impl Fn(&str)) -> Result<FileSummary, Vec<Error>> {
    let file = scenario_file::read(path, note).map_err(|error| vec![error])?;
    let experiment = Experiment::new(file, path);
    let mut errors: Vec<Error> = Vec::new();
    let mut first: Option<Scenario> = None;
    for variant in experiment.variants(&[]) {
        for fields in experiment.file.points() {
            match experiment.resolve(variant.as_deref(), &fields) {
                Ok(scenario) => first = first.or(Some(scenario)),
                // A point or variant that shares a mistake with an earlier one has the same text.
                Err(error) if errors.iter().any(|known| known.to_string() == error.to_string()) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    match first.filter(|_| errors.is_empty()) {
        Some(scenario) => Ok(summary(&experiment, &scenario)),
        None => Err(errors),
    }
}

fn summary(experiment: &Experiment, scenario: &Scenario) -> FileSummary {
    let file = &experiment.file;
    FileSummary {
        name: file.name().into(),
        title: file.title().into(),
        hosts: scenario.hosts.len(),
        switches: scenario.switches.len(),
        routers: scenario.routers.len(),
        links: scenario.links.len(),
        flows: scenario.flows.len(),
        variants: file.variants().map(Into::into).collect(),
        points: file.points().len(),
        published: file.published().len(),
        duration_s: scenario.duration.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::BUILT_IN;

    #[test]
    fn every_built_in_scenario_is_valid() {
        for one in BUILT_IN {
            let summary = validate(Path::new(one.name), |_| {})
                .unwrap_or_else(|errors| panic!("{}: {errors:?}", one.name));
            assert_eq!(summary.name, one.name);
            assert!(summary.hosts >= 1 && summary.duration_s > 0.0, "{summary:?}");
        }
    }
}
