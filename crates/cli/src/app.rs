//! The command line: all commands, and the dispatch to them.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use record::RunsLocation;

use crate::{
    commands::{
        agent, bdp, cc, completions, config, diagnose, export, guest, import, kernel, lab, manual, plot,
        probe, pscheduler_tool, records, reproduce, run, scenario, serve, stream, sweep, test, transfer,
        tune, view, watch,
    },
    config_file::{Config, RUNS_VARIABLE},
    exit::{self, Exit},
    log, other_tools, output,
};

/// The heading of the options that every command has.
const GLOBAL_OPTIONS: &str = "Global options";

const ENVIRONMENT: &str = "\
Environment:
  LONGFAT_RUNS  Location of records, as --runs
  LONGFAT_LOG   Diagnostic log on standard error: error, warn, info,
                debug or trace, for all or by crate, as in
                lab=debug,iperf3=trace";

/// A workbench for TCP on long fat networks: predict, emulate, measure, explain.
///
/// Exit codes: 0 success, 1 failure, 2 usage or bad input, 3 a published figure was missed,
/// 4 this machine lacks a privilege or feature, 5 unreliable with `--require-reliable`.
/// `tune --check` uses the exit codes of monitoring plugins.
#[derive(Debug, Parser)]
#[command(name = "longfat", version, max_term_width = 100, after_help = ENVIRONMENT)]
struct Cli {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    json: bool,
    /// Directory of records, or an object store as in s3://BUCKET/PREFIX [default: runs; see
    /// `longfat config`]
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_name = "LOCATION", env = RUNS_VARIABLE, hide_env = true)]
    runs: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Calculate window, buffer and goodput figures of a path, with explanations
    Bdp(bdp::BdpArgs),
    /// Run a scenario and show what limited each flow
    Run(run::RunArgs),
    /// Run a scenario over ranges of its values and find knees, or fit unknown values to published figures
    Sweep(Box<sweep::SweepArgs>),
    /// Reproduce the published experiments: published, predicted, simulated and emulated figures side by side
    Reproduce(reproduce::ReproduceArgs),
    /// List, show, check and write scenario files; import those of other programs
    #[command(subcommand)]
    Scenario(scenario::args::ScenarioCommand),
    /// Bring emulated networks up and down, run programs on their hosts, check this machine
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Build, list and remove kernels for labs in virtual time
    #[command(subcommand)]
    Kernel(kernel::KernelCommand),
    /// List, check, load and build congestion controls: the kernel's, longfat's and your own
    #[command(subcommand)]
    Cc(cc::CcCommand),
    /// Measure throughput to a host: iperf3's protocol and flags, with a record and a verdict
    Test(Box<test::args::TestArgs>),
    /// Serve tests for `longfat test` and any iperf3 client
    Serve(Box<serve::ServeArgs>),
    /// Send files to a `longfat receive` over TCP, UDT, SABUL, Tsunami or QUIC
    Send(Box<transfer::SendArgs>),
    /// Receive files that `longfat send` sends
    Receive(Box<transfer::ReceiveArgs>),
    /// Send or receive a real-time stream at a constant rate; measures the share that arrives in time and the
    /// highest sustainable rate
    Stream(Box<stream::StreamArgs>),
    /// Probe a path: capacity, available bandwidth, bottleneck buffer, hops, delay, MTU, and UDP by packet
    /// size and spacing
    #[command(subcommand)]
    Probe(probe::ProbeCommand),
    /// Find what limits TCP throughput to a host and how to fix it
    Diagnose(Box<diagnose::DiagnoseArgs>),
    /// Show, plan, apply, revert, check or export a host's settings for a path
    Tune(Box<tune::TuneArgs>),
    /// Run a measurement point: reserve slots with other points, test in them, archive the results
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Plan a bulk transfer from this measurement point, run it in a reserved slot, and show its goodput and
    /// what limited it
    Advise(agent::advise::AdviseArgs),
    /// Execute a method of longfat's plug-in for pScheduler, the scheduler of perfSONAR
    PschedulerTool(pscheduler_tool::PschedulerToolArgs),
    /// Watch live TCP connections and show what limits each
    Watch(Box<watch::WatchArgs>),
    /// List recorded runs
    Ls(records::LsArgs),
    /// Remove recorded runs
    Rm(records::RmArgs),
    /// Remove old recorded runs and keep the newest
    Prune(records::PruneArgs),
    /// Show one run
    Show(records::ShowArgs),
    /// Compare two runs metric by metric
    Compare(records::CompareArgs),
    /// Plot a run's metrics over time as SVG, PNG or PDF
    Plot(plot::PlotArgs),
    /// Write a report of runs as one HTML file
    Report(records::ReportArgs),
    /// Show runs in the browser: zoom, compare, follow them while they run
    View(view::ViewArgs),
    /// Import results of iperf3 and iperf 2, packet captures and ss logs
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Export a run for iperf3's tools, CSV, gnuplot or xplot
    #[command(subcommand)]
    Export(export::ExportCommand),
    /// Print the manual page, or write the pages of all commands
    Man(manual::ManArgs),
    /// Run a process of a guest kernel, for `--engine kernel`
    #[command(subcommand, hide = true)]
    Guest(guest::GuestCommand),
    /// Restore the settings of this machine that a run has changed, after the run's process has ended
    #[command(hide = true)]
    GuardSettings,
    /// Show the settings of the configuration files and where each comes from
    Config(config::ConfigArgs),
    /// Print or install shell completions, which also complete the names of runs
    Completions(completions::CompletionsArgs),
}

