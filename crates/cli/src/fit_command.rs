//! `longfat sweep --fit`: the values of unknown fields with which the published figures of one or several scenario files
//! are met best. One value holds for all of the files, as it does for experiments on one testbed.

use std::{path::PathBuf, sync::atomic::Ordering};

use model::{Range, root_mean_square, search};
use scenario::{Amount, Published, ScenarioFile};
use schema::{
    Fit, FitDocument, FitFigure, FitTried, PublishedResult, RunSummary, SWEEP_SCHEMA, SweptValue, Unknown,
};

use crate::{
    batch, congestion,
    engine::{Engine, Engines},
    exit::Exit,
    interrupt,
    job::{Asked, Job, Keep, Means},
    jobs::repeated,
    open::{self, read_scenario},
    output,
    progress::Board,
    repeat::RepeatTime,
    sweep_command::{Shown, SweepArgs, asked, show},
};

/// Where a field is searched.
#[derive(Debug, Clone)]
pub struct FitRange {
    field: String,
    low: Amount,
    high: Amount,
}

/// `PATH=LOW..HIGH`.
pub fn parse_range(text: &str) -> Result<FitRange, String> {
    let parts = text.split_once('=').and_then(|(path, range)| Some((path, range.split_once("..")?)));
    let (path, (low, high)) = parts.ok_or_else(|| format!("{text:?} is not PATH=LOW..HIGH"))?;
    let amount = |text: &str| Amount::parse(text).ok_or_else(|| format!("{text:?} is no number with a unit"));
    let (low, high) = (amount(low)?, amount(high)?);
    if !low.is_like(high) || low.value >= high.value {
        return Err(format!("{text:?}: write two ascending values in the same unit"));
    }
    Ok(FitRange { field: path.trim().to_owned(), low, high })
}

/// One scenario file and the variants that have figures to be met.
struct Family<'a> {
    asked: Asked<'a>,
    variants: Vec<Option<&'a str>>,
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

/// Runs the search and tells what it found.
pub fn run(args: &SweepArgs, json: bool) -> anyhow::Result<()> {
    let engines = Engines::chosen(&args.engine);
    let engine = match &engines[..] {
        [engine @ (Engine::Sim | Engine::Model)] => engine,
        _ => return Err(Exit::BadInput("--fit takes one engine, sim or model".into()).into()),
    };
    let files: Vec<(PathBuf, ScenarioFile)> = args
        .files
        .iter()
        .map(|path| Ok((path.clone(), read_scenario(path)?)))
        .collect::<anyhow::Result<_>>()?;
    let families = families(args, &files)?;
    let per_point = jobs(args, engine, &families, &lows(args))?.len();
    let most = args.most_runs.get() / per_point.max(1);
    if most == 0 {
        let message = format!("one set of values takes {per_point} runs: give --most-runs more than that");
        return Err(Exit::BadInput(message).into());
    }
    let stop = interrupt::flag()?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    let costs = |points: &[Vec<f64>]| -> anyhow::Result<Vec<f64>> {
        let jobs_of = |point: &Vec<f64>| jobs(args, engine, &families, point);
        let all: Vec<Vec<Job<'_>>> = points.iter().map(jobs_of).collect::<anyhow::Result<_>>()?;
        let flat: Vec<Job<'_>> = all.iter().flatten().cloned().collect();
        let board = Board::new(flat.len());
        let means = Means {
            lab: None,
            keep: Keep::Nothing,
            board: &board,
            stop: &stop,
            repeat_time: RepeatTime::default(),
        };
        let made = batch::make_all(&flat, &means, args.jobs)?;
        drop(board);
        if stop.load(Ordering::Relaxed) {
            return Err(Exit::Interrupted.into());
        }
        let mut runs = made.into_iter().map(|one| one.summary);
        let mut found = Vec::new();
        for (point, jobs) in points.iter().zip(&all) {
            let runs: Vec<RunSummary> = runs.by_ref().take(jobs.len()).collect();
            let figures = figures(args, engine, &families, jobs, &runs);
            found.push(cost(&figures));
            outcomes.push(Outcome { point: point.clone(), figures });
        }
        Ok(found)
    };
    let ranges: Vec<Range> =
        args.fit.iter().map(|fit| Range { low: fit.low.value, high: fit.high.value }).collect();
    let snap = |point: Vec<f64>| amounts(args, &point).iter().map(|amount| amount.value).collect();
    search(&ranges, most, snap, costs)?;
    let fit = told(args, engine, &files, outcomes, per_point)?;
    let text = view::sweep::fit(&fit);
    let svg = view::sweep::fit_chart(&fit);
    let document = FitDocument { schema: SWEEP_SCHEMA.into(), host: lab::host_info(), fit };
    let shown = match json {
        true => output::json(&document),
        false => output::text(&text),
    };
    show(args, &Shown { title: format!("fit of {}", document.fit.scenarios.join(", ")), text, svg })?;
    shown
}

