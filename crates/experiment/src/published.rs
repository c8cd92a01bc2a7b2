//! Compares published figures with measured and predicted ones.

use scenario::{Comparison, LinkMetric, Metric, MetricPath, Published, RunMetric};
use schema::{
    EngineName, FigureBound, FlowSummary, KernelFigure, LinkDirection, PublishedResult, PublishedVerdict,
    RunSummary,
};
use units::sorted_releases;

use crate::reliability::{self, Unreliability};

/// Compares each published figure with the runs of its variant. Runs that name no kernel used `kernel`. `model` returns the
/// model's figure without a run: closed forms, and predictions for a kernel for which the published figure holds.
pub fn compare(
    published: &[Published],
    runs: &[RunSummary],
    kernel: &str,
    model: impl Fn(&Published) -> Option<f64>,
) -> Vec<PublishedResult> {
    published.iter().map(|p| compare_one(p, runs, kernel, &model)).collect()
}

fn compare_one(
    published: &Published,
    runs: &[RunSummary],
    kernel: &str,
    without_run: &impl Fn(&Published) -> Option<f64>,
) -> PublishedResult {
    let is_closed_form = published.figure.is_closed_form();
    let candidate = |engine: EngineName, own_kernel: Option<&str>| {
        let of_engine = |run: &&RunSummary| {
            run.engine == engine
                && run.variant == published.variant
                && !run.partial
                && (own_kernel.is_none() || run.kernel.as_deref() == own_kernel)
        };
        let runs: Vec<&RunSummary> = runs.iter().filter(of_engine).collect();
        let values: Vec<f64> = runs.iter().filter_map(|run| value(published, run)).collect();
        let figure = match engine {
            EngineName::Model if is_closed_form => without_run(published),
            _ => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
        };
        let on = runs.iter().find_map(|run| run.kernel.as_deref()).unwrap_or(kernel);
        Some(Candidate { is_applicable: published.holds_on(on), figure: figure?, runs })
    };
    let (model, sim, lab) = (
        candidate(EngineName::Model, None),
        candidate(EngineName::Sim, None),
        candidate(EngineName::Lab, None),
    );
    let guests: Vec<(&str, Candidate<'_>)> = guest_kernels(runs)
        .into_iter()
        .filter_map(|version| Some((version, candidate(EngineName::Kernel, Some(version))?)))
        .collect();
    // The verdict comes from the candidate nearest to reality whose kernel is one for which the published figure holds. Guest
    // kernels come first: they run the real code, and nothing disturbs them.
    let candidates: Vec<&Candidate<'_>> =
        guests.iter().map(|(_, guest)| guest).rev().chain(&lab).chain(&sim).chain(&model).collect();
    let judge = candidates.iter().find(|candidate| candidate.is_applicable).or(candidates.first());
    let (verdict, unreliable) = match judge {
        None => (PublishedVerdict::NotRun, Unreliability::default()),
        Some(judge) => judge.verdict(published),
    };
    PublishedResult {
        id: published.id.clone(),
        metric: published.metric_path(),
        variant: published.variant.clone(),
        published: published.value,
        bound: match published.comparison {
            Comparison::About => None,
            Comparison::Below => Some(FigureBound::Below),
            Comparison::Above => Some(FigureBound::Above),
        },
        unit: published.unit().into(),
        tolerance: published.tolerance,
        model: model.as_ref().map(|model| model.figure),
        sim: sim.as_ref().map(|sim| sim.figure),
        lab: lab.as_ref().map(|lab| lab.figure),
        kernels: guests
            .iter()
            .map(|(version, guest)| KernelFigure {
                kernel: (*version).into(),
                figure: guest.figure,
                verdict: guest.verdict(published).0,
            })
            .collect(),
        model_published_kernel: if is_closed_form || published.holds_on(kernel) {
            None
        } else {
            without_run(published)
        },
        faults: match verdict {
            PublishedVerdict::Unreliable | PublishedVerdict::Untrusted => unreliable.faults,
            _ => Vec::new(),
        },
        known_miss: published.known_miss.clone().filter(|_| verdict == PublishedVerdict::Missed),
        verdict,
        contradiction: published.contradiction.clone(),
        why: published.why.clone(),
    }
}

/// An engine's figure for comparison with a published one: the mean of these runs.
struct Candidate<'a> {
    figure: f64,
    runs: Vec<&'a RunSummary>,
    /// Whether the published figure holds for the kernel of the runs.
    is_applicable: bool,
}

impl Candidate<'_> {
    fn verdict(&self, published: &Published) -> (PublishedVerdict, Unreliability) {
        let mut unreliable = Unreliability::default();
        for run in self.runs.iter().filter(|_| !published.figure.is_closed_form()) {
            unreliable.merge(reliability::judge(published, run));
        }
        let verdict = match () {
            () if published.value.is_none() => PublishedVerdict::NoFigure,
            // Even if it agrees: an unreliable figure proves nothing.
            () if unreliable.has_faults() && unreliable.disturbed => PublishedVerdict::Unreliable,
            () if unreliable.has_faults() => PublishedVerdict::Untrusted,
            () if published.agrees(self.figure) == Some(true) => PublishedVerdict::Within,
            () if published.contradiction.is_some() => PublishedVerdict::Contradicted,
            () if !self.is_applicable => PublishedVerdict::Differs,
            () => PublishedVerdict::Missed,
        };
        (verdict, unreliable)
    }
}

