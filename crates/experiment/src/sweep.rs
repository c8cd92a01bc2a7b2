//! Sweeps: a metric as a function of fields, with the runs of each point, their mean and its confidence
//! interval, and the knees where the metric levels off.

use model::KneePoint;
use scenario::{Amount, FlowKind, Metric, MetricPath, RunMetric, Scenario};
use schema::{
    FlowSummary, RunSummary, SWEEP_SCHEMA, Sweep, SweepKnee, SweepPoint, SweptBuffers, SweptField, SweptValue,
};

use crate::{
    Error, Experiment, Job, Result, RunOptions, RunOrder, Selection, Shard, batch::run_all_for_summaries,
    confidence::half_width, point_store, recorded_runs::RecordedRuns, run_figure,
};

/// A run of a point.
struct PointRun<'a> {
    job: &'a Job<'a>,
    run: RunSummary,
    /// The run comes from an existing record.
    is_recorded: bool,
}

/// A sweep that can be executed.
pub struct SweepPlan<'a> {
    experiment: &'a Experiment,
    /// All runs, including recorded ones.
    jobs: Vec<Job<'a>>,
    /// For each run its recorded summary, if any.
    recorded: Vec<Option<RunSummary>>,
    fields: Vec<String>,
    measured: MetricPath,
    order: RunOrder,
}

impl Experiment {
    /// Plans a sweep of `metric`, as in `flows.bulk.goodput`; `None`: the first TCP flow's goodput. Runs in
    /// `recorded` are not repeated.
    ///
    /// # Errors
    /// Nothing is swept, the metric does not exist, or a run is invalid.
    pub fn plan_sweep(
        &self,
        selection: &Selection,
        metric: Option<&str>,
        recorded: &RecordedRuns,
    ) -> Result<SweepPlan<'_>> {
        let jobs = self.jobs(selection)?;
        self.check(&jobs)?;
        let fields = self.swept_fields(selection);
        let measured = match (metric, jobs.first()) {
            (_, None) => return Err(Error::BadInput("the selection has no runs".into())),
            _ if fields.is_empty() => {
                return Err(Error::BadInput(
                    "nothing is swept: add --over PATH=V1,V2 (several round-trip times: --over links.NAME.both.delay=5ms,50ms, \
                     NAME is path without a file), or write [[sweeps]]"
                        .into(),
                ));
            }
            (Some(text), Some(job)) => self::metric(text, &job.scenario)?,
            (None, Some(_)) => default_metric(&jobs)?,
        };
        let recorded = jobs.iter().map(|job| recorded.find(job)).collect::<Result<_>>()?;
        Ok(SweepPlan { experiment: self, jobs, recorded, fields, measured, order: RunOrder::default() })
    }

    /// The swept fields: the file's, then the selection's.
    fn swept_fields(&self, selection: &Selection) -> Vec<String> {
        let file_point = self.file.points().into_iter().next().unwrap_or_default();
        let selected_fields = selection.over.iter().map(|(field, _)| field.clone());
        file_point.into_iter().map(|(field, _)| field).chain(selected_fields).collect()
    }
}

impl<'a> SweepPlan<'a> {
    /// Executes the runs in this order.
    #[must_use]
    pub fn in_order(self, order: RunOrder) -> Self {
        SweepPlan { order, ..self }
    }

