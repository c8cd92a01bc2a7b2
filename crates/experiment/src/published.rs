//! Compares published figures with measured and predicted ones.

use scenario::{Across, Comparison, KNEE_TOLERANCE, Kind, PerEngine, Published};
use schema::{
    EngineName, EngineVerdict, FigureBound, FigureKind, KernelFigure, PublishedResult, PublishedVerdict,
    RunSummary,
};
use units::sorted_releases;

use crate::{
    path_comparison,
    reliability::{self, Unreliability},
    run_figure,
};

/// Why the model has no figure if no other reason is known.
const NO_CLOSED_FORM: &str = "it has no closed form for this figure";

/// The input of a comparison besides runs.
pub trait Predictions {
    /// The model's figure without a run: a closed form, or the prediction for a kernel for which the
    /// published figure holds.
    fn model(&self, published: &Published) -> Option<f64>;

    /// Why the model's figure does not apply: the decisive effect that it ignores. `None` if its figure
    /// applies.
    fn model_ignores(&self, published: &Published) -> Option<String>;

    /// The requested size of a flow's send or receive buffer in a variant, bytes.
    fn buffer_bytes(&self, variant: &str, flow: &str, is_send_buffer: bool) -> Option<f64>;
}

/// Compares each published figure with the runs of its variants. Runs that name no kernel used `kernel`.
pub fn compare(
    published: &[Published],
    runs: &[RunSummary],
    kernel: &str,
    predictions: &impl Predictions,
) -> Vec<PublishedResult> {
    published.iter().map(|p| compare_one(p, runs, kernel, predictions)).collect()
}

fn compare_one(
    published: &Published,
    runs: &[RunSummary],
    kernel: &str,
    predictions: &impl Predictions,
) -> PublishedResult {
    let is_closed_form = published.figure.is_closed_form();
    let is_run = |engine: &EngineName| runs.iter().any(|run| run.engine == *engine && !run.partial);
    let candidate = |engine: EngineName, own_kernel: Option<&str>| {
        let is_comparable = |run: &&RunSummary| {
            run.engine == engine
                && published.variants().contains(&run.variant.as_deref())
                && !run.partial
                && (own_kernel.is_none() || run.kernel.as_deref() == own_kernel)
        };
        let runs: Vec<&RunSummary> = runs.iter().filter(is_comparable).collect();
        let figure = match engine {
            EngineName::Model if is_closed_form => predictions.model(published),
            _ => across_runs(published, &runs, predictions),
        };
        let on = runs.iter().find_map(|run| run.kernel.as_deref()).unwrap_or(kernel);
        Candidate {
            is_applicable: published.holds_on(on),
            engine,
            kernel: own_kernel.map(str::to_owned),
            figure,
            runs,
        }
    };
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for engine in [EngineName::Model, EngineName::Sim, EngineName::Lab, EngineName::Hosts] {
        let of = candidate(engine.clone(), None);
        // Without a figure, the model states why; runs of other engines without a figure are not comparable.
        if of.figure.is_some() || engine == EngineName::Model && !of.runs.is_empty() && is_run(&engine) {
            candidates.push(of);
        }
    }
    let guests = guest_kernels(runs).into_iter().map(|version| candidate(EngineName::Kernel, Some(version)));
    candidates.extend(guests.filter(|guest| guest.figure.is_some()));
    let mut unreliable = Unreliability::default();
    let mut judged = Vec::new();
    for one in &candidates {
        let (verdict, faults) = one.verdict(published, predictions);
        unreliable.merge(faults);
        judged.push(verdict);
    }
    let verdict = PublishedVerdict::worst(judged.iter().map(|one| one.verdict));
    let figure = |engine: &EngineName| {
        let applies = |one: &&EngineVerdict| one.verdict != PublishedVerdict::DoesNotApply;
        judged.iter().filter(applies).find(|one| one.engine == *engine).and_then(|one| one.figure)
    };
    let missed: Vec<&EngineVerdict> =
        judged.iter().filter(|one| one.verdict == PublishedVerdict::Missed).collect();
    let causes: Option<Vec<&str>> = missed.iter().map(|one| one.why.as_deref()).collect();
    PublishedResult {
        id: published.id.clone(),
        metric: published.metric_path(),
        kind: figure_kind(published.kind),
        claim: published.claim.clone(),
        variant: published.variant.clone(),
        beside: published.beside.clone(),
        published: published.value,
        bound: match published.comparison {
            Comparison::About => None,
            Comparison::Below => Some(FigureBound::Below),
            Comparison::Above => Some(FigureBound::Above),
        },
        unit: published.unit().into(),
        tolerance: published.tolerance,
        model: figure(&EngineName::Model),
        sim: figure(&EngineName::Sim),
        lab: figure(&EngineName::Lab),
        hosts: figure(&EngineName::Hosts),
        kernels: judged
            .iter()
            .filter(|one| one.engine == EngineName::Kernel)
            .filter_map(|one| {
                Some(KernelFigure { kernel: one.kernel.clone()?, figure: one.figure?, verdict: one.verdict })
            })
            .collect(),
        model_published_kernel: if is_closed_form || published.holds_on(kernel) {
            None
        } else {
            predictions.model(published)
        },
        faults: match judged.iter().any(|one| one.verdict.is_inconclusive()) {
            true => unreliable.faults,
            false => Vec::new(),
        },
        // The miss is documented only if that of each engine is.
        known_miss: causes.filter(|causes| !causes.is_empty()).map(|mut causes| {
            causes.dedup();
            causes.join("; ")
        }),
        verdict,
        contradiction: published.contradiction.clone(),
        why: published.why.clone(),
        judged,
    }
}

