//! Fits unknown fields: finds the values with which the published figures of one or several scenario files
//! are reproduced best. All files share the values, as experiments on one testbed do.

use std::{num::NonZeroUsize, str::FromStr};

use model::{SearchRange, root_mean_square};
use scenario::{Amount, Published, replaces};
use schema::{FigureBound, Fit, FitFigure, FitTried, PublishedResult, RunSummary, SweptValue, Unknown};

use crate::{
    EngineChoice, Error, Experiment, Job, Result, RunOptions, batch::run_all_for_summaries,
    selection::repeated,
};

/// The range in which a field is searched.
#[derive(Debug, Clone)]
pub struct FitRange {
    field: String,
    low: Amount,
    high: Amount,
}

impl FromStr for FitRange {
    type Err = String;

    /// `PATH=LOW..HIGH`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('=').and_then(|(path, range)| Some((path, range.split_once("..")?)));
        let (path, (low, high)) = parts.ok_or_else(|| format!("{text:?} is not PATH=LOW..HIGH"))?;
        let amount =
            |text: &str| Amount::parse(text).ok_or_else(|| format!("{text:?} is not a number with a unit"));
        let (low, high) = (amount(low)?, amount(high)?);
        if !low.is_like(high) || low.value >= high.value {
            return Err(format!("{text:?}: write two ascending values in the same unit"));
        }
        Ok(FitRange { field: path.trim().to_owned(), low, high })
    }
}

/// Settings of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The simulator or the model.
    pub engine: EngineChoice,
    /// The unknown fields.
    pub ranges: Vec<FitRange>,
    /// Only the figures with these ids; empty: all.
    pub ids: Vec<String>,
    /// Only these variants; empty: all.
    pub variants: Vec<String>,
    /// Number of repeats; `None`: as the file states.
    pub repeat: Option<u32>,
    /// Maximum number of runs.
    pub max_runs: NonZeroUsize,
}

/// One scenario file and its variants with target figures.
struct Target<'a> {
    experiment: &'a Experiment,
    variants: Vec<Option<String>>,
}

/// The result of one set of values.
struct Trial {
    point: Vec<f64>,
    figures: Vec<PublishedFigure>,
}

struct PublishedFigure {
    scenario: String,
    result: PublishedResult,
    published: f64,
    ours: Option<f64>,
}

impl PublishedFigure {
    /// Relative deviation from the published figure: `ours / published - 1`; 0 within a bound.
    fn residual(&self) -> Option<f64> {
        let residual = self.ours? / self.published - 1.0;
        match &self.result.bound {
            Some(FigureBound::Below) => Some(residual.max(0.0)),
            Some(_) => Some(residual.min(0.0)),
            None => Some(residual),
        }
    }
}

/// Searches the values with which the published figures of these experiments are reproduced best.
///
/// # Errors
/// No published figure matches, the engine is neither simulator nor model, `max_runs` is too small, or a run
/// fails.
pub fn fit(experiments: &[Experiment], search: &Search, options: &RunOptions<'_>) -> Result<Fit> {
    if !matches!(search.engine, EngineChoice::Sim | EngineChoice::Model) {
        return Err(Error::BadInput("--fit takes one engine, sim or model".into()));
    }
    let targets = targets(experiments, search)?;
    let lows: Vec<f64> = search.ranges.iter().map(|range| range.low.value).collect();
    let per_point = jobs(search, &targets, &lows)?.len();
    let max_points = search.max_runs.get() / per_point.max(1);
    if max_points == 0 {
        let message =
            format!("one set of values takes {per_point} runs: increase --max-runs to at least this number");
        return Err(Error::BadInput(message));
    }
    let mut trials: Vec<Trial> = Vec::new();
    let costs = |points: &[Vec<f64>]| -> Result<Vec<f64>> {
        let all: Vec<Vec<Job<'_>>> =
            points.iter().map(|point| jobs(search, &targets, point)).collect::<Result<_>>()?;
        let flat: Vec<Job<'_>> = all.iter().flatten().cloned().collect();
        let mut runs = run_all_for_summaries(&flat, options)?.into_iter();
        let mut costs = Vec::new();
        for (point, jobs) in points.iter().zip(&all) {
            let runs: Vec<RunSummary> = runs.by_ref().take(jobs.len()).collect();
            let figures = figures(search, &targets, jobs, &runs);
            costs.push(cost(&figures));
            trials.push(Trial { point: point.clone(), figures });
        }
        Ok(costs)
    };
    let ranges: Vec<SearchRange> = search
        .ranges
        .iter()
        .map(|range| SearchRange { low: range.low.value, high: range.high.value })
        .collect();
    let snap = |point: Vec<f64>| amounts(search, &point).iter().map(|amount| amount.value).collect();
    model::search(&ranges, max_points, snap, costs)?;
    result(experiments, search, trials, per_point)
}

