//! Computes a run from the text of a scenario file.

use computed_runs::{
    EngineChoice, MeasuredRun, add_parts,
    congestion::{flows_with_cc, missing_algorithm, name_mistake, parameter_mistakes},
    model_engine,
    sim_engine::{CongestionControls, Simulator},
    sysctl_defaults,
};
use engine_common::error_chain;
use scenario::{Cc, CcMistake, Scenario, ScenarioFile};
use schema::{HostInfo, RunSummary, SUMMARY_SCHEMA, Summary};
use serde::{Deserialize, Serialize};
use tcp::parameters::Parameter;
use units::KernelVersion;

use crate::topology::Topology;

/// The kernel of hosts without the key `kernel`.
const KERNEL: KernelVersion = KernelVersion { major: 6, minor: 18, patch: 0 };

/// A run to compute.
#[derive(Debug, Clone, Deserialize)]
pub struct Request {
    /// The scenario file's name.
    pub name: String,
    /// Its text.
    pub toml: String,
    /// `model` or `sim`.
    pub engine: String,
    /// The variant. Without one, or if the file no longer has it, the first one of the file.
    #[serde(default)]
    pub variant: Option<String>,
}

/// The result of a request without its rows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The run.
    Run(Box<Computed>),
    /// The mistakes in the file.
    Mistakes(Vec<Mistake>),
    /// Why the run failed.
    Failed(String),
}

/// A computed run without its rows.
#[derive(Debug, Serialize)]
pub struct Computed {
    /// The summary, with one run.
    pub summary: Summary,
    /// The names of the file's variants.
    pub variants: Vec<String>,
    /// The resolved scenario.
    pub toml: String,
    /// The network, as the page draws it.
    topology: Topology,
    /// The flows that have samples.
    pub flows: Vec<String>,
    /// The link directions that have samples, as in `s1-s2 forward`.
    pub links: Vec<String>,
    /// Samples of flows.
    pub rows: usize,
    /// The time of the last sample, or the run's duration if that is later.
    pub end_s: f64,
}

/// A mistake in a scenario file.
#[derive(Debug, Serialize)]
pub struct Mistake {
    /// Its line and column, from 1; `None` if it has no position in the file.
    pub position: Option<(usize, usize)>,
    /// The message.
    pub message: String,
    /// How to correct it, if that is known.
    pub advice: Option<String>,
}

/// The congestion controls of the playground.
pub trait Library: CongestionControls {
    /// The names of the algorithms.
    fn names(&self) -> Vec<&str>;

    /// The parameters of an algorithm; `None` if there is none of this name.
    fn parameters(&self, name: &str) -> Option<Vec<Parameter>>;
}

/// Computes a run. The rows are returned separately from the reply.
pub fn compute(
    request: &Request,
    library: &mut dyn Library,
    observer: &mut dyn sim::Observer,
) -> (Answer, Option<MeasuredRun>) {
    match checked(request, library) {
        Ok((file, scenario, engine, variant)) => {
            run(request, &file, scenario, &engine, variant, library, observer)
        }
        Err(answer) => (answer, None),
    }
}

type Checked = (ScenarioFile, Scenario, EngineChoice, Option<String>);

/// The scenario of a request.
fn checked(request: &Request, library: &dyn Library) -> Result<Checked, Answer> {
    let engine = match request.engine.as_str() {
        "model" => EngineChoice::Model,
        "sim" => EngineChoice::Sim,
        other => {
            return Err(Answer::Failed(format!("a browser has no engine {other:?}; it has model and sim")));
        }
    };
    let no_files = |_: &str| Err("a page has no access to files; use `longfat run`".to_owned());
    let file = ScenarioFile::parse_with(&request.name, &request.toml, &no_files)?;
    file.check_runnable()?;
    let wanted = request.variant.as_deref();
    let variant = file.variants().find(|name| Some(*name) == wanted).or_else(|| file.variants().next());
    let variant = variant.map(str::to_owned);
    let scenario = file.resolve_with(variant.as_deref(), &[], &no_files)?;
    let mistakes = cc_mistakes(&scenario, &engine, library);
    if !mistakes.is_empty()
        && let Some(error) = file.cc_error(variant.as_deref(), &[], &mistakes)
    {
        return Err(error.into());
    }
    let scenario = sysctl_defaults::add_defaults(&machine_setting, scenario, &engine, Some(KERNEL));
    Ok((file, scenario, engine, variant))
}

