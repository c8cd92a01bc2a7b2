//! The published figures beside ours.

use scenario::{Metric, Published};
use schema::{FlowSummary, PublishedResult, PublishedVerdict, RunSummary};

/// Compares each published figure with the runs of its variant. `other_kernel` gives the model's figure
/// for a kernel that a published figure holds for, where that is not this one.
pub fn compare(
    published: &[Published],
    runs: &[RunSummary],
    kernel: &str,
    other_kernel: impl Fn(&Published) -> Option<f64>,
) -> Vec<PublishedResult> {
    published.iter().map(|p| compare_one(p, runs, kernel, &other_kernel)).collect()
}

fn compare_one(
    published: &Published,
    runs: &[RunSummary],
    kernel: &str,
    other_kernel: &impl Fn(&Published) -> Option<f64>,
) -> PublishedResult {
    let of_engine = |engine: &'static str| {
        runs.iter()
            .filter(move |run| run.engine == engine && run.variant == published.variant && !run.partial)
    };
    let figure = |engine: &'static str| {
        let values: Vec<f64> = of_engine(engine)
            .filter_map(|run| run.flows.iter().find(|f| f.name == published.flow))
            .filter_map(|flow| metric(flow, published.metric))
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (model, sim, lab) = (figure("model"), figure("sim"), figure("lab"));
    let holds = published.holds_on(kernel);
    let within = |ours: f64| (ours / published.value - 1.0).abs() <= published.tolerance;
    let verdict = match lab.or(sim).or(model) {
        None => PublishedVerdict::NotRun,
        Some(ours) if within(ours) => PublishedVerdict::Within,
        Some(_) if !holds => PublishedVerdict::Differs,
        Some(_) if of_engine("lab").any(|run| !run.quality.ok) => PublishedVerdict::Untrusted,
        Some(_) => PublishedVerdict::Missed,
    };
    PublishedResult {
        id: published.id.clone(),
        metric: published.metric_path(),
        variant: published.variant.clone(),
        published: published.value,
        unit: published.metric.unit().into(),
        tolerance: published.tolerance,
        model,
        sim,
        lab,
        model_published_kernel: if holds { None } else { other_kernel(published) },
        verdict,
        why: published.why.clone(),
    }
}

/// A flow's figure in the metric's unit (bit/s or s).
pub fn metric(flow: &FlowSummary, metric: Metric) -> Option<f64> {
    let seconds = |us: Option<f64>| us.map(|us| us * 1e-6);
    match metric {
        Metric::Goodput => flow.goodput_bps,
        Metric::SteadyGoodput => flow.steady_goodput_bps,
        Metric::MinRtt => seconds(flow.min_rtt_us),
        Metric::MeanRtt => seconds(flow.mean_rtt_us),
        Metric::MedianRtt => seconds(flow.median_rtt_us),
        Metric::MaxRtt => seconds(flow.max_rtt_us),
        Metric::FirstRtt => seconds(flow.first_rtt_us),
    }
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::Quality;

    use super::*;

    const PUBLISHED: &str = r#"
duration = "1s"
hosts.a.address = "10.0.0.1/24"
hosts.b.address = "10.0.0.2/24"
[[links]]
ends = ["a", "b"]
[[flows]]
name = "f"
from = "a"
to = "b"
[[published]]
id = "X"
metric = "flows.f.goodput"
value = "1gbit"
tolerance = "10%"
holds_for = { kernel = "<6.6" }
why = "because"
"#;

    fn verdict(kernel: &str, goodput: f64, trusted: bool) -> PublishedVerdict {
        let file = ScenarioFile::parse("x.toml", PUBLISHED).unwrap();
        let run = RunSummary {
            engine: "lab".into(),
            flows: vec![FlowSummary {
                name: "f".into(),
                goodput_bps: Some(goodput),
                ..FlowSummary::default()
            }],
            quality: Quality { ok: trusted, ..Quality::default() },
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        };
        let run = RunSummary { variant: None, ..run };
        compare(file.published(), &[run], kernel, |_| Some(0.9e9))[0].verdict
    }

    #[test]
    fn only_an_expected_and_trusted_figure_can_be_missed() {
        assert_eq!(verdict("6.1.0", 1.05e9, true), PublishedVerdict::Within);
        assert_eq!(verdict("6.1.0", 1.2e9, true), PublishedVerdict::Missed);
        assert_eq!(verdict("6.1.0", 1.2e9, false), PublishedVerdict::Untrusted);
        assert_eq!(verdict("6.18.1", 1.2e9, true), PublishedVerdict::Differs);
        assert_eq!(verdict("6.18.1", 0.95e9, false), PublishedVerdict::Within);
    }

    #[test]
    fn the_model_of_the_published_kernel_stands_where_ours_differs() {
        let file = ScenarioFile::parse("x.toml", PUBLISHED).unwrap();
        let result =
            |kernel| compare(file.published(), &[], kernel, |_| Some(0.9e9))[0].model_published_kernel;
        assert_eq!((result("6.1.0"), result("6.18.0")), (None, Some(0.9e9)));
        assert_eq!(compare(file.published(), &[], "6.1", |_| None)[0].verdict, PublishedVerdict::NotRun);
    }
}