/// The versions of all guest kernels among the runs, oldest first.
fn guest_kernels(runs: &[RunSummary]) -> Vec<&str> {
    let of_guests = runs.iter().filter(|run| run.engine == EngineName::Kernel);
    sorted_releases(of_guests.filter_map(|run| run.kernel.as_deref()))
}

/// A run's figure in the unit of the published one.
pub fn value(published: &Published, run: &RunSummary) -> Option<f64> {
    let figure = figure(&published.figure, run)?;
    match &published.over {
        None => Some(figure),
        Some(over) => Some(figure / self::figure(over, run)?).filter(|ratio| ratio.is_finite()),
    }
}

/// A figure of a run in its unit. `None` for closed forms, which need no run.
pub fn figure(figure: &MetricPath, run: &RunSummary) -> Option<f64> {
    match figure {
        MetricPath::Flow { flow, metric: of } => metric(run.flows.iter().find(|f| f.name == *flow)?, *of),
        MetricPath::Link { link, direction, metric } => {
            let direction = LinkDirection::from(direction.name());
            let link = run.links.iter().find(|l| l.name == *link && l.direction == direction)?;
            match metric {
                LinkMetric::Utilization => link.utilization,
                LinkMetric::MeanQueue => Some(link.mean_queue_bytes),
                LinkMetric::MaxQueue => Some(link.max_queue_bytes as f64),
            }
        }
        MetricPath::Run(RunMetric::Goodput) => {
            let goodputs: Vec<f64> = run.flows.iter().filter_map(|f| f.goodput_bps).collect();
            (!goodputs.is_empty()).then(|| goodputs.iter().sum())
        }
        MetricPath::Run(RunMetric::Jain) => run.fairness_jain,
        MetricPath::ClosedForm { .. } => None,
    }
}