/// The files with the variants whose figures are wanted.
fn families<'a>(
    args: &'a SweepArgs,
    files: &'a [(PathBuf, ScenarioFile)],
) -> anyhow::Result<Vec<Family<'a>>> {
    let mut families = Vec::new();
    for (path, file) in files {
        file.check_runnable().map_err(Exit::Scenario)?;
        if file.points().iter().any(|point| !point.is_empty()) {
            let message = format!("{}: --fit does not go with [[sweeps]]", path.display());
            return Err(Exit::BadInput(message).into());
        }
        let asked = asked(args, file, path);
        let has_figure = |variant: &Option<&str>| {
            file.published().iter().any(|p| p.variant.as_deref() == *variant && is_wanted(args, p))
        };
        let all: Vec<Option<&str>> = match args.variant.as_slice() {
            [] if file.variants().next().is_some() => file.variants().map(Some).collect(),
            [] => vec![None],
            some => some.iter().map(|v| Some(v.as_str())).collect(),
        };
        let variants: Vec<Option<&str>> = all.into_iter().filter(has_figure).collect();
        if !variants.is_empty() {
            families.push(Family { asked, variants });
        }
    }
    let known = |id: &&String| files.iter().any(|(_, file)| file.published().iter().any(|p| p.id == **id));
    if let Some(unknown) = args.to.iter().find(|id| !known(id)) {
        return Err(Exit::BadInput(format!("--to {unknown}: no published figure has this id")).into());
    }
    match families.is_empty() {
        true => Err(Exit::BadInput("there is no published figure to be met".into()).into()),
        false => Ok(families),
    }
}

/// Figures of runs; where the source contradicts itself only if asked for by name.
fn is_wanted(args: &SweepArgs, published: &Published) -> bool {
    let is_named = args.to.contains(&published.id);
    published.value.is_some()
        && !published.figure.is_closed_form()
        && (is_named || args.to.is_empty() && published.contradiction.is_none())
}

/// All runs that one set of values takes.
fn jobs<'a>(
    args: &SweepArgs,
    engine: &Engine,
    families: &'a [Family<'a>],
    point: &[f64],
) -> anyhow::Result<Vec<Job<'a>>> {
    let unknowns = args.fit.iter().zip(amounts(args, point));
    let mut sets: Vec<(String, String)> = args.sets.clone();
    sets.extend(unknowns.map(|(fit, amount)| (fit.field.clone(), amount.text())));
    let mut jobs = Vec::new();
    for family in families {
        let asked = &family.asked;
        for &variant in &family.variants {
            let scenario = open::resolve(asked.file, asked.path, variant, &sets)?;
            congestion::check(asked.file, asked.path, variant, &sets, &scenario)?;
            let repeats = args.repeat.unwrap_or(scenario.repeat);
            let engine = engine.clone();
            let job = Job { asked, engine, guest: None, variant, point: None, repeat: 1, repeats, scenario };
            jobs.extend(repeated(&job));
        }
    }
    Ok(jobs)
}

