//! A metric over the values of fields: the runs of each point, their mean with its confidence, and where the metric levels off.

use model::KneePoint;
use scenario::{Amount, Figure, Kind, Metric, RunMetric, Scenario};
use schema::{RunSummary, SWEEP_SCHEMA, Sweep, SweepKnee, SweepPoint, SweptField, SweptValue};

use crate::{
    Error, Experiment, Job, Result, RunOptions, Selection, batch::summaries_of_all, confidence::half_width,
    earlier::EarlierRuns, published,
};

/// A run of a point; `earlier` if it was on record already.
struct PointRun<'a> {
    job: &'a Job<'a>,
    run: RunSummary,
    earlier: bool,
}

/// A sweep that can be executed.
pub struct SweepPlan<'a> {
    experiment: &'a Experiment,
    /// All runs, including those on record.
    jobs: Vec<Job<'a>>,
    /// For each run its summary, if it is on record.
    earlier: Vec<Option<RunSummary>>,
    fields: Vec<String>,
    measured: Figure,
}

impl Experiment {
    /// Plans a sweep of `metric`, as in `flows.bulk.goodput`; `None`: the first TCP flow's goodput. Runs in `earlier` are not
    /// repeated.
    ///
    /// # Errors
    /// If nothing is swept, or the metric does not exist.
    pub fn plan_sweep(
        &self,
        selection: &Selection,
        metric: Option<&str>,
        earlier: &EarlierRuns,
    ) -> Result<SweepPlan<'_>> {
        let jobs = self.jobs(selection)?;
        let fields = self.swept_fields(selection);
        let measured = match (metric, jobs.first()) {
            (_, None) => return Err(Error::BadInput("there is nothing to run".into())),
            _ if fields.is_empty() => {
                return Err(Error::BadInput(
                    "nothing is swept: say --over PATH=V1,V2, or write [[sweeps]]".into(),
                ));
            }
            (Some(text), Some(job)) => self::metric(text, &job.scenario)?,
            (None, Some(_)) => default_metric(&jobs)?,
        };
        let earlier = jobs.iter().map(|job| earlier.find(job)).collect();
        Ok(SweepPlan { experiment: self, jobs, earlier, fields, measured })
    }

    /// The swept fields: the file's, then the selection's.
    fn swept_fields(&self, selection: &Selection) -> Vec<String> {
        let of_file = self.file.points().into_iter().next().unwrap_or_default();
        let of_selection = selection.over.iter().map(|(field, _)| field.clone());
        of_file.into_iter().map(|(field, _)| field).chain(of_selection).collect()
    }
}

