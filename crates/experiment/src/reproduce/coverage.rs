//! Which engines have the figures of a published result, and why the others have none.

use scenario::Published;
use schema::{EngineCoverage, EngineName, PublishedResult, PublishedVerdict, Summary, UncoveredFigures};

use super::{Plan, limits};
use crate::{Experiment, published::figure_kind};

/// The engines that have figures of published results, in display order.
const ENGINES: [EngineName; 5] =
    [EngineName::Model, EngineName::Sim, EngineName::Lab, EngineName::Kernel, EngineName::Hosts];
/// The reason for an engine that was not requested.
const CAN_RUN: &str = "can run";
/// The same for real hosts.
const NEEDS_HOSTS: &str = "needs two or more real hosts (--at)";

/// What an engine has of a figure.
enum Coverage {
    Reliable,
    Unreliable,
    /// Nothing, for this reason.
    Uncovered(String),
}

/// Which engines have the figures of the result `id`, and why others have none. `summaries` are those of the
/// runs of `plan`.
pub fn coverage(
    id: &str,
    experiments: &[Experiment],
    plan: &Plan<'_>,
    summaries: &[Summary],
) -> Vec<EngineCoverage> {
    let mut figures: Vec<(&Experiment, &Published)> = Vec::new();
    for one in experiments {
        figures.extend(one.file.published().iter().filter(|p| p.id == id).map(|p| (one, p)));
    }
    if figures.is_empty() {
        return Vec::new();
    }
    let of_engine = |engine: &EngineName| {
        let mut covered = EngineCoverage {
            engine: engine.clone(),
            figures: figures.len(),
            reliable: 0,
            unreliable: 0,
            others: Vec::new(),
        };
        for (experiment, published) in &figures {
            match of_figure(engine, experiment, published, plan, summaries) {
                Coverage::Reliable => covered.reliable += 1,
                Coverage::Unreliable => covered.unreliable += 1,
                Coverage::Uncovered(reason) => add(&mut covered.others, reason),
            }
        }
        covered
    };
    ENGINES.iter().map(of_engine).collect()
}

fn add(others: &mut Vec<UncoveredFigures>, reason: String) {
    match others.iter_mut().find(|one| one.reason == reason) {
        Some(known) => known.figures += 1,
        None => others.push(UncoveredFigures { reason, figures: 1 }),
    }
}

fn of_figure(
    engine: &EngineName,
    experiment: &Experiment,
    published: &Published,
    plan: &Plan<'_>,
    summaries: &[Summary],
) -> Coverage {
    let summary = summaries.iter().find(|one| one.scenario == experiment.file.name());
    let result = summary.and_then(|one| one.published.iter().find(|result| is_of(result, published)));
    let judged = result.into_iter().flat_map(|result| &result.judged).filter(|one| one.engine == *engine);
    let verdicts: Vec<PublishedVerdict> = judged.map(|one| one.verdict).collect();
    match () {
        () if verdicts.iter().any(|one| is_conclusive(*one)) => Coverage::Reliable,
        () if verdicts.iter().any(|one| one.is_inconclusive()) => Coverage::Unreliable,
        // The remarks about the figure have the reason.
        () if !verdicts.is_empty() => Coverage::Uncovered("does not apply".into()),
        () => Coverage::Uncovered(reason(engine, experiment, published, plan)),
    }
}

fn is_conclusive(verdict: PublishedVerdict) -> bool {
    !verdict.is_inconclusive() && verdict != PublishedVerdict::DoesNotApply
}

/// Whether a result is that of this figure.
fn is_of(result: &PublishedResult, published: &Published) -> bool {
    (&result.id, result.kind, &result.variant)
        == (&published.id, figure_kind(published.kind), &published.variant)
        && result.metric == published.metric_path()
}

/// Why an engine has no figure and no verdict.
fn reason(engine: &EngineName, experiment: &Experiment, published: &Published, plan: &Plan<'_>) -> String {
    if published.figure.is_closed_form() && *engine != EngineName::Model {
        return "a formula: nothing to run".into();
    }
    if let Some(why) = published.does_not_apply.of(engine.name()) {
        return why.to_owned();
    }
    let variants = published.variants();
    let skipped = variants.iter().find_map(|variant| plan.skipped_run(experiment, *variant, engine));
    if let Some(run) = skipped {
        return run.why.clone();
    }
    if plan.has_engine(engine) {
        return "not run".into();
    }
    let limit = variants.iter().find_map(|variant| limit(engine, experiment, *variant));
    let needed = if *engine == EngineName::Hosts { NEEDS_HOSTS } else { CAN_RUN };
    limit.unwrap_or_else(|| needed.to_owned())
}