/// The published figures that are wanted beside those of the runs.
fn figures(
    args: &SweepArgs,
    engine: &Engine,
    families: &[Family<'_>],
    jobs: &[Job<'_>],
    runs: &[RunSummary],
) -> Vec<PublishedFigure> {
    let mut all = Vec::new();
    for family in families {
        let asked = &family.asked;
        let of_file = jobs.iter().zip(runs).filter(|(job, _)| std::ptr::eq(job.asked, asked));
        let summary = asked.summary(of_file.map(|(_, run)| run.clone()).collect());
        let of = |result: &PublishedResult| {
            let same = |p: &&Published| {
                p.id == result.id && p.variant == result.variant && p.metric_path() == result.metric
            };
            asked.file.published().iter().find(same)
        };
        let wanted =
            summary.published.into_iter().filter(|result| of(result).is_some_and(|p| is_wanted(args, p)));
        all.extend(wanted.filter_map(|result| {
            Some(PublishedFigure {
                scenario: summary.scenario.clone(),
                published: result.published?,
                ours: if *engine == Engine::Model { result.model } else { result.sim },
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

/// What was found, in the form in which it is told.
fn told(
    args: &SweepArgs,
    engine: &Engine,
    files: &[(PathBuf, ScenarioFile)],
    mut outcomes: Vec<Outcome>,
    per_point: usize,
) -> anyhow::Result<Fit> {
    let finite = |x: f64| x.is_finite().then_some(x);
    let swept = |amount: Amount| SweptValue { text: amount.text(), number: Some(amount.value) };
    outcomes.sort_by(|a, b| a.point.partial_cmp(&b.point).unwrap_or(std::cmp::Ordering::Equal));
    let by_cost = |a: &&Outcome, b: &&Outcome| cost(&a.figures).total_cmp(&cost(&b.figures));
    let Some(best) = outcomes.iter().min_by(by_cost) else {
        anyhow::bail!("nothing was tried");
    };
    let unknowns = args.fit.iter().zip(amounts(args, &best.point));
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
        values: amounts(args, &outcome.point).into_iter().map(swept).collect(),
        error: finite(cost(&outcome.figures)),
        figures: outcome.figures.iter().map(|f| f.ours).collect(),
    };
    Ok(Fit {
        scenarios: files.iter().map(|(_, file)| file.name().to_owned()).collect(),
        engine: engine.name().into(),
        unknowns: unknowns
            .map(|(fit, best)| Unknown {
                field: fit.field.clone(),
                unit: best.unit().into(),
                low: swept(fit.low),
                high: swept(fit.high),
                best: swept(best),
            })
            .collect(),
        error: finite(cost(&best.figures)),
        figures: best.figures.iter().map(figure).collect(),
        tried: outcomes.iter().map(tried).collect(),
        runs: (outcomes.len() * per_point) as u32,
    })
}

fn lows(args: &SweepArgs) -> Vec<f64> {
    args.fit.iter().map(|fit| fit.low.value).collect()
}

/// A point in the fields' own units, rounded to what they take.
fn amounts(args: &SweepArgs, point: &[f64]) -> Vec<Amount> {
    args.fit.iter().zip(point).map(|(fit, value)| fit.low.with(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let range = parse_range("links.a-b.forward.queue=10p..1000p").unwrap();
        assert_eq!(
            (range.field.as_str(), range.low.value, range.high.value),
            ("links.a-b.forward.queue", 10.0, 1000.0)
        );
        assert!(parse_range("x=0..1e-4").is_err_and(|e| e.contains("same unit")));
        assert!(parse_range("x=0.0..1e-4").is_ok());
        for bad in ["x", "x=1p", "x=5p..1p", "x=1p..2ms", "x=reno..cubic", "=..", "x=1p..1p"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
