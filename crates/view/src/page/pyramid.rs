//! Min/max pyramid of a series, so that any span of it is drawn without reading all samples.
//!
//! The lowest level has a block per [`BLOCK`] samples, each higher level one per [`FAN`] blocks of the level
//! below. A block has the two extreme samples with their times, so each drawn point is a measured sample and
//! no peak is lost at any zoom level. If a span has too few blocks for the requested columns, the caller
//! reads the samples. An absent value is NaN; a block without any value is a gap.

/// Samples in a block of the lowest level.
pub(crate) const BLOCK: usize = 64;
/// Blocks per block of the next level.
const FAN: usize = 8;

/// The extremes of consecutive samples: time (microseconds) and value of the minimum and the maximum, and the
/// sums for a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Block {
    pub(crate) low: (i64, f64),
    pub(crate) high: (i64, f64),
    /// The sum of the values, each weighted by the time since the previous sample, and the sum of the weights
    /// (microseconds).
    area: f64,
    time: f64,
}

impl Block {
    /// A block of a single sample; `before_us` is the time of the previous one.
    pub(crate) fn of(time_us: i64, value: f64, before_us: Option<i64>) -> Self {
        block(&[time_us], &[value], before_us)
    }

    /// Merges two blocks. If two extremes are equal it keeps the earlier one.
    fn merge(self, other: Block) -> Self {
        Block {
            low: if other.low.1 < self.low.1 || self.low.1.is_nan() { other.low } else { self.low },
            high: if other.high.1 > self.high.1 || self.high.1.is_nan() { other.high } else { self.high },
            area: self.area + other.area,
            time: self.time + other.time,
        }
    }

    fn start(&self) -> i64 {
        self.low.0.min(self.high.0)
    }
}

/// The weight of a sample in a mean: the time since the previous one in microseconds, at least 1.
fn weight(time_us: i64, before_us: Option<i64>) -> f64 {
    before_us.map_or(1, |before| time_us.saturating_sub(before).max(1)) as f64
}

/// The blocks of samples in order of time.
pub(crate) fn blocks(times: &[i64], values: &[f64]) -> Vec<Block> {
    let starts = (0..times.len()).step_by(BLOCK);
    let before = starts.map(|start| start.checked_sub(1).map(|before| times[before]));
    let parts = times.chunks(BLOCK).zip(values.chunks(BLOCK));
    parts.zip(before).map(|((times, values), before)| block(times, values, before)).collect()
}

/// One block of all of these samples; `before` is the time of the sample before them.
fn block(times: &[i64], values: &[f64], mut before: Option<i64>) -> Block {
    let (mut low, mut high, mut area, mut time) = (0, 0, 0.0, 0.0);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for (at, value) in values.iter().enumerate() {
        if *value < min {
            (low, min) = (at, *value);
        }
        if *value > max {
            (high, max) = (at, *value);
        }
        if !value.is_nan() {
            let weight = weight(times[at], before);
            area += value * weight;
            time += weight;
        }
        before = Some(times[at]);
    }
    Block { low: (times[low], values[low]), high: (times[high], values[high]), area, time }
}

/// All levels of a series.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pyramid {
    levels: Vec<Vec<Block>>,
}

impl Pyramid {
    /// Appends blocks to the lowest level, and updates the levels above.
    pub(crate) fn append(&mut self, blocks: &[Block]) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].extend_from_slice(blocks);
        let mut level = 0;
        while self.levels[level].len() > FAN || self.levels.len() > level + 1 {
            if self.levels.len() == level + 1 {
                self.levels.push(Vec::new());
            }
            let (below, above) = self.levels.split_at_mut(level + 1);
            let (below, above) = (&below[level], &mut above[0]);
            // The last block above may have been incomplete.
            above.pop();
            let first = above.len() * FAN;
            above.extend(
                below[first..].chunks(FAN).filter_map(|part| part.iter().copied().reduce(Block::merge)),
            );
            level += 1;
        }
    }

    /// The blocks between two instants and one more on each side, of the coarsest level that has more than
    /// two blocks per column there; `None` if even the lowest level has fewer.
    pub(crate) fn between(&self, from_us: i64, to_us: i64, columns: usize) -> Option<&[Block]> {
        let wanted = columns.saturating_mul(2).max(2);
        self.levels.iter().rev().map(|level| around(level, from_us, to_us)).find(|part| part.len() > wanted)
    }
}