/// Why an engine that was not requested cannot run a variant on this machine; `None` if it can.
fn limit(engine: &EngineName, experiment: &Experiment, variant: Option<&str>) -> Option<String> {
    let scenario = experiment.file.resolve(variant, &[]).ok()?;
    match engine {
        EngineName::Lab => limits::of_lab(&scenario, experiment.host.kernel.parse().ok()),
        EngineName::Kernel => limits::of_guest(&scenario, None),
        EngineName::Hosts => limits::of_hosts(&scenario),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hosts::HostLocations;
    use units::Time;

    use super::*;
    use crate::{
        EngineChoice, RunOptions,
        reproduce::{CATALOGUE, experiments},
        run_all,
    };

    /// The coverage of a result without any runs.
    fn without_runs(id: &str) -> Vec<EngineCoverage> {
        let experiments = experiments(None).unwrap();
        let plan =
            Plan::new(&experiments, &BTreeSet::new(), &[], None, None, &HostLocations::default()).unwrap();
        coverage(id, &experiments, &plan, &[])
    }

    fn of<'a>(all: &'a [EngineCoverage], engine: &EngineName) -> &'a EngineCoverage {
        all.iter().find(|one| one.engine == *engine).unwrap()
    }

    #[test]
    fn each_engine_has_each_figure_or_a_reason() {
        for entry in CATALOGUE {
            let all = without_runs(entry.id);
            assert_eq!(all.is_empty(), entry.not_run.is_some(), "{}", entry.id);
            for one in all {
                let others: usize = one.others.iter().map(|other| other.figures).sum();
                assert_eq!(one.reliable + one.unreliable + others, one.figures, "{} {one:?}", entry.id);
                assert!(one.others.iter().all(|other| !other.reason.is_empty()), "{} {one:?}", entry.id);
            }
        }
    }

    #[test]
    fn reasons_are_those_of_the_scenario() {
        let reasons = |id: &str, engine: &EngineName| -> Vec<String> {
            of(&without_runs(id), engine).others.iter().map(|other| other.reason.clone()).collect()
        };
        assert_eq!(reasons("G-r1", &EngineName::Lab), ["a formula: nothing to run"]);
        assert_eq!(reasons("G-endbuf", &EngineName::Lab), ["needs Linux 2.4"]);
        assert_eq!(reasons("G-endbuf", &EngineName::Kernel), ["needs Linux 2.4"]);
        assert_eq!(reasons("G-endbuf", &EngineName::Sim), [CAN_RUN]);
        assert_eq!(reasons("L8-ping", &EngineName::Lab), [CAN_RUN]);
        assert!(
            reasons("L13-why", &EngineName::Lab)
                .contains(&"hosts of the lab have the turnaround of this machine".into())
        );
        assert!(reasons("L13-1500", &EngineName::Kernel)[0].contains("guests take no time"));
    }

    #[test]
    fn figures_of_runs_are_counted() {
        let experiments = experiments(None).unwrap();
        let ids = BTreeSet::from(["L8-ping"]);
        let engines = [EngineChoice::Model, EngineChoice::Sim];
        let budget = Some(Time::from_secs(1));
        let plan = Plan::new(&experiments, &ids, &engines, budget, None, &HostLocations::default()).unwrap();
        let completed = run_all(&plan.jobs, &RunOptions::default()).unwrap();
        let one = experiments.iter().find(|one| one.file.name() == "lab8-ping").unwrap();
        let summary = one.summary(completed.into_iter().map(|run| run.summary).collect());
        let all = coverage("L8-ping", &experiments, &plan, &[summary]);
        for engine in [EngineName::Model, EngineName::Sim] {
            let covered = of(&all, &engine);
            assert_eq!((covered.reliable, covered.figures, covered.others.len()), (4, 4, 0), "{covered:?}");
        }
        // Its five seconds do not fit in one.
        let lab = of(&all, &EngineName::Lab);
        assert_eq!((lab.reliable, lab.others.len()), (0, 1), "{lab:?}");
        assert!(lab.others[0].reason.contains("more than remains"), "{lab:?}");
        assert_eq!(of(&all, &EngineName::Hosts).others[0].reason, NEEDS_HOSTS);
    }
}
