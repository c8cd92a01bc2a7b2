//! The runs of a sweep by point: means with their confidence, and where the metric levels off.

use scenario::{Amount, Figure};
use schema::{RunSummary, SWEEP_SCHEMA, Sweep, SweepKnee, SweepPoint, SweptField, SweptValue};
use view::KneePoint;

use crate::{
    confidence::half_width,
    job::{Asked, Job},
    published,
};

/// A run of a point, and whether it had been made before.
pub struct PointRun<'a> {
    pub job: &'a Job<'a>,
    pub run: RunSummary,
    pub earlier: bool,
}

/// A sweep of `fields`: what became of `measured` in its runs.
pub fn sweep(asked: &Asked<'_>, runs: &[PointRun<'_>], fields: &[String], measured: &Figure) -> Sweep {
    let points = points(runs, fields, |run| published::figure(measured, run));
    let swept = self::fields(fields, &points);
    let knees = knees(runs, &points, &swept, &measured.to_string());
    Sweep {
        schema: SWEEP_SCHEMA.into(),
        scenario: asked.file.name().into(),
        title: asked.file.title().into(),
        host: asked.host.clone(),
        metric: measured.to_string(),
        unit: measured.unit().into(),
        fields: swept,
        points,
        knees,
    }
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
        (&a.job.engine, a.job.variant, &a.job.point) == (&b.job.engine, b.job.variant, &b.job.point)
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
        engine: view::engine(&repeats[0].run),
        variant: job.variant.map(Into::into),
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
    view::knees(&points, &first.field, metric)
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