/// The mistakes in the congestion controls of flows.
fn cc_mistakes(scenario: &Scenario, engine: &EngineChoice, library: &dyn Library) -> Vec<CcMistake> {
    let names = library.names();
    let of_flow = |(flow, cc): (&scenario::FlowSpec, &Cc)| match cc {
        Cc::Named(name) => name_mistake(flow, name, engine, &names).into_iter().collect(),
        _ => match library.parameters(cc.name()) {
            Some(known) => parameter_mistakes(flow, cc, cc.name(), &known),
            None => vec![missing_algorithm(flow, cc, &names)],
        },
    };
    flows_with_cc(scenario).flat_map(of_flow).collect()
}

fn run(
    request: &Request,
    file: &ScenarioFile,
    scenario: Scenario,
    engine: &EngineChoice,
    variant: Option<String>,
    library: &mut dyn Library,
    observer: &mut dyn sim::Observer,
) -> (Answer, Option<MeasuredRun>) {
    let initial = initial_summary(request, &scenario, engine, variant.clone());
    let kernel = KERNEL.to_string();
    let computed = match engine {
        EngineChoice::Model => {
            let summary = model_engine::run(&machine_setting, &scenario, initial, &kernel);
            Ok(MeasuredRun { summary, flows: Vec::new(), links: Vec::new(), events: Vec::new() })
        }
        _ => {
            let simulator =
                Simulator { sysctls: &machine_setting, machine_kernel: &kernel, kernel: Some(KERNEL) };
            // The page measures the elapsed time.
            simulator.run(&scenario, initial, library, observer, || std::time::Duration::ZERO)
        }
    };
    let mut run = match computed {
        Ok(run) => run,
        Err(error) => return (Answer::Failed(error_chain(&error)), None),
    };
    add_parts(file, variant.as_deref(), &run.flows, &mut run.summary);
    let toml = scenario.to_toml();
    let times = run.flows.iter().map(|row| row.time_us).chain(run.links.iter().map(|row| row.time_us));
    let last_us = times.max().unwrap_or(0);
    let answer = Computed {
        summary: Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: file.name().into(),
            title: file.title().into(),
            host: HostInfo { kernel, cpus: 0 },
            published: Vec::new(),
            runs: vec![run.summary.clone()],
        },
        variants: file.variants().map(Into::into).collect(),
        topology: Topology::of(&run.summary, &toml),
        toml,
        flows: distinct(run.flows.iter().map(|row| row.flow.clone())),
        links: distinct(run.links.iter().map(|row| format!("{} {}", row.link, row.direction))),
        rows: run.flows.len(),
        end_s: (last_us as f64 / 1e6).max(run.summary.duration_s),
    };
    (Answer::Run(Box::new(answer)), Some(run))
}

/// The texts in the order of their first occurrence.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    texts.for_each(|text| {
        if !found.contains(&text) {
            found.push(text);
        }
    });
    found
}

/// The run's summary before its start.
fn initial_summary(
    request: &Request,
    scenario: &Scenario,
    engine: &EngineChoice,
    variant: Option<String>,
) -> RunSummary {
    let sender_kernel = scenario.flows.iter().find_map(|flow| scenario.host(&flow.from)?.kernel);
    let kernel = match sender_kernel {
        Some((major, minor)) => Some(format!("{major}.{minor}")),
        None => (*engine == EngineChoice::Sim).then(|| KERNEL.to_string()),
    };
    RunSummary {
        variant,
        kernel,
        sysctl_defaults: Some(sysctl_defaults::describe(scenario, engine, Some(KERNEL))),
        file: Some(request.name.clone()),
        seed: scenario.seed,
        duration_s: scenario.duration.as_secs_f64(),
        ..RunSummary::begun(engine.name(), String::new())
    }
}

/// The machine's sysctls: the defaults of its kernel.
fn machine_setting(name: &str) -> Option<String> {
    sysctl_defaults::linux_default((KERNEL.major as u8, KERNEL.minor as u8), name)
}

impl From<scenario::Error> for Answer {
    fn from(error: scenario::Error) -> Self {
        let mistake = |mistake: &scenario::Mistake| Mistake {
            position: mistake.position(),
            message: mistake.to_string(),
            advice: mistake.advice().map(Into::into),
        };
        Answer::Mistakes(error.mistakes().iter().map(mistake).collect())
    }
}

