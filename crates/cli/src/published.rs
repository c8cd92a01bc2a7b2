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
    let figure = |engine: &str| {
        let values: Vec<f64> = runs
            .iter()
            .filter(|run| run.engine == engine && run.variant == published.variant && !run.partial)
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