/// A flow's figure in the metric's unit.
pub fn metric(flow: &FlowSummary, metric: Metric) -> Option<f64> {
    let seconds = |us: Option<f64>| us.map(|us| us * 1e-6);
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    match metric {
        Metric::Goodput => flow.goodput_bps,
        Metric::SteadyGoodput => flow.steady_goodput_bps,
        Metric::MinRtt => seconds(flow.min_rtt_us),
        Metric::MeanRtt => seconds(flow.mean_rtt_us),
        Metric::MedianRtt => seconds(flow.median_rtt_us),
        Metric::MaxRtt => seconds(flow.max_rtt_us),
        Metric::FirstRtt => seconds(flow.first_rtt_us),
        Metric::MeanCwnd => bytes(flow.mean_cwnd_bytes),
        Metric::MaxCwnd => bytes(flow.max_cwnd_bytes),
        Metric::ReceiveWindow => bytes(flow.max_rcv_wnd_bytes),
        Metric::RetransmittedShare => {
            let sent = flow.sent_segs.filter(|sent| *sent > 0)?;
            Some(flow.retransmitted_segs? as f64 / sent as f64)
        }
        Metric::Recovery => flow.recovery_s,
        Metric::LossShare => flow.loss_share,
        Metric::Jitter => seconds(flow.jitter_us),
        Metric::MeanOwd => seconds(flow.mean_owd_us),
    }
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{Quality, Reliability};

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

    fn verdict(kernel: &str, goodput: f64, reliable: bool) -> PublishedVerdict {
        let file = ScenarioFile::parse("x.toml", PUBLISHED).unwrap();
        let runs = [run("lab", goodput, reliable)];
        compare(file.published(), &runs, kernel, |_| Some(0.9e9))[0].verdict
    }

    fn run(engine: &str, goodput: f64, reliable: bool) -> RunSummary {
        let mut quality = Quality { reliability: Reliability::Reliable, ..Quality::default() };
        if !reliable {
            quality.add_disturbance("late".into());
        }
        RunSummary {
            engine: engine.into(),
            variant: None,
            flows: vec![FlowSummary {
                name: "f".into(),
                goodput_bps: Some(goodput),
                ..FlowSummary::default()
            }],
            quality,
            ..serde_json::from_str::<schema::Summary>(record::EXAMPLE_SUMMARY).unwrap().runs.remove(0)
        }
    }

    /// Replaces one line of `PUBLISHED` and compares its first figure with these runs.
    fn compare_replaced(line: &str, by: &str, runs: &[RunSummary]) -> PublishedResult {
        assert!(PUBLISHED.contains(line), "{line}");
        let file = ScenarioFile::parse("x.toml", &PUBLISHED.replace(line, by)).unwrap();
        compare(file.published(), runs, "6.1.0", |_| None).remove(0)
    }

    #[test]
    fn only_an_expected_and_reliable_figure_can_be_missed() {
        assert_eq!(verdict("6.1.0", 1.05e9, true), PublishedVerdict::Within);
        assert_eq!(verdict("6.1.0", 1.2e9, true), PublishedVerdict::Missed);
        assert_eq!(verdict("6.1.0", 1.2e9, false), PublishedVerdict::Unreliable);
        assert_eq!(verdict("6.18.1", 1.2e9, true), PublishedVerdict::Differs);
        // Unreliability takes precedence over agreement.
        assert_eq!(verdict("6.18.1", 0.95e9, false), PublishedVerdict::Unreliable);
        assert_eq!(verdict("6.18.1", 1.2e9, false), PublishedVerdict::Unreliable);
    }

    #[test]
    fn an_unreliable_figure_has_its_reasons() {
        let mut one = run("lab", 1.2e9, false);
        let result = compare_replaced("why", "why", std::slice::from_ref(&one));
        assert_eq!((result.verdict, result.faults), (PublishedVerdict::Unreliable, vec!["late".to_owned()]));
        // A fault that a quiet machine would not change.
        one.quality.reliability = Reliability::Invalid;
        let result = compare_replaced("why", "why", &[one, run("lab", 1.2e9, true)]);
        assert_eq!((result.verdict, result.faults.len()), (PublishedVerdict::Untrusted, 1));
        assert_eq!(compare_replaced("why", "why", &[run("lab", 1.2e9, true)]).faults, [""; 0]);
    }

    #[test]
    fn the_prediction_for_the_published_kernel_is_added_if_the_kernel_differs() {
        let file = ScenarioFile::parse("x.toml", PUBLISHED).unwrap();
        let result =
            |kernel| compare(file.published(), &[], kernel, |_| Some(0.9e9))[0].model_published_kernel;
        assert_eq!((result("6.1.0"), result("6.18.0")), (None, Some(0.9e9)));
        assert_eq!(compare(file.published(), &[], "6.1", |_| None)[0].verdict, PublishedVerdict::NotRun);
    }

    #[test]
    fn bounds_are_one_sided() {
        let of = |value: &str, goodput| {
            compare_replaced(
                "value = \"1gbit\"\ntolerance = \"10%\"",
                &format!("value = \"{value}\""),
                &[run("sim", goodput, true)],
            )
            .verdict
        };
        assert_eq!(of("<1gbit", 0.1e9), PublishedVerdict::Within);
        assert_eq!(of("<1gbit", 1.01e9), PublishedVerdict::Missed);
        assert_eq!(of(">1gbit", 5e9), PublishedVerdict::Within);
        assert_eq!(of(">1gbit", 0.99e9), PublishedVerdict::Missed);
    }

    #[test]
    fn a_source_that_contradicts_itself_is_not_missed() {
        let line = "why = \"because\"";
        let by = "contradiction = \"the row does not follow from its formula\"";
        let result = compare_replaced(line, by, &[run("sim", 2e9, true)]);
        assert_eq!(result.verdict, PublishedVerdict::Contradicted);
        assert!(result.contradiction.is_some());
        assert_eq!(compare_replaced(line, by, &[run("sim", 1e9, true)]).verdict, PublishedVerdict::Within);
    }

    #[test]
    fn links_runs_and_ratios_have_figures() {
        let mut one = run("sim", 1e9, true);
        one.fairness_jain = Some(0.9);
        one.links = vec![schema::LinkSummary {
            name: "a-b".into(),
            direction: LinkDirection::Forward,
            utilization: Some(0.7),
            ..schema::LinkSummary::default()
        }];
        let of = |metric: &str, value: &str| {
            let by = format!("metric = \"{metric}\"\nvalue = \"{value}\"");
            let result = compare_replaced(
                "metric = \"flows.f.goodput\"\nvalue = \"1gbit\"",
                &by,
                std::slice::from_ref(&one),
            );
            (result.sim, result.unit)
        };
        assert_eq!(of("run.jain", "0.9"), (Some(0.9), "1".into()));
        assert_eq!(of("links.a-b.utilization", "70%"), (Some(0.7), "1".into()));
        assert_eq!(of("links.a-b.backward.utilization", "70%").0, None);
        let ratio = "flows.f.goodput\"\nover = \"run.goodput";
        assert_eq!(of(ratio, "1"), (Some(1.0), "1".into()));
    }

    #[test]
    fn a_simulated_kernel_for_which_the_figure_holds_precedes_a_real_one_for_which_it_does_not() {
        let file = ScenarioFile::parse("x.toml", PUBLISHED).unwrap();
        let simulated = RunSummary { kernel: Some("6.1".into()), ..run("sim", 1e9, true) };
        let runs = [run("lab", 2e9, true), simulated];
        assert_eq!(compare(file.published(), &runs, "6.18", |_| None)[0].verdict, PublishedVerdict::Within);
        assert_eq!(
            compare(file.published(), &runs[..1], "6.18", |_| None)[0].verdict,
            PublishedVerdict::Differs
        );
    }
}