/// Parses the command line, runs the command, and prints errors.
pub fn main() -> ExitCode {
    completions::complete_if_requested(Cli::command);
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(message) = other_tools::suggest(args.iter().skip(1)) {
        let is_json = args.iter().any(|argument| argument == "--json");
        return exit::report(&Exit::BadInput(message).into(), is_json);
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage(&error, &args),
    };
    let is_agent = matches!(cli.command, Command::Agent(agent::AgentCommand::Run(_)));
    let code = match log::start(is_agent.then_some(log::AGENT_FILTER)).and_then(|()| dispatch(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error, cli.json),
    };
    match output::finish() {
        Err(error) if code == ExitCode::SUCCESS => {
            let code = exit::report(&error, cli.json);
            // Prints the message of the error.
            let _ = output::finish();
            code
        }
        _ => code,
    }
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    if let Command::Guest(command) = &cli.command {
        // The machine's configuration files do not apply inside a guest.
        return guest::run(command);
    }
    if let Command::GuardSettings = &cli.command {
        return Ok(hosts::guard_settings()?);
    }
    let config = Config::read()?;
    let runs = config.runs(cli.runs.as_deref()).open()?;
    let (rates, sizes) = config.units();
    ::view::number::use_units(rates, sizes);
    let done = run_command(cli, &config, &runs);
    // Records written before an error are uploaded too.
    match (done, runs.finish()) {
        (Err(error), Err(not_uploaded)) => {
            output::note(&format!("longfat: {not_uploaded}"));
            Err(error)
        }
        (done, uploaded) => {
            done?;
            Ok(uploaded?)
        }
    }
}

