//! The values of unknown fields with which the published figures of one or several scenario files are met best. One value holds
//! for all of the files, as it does for experiments on one testbed.

use std::{num::NonZeroUsize, str::FromStr};

use model::{Range, root_mean_square};
use scenario::{Amount, Published};
use schema::{Fit, FitFigure, FitTried, PublishedResult, RunSummary, SweptValue, Unknown};

use crate::{
    EngineChoice, Error, Experiment, Job, Result, RunOptions, batch::summaries_of_all, selection::repeated,
};

/// Where a field is searched.
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
            |text: &str| Amount::parse(text).ok_or_else(|| format!("{text:?} is no number with a unit"));
        let (low, high) = (amount(low)?, amount(high)?);
        if !low.is_like(high) || low.value >= high.value {
            return Err(format!("{text:?}: write two ascending values in the same unit"));
        }
        Ok(FitRange { field: path.trim().to_owned(), low, high })
    }
}

/// What is to be searched.
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
    /// How often, where that is not as the file says.
    pub repeat: Option<u32>,
    /// How many runs to spend.
    pub most_runs: NonZeroUsize,
}

/// One scenario file and the variants that have figures to be met.
struct Family<'a> {
    experiment: &'a Experiment,
    variants: Vec<Option<String>>,
}

/// What one set of values gave.
struct Outcome {
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
    /// Ours over the published one, less 1; within a bound there is nothing left over.
    fn residual(&self) -> Option<f64> {
        let residual = self.ours? / self.published - 1.0;
        match self.result.bound.as_deref() {
            Some("below") => Some(residual.max(0.0)),
            Some(_) => Some(residual.min(0.0)),
            None => Some(residual),
        }
    }
}

/// Searches the values with which the published figures of these experiments are met best.
///
/// # Errors
/// Where there is nothing to be met, or a run fails.
pub fn fit(experiments: &[Experiment], search: &Search, options: &RunOptions<'_>) -> Result<Fit> {
    if !matches!(search.engine, EngineChoice::Sim | EngineChoice::Model) {
        return Err(Error::BadInput("--fit takes one engine, sim or model".into()));
    }
    let families = families(experiments, search)?;
    let lows: Vec<f64> = search.ranges.iter().map(|range| range.low.value).collect();
    let per_point = jobs(search, &families, &lows)?.len();
    let most = search.most_runs.get() / per_point.max(1);
    if most == 0 {
        let message = format!("one set of values takes {per_point} runs: give --most-runs more than that");
        return Err(Error::BadInput(message));
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let costs = |points: &[Vec<f64>]| -> Result<Vec<f64>> {
        let all: Vec<Vec<Job<'_>>> =
            points.iter().map(|point| jobs(search, &families, point)).collect::<Result<_>>()?;
        let flat: Vec<Job<'_>> = all.iter().flatten().cloned().collect();
        let mut runs = summaries_of_all(&flat, options)?.into_iter();
        let mut found = Vec::new();
        for (point, jobs) in points.iter().zip(&all) {
            let runs: Vec<RunSummary> = runs.by_ref().take(jobs.len()).collect();
            let figures = figures(search, &families, jobs, &runs);
            found.push(cost(&figures));
            outcomes.push(Outcome { point: point.clone(), figures });
        }
        Ok(found)
    };
    let ranges: Vec<Range> =
        search.ranges.iter().map(|range| Range { low: range.low.value, high: range.high.value }).collect();
    let snap = |point: Vec<f64>| amounts(search, &point).iter().map(|amount| amount.value).collect();
    model::search(&ranges, most, snap, costs)?;
    result(experiments, search, outcomes, per_point)
}

/// The files with the variants whose figures are wanted.
fn families<'a>(experiments: &'a [Experiment], search: &Search) -> Result<Vec<Family<'a>>> {
    let mut families = Vec::new();
    for experiment in experiments {
        let file = &experiment.file;
        if file.points().iter().any(|point| !point.is_empty()) {
            let message = format!("{}: --fit does not go with [[sweeps]]", experiment.path.display());
            return Err(Error::BadInput(message));
        }
        let has_figure = |variant: &Option<String>| {
            file.published().iter().any(|p| p.variant == *variant && is_wanted(search, p))
        };
        let mut variants = experiment.variants(&search.variants);
        variants.retain(has_figure);
        if !variants.is_empty() {
            families.push(Family { experiment, variants });
        }
    }
    let known =
        |id: &&String| experiments.iter().any(|one| one.file.published().iter().any(|p| p.id == **id));
    if let Some(unknown) = search.ids.iter().find(|id| !known(id)) {
        return Err(Error::BadInput(format!("--to {unknown}: no published figure has this id")));
    }
    match families.is_empty() {
        true => Err(Error::BadInput("there is no published figure to be met".into())),
        false => Ok(families),
    }
}

