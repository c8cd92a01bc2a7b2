//! Samples of a test of any length in bounded memory: when there are too many, every second look goes.

use schema::FlowSample;

/// Rows that are kept at most.
const ROWS_MAX: usize = 50_000;

/// Looks at a test's streams, evenly thinned out.
#[derive(Debug)]
pub struct Looks {
    kept: Vec<Vec<FlowSample>>,
    rows: usize,
    /// Of so many looks one is kept.
    stride: usize,
    seen: usize,
}

impl Default for Looks {
    fn default() -> Self {
        Looks { kept: Vec::new(), rows: 0, stride: 1, seen: 0 }
    }
}

impl Looks {
    /// Takes one look: a row for each stream, of one instant.
    pub fn add(&mut self, look: &[FlowSample]) {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.stride) {
            return;
        }
        self.rows += look.len();
        self.kept.push(look.to_vec());
        while self.rows > ROWS_MAX && self.kept.len() > 1 {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.rows = self.kept.iter().map(Vec::len).sum();
            self.stride *= 2;
        }
    }

    /// What was kept, in the order of time.
    pub fn into_rows(self) -> Vec<FlowSample> {
        self.kept.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_even() {
        let mut looks = Looks::default();
        for time_us in 0..200_000 {
            looks.add(&[FlowSample { time_us, ..FlowSample::default() }]);
        }
        let times: Vec<i64> = looks.into_rows().iter().map(|row| row.time_us).collect();
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&times.len()), "{}", times.len());
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == times[1] - times[0]));
        assert_eq!(times[0], 0);
    }
}