/// The files with the variants whose figures are selected.
fn targets<'a>(experiments: &'a [Experiment], search: &Search) -> Result<Vec<Target<'a>>> {
    let mut targets = Vec::new();
    for experiment in experiments {
        let file = &experiment.file;
        if file.points().iter().any(|point| !point.is_empty()) {
            let message = format!("{}: --fit cannot be combined with [[sweeps]]", experiment.path.display());
            return Err(Error::BadInput(message));
        }
        let is_fitted = |path: &str| search.ranges.iter().any(|range| replaces(path, &range.field));
        if let Some((path, _)) = experiment.sets.iter().find(|(path, _)| is_fitted(path)) {
            return Err(Error::BadInput(format!("--set {path}: this field is fitted")));
        }
        let has_figure = |variant: &Option<String>| {
            file.published().iter().any(|p| p.variant == *variant && is_selected(search, p))
        };
        let mut variants = experiment.variants(&search.variants);
        variants.retain(has_figure);
        if !variants.is_empty() {
            targets.push(Target { experiment, variants });
        }
    }
    let known =
        |id: &&String| experiments.iter().any(|one| one.file.published().iter().any(|p| p.id == **id));
    if let Some(unknown) = search.ids.iter().find(|id| !known(id)) {
        return Err(Error::BadInput(format!("--to {unknown}: no published figure has this id")));
    }
    match targets.is_empty() {
        true => Err(Error::BadInput("no published figure to fit".into())),
        false => Ok(targets),
    }
}

/// Whether a search includes a published figure: figures of runs; contradictory sources only if selected by
/// id.
fn is_selected(search: &Search, published: &Published) -> bool {
    let is_named = search.ids.contains(&published.id);
    published.value.is_some()
        && !published.figure.is_closed_form()
        && !published.is_across_variants()
        && (is_named || search.ids.is_empty() && published.contradiction.is_none())
}

/// All runs of one set of values.
fn jobs<'a>(search: &Search, targets: &[Target<'a>], point: &[f64]) -> Result<Vec<Job<'a>>> {
    let unknowns = search.ranges.iter().zip(amounts(search, point));
    let fields: Vec<(String, String)> =
        unknowns.map(|(range, amount)| (range.field.clone(), amount.text())).collect();
    let mut jobs = Vec::new();
    for Target { experiment, variants } in targets {
        for variant in variants {
            let scenario = experiment.resolve(variant.as_deref(), &fields)?;
            let scenario = experiment.with_sysctl_defaults(scenario, &search.engine);
            let repeats = search.repeat.unwrap_or(scenario.repeat);
            jobs.extend(repeated(&Job {
                experiment,
                engine: search.engine.clone(),
                guest: None,
                variant: variant.clone(),
                point: None,
                repeat: 1,
                repeats,
                scenario,
            }));
        }
    }
    Ok(jobs)
}

