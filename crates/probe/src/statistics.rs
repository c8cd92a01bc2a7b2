//! Medians, quantiles, modes and slopes.

/// The `share` quantile (0 to 1) of `values`, by the nearest value; `None` without values.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (share * (sorted.len().checked_sub(1)?) as f64).round() as usize;
    sorted.get(index).copied()
}

/// The median; for an even number of values the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        _ if sorted.is_empty() => None,
        0 => Some((sorted[half - 1] + sorted[half]) / 2.0),
        _ => Some(sorted[half]),
    }
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest value.
pub(crate) fn minimum(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    values.into_iter().min_by(f64::total_cmp)
}

/// The half-sample mode (Bickel and Fruehwirth 2006): repeatedly takes the half of the values that spans the
/// smallest range.
pub(crate) fn mode(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut part = &sorted[..];
    while part.len() > 2 {
        let half = part.len().div_ceil(2);
        let densest = (0..=part.len() - half)
            .min_by(|a, b| (part[a + half - 1] - part[*a]).total_cmp(&(part[b + half - 1] - part[*b])))?;
        if half == part.len() {
            break;
        }
        part = &part[densest..densest + half];
    }
    mean(part)
}

/// The slope of a line through points in ascending order of x: between the means of the first and of the last
/// third (Bartlett 1949), which is robust against single outliers.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let third = (points.len() / 3).max(1);
    if points.len() < 2 {
        return None;
    }
    let centre = |part: &[(f64, f64)]| {
        let count = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / count, part.iter().map(|p| p.1).sum::<f64>() / count)
    };
    let (from, to) = (centre(&points[..third]), centre(&points[points.len() - third..]));
    (to.0 > from.0).then(|| (to.1 - from.1) / (to.0 - from.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_quantile_mode_and_slope_of_examples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[5.0, 1.0, 3.0], 1.0), Some(5.0));
        let found = mode(&[1.0, 2.0, 7.0, 7.1, 7.05, 9.0, 30.0]).unwrap();
        assert!((7.0..=7.1).contains(&found), "{found}");
        let line: Vec<(f64, f64)> = (0..30).map(|i| (f64::from(i), 3.0 * f64::from(i) + 1.0)).collect();
        assert!((slope(&line).unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(slope(&line[..1]), None);
    }
}