    /// The runs without a record.
    pub fn missing(&self) -> Vec<Job<'a>> {
        let all = self.jobs.iter().zip(&self.recorded);
        all.filter(|(_, recorded)| recorded.is_none()).map(|(job, _)| job.clone()).collect()
    }

    /// Number of all runs, including recorded ones.
    pub fn runs(&self) -> usize {
        self.jobs.len()
    }

    /// Executes the missing runs of a shard with [`crate::Retention::Point`]. Returns their number.
    ///
    /// # Errors
    /// As [`Self::run`]; also if an engine's results cannot be stored by content.
    pub fn run_shard(&self, shard: Shard, options: &RunOptions<'_>) -> Result<usize> {
        self.jobs.iter().try_for_each(|job| point_store::check_engine(&job.engine))?;
        let all = self.jobs.iter().zip(&self.recorded).enumerate();
        let shard_jobs = all.filter(|(index, (_, recorded))| shard.contains(*index) && recorded.is_none());
        let jobs: Vec<Job<'_>> = shard_jobs.map(|(_, (job, _))| job.clone()).collect();
        Ok(run_all_for_summaries(&jobs, options)?.len())
    }

    /// Executes the missing runs. After an error, the records of the completed ones remain.
    ///
    /// # Errors
    /// The error of the first run that failed, or [`Error::Interrupted`].
    pub fn run(&self, options: &RunOptions<'_>) -> Result<Sweep> {
        Ok(self.sweep(&self.execute(options)?, &self.measured))
    }

    /// Executes the missing runs and returns the sweep of each metric.
    ///
    /// # Errors
    /// As [`Self::run`], and if a metric does not exist.
    pub fn run_for(&self, metrics: &[&str], options: &RunOptions<'_>) -> Result<Vec<Sweep>> {
        let runs = self.execute(options)?;
        let of = |text: &&str| Ok(self.sweep(&runs, &metric(text, &self.jobs[0].scenario)?));
        metrics.iter().map(of).collect()
    }

    fn execute(&self, options: &RunOptions<'_>) -> Result<Vec<PointRun<'_>>> {
        let missing = self.missing();
        let order = self.order.indices(&missing);
        let ordered: Vec<Job<'_>> = order.iter().map(|index| missing[*index].clone()).collect();
        let summaries = run_all_for_summaries(&ordered, options)?;
        let mut executed: Vec<(usize, RunSummary)> = order.into_iter().zip(summaries).collect();
        executed.sort_by_key(|(index, _)| *index);
        let mut executed = executed.into_iter().map(|(_, run)| run);
        let mut runs = Vec::new();
        for (job, recorded) in self.jobs.iter().zip(&self.recorded) {
            if let Some(run) = recorded.clone().or_else(|| executed.next()) {
                runs.push(PointRun { job, run, is_recorded: recorded.is_some() });
            }
        }
        Ok(runs)
    }

    /// The sweep of the metric `measured` in these runs.
    fn sweep(&self, runs: &[PointRun<'_>], measured: &MetricPath) -> Sweep {
        let points = points(runs, &self.fields, |run| run_figure::figure(measured, run));
        let swept = self::fields(&self.fields, &points);
        let knees = knees(runs, &points, &swept, &measured.to_string());
        Sweep {
            schema: SWEEP_SCHEMA.into(),
            scenario: self.experiment.file.name().into(),
            title: self.experiment.file.title_with(&self.experiment.sets),
            file: Some(self.experiment.path.display().to_string()),
            set: self.experiment.sets.iter().cloned().collect(),
            host: self.experiment.host.clone(),
            metric: measured.to_string(),
            unit: measured.unit().into(),
            fields: swept,
            points,
            knees,
        }
    }
}

/// Parses the name of a metric.
fn metric(text: &str, scenario: &Scenario) -> Result<MetricPath> {
    let found = scenario.figure(text).map_err(|why| Error::BadInput(format!("--metric {text}: {why}")))?;
    match found.is_closed_form() {
        true => Err(Error::BadInput(format!("--metric {text}: a closed form does not depend on runs"))),
        false => Ok(found),
    }
}

/// The default metric: the goodput of the first TCP flow, else of the first flow that has a goodput, else the
/// mean round-trip time of the first flow. If the runs differ in their flows, as when streams are swept: the
/// total goodput of all flows.
fn default_metric(jobs: &[Job<'_>]) -> Result<MetricPath> {
    let flows = jobs.first().map_or(&[][..], |job| &job.scenario.flows);
    let of = |flow: &scenario::FlowSpec, metric| MetricPath::Flow { flow: flow.name.clone(), metric };
    let tcp = flows.iter().find(|flow| matches!(flow.kind, FlowKind::Tcp(_)));
    let found = tcp
        .or_else(|| flows.iter().find(|flow| Metric::Goodput.applies_to(&flow.kind)))
        .map(|flow| of(flow, Metric::Goodput))
        .or_else(|| flows.first().map(|flow| of(flow, Metric::MeanRtt)))
        .ok_or_else(|| Error::BadInput("the scenario has no flows".into()))?;
    let names = |job: &Job<'_>| job.scenario.flows.iter().map(|flow| flow.name.clone()).collect::<Vec<_>>();
    let have_same_flows = jobs.windows(2).all(|pair| names(&pair[0]) == names(&pair[1]));
    Ok(if have_same_flows { found } else { MetricPath::Run(RunMetric::Goodput) })
}

/// The swept fields in the given order, with the units of their numbers.
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

/// Groups consecutive runs that differ only in their repeat into points.
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
        sweep: job.point.as_ref().map(|point| point.values.clone()).unwrap_or_default(),
        records: repeats.iter().map(|one| one.run.record.clone()).collect(),
        runs: repeats.iter().map(|one| one.run.id.clone()).collect(),
        earlier: repeats.iter().filter(|one| one.is_recorded).count() as u32,
        confidence: mean.and_then(|mean| confidence(&figures, mean)),
        mean,
        figures,
        buffers: fields.first().and_then(|field| buffers(field, repeats)),
        quality_ok: repeats.iter().all(|one| one.run.quality.is_reliable()),
    }
}

