//! `longfat sweep`: a metric over the values of fields, or (with `--fit`) the values that match published figures best.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use clap::Args;
use scenario::{Figure, Kind, Metric, RunMetric, Scenario, ScenarioFile};
use schema::RunSummary;
use units::KernelVersion;

use crate::{
    batch,
    earlier::Earlier,
    engine::{Engine, Engines},
    exit::Exit,
    fit_command::{self, FitRange, parse_range},
    interrupt,
    job::{Asked, Job, Keep, Means},
    jobs::{Wanted, jobs},
    open::{parse_set, read_scenario},
    output,
    progress::Board,
    records,
    repeat::RepeatTime,
    run::{check_directory, command_line, lab_setup},
    sweep_points::{self, PointRun},
};

/// What to sweep, and what to make of it.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The scenario file, or one that comes with the program: cc-rtt-loss, mtu, socket-buffers, streams, udp; several with --fit
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Sweep a field beside those of the file's `[[sweeps]]`, as in `--over flows.bulk.send_buffer=16KiB,64KiB,256KiB`
    #[arg(long, value_name = "PATH=V1,V2,..", value_parser = parse_over)]
    pub over: Vec<(String, Vec<String>)>,
    /// Search the value of a field with which the published figures are met best, as in
    /// `--fit links.s1-s2.forward.queue=10p..1000p`
    #[arg(long, value_name = "PATH=LOW..HIGH", value_parser = parse_range,
          conflicts_with_all = ["over", "metric", "again"])]
    pub fit: Vec<FitRange>,
    /// With --fit: only the figures with these ids
    #[arg(long, value_delimiter = ',', value_name = "ID", requires = "fit")]
    pub to: Vec<String>,
    /// With --fit: how many runs to spend
    #[arg(long, value_name = "N", default_value = "60", requires = "fit")]
    pub most_runs: NonZeroUsize,
    /// Engines, separated by commas: model, sim, lab, or all for these three; and kernel, or kernel:VERSION, a guest kernel
    /// in virtual time
    #[arg(long, value_delimiter = ',', default_value = "sim", value_name = "ENGINES")]
    pub engine: Vec<Engines>,
    /// Only these variants (may be given several times, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub variant: Vec<String>,
    /// Change a value of the scenario, as in `--set duration=5s`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    pub sets: Vec<(String, String)>,
    /// How often to run each point, each time with another seed; without it as often as the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// What to measure, as in flows.bulk.goodput; without it the first TCP flow's goodput
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// How many simulations to make side by side; without it one on each processor
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Make every run again, also those that are on record
    #[arg(long)]
    pub again: bool,
    /// The Linux version that is simulated, as in 6.1; without it this machine's
    #[arg(long, value_name = "VERSION")]
    pub kernel: Option<KernelVersion>,
    /// How the lab's hosts are connected: tap, or packet (veth and packet sockets)
    #[arg(long, value_name = "PORTS")]
    pub ports: Option<lab::Backend>,
    /// Draw the result into this file: SVG, PNG or PDF by the end of its name
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the tables and the picture as one page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// What there is to show in the end.
pub struct Shown {
    pub title: String,
    pub text: String,
    pub svg: String,
}

/// Runs the command.
pub fn run(args: &SweepArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    for path in [&args.output, &args.report].into_iter().flatten() {
        check_directory(path)?;
    }
    if !args.fit.is_empty() {
        return fit_command::run(args, json);
    }
    let [path] = args.files.as_slice() else {
        return Err(Exit::BadInput("several scenario files are for --fit alone".into()).into());
    };
    let file = read_scenario(path)?;
    file.check_runnable().map_err(Exit::Scenario)?;
    let asked = asked(args, &file, path);
    let engines = Engines::chosen(&args.engine);
    let wanted = Wanted {
        engines: &engines,
        variants: &args.variant,
        sets: &args.sets,
        over: &args.over,
        repeat: args.repeat,
    };
    let jobs = jobs(&asked, &wanted)?;
    let names: Vec<String> = fields(&file, args);
    let measured = match (&args.metric, jobs.first()) {
        (_, None) => return Err(Exit::BadInput("there is nothing to run".into()).into()),
        _ if names.is_empty() => {
            return Err(Exit::BadInput(
                "nothing is swept: say --over PATH=V1,V2, or write [[sweeps]]".into(),
            )
            .into());
        }
        (Some(text), Some(job)) => metric(text, &job.scenario)?,
        (None, Some(_)) => default_metric(&jobs)?,
    };
    let runs = make(args, &asked, &jobs, runs_dir)?;
    let sweep = sweep_points::sweep(&asked, &runs, &names, &measured);
    let text = view::sweep::sweep(&sweep);
    let told = match json {
        true => output::json(&sweep),
        false => output::text(&format!("{}\n{text}", sweep.title)),
    };
    show(args, &Shown { title: sweep.title.clone(), text, svg: view::sweep::sweep_chart(&sweep) })?;
    told
}