/// Figures of runs; where the source contradicts itself only if asked for by name.
fn is_wanted(search: &Search, published: &Published) -> bool {
    let is_named = search.ids.contains(&published.id);
    published.value.is_some()
        && !published.figure.is_closed_form()
        && (is_named || search.ids.is_empty() && published.contradiction.is_none())
}

/// All runs that one set of values takes.
fn jobs<'a>(search: &Search, families: &[Family<'a>], point: &[f64]) -> Result<Vec<Job<'a>>> {
    let unknowns = search.ranges.iter().zip(amounts(search, point));
    let fields: Vec<(String, String)> =
        unknowns.map(|(range, amount)| (range.field.clone(), amount.text())).collect();
    let mut jobs = Vec::new();
    for Family { experiment, variants } in families {
        for variant in variants {
            let scenario = experiment.resolve(variant.as_deref(), &fields)?;
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

/// The published figures that are wanted beside those of the runs.
fn figures(
    search: &Search,
    families: &[Family<'_>],
    jobs: &[Job<'_>],
    runs: &[RunSummary],
) -> Vec<PublishedFigure> {
    let mut all = Vec::new();
    for Family { experiment, .. } in families {
        let of_file = jobs.iter().zip(runs).filter(|(job, _)| std::ptr::eq(job.experiment, *experiment));
        let summary = experiment.summary(of_file.map(|(_, run)| run.clone()).collect());
        let of = |result: &PublishedResult| {
            let same = |p: &&Published| {
                p.id == result.id && p.variant == result.variant && p.metric_path() == result.metric
            };
            experiment.file.published().iter().find(same)
        };
        let wanted =
            summary.published.into_iter().filter(|result| of(result).is_some_and(|p| is_wanted(search, p)));
        all.extend(wanted.filter_map(|result| {
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

/// What was found.
fn result(
    experiments: &[Experiment],
    search: &Search,
    mut outcomes: Vec<Outcome>,
    per_point: usize,
) -> Result<Fit> {
    let finite = |x: f64| x.is_finite().then_some(x);
    let swept = |amount: Amount| SweptValue { text: amount.text(), number: Some(amount.value) };
    outcomes.sort_by(|a, b| a.point.partial_cmp(&b.point).unwrap_or(std::cmp::Ordering::Equal));
    let by_cost = |a: &&Outcome, b: &&Outcome| cost(&a.figures).total_cmp(&cost(&b.figures));
    let Some(best) = outcomes.iter().min_by(by_cost) else {
        return Err(Error::Failed("nothing was tried".into()));
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
    let tried = |outcome: &Outcome| FitTried {
        values: amounts(search, &outcome.point).into_iter().map(swept).collect(),
        error: finite(cost(&outcome.figures)),
        figures: outcome.figures.iter().map(|f| f.ours).collect(),
    };
    Ok(Fit {
        scenarios: experiments.iter().map(|one| one.file.name().to_owned()).collect(),
        engine: search.engine.name().into(),
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
        tried: outcomes.iter().map(tried).collect(),
        runs: (outcomes.len() * per_point) as u32,
    })
}

/// A point in the fields' own units, rounded to what they take.
fn amounts(search: &Search, point: &[f64]) -> Vec<Amount> {
    search.ranges.iter().zip(point).map(|(range, value)| range.low.with(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
