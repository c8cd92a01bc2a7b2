//! The knee of a curve that rises and then levels off, by a least-squares fit of two straight lines.
//!
//! Each split of the points gives a rise (a line through the points left of it; through the origin for a
//! single point) and a plateau (the mean of the points right of it). The split with the smallest squared
//! error is used; the knee is where its two lines meet. If they meet beyond the split's neighbouring points,
//! because the curve rises in steps, the knee is the neighbouring point nearer to that. There is no knee if
//! one straight line fits about as well: a curve that only rises, or is level.

/// The squared error of one line must exceed that of two lines by this factor; otherwise there is no knee.
const MIN_ERROR_RATIO: f64 = 4.0;
/// Largest variation of a level curve, as a share of its plateau.
const MAX_LEVEL_VARIATION: f64 = 0.05;

/// The knee of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// The point at which rise and plateau meet.
    pub at: f64,
    /// The height of the plateau.
    pub plateau: f64,
    /// The first point from which all are within 5 % of the plateau; `None` if the last is not.
    pub level_from: Option<f64>,
}

/// The knee of points in ascending order of their first number. `None` for fewer than four points or without
/// a knee.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let heights = points.iter().map(|p| p.1);
    let (low, high) = (heights.clone().fold(f64::INFINITY, f64::min), heights.fold(0.0, f64::max));
    if points.len() < 4 || high - low <= MAX_LEVEL_VARIATION * high {
        return None;
    }
    // A plateau has at least two points.
    let splits = (1..=points.len() - 2).filter_map(|rising| fit_split(points, rising));
    let (error, at, plateau) = splits.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (offset, slope) = line(points);
    let one_line = squares(points, |x| offset + slope * x);
    if error * MIN_ERROR_RATIO > one_line {
        return None;
    }
    let uneven = points.iter().rposition(|(_, y)| (y / plateau - 1.0).abs() > MAX_LEVEL_VARIATION);
    let level_from = points.get(uneven.map_or(0, |last| last + 1)).map(|p| p.0);
    Some(Knee { at, plateau, level_from })
}

/// Fits a rise over the first `rising` points and a plateau over the others. Returns the squared error, the
/// knee between the last rising and the first level point, and the plateau's height; `None` unless the rise
/// ascends to the plateau.
fn fit_split(points: &[(f64, f64)], rising: usize) -> Option<(f64, f64, f64)> {
    let (rise, level) = points.split_at(rising);
    let plateau = level.iter().map(|p| p.1).sum::<f64>() / level.len() as f64;
    let (offset, slope) = match rise {
        [(x, y)] => (0.0, y / x),
        rise => line(rise),
    };
    let meet = (plateau - offset) / slope;
    let at = meet.clamp(rise[rise.len() - 1].0, level[0].0);
    let error = squares(rise, |x| offset + slope * x) + squares(level, |_| plateau);
    (slope > 0.0 && meet >= points[0].0).then_some((error, at, plateau))
}

/// Offset and slope of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |m, p| (m.0 + p.0 / n, m.1 + p.1 / n));
    let over = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let under = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum::<f64>();
    let slope = if under > 0.0 { over / under } else { 0.0 };
    (mean_y - slope * mean_x, slope)
}

fn squares(points: &[(f64, f64)], curve: impl Fn(f64) -> f64) -> f64 {
    points.iter().map(|(x, y)| (y - curve(*x)) * (y - curve(*x))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(xs: &[f64], height: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        xs.iter().map(|x| (*x, height(*x))).collect()
    }

    const SIZES: [f64; 13] = [2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 50.0, 60.0, 70.0, 80.0];

    #[test]
    fn the_knee_is_the_window_that_fills_the_path() {
        let found = knee(&curve(&SIZES, |x| (x / 27.0).min(1.0) * 941e6)).unwrap();
        assert!((found.at / 27.0 - 1.0).abs() < 1e-9 && (found.plateau / 941e6 - 1.0).abs() < 1e-9);
        assert_eq!(found.level_from, Some(30.0));
    }

    #[test]
    fn dips_move_the_knee_little() {
        let mut points = curve(&SIZES, |x| (x / 27.0).min(1.0) * 941.0);
        points[2].1 *= 0.8;
        points[7].1 *= 0.9;
        let found = knee(&points).unwrap();
        assert!((found.at / 27.0 - 1.0).abs() < 0.12, "{found:?}");
        assert_eq!(found.level_from, Some(40.0));
    }

    #[test]
    fn a_knee_between_few_points_of_a_doubling_sweep() {
        let doubled = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let found = knee(&curve(&doubled, |x| (x / 6.0).min(1.0))).unwrap();
        assert!((found.at / 6.0 - 1.0).abs() < 1e-9, "{found:?}");
        let before_the_second = knee(&curve(&doubled, |x| (x / 1.5).min(1.0))).unwrap();
        assert!((before_the_second.at / 1.5 - 1.0).abs() < 1e-9, "{before_the_second:?}");
    }

    // Window sizes that a kernel rounds up give the same goodput.
    #[test]
    fn a_rise_in_steps_ends_at_the_first_level_point() {
        let steps = |x: f64| match x {
            ..35.0 => 738.0,
            ..50.0 => 828.0,
            _ => 941.0,
        };
        let sizes: Vec<f64> = SIZES.iter().copied().chain((9..60).map(|i| f64::from(i) * 10.0)).collect();
        let found = knee(&curve(&sizes, steps)).unwrap();
        assert_eq!((found.at, found.level_from), (50.0, Some(50.0)));
    }

    #[test]
    fn a_straight_line_has_no_knee() {
        assert_eq!(knee(&curve(&SIZES, |x| 3.0 * x)), None);
        assert_eq!(knee(&curve(&SIZES, |x| 5.0 + 3.0 * x)), None);
        assert_eq!(knee(&curve(&SIZES, |x| 941.0 + x / 10.0)), None);
        assert_eq!(knee(&curve(&SIZES, |x| 100.0 - x)), None);
        assert_eq!(knee(&curve(&SIZES[..3], |x| x.min(3.0))), None);
        assert_eq!(knee(&[]), None);
    }
}
