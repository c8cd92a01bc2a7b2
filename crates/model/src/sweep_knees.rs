//! The knees of a sweep's curves, for `longfat sweep` and the page.

use schema::{RunSummary, SweepKnee, SweptValue};

use crate::{
    knee,
    window_law::{Line, window_law},
};

/// A point of a sweep.
#[derive(Debug, Clone)]
pub struct KneePoint<'a> {
    /// `lab`, `sim` or `model`.
    pub engine: &'a str,
    /// The variant's name.
    pub variant: Option<&'a str>,
    /// The values of the swept fields; the curve is over the first.
    pub values: &'a [SweptValue],
    /// The metric's mean over the runs.
    pub mean: f64,
    /// Its runs.
    pub runs: Vec<&'a RunSummary>,
}

/// The knees of `metric` over `field`, the first swept field, for each engine, variant and value of the other
/// fields.
pub fn knees(points: &[KneePoint<'_>], field: &str, metric: &str) -> Vec<SweepKnee> {
    let mut lines: Vec<Vec<&KneePoint<'_>>> = Vec::new();
    for point in points.iter().filter(|point| !point.values.is_empty()) {
        let same = |line: &&mut Vec<&KneePoint<'_>>| {
            let first = line[0];
            (first.engine, first.variant, &first.values[1..])
                == (point.engine, point.variant, &point.values[1..])
        };
        match lines.iter_mut().find(same) {
            Some(line) => line.push(point),
            None => lines.push(vec![point]),
        }
    }
    lines.into_iter().filter_map(|line| knee_of(line, field, metric)).collect()
}

fn knee_of(line: Vec<&KneePoint<'_>>, field: &str, metric: &str) -> Option<SweepKnee> {
    let mut numbered: Vec<(f64, &KneePoint<'_>)> =
        line.into_iter().filter_map(|point| Some((point.values[0].number?, point))).collect();
    numbered.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heights: Vec<(f64, f64)> = numbered.iter().map(|(at, point)| (*at, point.mean)).collect();
    let found = knee(&heights)?;
    let runs: Line<'_> = numbered.iter().map(|(at, point)| (*at, point.runs.clone())).collect();
    let first = numbered[0].1;
    Some(SweepKnee {
        engine: first.engine.into(),
        variant: first.variant.map(Into::into),
        others: first.values[1..].to_vec(),
        at: found.at,
        plateau: found.plateau,
        level_from: found.level_from,
        law: window_law(field, metric, &found, &runs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_own_knee_whatever_the_order() {
        let value = |text: String, number| SweptValue { text, number };
        let mut values = Vec::new();
        for (other, knee) in [("a", 4.0), ("b", 8.0)] {
            for x in [9.0, 2.0, 16.0, 1.0, 4.0, 3.0, 12.0, 6.0, 20.0, 24.0] {
                let swept = vec![value(x.to_string(), Some(x)), value(other.into(), None)];
                values.push((swept, f64::min(x / knee, 1.0)));
            }
        }
        let points: Vec<KneePoint<'_>> = values
            .iter()
            .map(|(values, mean)| KneePoint {
                engine: "sim",
                variant: None,
                values,
                mean: *mean,
                runs: vec![],
            })
            .collect();
        let found = knees(&points, "queue", "goodput");
        let found: Vec<_> =
            found.iter().map(|k| (k.others[0].text.as_str(), k.at.round(), k.law.is_some())).collect();
        assert_eq!(found, [("a", 4.0, false), ("b", 8.0, false)]);
    }
}
