//! Samples of a flow at its ACKs, for plots. Their number is limited, because a record's rows are in memory
//! until its end; the record's trace has every ACK.

use schema::{FlowSample, TraceRow};

/// Maximum number of samples of a flow.
const MAX_SAMPLES: usize = 20_000;

/// The samples of a flow: at every ACK, or evenly spaced in time where these are too many.
#[derive(Debug, Default)]
pub struct AckSamples {
    samples: Vec<AckSample>,
    /// Minimum time between two samples, microseconds.
    spacing_us: i64,
    /// The largest congestion window at any ACK, bytes.
    max_cwnd_bytes: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
struct AckSample {
    time_us: i64,
    snd_mss_bytes: i64,
    snd_cwnd_segs: Option<i64>,
    snd_ssthresh_segs: Option<i64>,
    srtt_us: Option<i64>,
    snd_wnd_bytes: Option<i64>,
}

impl AckSamples {
    /// Adds the next ACK.
    pub fn push(&mut self, row: &TraceRow, mss_bytes: u32) {
        let cwnd_bytes = row.snd_cwnd_segs.map(|segments| segments * i64::from(mss_bytes));
        self.max_cwnd_bytes = self.max_cwnd_bytes.max(cwnd_bytes);
        if self.samples.last().is_some_and(|last| row.time_us - last.time_us < self.spacing_us) {
            return;
        }
        if self.samples.len() == MAX_SAMPLES {
            self.halve(row.time_us);
        }
        self.samples.push(AckSample {
            time_us: row.time_us,
            snd_mss_bytes: mss_bytes.into(),
            snd_cwnd_segs: row.snd_cwnd_segs,
            snd_ssthresh_segs: row.snd_ssthresh_segs,
            srtt_us: row.srtt_us,
            snd_wnd_bytes: row.snd_wnd_bytes,
        });
    }

    /// Increases the spacing so that at most half of the samples remain.
    fn halve(&mut self, now_us: i64) {
        let first_us = self.samples.first().map_or(now_us, |first| first.time_us);
        self.spacing_us = ((now_us - first_us) * 2 / MAX_SAMPLES as i64).max(self.spacing_us).max(1);
        let mut last_us = None;
        self.samples.retain(|sample| {
            let is_due = last_us.is_none_or(|last| sample.time_us - last >= self.spacing_us);
            if is_due {
                last_us = Some(sample.time_us);
            }
            is_due
        });
    }

    /// The largest congestion window at any ACK, bytes.
    pub fn max_cwnd_bytes(&self) -> Option<i64> {
        self.max_cwnd_bytes
    }

    /// The samples as rows of a flow. They lack the outstanding data and all counts, so verdicts ignore them.
    pub fn rows<'a>(&'a self, flow: &'a str) -> impl Iterator<Item = FlowSample> + 'a {
        self.samples.iter().map(move |sample| FlowSample {
            time_us: sample.time_us,
            flow: flow.into(),
            snd_mss_bytes: Some(sample.snd_mss_bytes),
            snd_cwnd_segs: sample.snd_cwnd_segs,
            snd_ssthresh_segs: sample.snd_ssthresh_segs,
            srtt_us: sample.srtt_us,
            snd_wnd_bytes: sample.snd_wnd_bytes,
            ..FlowSample::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use schema::TraceKind;

    use super::*;

    #[test]
    fn a_million_acks_are_reduced_to_evenly_spaced_samples() {
        let mut samples = AckSamples::default();
        let add = |samples: &mut AckSamples, from: i64, to: i64| {
            for i in from..to {
                let row = TraceRow {
                    time_us: i * 10,
                    flow: "f".into(),
                    kind: TraceKind::Ack,
                    snd_cwnd_segs: Some(if i == 777_777 { 900 } else { 10 }),
                    ..TraceRow::default()
                };
                samples.push(&row, 1000);
            }
        };
        add(&mut samples, 0, MAX_SAMPLES as i64);
        assert_eq!(samples.rows("f").count(), MAX_SAMPLES, "every ACK");
        add(&mut samples, MAX_SAMPLES as i64, 1_000_000);
        let times: Vec<i64> = samples.rows("f").map(|row| row.time_us).collect();
        assert!((MAX_SAMPLES / 4..=MAX_SAMPLES).contains(&times.len()), "{}", times.len());
        let gaps = || times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps().max().unwrap() <= 2 * gaps().min().unwrap(), "{:?} {:?}", gaps().min(), gaps().max());
        assert!(times[0] == 0 && *times.last().unwrap() > 9_990_000, "{:?}", times.last());
        assert_eq!(samples.max_cwnd_bytes(), Some(900_000), "of all ACKs");
    }
}
