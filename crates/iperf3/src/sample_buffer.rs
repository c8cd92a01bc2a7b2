//! Samples of a test of any length in bounded memory: when there are too many, every second sample of each
//! stream is dropped.

use std::{collections::BTreeMap, time::Duration};

use schema::FlowSample;

/// Maximum number of rows.
const ROWS_MAX: usize = 50_000;

/// Rows of a test's streams, evenly thinned.
#[derive(Debug)]
pub struct SampleBuffer {
    kept: Vec<FlowSample>,
    /// One row of each stream is kept per interval of this length.
    every_us: i64,
    /// When the next interval of each stream begins.
    next_us: BTreeMap<String, i64>,
}

impl SampleBuffer {
    /// A buffer for streams that are sampled once every `every`.
    pub fn new(every: Duration) -> Self {
        SampleBuffer { kept: Vec::new(), every_us: every.as_micros().max(1) as i64, next_us: BTreeMap::new() }
    }

    /// Adds rows, which are in order of time.
    pub fn add(&mut self, rows: &[FlowSample]) {
        for row in rows {
            if is_next(row, self.every_us, &mut self.next_us) {
                self.kept.push(row.clone());
            }
        }
        while self.kept.len() > ROWS_MAX.max(self.next_us.len()) {
            self.every_us *= 2;
            self.next_us.clear();
            self.kept.retain(|row| is_next(row, self.every_us, &mut self.next_us));
        }
    }

    /// The kept rows, in order of time.
    pub fn into_rows(self) -> Vec<FlowSample> {
        self.kept
    }
}

/// Whether a row is the first of its stream in an interval.
fn is_next(row: &FlowSample, every_us: i64, next_us: &mut BTreeMap<String, i64>) -> bool {
    let next = (row.time_us / every_us + 1) * every_us;
    match next_us.get_mut(&row.flow) {
        Some(at) if row.time_us < *at => return false,
        Some(at) => *at = next,
        None => drop(next_us.insert(row.flow.clone(), next)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_kept_rows_is_limited_and_they_are_evenly_spaced() {
        let mut samples = SampleBuffer::new(Duration::from_micros(1));
        for time_us in 0..200_000 {
            let row = |flow: &str| FlowSample { time_us, flow: flow.into(), ..FlowSample::default() };
            samples.add(&[row("stream-1")]);
            if time_us % 1000 == 0 {
                samples.add(&[row("stream-3")]);
            }
        }
        let (often, seldom): (Vec<_>, Vec<_>) =
            samples.into_rows().into_iter().partition(|row| row.flow == "stream-1");
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&often.len()), "{}", often.len());
        assert!(often.windows(2).all(|pair| pair[1].time_us - pair[0].time_us == often[1].time_us));
        assert_eq!(often[0].time_us, 0);
        assert_eq!(seldom.len(), 200, "their spacing is wider than the interval");
    }
}
