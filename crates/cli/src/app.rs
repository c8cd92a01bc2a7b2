//! The command line: what there is, and where it goes.

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    bdp, cc_command, diagnose_command, exit, export_command, guest_command, import_command, kernel_command,
    lab_command, manual, output, probe_command, records, reproduce_command, run, scenario_command,
    serve_command, sweep_command, test_args, test_command, tune_command, view_command, watch_command,
};

/// A workbench for TCP on long fat networks: predict, emulate, measure, explain.
///
/// Exit codes: 0 fine, 1 the work failed, 2 usage or bad input, 3 a published figure was missed,
/// 4 the machine cannot do it.
#[derive(Debug, Parser)]
#[command(name = "longfat", version, max_term_width = 100)]
struct Cli {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true)]
    json: bool,
    /// Where records are kept
    #[arg(long, global = true, value_name = "DIR", env = "LONGFAT_RUNS", default_value = "runs")]
    runs: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every closed form for a path, each with the sentence that explains it
    Bdp(bdp::BdpArgs),
    /// Run a scenario: progress, verdict table, published figures
    Run(run::RunArgs),
    /// Run a scenario over the values of fields, and find knees; or search unknowns by published figures
    Sweep(sweep_command::SweepArgs),
    /// The published experiments: published, model, simulated and emulated, side by side
    Reproduce(reproduce_command::ReproduceArgs),
    /// Import topologies of other programs
    #[command(subcommand)]
    Scenario(scenario_command::ScenarioCommand),
    /// Networks that stay up, and what this machine can do
    #[command(subcommand)]
    Lab(lab_command::LabCommand),
    /// Kernels for labs in virtual time: build, list, remove
    #[command(subcommand)]
    Kernel(kernel_command::KernelCommand),
    /// Congestion controls: of this kernel, of this program, and your own
    #[command(subcommand)]
    Cc(cc_command::CcCommand),
    /// Test with another host: iperf3's protocol and flags, with a record and a verdict
    Test(Box<test_args::TestArgs>),
    /// Serve tests, of `longfat test` and of any iperf3 client
    Serve(Box<serve_command::ServeArgs>),
    /// Measure a path by packets: capacity, what is available, its links, the bottleneck's buffer, delay, MTU
    #[command(subcommand)]
    Probe(probe_command::ProbeCommand),
    /// What limits TCP to a host, how that is known, and what to change
    Diagnose(Box<diagnose_command::DiagnoseArgs>),
    /// A host's settings for a path: shown, planned, applied, reverted, checked, exported
    Tune(Box<tune_command::TuneArgs>),
    /// Watch live TCP connections: every variable, and what limits each
    Watch(Box<watch_command::WatchArgs>),
    /// List the runs on record
    Ls(records::LsArgs),
    /// Show one run
    Show(records::ShowArgs),
    /// Compare two runs, metric by metric
    Compare(records::CompareArgs),
    /// Draw a run's metrics over time as SVG, PNG or PDF
    Plot(records::PlotArgs),
    /// Write a report of runs as one HTML file
    Report(records::ReportArgs),
    /// Show all runs in the browser: zoom, compare, watch them while they run
    View(view_command::ViewArgs),
    /// Make records of other programs' measurements
    #[command(subcommand)]
    Import(import_command::ImportCommand),
    /// Write a run in another program's form
    #[command(subcommand)]
    Export(export_command::ExportCommand),
    /// Print the manual page, or write those of all commands
    Man(manual::ManArgs),
    /// Inside a guest kernel: what `--engine kernel` starts there
    #[command(subcommand, hide = true)]
    Guest(guest_command::GuestCommand),
    /// Print a shell's completions, as in `longfat completions bash > /etc/bash_completion.d/longfat`
    Completions(manual::CompletionsArgs),
}

/// Parses the command line, runs the command, and tells errors.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    };
    match output::finish() {
        Err(error) if code == ExitCode::SUCCESS => {
            let code = exit::report(&error);
            // The note about it.
            let _ = output::finish();
            code
        }
        _ => code,
    }
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Bdp(args) => bdp::run(args, cli.json),
        Command::Run(args) => run::run(args, &cli.runs, cli.json),
        Command::Sweep(args) => sweep_command::run(args, &cli.runs, cli.json),
        Command::Reproduce(args) => reproduce_command::run(args, &cli.runs, cli.json),
        Command::Scenario(command) => scenario_command::run(command, cli.json),
        Command::Lab(command) => lab_command::run(command, cli.json),
        Command::Kernel(command) => kernel_command::run(command, cli.json),
        Command::Cc(command) => cc_command::run(command, cli.json),
        Command::Test(args) => test_command::run(args, &cli.runs, cli.json),
        Command::Serve(args) => serve_command::run(args, cli.json),
        Command::Probe(command) => probe_command::run(command, cli.json),
        Command::Diagnose(args) => diagnose_command::run(args, &cli.runs, cli.json),
        Command::Tune(args) => tune_command::run(args, cli.json),
        Command::Watch(args) => watch_command::run(args, &cli.runs, cli.json),
        Command::Ls(args) => records::ls(args, &cli.runs, cli.json),
        Command::Show(args) => records::show(args, &cli.runs, cli.json),
        Command::Compare(args) => records::compare(args, &cli.runs, cli.json),
        Command::Plot(args) => records::plot(args, &cli.runs, cli.json),
        Command::Report(args) => records::report(args, &cli.runs, cli.json),
        Command::View(args) => view_command::run(args, &cli.runs, cli.json),
        Command::Import(command) => import_command::run(command, &cli.runs, cli.json),
        Command::Export(command) => export_command::run(command, &cli.runs, cli.json),
        Command::Guest(command) => guest_command::run(command),
        Command::Man(args) => manual::man(args, Cli::command()),
        Command::Completions(args) => manual::completions(args, Cli::command()),
    }
}
