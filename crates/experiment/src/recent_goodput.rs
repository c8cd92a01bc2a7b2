//! The goodput that a progress display shows: an average over the last second, because single samples vary.

use std::collections::{BTreeMap, VecDeque};

use schema::FlowSample;

/// Length of the average.
const SPAN_US: i64 = 1_000_000;

/// The goodput of each flow of a run over the last second.
#[derive(Debug, Default)]
pub struct RecentGoodput {
    /// By flow: times (us) of the samples within the last second, and bytes received until then.
    flows: BTreeMap<String, VecDeque<(i64, i64)>>,
}

impl RecentGoodput {
    /// Adds a sample; returns the flow's goodput since its oldest sample of the last second, bit/s. `None` if
    /// the sample has no received bytes or is the first.
    pub fn add(&mut self, sample: &FlowSample) -> Option<f64> {
        let now = (sample.time_us, sample.bytes_received?);
        if !self.flows.contains_key(&sample.flow) {
            self.flows.insert(sample.flow.clone(), VecDeque::new());
        }
        let samples = self.flows.get_mut(&sample.flow)?;
        samples.push_back(now);
        while samples.len() > 2 && now.0 - samples[0].0 > SPAN_US {
            samples.pop_front();
        }
        let (time_us, bytes) = samples[0];
        (now.0 > time_us).then(|| (now.1 - bytes) as f64 * 8.0 / ((now.0 - time_us) as f64 * 1e-6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(flow: &str, time_us: i64, bytes_received: Option<i64>) -> FlowSample {
        FlowSample { flow: flow.into(), time_us, bytes_received, ..FlowSample::default() }
    }

    #[test]
    fn the_goodput_is_that_of_the_last_second() {
        let mut recent = RecentGoodput::default();
        assert_eq!(recent.add(&sample("a", 0, Some(0))), None);
        assert_eq!(recent.add(&sample("a", 500_000, None)), None);
        assert_eq!(recent.add(&sample("a", 500_000, Some(125_000))), Some(2e6));
        assert_eq!(recent.add(&sample("b", 500_000, Some(7))), None, "flows are separate");
        assert_eq!(
            recent.add(&sample("a", 1_500_000, Some(250_000))),
            Some(1e6),
            "the first sample is too old"
        );
    }
}
