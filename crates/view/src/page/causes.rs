//! The causes that limited a flow over time: intervals of one cause, and each cause's share of the columns of
//! a chart.

use schema::Cause;

/// Intervals in order of time: the end of each (microseconds) and its cause, as index into [`Cause::ALL`].
#[derive(Debug, Clone, Default)]
pub(crate) struct CauseIntervals {
    begin_us: Option<i64>,
    ends: Vec<(i64, Option<u8>)>,
}

impl CauseIntervals {
    /// Adds a sample: `cause` limited the flow from the previous sample until `time_us`.
    pub(crate) fn push(&mut self, time_us: i64, cause: Option<u8>) {
        if self.begin_us.is_none() {
            self.begin_us = Some(time_us);
            return;
        }
        match self.ends.last_mut() {
            Some(last) if last.1 == cause => last.0 = last.0.max(time_us),
            _ => self.ends.push((time_us, cause)),
        }
    }

    /// The share (0 to 255) of each cause in each of `columns` equal parts of a span, in the order of
    /// [`Cause::ALL`].
    pub(crate) fn shares(&self, from_us: i64, to_us: i64, columns: usize) -> Vec<u8> {
        let causes = Cause::ALL.len();
        let mut shares = vec![0f64; columns * causes];
        let width = to_us.saturating_sub(from_us).max(1) as f64 / columns.max(1) as f64;
        let first = self.ends.partition_point(|(end, _)| *end <= from_us);
        let mut begin = match first {
            0 => self.begin_us.unwrap_or(0),
            _ => self.ends[first - 1].0,
        };
        for (end, cause) in &self.ends[first..] {
            if begin >= to_us {
                break;
            }
            let (a, b) = ((begin - from_us) as f64 / width, (*end - from_us) as f64 / width);
            begin = *end;
            let Some(cause) = cause else { continue };
            let (a, b) = (a.clamp(0.0, columns as f64), b.clamp(0.0, columns as f64));
            for column in a as usize..(b.ceil() as usize).min(columns) {
                let covered = b.min(column as f64 + 1.0) - a.max(column as f64);
                shares[column * causes + usize::from(*cause)] += covered.max(0.0);
            }
        }
        shares.into_iter().map(|share| (share * 255.0).round() as u8).collect()
    }

    /// Whether any cause is known.
    pub(crate) fn is_known(&self) -> bool {
        self.ends.iter().any(|(_, cause)| cause.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_shares_of_the_causes_in_its_time() {
        let mut intervals = CauseIntervals::default();
        for (time, cause) in [(0, None), (30, Some(2)), (40, Some(2)), (50, Some(3)), (100, None)] {
            intervals.push(time, cause);
        }
        let shares = intervals.shares(0, 100, 2);
        const CAUSES: usize = Cause::ALL.len();
        let column = |c: usize| &shares[c * CAUSES..(c + 1) * CAUSES];
        assert_eq!(column(0)[..4], [0, 0, 204, 51], "four fifths of 50 us, then one");
        assert!(column(0)[4..].iter().chain(column(1)).all(|share| *share == 0));
        assert_eq!(intervals.shares(40, 50, 1)[3], 255);
        assert_eq!(intervals.shares(-50, 0, 1), [0; CAUSES]);
    }
}