/// The kind of a figure as results have it.
pub(crate) fn figure_kind(kind: Kind) -> FigureKind {
    match kind {
        Kind::Published => FigureKind::Published,
        Kind::Derived => FigureKind::Derived,
        Kind::MeasuredByUs => FigureKind::MeasuredByUs,
    }
}

/// The figure of these runs; `None` if a variant has none.
fn across_runs(published: &Published, runs: &[&RunSummary], predictions: &impl Predictions) -> Option<f64> {
    let mean = |variant: Option<&str>| {
        let own = runs.iter().filter(|run| run.variant.as_deref() == variant);
        let values: Vec<f64> = own.filter_map(|run| run_figure::published_value(published, run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let all =
        |variants: &[String]| -> Option<Vec<f64>> { variants.iter().map(|name| mean(Some(name))).collect() };
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let figure = match &published.across {
        Across::One => mean(published.variant.as_deref())?,
        Across::Against(other) => mean(published.variant.as_deref())? / mean(Some(other))?,
        Across::Level(variants) => {
            let values = all(variants)?;
            values.iter().copied().fold(f64::INFINITY, f64::min) / largest(&values)
        }
        Across::Knee { variants, flow, is_send_buffer } => {
            let values = all(variants)?;
            let sizes = variants.iter().map(|name| predictions.buffer_bytes(name, flow, *is_send_buffer));
            let sizes: Vec<f64> = sizes.collect::<Option<_>>()?;
            let level = (1.0 - KNEE_TOLERANCE) * largest(&values);
            let mut points: Vec<(f64, f64)> = sizes.into_iter().zip(values).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let first = points.iter().rposition(|(_, y)| *y < level).map_or(0, |below| below + 1);
            points.get(first)?.0
        }
    };
    figure.is_finite().then_some(figure)
}

/// An engine's figure for comparison with a published one.
struct Candidate<'a> {
    engine: EngineName,
    /// The version of a guest kernel.
    kernel: Option<String>,
    figure: Option<f64>,
    runs: Vec<&'a RunSummary>,
    /// Whether the published figure holds for the kernel of the runs.
    is_applicable: bool,
}

impl Candidate<'_> {
    fn verdict(
        &self,
        published: &Published,
        predictions: &impl Predictions,
    ) -> (EngineVerdict, Unreliability) {
        let mut unreliable = Unreliability::default();
        for run in self.runs.iter().filter(|_| !published.figure.is_closed_form()) {
            unreliable.merge(reliability::judge(published, run));
        }
        let engine = self.engine.name();
        let ignored = published.does_not_apply.of(engine).map(str::to_owned).or_else(|| match self.engine {
            EngineName::Model => predictions.model_ignores(published),
            EngineName::Hosts => self.runs.iter().find_map(|run| path_comparison::difference(&run.path)),
            _ => None,
        });
        let of = |figure: Option<f64>, verdict, why| EngineVerdict {
            engine: self.engine.clone(),
            kernel: self.kernel.clone(),
            figure,
            verdict,
            why,
            experiment: None,
        };
        if let Some(why) = ignored {
            return (of(None, PublishedVerdict::DoesNotApply, Some(why)), Unreliability::default());
        }
        let Some(figure) = self.figure else {
            return (
                of(None, PublishedVerdict::DoesNotApply, Some(NO_CLOSED_FORM.into())),
                Unreliability::default(),
            );
        };
        if !unreliable.has_faults() && published.agrees(figure) == Some(false) {
            let busy = self.runs.iter().filter(|_| published.is_across_variants());
            busy.filter_map(|run| reliability::busy(run)).for_each(|fault| unreliable.merge(fault));
        }
        let verdict = match () {
            // Even if it agrees, and even if there is no figure to compare with: an unreliable figure proves
            // nothing.
            () if unreliable.has_faults() && unreliable.disturbed => PublishedVerdict::Unreliable,
            () if unreliable.has_faults() => PublishedVerdict::Untrusted,
            () if published.value.is_none() => PublishedVerdict::NoFigure,
            () if published.agrees(figure) == Some(true) => PublishedVerdict::Within,
            () if published.contradiction.is_some() => PublishedVerdict::Contradicted,
            () if !self.is_applicable => PublishedVerdict::Differs,
            () => PublishedVerdict::Missed,
        };
        let is_missed = verdict == PublishedVerdict::Missed;
        let text = |texts: &PerEngine| texts.of(engine).filter(|_| is_missed).map(str::to_owned);
        let judged = of(Some(figure), verdict, text(&published.known_miss));
        (EngineVerdict { experiment: text(&published.experiment), ..judged }, unreliable)
    }
}

/// The versions of all guest kernels among the runs, oldest first.
fn guest_kernels(runs: &[RunSummary]) -> Vec<&str> {
    let guest_runs = runs.iter().filter(|run| run.engine == EngineName::Kernel);
    sorted_releases(guest_runs.filter_map(|run| run.kernel.as_deref()))
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::{FlowSummary, LinkDirection, Quality, Reliability};

    use super::*;

    const NETWORK: &str = r#"
duration = "9s"
hosts.a.address = "10.0.0.1/24"
hosts.b.address = "10.0.0.2/24"
[[links]]
ends = ["a", "b"]
[[flows]]
name = "f"
from = "a"
to = "b"
"#;
    const PUBLISHED: &str = r#"
[[published]]
id = "X"
metric = "flows.f.goodput"
value = "1gbit"
tolerance = "10%"
holds_for = { kernel = "<6.6" }
why = "because"
"#;

    /// A model whose closed forms give `figure`, and that ignores the effect that `ignores` names.
    #[derive(Default)]
    struct Fixed {
        figure: Option<f64>,
        ignores: Option<String>,
    }

    impl Predictions for Fixed {
        fn model(&self, _: &Published) -> Option<f64> {
            self.figure
        }

        fn model_ignores(&self, _: &Published) -> Option<String> {
            self.ignores.clone()
        }

        /// Variants are named after their size.
        fn buffer_bytes(&self, variant: &str, _: &str, _: bool) -> Option<f64> {
            variant.strip_prefix('b')?.parse().ok()
        }
    }

    /// The network with these tables.
    fn parse(tables: &str) -> ScenarioFile {
        ScenarioFile::parse("x.toml", &format!("{NETWORK}{tables}")).unwrap()
    }

    fn verdict(kernel: &str, goodput: f64, reliable: bool) -> PublishedVerdict {
        let file = parse(PUBLISHED);
        let runs = [run("lab", goodput, reliable)];
        compare(file.published(), &runs, kernel, &Fixed { figure: Some(0.9e9), ..Fixed::default() })[0]
            .verdict
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
        let file = parse(&PUBLISHED.replace(line, by));
        compare(file.published(), runs, "6.1.0", &Fixed::default()).remove(0)
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
    fn an_unreliable_figure_is_neither_within_nor_missed() {
        let runs = [run("sim", 1e9, true), run("lab", 2e9, false)];
        let result = compare_replaced("why", "why", &runs);
        assert_eq!((result.verdict, result.faults), (PublishedVerdict::Within, vec!["late".to_owned()]));
        let lab = result.judged.iter().find(|one| one.engine == EngineName::Lab).unwrap();
        assert_eq!((lab.verdict, lab.figure), (PublishedVerdict::Unreliable, Some(2e9)));
        // Also where the source gives no figure to compare with.
        let result =
            compare_replaced("value = \"1gbit\"\ntolerance = \"10%\"", "value = \"none\"", &runs[1..]);
        assert_eq!(result.verdict, PublishedVerdict::Unreliable);
    }

    #[test]
    fn a_miss_of_several_runs_on_a_busy_machine_is_unreliable() {
        let claim = "variant = \"b10\"\nagainst = \"b30\"\nvalue = \"<50%\"\nclaim = \"poor\"";
        let of = |goodput: f64, busy: f64| {
            let file = parse(&format!("{SEVERAL}{claim}"));
            let of =
                |name: &str, goodput| RunSummary { variant: Some(name.into()), ..run("lab", goodput, true) };
            let mut runs = [of("b10", goodput), of("b30", 1e9)];
            runs[1].quality.other_programs_cpu = Some(busy);
            compare(file.published(), &runs, "6.1.0", &Fixed::default()).remove(0).verdict
        };
        assert_eq!(of(6e8, 0.02), PublishedVerdict::Missed);
        assert_eq!(of(6e8, 0.6), PublishedVerdict::Unreliable);
        assert_eq!(of(4e8, 0.6), PublishedVerdict::Within, "agreement");
    }

    #[test]
    fn the_prediction_for_the_published_kernel_is_added_if_the_kernel_differs() {
        let file = parse(PUBLISHED);
        let known = Fixed { figure: Some(0.9e9), ..Fixed::default() };
        let result = |kernel| compare(file.published(), &[], kernel, &known)[0].model_published_kernel;
        assert_eq!((result("6.1.0"), result("6.18.0")), (None, Some(0.9e9)));
        assert_eq!(
            compare(file.published(), &[], "6.1", &Fixed::default())[0].verdict,
            PublishedVerdict::NotRun
        );
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
    fn a_contradicted_figure_is_no_miss() {
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
    fn a_figure_on_another_kernel_decides_only_if_there_is_no_other() {
        let file = parse(PUBLISHED);
        let simulated = RunSummary { kernel: Some("6.1".into()), ..run("sim", 1e9, true) };
        let runs = [run("lab", 2e9, true), simulated];
        assert_eq!(
            compare(file.published(), &runs, "6.18", &Fixed::default())[0].verdict,
            PublishedVerdict::Within
        );
        assert_eq!(
            compare(file.published(), &runs[..1], "6.18", &Fixed::default())[0].verdict,
            PublishedVerdict::Differs
        );
    }

    #[test]
    fn each_engine_is_judged_and_the_worst_that_applies_decides() {
        let runs = [run("model", 2e9, true), run("sim", 1e9, true)];
        let result = compare_replaced("why", "why", &runs);
        let verdict = |engine: &str| result.judged(&engine.into(), None).unwrap().verdict;
        assert_eq!((verdict("model"), verdict("sim")), (PublishedVerdict::Missed, PublishedVerdict::Within));
        assert_eq!(result.verdict, PublishedVerdict::Missed, "agreement of one engine does not hide a miss");

        let file = parse(PUBLISHED);
        let ignores = Fixed { ignores: Some("it ignores losses".into()), ..Fixed::default() };
        let result = compare(file.published(), &runs, "6.1.0", &ignores).remove(0);
        assert_eq!((result.verdict, result.model), (PublishedVerdict::Within, None), "no number by accident");
        assert_eq!(result.judged[0].why.as_deref(), Some("it ignores losses"));
    }

    #[test]
    fn a_miss_is_documented_only_if_that_of_each_engine_is() {
        let runs = [run("model", 2e9, true), run("sim", 2e9, true)];
        let of = |cause: &str| compare_replaced("why = \"because\"", cause, &runs).known_miss;
        assert_eq!(of("known_miss = { sim = \"a\" }"), None);
        assert_eq!(of("known_miss = { sim = \"a\", model = \"b\" }").as_deref(), Some("b; a"));
        assert_eq!(of("known_miss = \"c\"").as_deref(), Some("c"));
        // Also that of the lab, beside an engine that agrees.
        let runs = [run("sim", 1e9, true), run("lab", 2e9, true)];
        let of = |cause: &str| compare_replaced("why = \"because\"", cause, &runs);
        let undocumented = of("known_miss = { sim = \"a\" }");
        assert_eq!((undocumented.verdict, undocumented.known_miss), (PublishedVerdict::Missed, None));
        assert_eq!(of("known_miss = { lab = \"b\" }").known_miss.as_deref(), Some("b"));
    }

    #[test]
    fn a_miss_has_its_experiment() {
        let keys = "known_miss = \"a\"\nexperiment = { sim = \"longfat run x --set seed=2\" }";
        let of = |goodput| {
            let runs = [run("sim", goodput, true), run("lab", 2e9, true)];
            let judged = compare_replaced("why = \"because\"", keys, &runs).judged;
            judged.into_iter().map(|one| one.experiment).collect::<Vec<_>>()
        };
        assert_eq!(of(2e9), [Some("longfat run x --set seed=2".to_owned()), None]);
        assert_eq!(of(1e9), [None, None], "no miss");
    }

    #[test]
    fn a_run_between_hosts_is_judged_if_their_path_is_as_described() {
        let path = |is_as_expected| schema::PathComparison {
            flow: "f".into(),
            quantity: schema::PathQuantity::Rtt,
            expected: 20e3,
            measured: 31e3,
            is_as_expected,
        };
        let of = |is_as_expected| {
            let one = RunSummary { path: vec![path(is_as_expected)], ..run("hosts", 2e9, true) };
            compare_replaced("why", "why", &[one])
        };
        assert_eq!((of(true).hosts, of(true).verdict), (Some(2e9), PublishedVerdict::Missed));
        let other = of(false);
        assert_eq!((other.hosts, other.judged[0].verdict), (None, PublishedVerdict::DoesNotApply));
        assert!(other.judged[0].why.as_ref().unwrap().contains("31 ms"), "{other:?}");
    }

    const SEVERAL: &str = r#"
[[variants]]
name = "b10"
seed = 2
[[variants]]
name = "b20"
seed = 3
[[variants]]
name = "b30"
seed = 4
[[published]]
id = "X"
metric = "flows.f.goodput"
"#;

    /// The figure of the simulated goodputs of b10, b20 and b30.
    fn several(keys: &str, goodputs: [f64; 3]) -> PublishedResult {
        let file = parse(&format!("{SEVERAL}{keys}"));
        let of = |(name, goodput): (&str, f64)| RunSummary {
            variant: Some(name.into()),
            ..run("sim", goodput, true)
        };
        let runs: Vec<RunSummary> = ["b10", "b20", "b30"].into_iter().zip(goodputs).map(of).collect();
        compare(file.published(), &runs, "6.1.0", &Fixed::default()).remove(0)
    }

    #[test]
    fn a_claim_compares_variants() {
        let less = "variant = \"b10\"\nagainst = \"b30\"\nvalue = \"<50%\"\nclaim = \"poor\"";
        let poor = several(less, [4e8, 5e8, 1e9]);
        assert_eq!((poor.sim, poor.verdict, poor.unit.as_str()), (Some(0.4), PublishedVerdict::Within, "1"));
        assert_eq!(poor.claim.as_deref(), Some("poor"));
        assert_eq!(several(less, [6e8, 5e8, 1e9]).verdict, PublishedVerdict::Missed);

        let level = "variants = [\"b20\", \"b30\"]\nvalue = \">95%\"";
        assert_eq!(several(level, [1e8, 9.9e8, 1e9]).verdict, PublishedVerdict::Within);
        assert_eq!(several(level, [1e9, 9e8, 1e9]).verdict, PublishedVerdict::Missed);

        let knee = "variants = [\"b30\", \"b10\", \"b20\"]\nknee_over = \"flows.f.send_buffer\"\nvalue = \"20B\"\ntolerance = \"1%\"";
        let found = several(knee, [5e8, 9.9e8, 1e9]);
        assert_eq!(
            (found.sim, found.unit.as_str(), found.verdict),
            (Some(20.0), "B", PublishedVerdict::Within)
        );
        assert_eq!(several(knee, [5e8, 9e8, 1e9]).sim, Some(30.0));
        assert_eq!(several(knee, [1e9, 9.9e8, 1e9]).sim, Some(10.0));
    }

    #[test]
    fn a_part_of_a_run_has_its_figure() {
        let part = "variant = \"b10\"\nbetween = [\"5s\", \"5.08s\"]\nvalue = \"<1mbit\"";
        let file = parse(&format!("{SEVERAL}{part}"));
        let mut one = RunSummary { variant: Some("b10".into()), ..run("sim", 1e9, true) };
        let of = |one: &RunSummary| {
            compare(file.published(), std::slice::from_ref(one), "6.1.0", &Fixed::default()).remove(0)
        };
        assert_eq!(of(&one).verdict, PublishedVerdict::NotRun, "no such part");
        one.flows[0].parts = vec![schema::PartGoodput { from_s: 5.0, to_s: 5.08, goodput_bps: 2e6 }];
        assert_eq!((of(&one).sim, of(&one).verdict), (Some(2e6), PublishedVerdict::Missed));
    }
}