#[cfg(test)]
mod tests {
    use tcp::{CongestionControl, parameters::ParameterType};

    use super::*;

    const SCENARIO: &str = r#"duration = "2s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "100mbit", delay = "10ms", queue = "1MB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
"#;

    /// Knows CUBIC by name only: these tests do not simulate TCP.
    struct NamesOnly;

    impl CongestionControls for NamesOnly {
        fn has(&self, cc: &Cc) -> bool {
            cc.name() == "cubic"
        }

        fn controller(
            &mut self,
            _: &Cc,
            _: u32,
            _: u64,
        ) -> Result<Box<dyn CongestionControl>, Box<dyn std::error::Error + Send + Sync>> {
            Err("no algorithms here".into())
        }
    }

    impl Library for NamesOnly {
        fn names(&self) -> Vec<&str> {
            vec!["cubic"]
        }

        fn parameters(&self, name: &str) -> Option<Vec<Parameter>> {
            let beta = Parameter {
                name: "beta".into(),
                doc: "Share of the window after a loss.".into(),
                ty: ParameterType::Integer { bytes: 4, signed: false },
                scale: Some(1024),
                default_raw: 717,
                line: 1,
            };
            (name == "cubic").then(|| vec![beta])
        }
    }

    fn answer(toml: &str, engine: &str) -> Answer {
        let request =
            Request { name: "x.toml".into(), toml: toml.into(), engine: engine.into(), variant: None };
        compute(&request, &mut NamesOnly, &mut ()).0
    }

    fn mistake(toml: &str) -> Mistake {
        match answer(toml, "sim") {
            Answer::Mistakes(mut mistakes) => mistakes.remove(0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn mistakes_have_positions_in_the_file_and_messages() {
        let found = mistake(&SCENARIO.replace("delay", "dealy"));
        assert_eq!(
            (found.position, found.message.as_str()),
            (Some((6, 31)), "unknown key \"dealy\" in a link's direction")
        );
        assert_eq!(found.advice.as_deref(), Some("did you mean \"delay\"?"));
        let found = mistake(&SCENARIO.replace("\"cubic\"", "\"cubix\""));
        assert_eq!(found.position.map(|(line, _)| line), Some(11));
        assert!(found.message.contains("cubix"), "{found:?}");
        let own = "{ name = \"cubic\", gamma = 1 }";
        let found = mistake(&SCENARIO.replace("\"cubic\"", own));
        assert!(found.message.contains("no parameter \"gamma\""), "{found:?}");
        assert_eq!(found.advice.as_deref(), Some("it has beta"));
        let found = mistake(&SCENARIO.replace("\"cubic\"", "{ file = \"mine.bpf.c\" }"));
        assert!(format!("{found:?}").contains("a page has no access to files"), "{found:?}");
    }

    #[test]
    fn the_model_computes_a_run() {
        let Answer::Run(computed) = answer(SCENARIO, "model") else { panic!("no run") };
        let run = &computed.summary.runs[0];
        assert_eq!(run.sysctl_defaults.as_deref(), Some("Linux 6.18's defaults"));
        let goodput = run.flows[0].steady_goodput_bps.unwrap();
        assert!((90e6..97e6).contains(&goodput), "{goodput}");
        assert_eq!(computed.end_s, 2.0);
    }

    #[test]
    fn a_variant_that_the_file_no_longer_has_is_the_first() {
        let toml = format!("{SCENARIO}[[variants]]\nname = \"one\"\n[[variants]]\nname = \"two\"\n");
        for (toml, wanted, computed) in
            [(&*toml, "two", Some("two")), (&*toml, "old", Some("one")), (SCENARIO, "old", None)]
        {
            let (toml, variant) = (toml.to_owned(), Some(wanted.to_owned()));
            let request = Request { name: "x.toml".into(), toml, engine: "model".into(), variant };
            let (answer, _) = compute(&request, &mut NamesOnly, &mut ());
            let Answer::Run(run) = answer else { panic!("no run") };
            assert_eq!(run.summary.runs[0].variant.as_deref(), computed);
        }
    }

    #[test]
    fn a_failed_run_reports_the_reason() {
        let Answer::Failed(why) = answer(SCENARIO, "sim") else { panic!("no failure") };
        assert!(why.contains("flow bulk") && why.contains("no algorithms here"), "{why}");
        assert!(matches!(answer(SCENARIO, "lab"), Answer::Failed(_)));
    }
}
