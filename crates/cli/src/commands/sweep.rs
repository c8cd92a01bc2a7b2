//! `longfat sweep`: a metric over the values of fields, or (with `--fit`) the values that match published
//! figures best.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use clap_complete::ArgValueCompleter;
use experiment::{
    EngineChoice, EngineChoices, Error, Experiment, FitRange, Job, LabSetup, PointStore, RecordedRuns,
    Retention, RunOptions, RunOrder, Search, Selection, Shard, SweepPlan, fit,
};
use record::RunsLocation;
use schema::{FitDocument, SWEEP_SCHEMA, Sweep};
use units::KernelVersion;

use super::{
    completions::complete_scenario, picture::PictureArgs, real_hosts::RealHostFlags, records,
    run::command_line,
};
use crate::{
    config_file::Config,
    exit::Exit,
    interrupt,
    open::{check_ports, experiment_of, parse_set, parse_simulated_kernel},
    output,
    path_flags::PathFlags,
    progress::ProgressDisplay,
    records_directory::RecordsDirectory,
};

/// Options of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The scenario file, or the name of a built-in scenario, as in cc-rtt-loss, mtu, socket-buffers,
    /// streams, transports, udp; several with --fit
    #[arg(value_name = "FILE", add = ArgValueCompleter::new(complete_scenario))]
    pub files: Vec<PathBuf>,
    /// Sweep a field in addition to those of the file's `[[sweeps]]`, as in
    /// `--over flows.bulk.send_buffer=16KiB,64KiB,256KiB` or, for several round-trip times of a path without
    /// a file, `--over links.path.both.delay=5ms,50ms`
    #[arg(long, value_name = "PATH=V1,V2,..", value_parser = parse_over)]
    pub over: Vec<(String, Vec<String>)>,
    /// Search for the value of a field that fits the published figures best, as in
    /// `--fit links.s1-s2.forward.queue=10p..1000p`
    #[arg(long, value_name = "PATH=LOW..HIGH",
          conflicts_with_all = ["over", "metric", "again"], requires = "files")]
    pub fit: Vec<FitRange>,
    /// With --fit: fit only the figures with these ids
    #[arg(long, value_delimiter = ',', value_name = "ID", requires = "fit")]
    pub to: Vec<String>,
    /// With --fit: maximum number of runs
    #[arg(long, alias = "most-runs", value_name = "N", default_value = "60", requires = "fit")]
    pub max_runs: NonZeroUsize,
    /// Engines, separated by commas: model, sim, lab, or all for these three; and kernel, or kernel:VERSION,
    /// a guest kernel in virtual time
    #[arg(long, value_delimiter = ',', default_value = "sim", value_name = "ENGINES")]
    pub engine: Vec<EngineChoices>,
    /// Run only these variants (repeatable, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub variant: Vec<String>,
    /// Change a value of the scenario, as in `--set duration=5s`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    pub sets: Vec<(String, String)>,
    /// Runs of each point, each with another seed [default: `repeat` of the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Metric, as in flows.bulk.goodput [default: goodput of the first TCP flow]
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Order of the runs: by-point, interleaved (the first repeat of all points, then the second), random or
    /// random:SEED
    #[arg(long, value_name = "ORDER", default_value = "by-point", hide_default_value = true)]
    pub order: RunOrder,
    /// Pause between two runs of the lab or between hosts, as in 5s
    #[arg(long, value_name = "TIME", value_parser = crate::iperf3_values::time)]
    pub pause: Option<Duration>,
    /// Maximum number of parallel simulations and guests [default: one per processor]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Repeat runs that are already recorded
    #[arg(long)]
    pub again: bool,
    /// Execute only every N-th run, from the K-th, and store the results in RUNS/.points, which N processes
    /// can share
    #[arg(long, value_name = "K/N", conflicts_with_all = ["fit", "gather", "output", "report", "require_reliable"])]
    pub shard: Option<Shard>,
    /// Execute nothing: show the sweep from the results that --shard has stored
    #[arg(long, conflicts_with_all = ["fit", "again"])]
    pub gather: bool,
    /// Linux version of simulated and modelled hosts, as in 6.1, with its default buffers [default: this
    /// machine's]
    #[arg(long, value_name = "VERSION", value_parser = parse_simulated_kernel)]
    pub kernel: Option<KernelVersion>,
    /// How the lab's hosts are connected: tap, or packet (veth and packet sockets)
    #[arg(long, value_name = "PORTS")]
    pub ports: Option<lab::Backend>,
    /// Plot the result into this file: SVG, PNG or PDF by its extension
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub picture: PictureArgs,
    /// Write the tables and the plot as one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write no records of these runs
    #[arg(long)]
    pub no_record: bool,
    /// Exit with code 5 if a measurement is unreliable
    #[arg(long, conflicts_with = "fit")]
    pub require_reliable: bool,
    #[command(flatten)]
    pub path: PathFlags,
    #[command(flatten)]
    pub real_hosts: RealHostFlags,
}