impl<'a> SweepPlan<'a> {
    /// The runs that are not on record.
    pub fn missing(&self) -> Vec<Job<'a>> {
        let all = self.jobs.iter().zip(&self.earlier);
        all.filter(|(_, earlier)| earlier.is_none()).map(|(job, _)| job.clone()).collect()
    }

    /// Executes the missing runs. After an error, the completed ones are on record.
    ///
    /// # Errors
    /// The error of the first run that failed, or [`Error::Interrupted`].
    pub fn run(&self, options: &RunOptions<'_>) -> Result<Sweep> {
        Ok(self.sweep(&self.make(options)?, &self.measured))
    }

    /// Executes the missing runs and returns the sweep of each metric.
    ///
    /// # Errors
    /// As [`Self::run`], and if a metric does not exist.
    pub fn run_for(&self, metrics: &[&str], options: &RunOptions<'_>) -> Result<Vec<Sweep>> {
        let runs = self.make(options)?;
        let of = |text: &&str| Ok(self.sweep(&runs, &metric(text, &self.jobs[0].scenario)?));
        metrics.iter().map(of).collect()
    }

    fn make(&self, options: &RunOptions<'_>) -> Result<Vec<PointRun<'_>>> {
        let mut made = summaries_of_all(&self.missing(), options)?.into_iter();
        let mut runs = Vec::new();
        for (job, earlier) in self.jobs.iter().zip(&self.earlier) {
            if let Some(run) = earlier.clone().or_else(|| made.next()) {
                runs.push(PointRun { job, run, earlier: earlier.is_some() });
            }
        }
        Ok(runs)
    }

    /// What became of `measured` in these runs.
    fn sweep(&self, runs: &[PointRun<'_>], measured: &Figure) -> Sweep {
        let points = points(runs, &self.fields, |run| published::figure(measured, run));
        let swept = self::fields(&self.fields, &points);
        let knees = knees(runs, &points, &swept, &measured.to_string());
        Sweep {
            schema: SWEEP_SCHEMA.into(),
            scenario: self.experiment.file.name().into(),
            title: self.experiment.file.title().into(),
            host: self.experiment.host.clone(),
            metric: measured.to_string(),
            unit: measured.unit().into(),
            fields: swept,
            points,
            knees,
        }
    }
}

/// What a metric's text names.
fn metric(text: &str, scenario: &Scenario) -> Result<Figure> {
    let found = scenario.figure(text).map_err(|why| Error::BadInput(format!("--metric {text}: {why}")))?;
    match found.is_closed_form() {
        true => Err(Error::BadInput(format!("--metric {text}: a closed form is a figure of no run"))),
        false => Ok(found),
    }
}

/// What is measured where nothing is said: the first TCP flow's goodput, else the first flow's that has one, else the first flow's
/// mean round-trip time; where the runs have not the same flows, as when streams are swept, all flows' goodput together.
fn default_metric(jobs: &[Job<'_>]) -> Result<Figure> {
    let flows = jobs.first().map_or(&[][..], |job| &job.scenario.flows);
    let of = |flow: &scenario::Flow, metric| Figure::Flow { flow: flow.name.clone(), metric };
    let tcp = flows.iter().find(|flow| matches!(flow.kind, Kind::Tcp(_)));
    let found = tcp
        .or_else(|| flows.iter().find(|flow| Metric::Goodput.applies_to(&flow.kind)))
        .map(|flow| of(flow, Metric::Goodput))
        .or_else(|| flows.first().map(|flow| of(flow, Metric::MeanRtt)))
        .ok_or_else(|| Error::BadInput("the scenario has no flows".into()))?;
    let names = |job: &Job<'_>| job.scenario.flows.iter().map(|flow| flow.name.clone()).collect::<Vec<_>>();
    let same = jobs.windows(2).all(|pair| names(&pair[0]) == names(&pair[1]));
    Ok(if same { found } else { Figure::Run(RunMetric::Goodput) })
}

/// The swept fields, in the order given, with the unit that their numbers have.
fn fields(names: &[String], points: &[SweepPoint]) -> Vec<SweptField> {
    let unit = |index: usize| {
        let first = points.first().and_then(|point| Amount::parse(&point.values.get(index)?.text));
        first.map_or("", Amount::unit).to_owned()
    };
    names
        .iter()
        .enumerate()
        .map(|(index, field)| SweptField { field: field.clone(), unit: unit(index) })
        .collect()
}

/// Neighbouring runs that differ in their repeat alone, as one point each.
fn points(
    runs: &[PointRun<'_>],
    fields: &[String],
    figure: impl Fn(&RunSummary) -> Option<f64>,
) -> Vec<SweepPoint> {
    let is_same = |a: &PointRun<'_>, b: &PointRun<'_>| {
        (&a.job.engine, &a.job.variant, &a.job.point) == (&b.job.engine, &b.job.variant, &b.job.point)
    };
    runs.chunk_by(is_same).map(|repeats| point(repeats, fields, &figure)).collect()
}

fn point(
    repeats: &[PointRun<'_>],
    fields: &[String],
    figure: &impl Fn(&RunSummary) -> Option<f64>,
) -> SweepPoint {
    let job = repeats[0].job;
    let value = |field: &String| {
        let text = job.point.as_ref().and_then(|point| point.values.get(field)).cloned().unwrap_or_default();
        SweptValue { number: Amount::parse(&text).map(|amount| amount.value), text }
    };
    let figures: Vec<f64> = repeats.iter().filter_map(|one| figure(&one.run)).collect();
    let mean = mean(&figures);
    SweepPoint {
        engine: repeats[0].run.engine_label(),
        variant: job.variant.clone(),
        values: fields.iter().map(value).collect(),
        runs: repeats.iter().map(|one| one.run.id.clone()).collect(),
        earlier: repeats.iter().filter(|one| one.earlier).count() as u32,
        confidence: mean.and_then(|mean| confidence(&figures, mean)),
        mean,
        figures,
        quality_ok: repeats.iter().all(|one| one.run.quality.ok),
    }
}

fn mean(figures: &[f64]) -> Option<f64> {
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

/// Mean less and plus half the interval's width.
fn confidence(figures: &[f64], mean: f64) -> Option<(f64, f64)> {
    half_width(figures, mean).map(|half| (mean - half, mean + half))
}

/// Where the metric levels off over the first field.
fn knees(
    runs: &[PointRun<'_>],
    points: &[SweepPoint],
    fields: &[SweptField],
    metric: &str,
) -> Vec<SweepKnee> {
    let Some(first) = fields.first() else { return Vec::new() };
    let summary = |id: &String| runs.iter().map(|one| &one.run).find(|run| run.id == *id);
    let points: Vec<KneePoint<'_>> = points
        .iter()
        .filter_map(|point| {
            Some(KneePoint {
                engine: &point.engine,
                variant: point.variant.as_deref(),
                values: &point.values,
                mean: point.mean?,
                runs: point.runs.iter().filter_map(summary).collect(),
            })
        })
        .collect();
    model::knees(&points, &first.field, metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_students() {
        // t(0.975) of 4 degrees is 2.7764 (NIST handbook, 1.3.6.7.2), the standard deviation 1.5811.
        let (low, high) = confidence(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0).unwrap();
        assert!((high - 3.0 - 2.7764 * 1.5811 / 5f64.sqrt()).abs() < 1e-3, "{high}");
        assert!((high + low - 6.0).abs() < 1e-12);
        assert_eq!(confidence(&[2.0], 2.0), None);
        assert_eq!(confidence(&[2.0, 2.0], 2.0), Some((2.0, 2.0)));
        assert_eq!((mean(&[]), mean(&[1.0, 3.0])), (None, Some(2.0)));
    }
}