/// The buffers of the flow that the swept field `flows.NAME.send_buffer` or `flows.NAME.receive_buffer` sets.
fn buffers(field: &str, repeats: &[PointRun<'_>]) -> Option<SweptBuffers> {
    let (name, key) = field.strip_prefix("flows.")?.rsplit_once('.')?;
    let size = |flow: &FlowSummary| match key {
        "send_buffer" => flow.sndbuf_bytes,
        "receive_buffer" => flow.rcvbuf_bytes,
        _ => None,
    };
    let flows: Vec<&FlowSummary> =
        repeats.iter().filter_map(|one| one.run.flows.iter().find(|flow| flow.name == name)).collect();
    let mean_of = |of: &dyn Fn(&FlowSummary) -> Option<u64>| {
        mean(&flows.iter().filter_map(|flow| of(flow)).map(|bytes| bytes as f64).collect::<Vec<_>>())
    };
    Some(SweptBuffers {
        kernel_bytes: mean_of(&size)?,
        used_bytes: mean_of(&|flow| flow.binding_window_bytes),
    })
}

fn mean(figures: &[f64]) -> Option<f64> {
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

/// Lower and upper end of the confidence interval.
fn confidence(figures: &[f64], mean: f64) -> Option<(f64, f64)> {
    half_width(figures, mean).map(|half| (mean - half, mean + half))
}

/// Finds the knees: the values of the first field from which on the metric levels off.
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
    fn the_confidence_interval_uses_students_t() {
        // t(0.975) of 4 degrees is 2.7764 (NIST handbook, 1.3.6.7.2), the standard deviation 1.5811.
        let (low, high) = confidence(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0).unwrap();
        assert!((high - 3.0 - 2.7764 * 1.5811 / 5f64.sqrt()).abs() < 1e-3, "{high}");
        assert!((high + low - 6.0).abs() < 1e-12);
        assert_eq!(confidence(&[2.0], 2.0), None);
        assert_eq!(confidence(&[2.0, 2.0], 2.0), Some((2.0, 2.0)));
        assert_eq!((mean(&[]), mean(&[1.0, 3.0])), (None, Some(2.0)));
    }
}