/// The result to show.
struct Shown {
    title: String,
    html: String,
    chart: view::Chart,
}

/// Runs the command.
pub fn run(args: &SweepArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    records::check_picture(args.output.as_deref())?;
    records::check_page(args.report.as_deref())?;
    if args.output.is_none() && args.picture.is_given() {
        return Err(Exit::BadInput("--size, --font-size, --style and --title need -o FILE".into()).into());
    }
    // Before the runs: reject a picture that is too small for its font.
    let too_small = |error: view::Error| Exit::BadInput(error.to_string());
    args.picture.appearance().draw_chart(&view::Chart::default()).map_err(too_small)?;
    check_ports(args.ports, &EngineChoices::chosen(&args.engine))?;
    match args.fit.is_empty() {
        true => sweep(args, config, runs, json),
        false => search(args, config, json),
    }
}

fn sweep(args: &SweepArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    if args.files.len() > 1 {
        return Err(Exit::BadInput("several scenario files are only allowed with --fit".into()).into());
    }
    let experiment = experiment(args, args.files.first())?;
    let selection = Selection {
        engines: EngineChoices::chosen(&args.engine),
        variants: args.variant.clone(),
        over: args.over.clone(),
        repeat: args.repeat,
    };
    let is_stored = args.shard.is_some() || args.gather;
    let store = is_stored.then(|| PointStore::of_location(runs)).transpose()?;
    let recorded = match (&store, args.again) {
        (_, true) => RecordedRuns::none(),
        (Some(store), false) => RecordedRuns::in_store(store),
        (None, false) => RecordedRuns::read(runs, experiment.file.name())?,
    };
    let plan = experiment.plan_sweep(&selection, args.metric.as_deref(), &recorded)?.in_order(args.order);
    let missing = plan.missing();
    if let Some(store) = &store {
        if let Some(shard) = args.shard {
            return run_shard(args, &plan, shard, store, json);
        }
        require_all(&missing, &plan, store)?;
    }
    let records = RecordsDirectory::choose(runs, &selection.engines, args.no_record || args.gather)?;
    let scenarios = missing.iter().map(|job| &job.scenario);
    let hosts = args.real_hosts.setup(&selection.engines, scenarios, config)?;
    args.real_hosts.check_load(&missing, args.pause.unwrap_or_default())?;
    let stop = interrupt::flag()?;
    let progress = ProgressDisplay::new();
    let in_lab = plan.missing().iter().any(|job| job.engine == EngineChoice::Lab);
    let setup = in_lab.then(|| LabSetup::acquire(args.ports, &progress)).transpose()?;
    let options = RunOptions {
        lab: setup.as_ref(),
        hosts: hosts.as_ref(),
        pause: args.pause.unwrap_or_default(),
        retention: records.retention(),
        observer: &progress,
        stop: &stop,
        parallel_runs: args.jobs,
        ..RunOptions::default()
    };
    let mut sweep = plan.run(&options).inspect_err(|error| {
        if matches!(error, Error::Interrupted) {
            output::note("interrupted; repeat the command to continue");
        }
    })?;
    for record in sweep.points.iter_mut().flat_map(|point| &mut point.records).flatten() {
        *record = runs.name_of(Path::new(record));
    }
    let text = view::sweep::sweep(&sweep, output::width());
    let shown = match json {
        true => output::json(&sweep),
        false => output::prose(&format!("{}\n{text}", sweep.title)),
    };
    let html = view::sweep::sweep_html(&sweep);
    draw(
        args,
        config,
        &Shown { title: sweep.title.clone(), html, chart: view::sweep::chart_of_sweep(&sweep) },
    )?;
    require_points(args.require_reliable, &sweep)?;
    shown
}

/// `--shard`.
fn run_shard(
    args: &SweepArgs,
    plan: &SweepPlan<'_>,
    shard: Shard,
    store: &PointStore,
    json: bool,
) -> anyhow::Result<()> {
    let (stop, progress) = (interrupt::flag()?, ProgressDisplay::new());
    let options = RunOptions {
        retention: Retention::Point(store),
        observer: &progress,
        stop: &stop,
        parallel_runs: args.jobs,
        ..RunOptions::default()
    };
    let executed = plan.run_shard(shard, &options)?;
    let runs = (0..plan.runs()).filter(|index| shard.contains(*index)).count();
    match json {
        true => output::json(&serde_json::json!({
            "schema": "longfat.shard/1",
            "shard": shard.number,
            "shards": shard.count,
            "runs": runs,
            "executed": executed,
            "store": store.name(),
        })),
        false => output::prose(&format!(
            "shard {}/{}: {runs} of {} runs; executed: {executed}, already stored: {}\nresults: {}",
            shard.number,
            shard.count,
            plan.runs(),
            runs - executed,
            store.name()
        )),
    }
}