/// The blocks in a span and one more on each side.
fn around(blocks: &[Block], from_us: i64, to_us: i64) -> &[Block] {
    let first = blocks.partition_point(|b| b.start() < from_us).saturating_sub(1);
    let end = blocks.partition_point(|b| b.start() <= to_us);
    &blocks[first.min(end)..(end + 1).min(blocks.len())]
}

/// The points to draw in `columns` columns between two instants, in order of time: the extreme samples of
/// each column, or those of each block if there are at most two blocks per column. The times before and after
/// the span count as one column each.
pub(crate) fn points(blocks: &[Block], from_us: i64, to_us: i64, columns: usize) -> Vec<(i64, f64)> {
    let mut points = Vec::new();
    if blocks.len() <= columns.saturating_mul(2) {
        blocks.iter().for_each(|block| push(&mut points, *block));
        return points;
    }
    let column = |block: &Block| column(block, from_us, to_us, columns);
    for part in blocks.chunk_by(|a, b| column(a) == column(b)) {
        if let Some(block) = part.iter().copied().reduce(Block::merge) {
            push(&mut points, block);
        }
    }
    points
}

/// The time-weighted mean of each of `columns` columns, at its first sample's time; `None` if there are so
/// few samples that they are drawn individually.
pub(crate) fn means(blocks: &[Block], from_us: i64, to_us: i64, columns: usize) -> Option<Vec<(i64, f64)>> {
    let columns = columns.max(1);
    if blocks.len() <= columns.saturating_mul(2) {
        return None;
    }
    let parts =
        blocks.chunk_by(|a, b| column(a, from_us, to_us, columns) == column(b, from_us, to_us, columns));
    let merged = parts.filter_map(|part| part.iter().copied().reduce(Block::merge));
    Some(merged.map(|all| (all.start(), all.area / all.time)).collect())
}

/// The column in which a block is drawn: -1 before the span, `columns` after it.
fn column(block: &Block, from_us: i64, to_us: i64, columns: usize) -> i64 {
    let width = (to_us.saturating_sub(from_us)).max(1) as f64 / columns.max(1) as f64;
    let position = block.start().saturating_sub(from_us) as f64 / width;
    position.floor().clamp(-1.0, columns as f64) as i64
}