/// What `--metric` names.
fn metric(text: &str, scenario: &Scenario) -> Result<Figure, Exit> {
    let found = scenario.figure(text).map_err(|why| Exit::BadInput(format!("--metric {text}: {why}")))?;
    match found.is_closed_form() {
        true => Err(Exit::BadInput(format!("--metric {text}: a closed form is a figure of no run"))),
        false => Ok(found),
    }
}

/// What is measured where nothing is said: the first TCP flow's goodput, else the first flow's that has one, else the first flow's
/// mean round-trip time; where the runs have not the same flows, as when streams are swept, all flows' goodput together.
fn default_metric(jobs: &[Job<'_>]) -> Result<Figure, Exit> {
    let flows = jobs.first().map_or(&[][..], |job| &job.scenario.flows);
    let of = |flow: &scenario::Flow, metric| Figure::Flow { flow: flow.name.clone(), metric };
    let tcp = flows.iter().find(|flow| matches!(flow.kind, Kind::Tcp(_)));
    let found = tcp
        .or_else(|| flows.iter().find(|flow| Metric::Goodput.applies_to(&flow.kind)))
        .map(|flow| of(flow, Metric::Goodput))
        .or_else(|| flows.first().map(|flow| of(flow, Metric::MeanRtt)))
        .ok_or_else(|| Exit::BadInput("the scenario has no flows".into()))?;
    let names = |job: &Job<'_>| job.scenario.flows.iter().map(|flow| flow.name.clone()).collect::<Vec<_>>();
    let same = jobs.windows(2).all(|pair| names(&pair[0]) == names(&pair[1]));
    Ok(if same { found } else { Figure::Run(RunMetric::Goodput) })
}

/// What all runs on a file share.
pub fn asked<'a>(args: &SweepArgs, file: &'a ScenarioFile, path: &'a Path) -> Asked<'a> {
    Asked {
        file,
        path,
        host: lab::host_info(),
        kernel: args.kernel,
        traced: &[],
        changed: !args.sets.is_empty(),
    }
}

/// The picture and the page, where they are asked for.
pub fn show(args: &SweepArgs, shown: &Shown) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        output::file(path, records::picture(path, &shown.svg)?)?;
    }
    if let Some(path) = &args.report {
        output::file(path, view::sweep::sweep_page(&shown.title, &shown.text, &shown.svg, &command_line()))?;
    }
    Ok(())
}

/// The swept fields: the file's, then the command's.
fn fields(file: &ScenarioFile, args: &SweepArgs) -> Vec<String> {
    let of_file = file.points().into_iter().next().unwrap_or_default();
    let of_command = args.over.iter().map(|(field, _)| field.clone());
    of_file.into_iter().map(|(field, _)| field).chain(of_command).collect()
}

/// Makes the runs that are not on record yet, and returns all of them in the order of the jobs.
fn make<'a>(
    args: &SweepArgs,
    asked: &Asked<'_>,
    jobs: &'a [Job<'a>],
    runs_dir: &Path,
) -> anyhow::Result<Vec<PointRun<'a>>> {
    let earlier = match args.again {
        true => Earlier::none(),
        false => Earlier::of(runs_dir, asked.file.name())?,
    };
    let found: Vec<Option<RunSummary>> = jobs.iter().map(|job| earlier.find(job)).collect();
    let missing: Vec<Job<'_>> =
        jobs.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(job, _)| job.clone()).collect();
    let stop = interrupt::flag()?;
    let setup = match missing.iter().any(|job| job.engine == Engine::Lab) {
        true => Some(lab_setup(args.ports)?),
        false => None,
    };
    let board = Board::new(missing.len());
    let means = Means {
        lab: setup.as_ref(),
        keep: Keep::Record(runs_dir),
        board: &board,
        stop: &stop,
        repeat_time: RepeatTime::default(),
    };
    let mut made = batch::make_all(&missing, &means, args.jobs)?;
    drop(board);
    if let Some(error) = made.iter_mut().find_map(|one| one.failed.take()) {
        return Err(error);
    }
    if stop.load(Ordering::Relaxed) {
        output::note("interrupted; the same command goes on from here");
        return Err(Exit::Interrupted.into());
    }
    let mut made = made.into_iter().map(|one| one.summary);
    let one = |(job, found): (&'a Job<'a>, Option<RunSummary>)| {
        let earlier = found.is_some();
        found.or_else(|| made.next()).map(|run| PointRun { job, run, earlier })
    };
    Ok(jobs.iter().zip(found).filter_map(one).collect())
}

/// `PATH=V1,V2,...`; commas within brackets, braces and quotes do not part values.
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
        parts.last_mut().expect("begins with one").push(c);
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
    fn values_are_parted_by_commas_outside_brackets() {
        let over = |text| parse_over(text).map(|(path, values)| (path, values.join("|")));
        assert_eq!(over("a.b=1, 2"), Ok(("a.b".into(), "1|2".into())));
        assert_eq!(
            over(r#"f.cc=reno,{ name = "x", a = 7 },"p,q""#),
            Ok(("f.cc".into(), r#"reno|{ name = "x", a = 7 }|"p,q""#.into()))
        );
        assert!(over("a.b").is_err() && over("a.b=1,,2").is_err() && over("a.b=").is_err());
    }
}