/// Returns an error if a run has no stored result.
fn require_all(missing: &[Job<'_>], plan: &SweepPlan<'_>, store: &PointStore) -> anyhow::Result<()> {
    match missing.len() {
        0 => Ok(()),
        count => Err(Exit::Failed(format!(
            "{count} of {} runs have no result in {}: execute their shards, or all that are missing with --shard 1/1",
            plan.runs(),
            store.name()
        ))
        .into()),
    }
}

/// Returns an error with exit code 5 if reliable runs are required and a point has unreliable ones.
fn require_points(is_required: bool, sweep: &Sweep) -> anyhow::Result<()> {
    let unreliable = sweep.points.iter().filter(|point| !point.quality_ok).count();
    match is_required && unreliable > 0 {
        true => {
            Err(Exit::Unreliable(format!("unreliable measurements: {unreliable} points of the sweep")).into())
        }
        false => Ok(()),
    }
}

/// `--fit`.
fn search(args: &SweepArgs, config: &Config, json: bool) -> anyhow::Result<()> {
    let engines = EngineChoices::chosen(&args.engine);
    let [engine] = engines.as_slice() else {
        return Err(Exit::BadInput("--fit takes one engine, sim or model".into()).into());
    };
    let experiments: Vec<Experiment> =
        args.files.iter().map(|path| experiment(args, Some(path))).collect::<anyhow::Result<_>>()?;
    let search = Search {
        engine: engine.clone(),
        ranges: args.fit.clone(),
        ids: args.to.clone(),
        variants: args.variant.clone(),
        repeat: args.repeat,
        max_runs: args.max_runs,
    };
    let (stop, progress) = (interrupt::flag()?, ProgressDisplay::new());
    let options =
        RunOptions { observer: &progress, stop: &stop, parallel_runs: args.jobs, ..RunOptions::default() };
    let fit = fit(&experiments, &search, &options)?;
    let (text, html) = (view::sweep::fit(&fit), view::sweep::fit_html(&fit));
    let chart = view::sweep::chart_of_fit(&fit);
    let document = FitDocument { schema: SWEEP_SCHEMA.into(), host: lab::host_info(), fit };
    let shown = match json {
        true => output::json(&document),
        false => output::prose(&text),
    };
    draw(
        args,
        config,
        &Shown { title: format!("fit of {}", document.fit.scenarios.join(", ")), html, chart },
    )?;
    shown
}

/// The experiment of a scenario file, or of a path without a file, with the options of this command.
fn experiment(args: &SweepArgs, file: Option<&PathBuf>) -> anyhow::Result<Experiment> {
    let experiment = experiment_of(file.map(PathBuf::as_path), &args.path)?;
    Ok(Experiment { kernel: args.kernel, sets: args.sets.clone(), ..experiment })
}

/// Writes the plot and the page, if requested. The page contains the plot in the style `screen` and the
/// default size.
fn draw(args: &SweepArgs, config: &Config, shown: &Shown) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        let chart = view::Chart { title: args.picture.title(&shown.chart.title), ..shown.chart.clone() };
        let svg = args.picture.appearance().draw_chart(&chart);
        let svg = svg.map_err(|error| Exit::BadInput(error.to_string()))?;
        output::file(path, records::picture(path, &svg)?)?;
        output::note(&format!("written: {}", path.display()));
    }
    if let Some(path) = &args.report {
        let svg = view::chart(&shown.chart);
        let page = view::sweep::sweep_page(&shown.title, &shown.html, &svg, &command_line());
        output::file(path, config.theme().apply(page))?;
        output::note(&format!("written: {}", path.display()));
    }
    Ok(())
}

/// Parses `PATH=V1,V2,...`; commas within brackets, braces and quotes do not separate values.
fn parse_over(text: &str) -> Result<(String, Vec<String>), String> {
    let (path, values) = text.split_once('=').ok_or_else(|| format!("{text:?} is not PATH=V1,V2,.."))?;
    let mut parts = vec![String::new()];
    let (mut depth, mut quoted) = (0, false);
    for c in values.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("parts is never empty").push(c);
    }
    let values: Vec<String> = parts.iter().map(|part| part.trim().to_owned()).collect();
    match values.iter().any(String::is_empty) {
        true => Err(format!("{text:?} has an empty value")),
        false => Ok((path.trim().to_owned(), values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_by_commas_outside_brackets() {
        let over = |text| parse_over(text).map(|(path, values)| (path, values.join("|")));
        assert_eq!(over("a.b=1, 2"), Ok(("a.b".into(), "1|2".into())));
        assert_eq!(
            over(r#"f.cc=reno,{ name = "x", a = 7 },"p,q""#),
            Ok(("f.cc".into(), r#"reno|{ name = "x", a = 7 }|"p,q""#.into()))
        );
        assert!(over("a.b").is_err() && over("a.b=1,,2").is_err() && over("a.b=").is_err());
    }
}