/// The selected published figures and the figures of the runs.
fn figures(
    search: &Search,
    targets: &[Target<'_>],
    jobs: &[Job<'_>],
    runs: &[RunSummary],
) -> Vec<PublishedFigure> {
    let mut all = Vec::new();
    for Target { experiment, .. } in targets {
        let file_runs = jobs.iter().zip(runs).filter(|(job, _)| std::ptr::eq(job.experiment, *experiment));
        let summary = experiment.summary(file_runs.map(|(_, run)| run.clone()).collect());
        let of = |result: &PublishedResult| {
            let same = |p: &&Published| {
                p.id == result.id && p.variant == result.variant && p.metric_path() == result.metric
            };
            experiment.file.published().iter().find(same)
        };
        let selected =
            summary.published.into_iter().filter(|result| of(result).is_some_and(|p| is_selected(search, p)));
        all.extend(selected.filter_map(|result| {
            Some(PublishedFigure {
                scenario: summary.scenario.clone(),
                published: result.published?,
                ours: if search.engine == EngineChoice::Model { result.model } else { result.sim },
                result,
            })
        }));
    }
    all
}

/// Root mean square of the residuals; infinite where one is unknown.
fn cost(figures: &[PublishedFigure]) -> f64 {
    let residuals: Option<Vec<f64>> = figures.iter().map(PublishedFigure::residual).collect();
    residuals.map_or(f64::INFINITY, |residuals| root_mean_square(&residuals))
}

/// The best set of values and all trials.
fn result(
    experiments: &[Experiment],
    search: &Search,
    mut trials: Vec<Trial>,
    per_point: usize,
) -> Result<Fit> {
    let finite = |x: f64| x.is_finite().then_some(x);
    let swept = |amount: Amount| SweptValue { text: amount.text(), number: Some(amount.value) };
    trials.sort_by(|a, b| a.point.partial_cmp(&b.point).unwrap_or(std::cmp::Ordering::Equal));
    let by_cost = |a: &&Trial, b: &&Trial| cost(&a.figures).total_cmp(&cost(&b.figures));
    let Some(best) = trials.iter().min_by(by_cost) else {
        return Err(Error::Failed("no set of values was tried".into()));
    };
    let unknowns = search.ranges.iter().zip(amounts(search, &best.point));
    let figure = |f: &PublishedFigure| FitFigure {
        scenario: f.scenario.clone(),
        id: f.result.id.clone(),
        variant: f.result.variant.clone(),
        metric: f.result.metric.clone(),
        unit: f.result.unit.clone(),
        published: f.published,
        bound: f.result.bound.clone(),
        ours: f.ours,
        residual: f.residual(),
    };
    let tried = |trial: &Trial| FitTried {
        values: amounts(search, &trial.point).into_iter().map(swept).collect(),
        error: finite(cost(&trial.figures)),
        figures: trial.figures.iter().map(|f| f.ours).collect(),
    };
    Ok(Fit {
        scenarios: experiments.iter().map(|one| one.file.name().to_owned()).collect(),
        engine: search.engine.name(),
        unknowns: unknowns
            .map(|(range, best)| Unknown {
                field: range.field.clone(),
                unit: best.unit().into(),
                low: swept(range.low),
                high: swept(range.high),
                best: swept(best),
            })
            .collect(),
        error: finite(cost(&best.figures)),
        figures: best.figures.iter().map(figure).collect(),
        tried: trials.iter().map(tried).collect(),
        runs: (trials.len() * per_point) as u32,
    })
}

/// A point in the units of the fields, rounded to values that they accept.
fn amounts(search: &Search, point: &[f64]) -> Vec<Amount> {
    search.ranges.iter().zip(point).map(|(range, value)| range.low.with(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        sysctl = "6.1"
        duration = "2s"
        [hosts.h1]
        address = "10.0.0.1/24"
        [hosts.h2]
        address = "10.0.0.2/24"
        [[links]]
        ends = ["h1", "h2"]
        both = { rate = "100mbit", delay = "10ms", queue = "100p" }
        [[flows]]
        name = "bulk"
        from = "h1"
        to = "h2"
        [[published]]
        id = "A"
        metric = "flows.bulk.goodput"
        value = "50mbit"
        tolerance = "5%"
    "#;

    fn search() -> Search {
        Search {
            engine: EngineChoice::Sim,
            ranges: vec![FitRange::from_str("links.h1-h2.forward.queue=10p..1000p").unwrap()],
            ids: Vec::new(),
            variants: Vec::new(),
            repeat: None,
            max_runs: NonZeroUsize::MIN,
        }
    }

    fn experiment() -> Experiment {
        let file = scenario::ScenarioFile::parse("s.toml", SCENARIO).unwrap();
        Experiment::new(file, std::path::Path::new("s.toml"))
    }

    #[test]
    fn a_fitted_run_equals_the_run_of_the_same_value_in_a_sweep() {
        let experiment = experiment();
        let search = search();
        let experiments = [experiment.clone()];
        let fitted = jobs(&search, &targets(&experiments, &search).unwrap(), &[50.0]).unwrap();
        let swept = experiment
            .jobs(&crate::Selection {
                over: vec![("links.h1-h2.forward.queue".into(), vec!["50p".into()])],
                ..crate::Selection::with_engine(EngineChoice::Sim)
            })
            .unwrap();
        assert_eq!(fitted[0].scenario.to_toml(), swept[0].scenario.to_toml());
        let rmem = fitted[0].scenario.hosts[1].sysctl.get("net.ipv4.tcp_rmem").map(String::as_str);
        assert_eq!(rmem, Some("4096 131072 6291456"), "the default of Linux 6.1");
    }

    #[test]
    fn a_field_is_either_set_or_fitted() {
        let set = [experiment().set("links.h1-h2.forward.queue", "50p")];
        let error = fit(&set, &search(), &RunOptions::default()).unwrap_err().to_string();
        assert_eq!(error, "--set links.h1-h2.forward.queue: this field is fitted");
        let wider = [experiment().set("links.h1-h2.both.queue", "50p")];
        let error = fit(&wider, &search(), &RunOptions::default()).unwrap_err().to_string();
        assert_eq!(error, "--set links.h1-h2.both.queue: this field is fitted");
    }

    #[test]
    fn ranges() {
        let range = FitRange::from_str("links.a-b.forward.queue=10p..1000p").unwrap();
        assert_eq!(
            (range.field.as_str(), range.low.value, range.high.value),
            ("links.a-b.forward.queue", 10.0, 1000.0)
        );
        assert!(FitRange::from_str("x=0..1e-4").is_err_and(|e| e.contains("same unit")));
        assert!(FitRange::from_str("x=0.0..1e-4").is_ok());
        for bad in ["x", "x=1p", "x=5p..1p", "x=1p..2ms", "x=reno..cubic", "=..", "x=1p..1p"] {
            assert!(FitRange::from_str(bad).is_err(), "{bad}");
        }
    }
}