fn run_command(cli: &Cli, config: &Config, runs: &RunsLocation) -> anyhow::Result<()> {
    match &cli.command {
        Command::Bdp(args) => bdp::run(args, cli.json),
        Command::Run(args) => run::run(args, config, runs, cli.json),
        Command::Sweep(args) => sweep::run(args, config, runs, cli.json),
        Command::Reproduce(args) => reproduce::run(args, config, runs, cli.json),
        Command::Scenario(command) => scenario::run(command, cli.json),
        Command::Lab(command) => lab::run(command, cli.json),
        Command::Kernel(command) => kernel::run(command, cli.json),
        Command::Cc(command) => cc::run(command, cli.json),
        Command::Test(args) => test::run(args, runs, cli.json),
        Command::Serve(args) => serve::run(args, cli.json),
        Command::Send(args) => transfer::send(args, runs, cli.json),
        Command::Receive(args) => transfer::receive(args, runs, cli.json),
        Command::Stream(args) => stream::run(args, config, runs, cli.json),
        Command::Probe(command) => probe::run(command, cli.json),
        Command::Diagnose(args) => diagnose::run(args, runs, cli.json),
        Command::Tune(args) => tune::run(args, cli.json),
        Command::Agent(command) => agent::run(command, cli.json),
        Command::Advise(args) => agent::advise::run(args, cli.json),
        Command::PschedulerTool(args) => pscheduler_tool::run(args, cli.runs.is_some().then_some(runs)),
        Command::Watch(args) => watch::run(args, runs, cli.json),
        Command::Ls(args) => records::ls(args, runs, cli.json),
        Command::Rm(args) => records::rm(args, runs, cli.json),
        Command::Prune(args) => records::prune(args, runs, cli.json),
        Command::Show(args) => records::show(args, runs, cli.json),
        Command::Compare(args) => records::compare(args, runs, cli.json),
        Command::Plot(args) => plot::run(args, runs, cli.json),
        Command::Report(args) => records::report(args, config, runs, cli.json),
        Command::View(args) => view::run(args, config, runs, cli.json),
        Command::Import(command) => import::run(command, runs, cli.json),
        Command::Export(command) => export::run(command, runs, cli.json),
        Command::Guest(command) => guest::run(command),
        Command::GuardSettings => Ok(hosts::guard_settings()?),
        Command::Man(args) => manual::man(args, Cli::command()),
        Command::Config(args) => config::run(args, config, cli.runs.as_deref(), cli.json),
        Command::Completions(args) => completions::run(args, &Cli::command(), cli.json),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use clap::error::ErrorKind;

    use super::*;

    /// The longfat commands of a line of shell, without `sudo` and redirections.
    fn commands_of(line: &str) -> Vec<Vec<String>> {
        // `shlex::split` drops comments.
        let words = shlex::split(line).unwrap_or_default();
        let words = words.iter().flat_map(|word| match word.strip_suffix(';') {
            Some(last) => vec![last, ";"],
            None => vec![word.as_str()],
        });
        let words: Vec<&str> = words.collect();
        let commands = words.split(|word| [";", "|", "&", "&&", ">", ">>", "<"].contains(word));
        let own = commands.filter_map(|command| {
            let first = command.iter().position(|word| *word != "sudo" && !word.contains('='))?;
            (command[first] == "longfat").then(|| &command[first..])
        });
        own.map(|command| command.iter().map(|word| (*word).to_owned()).collect()).collect()
    }

    /// The longfat commands of a page's shell examples, each with its line number.
    fn commands_in_examples(page: &str) -> Vec<(usize, Vec<String>)> {
        let mut in_example = false;
        let mut found = Vec::new();
        let mut continued = String::new();
        for (index, line) in page.lines().enumerate() {
            if let Some(language) = line.strip_prefix("```") {
                in_example =
                    !in_example && ["sh", "bash"].contains(&language.split(' ').next().unwrap_or(""));
                continue;
            }
            if !in_example {
                continue;
            }
            continued.push_str(line);
            if continued.ends_with('\\') {
                continued.pop();
                continue;
            }
            let commands = commands_of(&std::mem::take(&mut continued));
            found.extend(commands.into_iter().map(|words| (index + 1, words)));
        }
        found
    }

    /// The longfat commands in a page's prose (inline code), each with its line number.
    fn commands_in_prose(page: &str) -> Vec<(usize, Vec<String>)> {
        let mut in_example = false;
        let mut found = Vec::new();
        for (index, line) in page.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_example = !in_example;
            } else if !in_example {
                let code = line.split('`').skip(1).step_by(2);
                found.extend(code.flat_map(commands_of).map(|words| (index + 1, words)));
            }
        }
        found
    }

    #[test]
    fn commands_in_the_docs_have_valid_arguments() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = ["docs", "docs/tutorials"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
        let docs = docs.into_iter().flatten().map(|entry| entry.unwrap().path());
        let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
        let (mut wrong, mut in_examples, mut in_prose) = (Vec::new(), 0, 0);
        for page in pages.chain([root.join("README.md")]) {
            let text = fs::read_to_string(&page).unwrap();
            let mut check = |line: usize, words: &[String], is_wrong: &dyn Fn(ErrorKind) -> bool| {
                let Err(error) = Cli::try_parse_from(words) else { return };
                if is_wrong(error.kind()) {
                    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                    wrong.push(format!("{}:{line}: {}: {first}", page.display(), words.join(" ")));
                }
            };
            for (line, words) in commands_in_examples(&text) {
                in_examples += 1;
                // Values are often placeholders.
                let allowed = [
                    ErrorKind::ValueValidation,
                    ErrorKind::InvalidValue,
                    ErrorKind::DisplayHelp,
                    ErrorKind::DisplayVersion,
                ];
                check(line, &words, &|kind| !allowed.contains(&kind));
            }
            for (line, words) in commands_in_prose(&text) {
                // Prose names commands and options without their values. `COMMAND` is any command.
                if words.get(1).is_some_and(|word| word != "COMMAND") {
                    in_prose += 1;
                    let refused = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
                    check(line, &words, &|kind| refused.contains(&kind));
                }
            }
        }
        assert!(
            in_examples > 100 && in_prose > 100,
            "{in_examples} commands in examples, {in_prose} in prose"
        );
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