fn push(points: &mut Vec<(i64, f64)>, block: Block) {
    if block.low.1.is_nan() {
        // Consecutive gaps are one, and a leading gap is omitted.
        if points.last().is_some_and(|last| !last.1.is_nan()) {
            points.push((block.start(), f64::NAN));
        }
        return;
    }
    let (first, last) =
        if block.low.0 <= block.high.0 { (block.low, block.high) } else { (block.high, block.low) };
    points.push(first);
    // Two samples may have the same time, so their values are compared too.
    if first != last {
        points.push(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The points drawn: from the pyramid if it has enough blocks, else from the samples.
    fn drawn(samples: &[(i64, f64)], pieces: usize, from: i64, to: i64, columns: usize) -> Vec<(i64, f64)> {
        let mut pyramid = Pyramid::default();
        for part in samples.chunks(samples.len().div_ceil(pieces).max(1)) {
            let (times, values): (Vec<i64>, Vec<f64>) = part.iter().copied().unzip();
            pyramid.append(&blocks(&times, &values));
        }
        match pyramid.between(from, to, columns) {
            Some(found) => points(found, from, to, columns),
            None => {
                let all: Vec<Block> = samples.iter().map(|(t, v)| Block::of(*t, *v, None)).collect();
                points(around(&all, from, to), from, to, columns)
            }
        }
    }

    fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        values.filter(|v| !v.is_nan()).map(|v| (v, v)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn series() -> impl Strategy<Value = Vec<(i64, f64)>> {
        let value = prop_oneof![8 => -1e9..1e9f64, 1 => Just(f64::NAN)];
        proptest::collection::vec((0i64..2000, value), 1..20_000).prop_map(|steps| {
            let mut time = 0;
            let sample = |(step, value)| {
                time += step;
                (time, value)
            };
            steps.into_iter().map(sample).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against brute force: each point was measured, no extreme of the whole is lost, and there are at
        /// most two points per column.
        #[test]
        fn a_whole_series_is_drawn_with_its_extremes(samples in series(), pieces in 1usize..5, columns in 1usize..300) {
            let (first, last) = (samples[0].0, samples[samples.len() - 1].0);
            let shown = drawn(&samples, pieces, first, last, columns);
            prop_assert!(shown.iter().filter(|p| !p.1.is_nan()).all(|p| samples.contains(p)));
            prop_assert_eq!(extremes(shown.iter().map(|p| p.1)), extremes(samples.iter().map(|p| p.1)));
            prop_assert!(shown.len() <= 2 * (columns + 2) || shown.len() <= 2 * 2 * columns);
            prop_assert!(shown.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }

        /// A span: the points extend beyond it at both ends, and each extreme within is drawn.
        #[test]
        fn a_span_is_drawn_with_its_extremes(samples in series(), a in 0.0..1.0f64, b in 0.0..1.0f64, columns in 1usize..300) {
            let end = samples[samples.len() - 1].0;
            let (from, to) = ((a.min(b) * end as f64) as i64, (a.max(b) * end as f64) as i64);
            let shown = drawn(&samples, 1, from, to, columns);
            let inside = extremes(samples.iter().filter(|p| (from..=to).contains(&p.0)).map(|p| p.1));
            if let (Some(inside), Some(shown)) = (inside, extremes(shown.iter().map(|p| p.1))) {
                prop_assert!(shown.0 <= inside.0 && shown.1 >= inside.1);
            } else {
                prop_assert!(inside.is_none());
            }
            prop_assert!(shown.iter().filter(|p| !p.1.is_nan()).all(|p| samples.contains(p)));
        }
    }

    #[test]
    fn both_extremes_of_one_instant_are_drawn() {
        let samples: Vec<(i64, f64)> = (0..8).map(|i| (i / 2, i as f64)).collect();
        let shown = drawn(&samples, 1, 0, 3, 2);
        assert_eq!(extremes(shown.iter().map(|p| p.1)), Some((0.0, 7.0)));
        assert_eq!(drawn(&[(5, 1.0), (5, 2.0), (5, 3.0)], 1, 5, 5, 1), [(5, 1.0), (5, 3.0)]);
    }

    #[test]
    fn means_are_weighted_by_samples_and_not_by_blocks() {
        // 64 samples of 1 and 6 of 8 make two blocks; 64 + 36 in one column.
        let samples: Vec<(i64, f64)> = (0..70).map(|i| (i, if i < 64 { 1.0 } else { 8.0 })).collect();
        let (times, values): (Vec<i64>, Vec<f64>) = samples.iter().copied().unzip();
        let found = blocks(&times, &values);
        assert_eq!(found.len(), 2);
        let all: Vec<Block> = samples.iter().map(|(t, v)| Block::of(*t, *v, Some(*t - 1))).collect();
        let expected = (64.0 + 48.0) / 70.0;
        assert_eq!(means(&all, 0, 70, 1), Some(vec![(0, expected)]));
        assert_eq!(means(&all, 0, 70, 35), None, "as many samples as twice the columns");
        let merged = found.into_iter().reduce(Block::merge).unwrap();
        assert_eq!(merged.area / merged.time, expected);
    }

    #[test]
    fn a_sample_is_weighted_by_the_time_since_the_previous_one() {
        // A rate over one microsecond, as after a stall of the sampler, has little weight; also at the
        // boundary of two blocks.
        let times: Vec<i64> =
            (0..BLOCK as i64 * 2).map(|i| if i == 64 { 63_001 } else { i * 1000 }).collect();
        let values: Vec<f64> = (0..BLOCK * 2).map(|i| if i == 64 { 1000.0 } else { 1.0 }).collect();
        let merged = blocks(&times, &values).into_iter().reduce(Block::merge).unwrap();
        let mean = merged.area / merged.time;
        assert!((1.0..1.02).contains(&mean), "{mean}");
    }

    #[test]
    fn a_gap_is_drawn_as_a_gap() {
        let samples = [(1, f64::NAN), (2, 5.0), (3, f64::NAN), (4, f64::NAN), (5, 6.0)];
        let shown = drawn(&samples, 1, 0, 9, 100);
        assert_eq!(shown.len(), 3);
        assert!(shown[1].1.is_nan());
    }
}
