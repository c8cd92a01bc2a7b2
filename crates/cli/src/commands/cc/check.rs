//! `longfat cc check`: both builds of a congestion control, the verifier's result, and a short run in both.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use cc::{
    ParameterValues, Source,
    kernel::{self, CallMeasurement, ProgramCalls},
    native::{self, Controller, Library, LibraryError, NativeTrial},
};
use serde_json::{Value, json};

use super::{SCHEMA, SourceArgs, failure};
use crate::{
    exit::{self, Exit},
    output,
};

/// Duration of the run in the kernel: some ten thousand calls.
const KERNEL_RUN_TIME: Duration = Duration::from_millis(500);
/// Timeout of the native run.
const NATIVE_RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// One line of the result.
struct Step {
    name: &'static str,
    state: State,
    /// The result, or why it failed.
    found: String,
    details: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Failed,
    /// This machine lacks a privilege or feature.
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Failed => "failed",
            State::Missing => "missing",
        }
    }
}

/// Runs the command. Exit code 4 if this machine cannot run all steps, 1 if a step failed.
pub fn run(args: &SourceArgs, json: bool) -> anyhow::Result<()> {
    let (source, values) = (args.source()?, args.values()?);
    // A mistake in a parameter is a mistake of the user, not of the algorithm. The steps below report compile
    // errors.
    if !values.is_empty()
        && let Ok(known) = source.parameters()
    {
        cc::encode(source.name(), &known, &values).map_err(|error| Exit::BadInput(error.to_string()))?;
    }
    // The native run comes first: a crash there ends only a process.
    let natively = native_steps(&source, args);
    let mut steps = kernel_steps(&source, &values, &natively);
    steps.extend(natively);
    let worst = |state| steps.iter().any(|s| s.state == state);
    let passed = !worst(State::Failed) && !worst(State::Missing);
    if json {
        let steps: Vec<Value> = steps
            .iter()
            .map(|s| json!({ "step": s.name, "state": s.state.word(), "found": s.found, "details": s.details }))
            .collect();
        output::json(&json!({ "schema": SCHEMA, "name": source.name(), "ok": passed, "steps": steps }))?;
    } else {
        let lines = steps.iter().map(|s| {
            let found = s.found.replace('\n', &format!("\n{:27}", ""));
            format!("{:<7}  {:<16}  {found}", s.state.word(), s.name)
        });
        output::text(&lines.collect::<Vec<_>>().join("\n"))?;
    }
    if worst(State::Failed) {
        return Err(Exit::Failed(format!("{} does not pass", source.name())).into());
    }
    if worst(State::Missing) {
        return Err(Exit::Missing(format!("{} could not be run in the kernel", source.name())).into());
    }
    Ok(())
}

fn ok(name: &'static str, found: String, details: Value) -> Step {
    Step { name, state: State::Ok, found, details }
}

/// A failure with the message of the error.
fn failed(name: &'static str, error: &anyhow::Error) -> Step {
    let missing = exit::is_missing(error);
    let state = if missing { State::Missing } else { State::Failed };
    Step { name, state, found: exit::chain(error), details: Value::Null }
}

/// The kernel's functions do not check their arguments: a window of 0 packets, or a `w` of 0 for
/// tcp_cong_avoid_ai, makes them divide by zero, which may stop the machine. The verifier does not detect
/// this; the native run does.
const SKIPPED_AS_DANGEROUS: &str =
    "skipped: an error in the native build could stop this machine in the kernel";

fn kernel_steps(source: &Source, values: &ParameterValues, natively: &[Step]) -> Vec<Step> {
    let mut steps = Vec::new();
    match kernel::compile(source) {
        Ok(object) => {
            steps.push(ok("eBPF build", format!("{} bytes", object.len()), json!({ "bytes": object.len() })))
        }
        Err(error) => return vec![failed("eBPF build", &failure(&error))],
    }
    let loaded = kernel::load(source, values, None).and_then(|loaded| Ok((loaded.calls()?, loaded)));
    let (programs, loaded) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            steps.push(failed("verifier", &failure(&error)));
            return steps;
        }
    };
    steps.push(verified(&programs));
    if natively.iter().any(|step| step.name == RUN_NATIVELY && step.state == State::Failed) {
        steps.push(failed(RUN_IN_KERNEL, &Exit::Failed(SKIPPED_AS_DANGEROUS.into()).into()));
        return steps;
    }
    let tried = CallMeasurement::begin().and_then(|measuring| {
        let trial = loaded.run_trial(loaded.name(), KERNEL_RUN_TIME)?;
        let calls = loaded.calls()?;
        drop(measuring);
        Ok((trial, calls))
    });
    steps.push(match tried {
        Err(error) => failed(RUN_IN_KERNEL, &failure(&error)),
        Ok((trial, calls)) => {
            let ran: Vec<&ProgramCalls> = calls.iter().filter(|c| c.calls > 0).collect();
            let lines = ran.iter().map(|c| {
                format!(
                    "{:<24} {:>8} calls, {:.0} ns each",
                    c.program,
                    c.calls,
                    c.ns_per_call().unwrap_or(0.0)
                )
            });
            let head = format!("{:.1} Gb/s over the loopback device", trial.goodput_bps() / 1e9);
            let details: Vec<Value> = ran
                .iter()
                .map(|c| json!({ "program": c.program, "calls": c.calls, "ns_a_call": c.ns_per_call() }))
                .collect();
            ok(
                RUN_IN_KERNEL,
                std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n"),
                json!({ "bytes": trial.bytes, "seconds": trial.took.as_secs_f64(), "programs": details }),
            )
        }
    });
    steps
}

fn verified(programs: &[ProgramCalls]) -> Step {
    let lines: Vec<String> = programs
        .iter()
        .map(|p| format!("{:<24} {:>8} instructions followed", p.program, p.verified_instructions))
        .collect();
    let details: Vec<Value> = programs
        .iter()
        .map(|p| json!({ "program": p.program, "verified_instructions": p.verified_instructions }))
        .collect();
    ok("verifier", lines.join("\n"), json!(details))
}

fn native_steps(source: &Source, args: &SourceArgs) -> Vec<Step> {
    match cc::native::build(source) {
        Ok(object) => {
            let bytes = object.bytes().len();
            let built = ok("native build", format!("{bytes} bytes"), json!({ "bytes": bytes }));
            vec![built, run_natively_in_process(args).unwrap_or_else(|error| failed(RUN_NATIVELY, &error))]
        }
        Err(error) => vec![failed("native build", &experiment::Error::from(&error).into())],
    }
}

const RUN_IN_KERNEL: &str = "run in kernel";
const RUN_NATIVELY: &str = "run natively";

/// The native run in a separate process: no verifier has checked the native build, which may crash or never
/// end.
fn run_natively_in_process(args: &SourceArgs) -> anyhow::Result<Step> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command
        .args(["cc", "trial"])
        .args(args.words())
        // Nothing is written to it; it closes when this process ends.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start the trial run")?;
    let begun = Instant::now();
    while child.try_wait().context("cannot wait for the trial run")?.is_none() {
        if begun.elapsed() > NATIVE_RUN_TIMEOUT {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().context("cannot read the result of the trial run")?;
    if let Some(signal) = output.status.signal() {
        let how = match signal {
            SIGKILL => format!("the trial run did not end within {} s", NATIVE_RUN_TIMEOUT.as_secs()),
            _ => format!("the trial run crashed (signal {signal})"),
        };
        return Err(Exit::Failed(how).into());
    }
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(Exit::Failed(message.trim().trim_start_matches("longfat: ").into()).into());
    }
    let mut details: Value =
        serde_json::from_slice(&output.stdout).context("the trial run printed an invalid result")?;
    let found = details.as_object_mut().and_then(|all| all.remove("found"));
    let found = found.as_ref().and_then(Value::as_str).unwrap_or_default().to_string();
    Ok(ok(RUN_NATIVELY, found, details))
}

const SIGKILL: i32 = 9;

/// The process of the native run: prints its result as JSON.
pub fn trial(args: &SourceArgs) -> anyhow::Result<()> {
    let source = args.source()?;
    // Started only after compiling: the compiler ends by itself and its directory must be removed, whereas
    // the algorithm may never end.
    cc::native::build(&source).map_err(|e| experiment::Error::from(&e))?;
    end_with_input();
    let library = Library::open(&source, &args.values()?).map_err(library_failure)?;
    output::json(&run_native_rounds(library.controller(None).map_err(library_failure)?)?)
}

/// Exits when standard input is closed: the parent has ended, and the native run may never end by itself.
fn end_with_input() {
    std::thread::spawn(|| {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // Uses _exit: a constructor of the user's that never ends would block an orderly exit.
        if ended.is_ok() {
            std::process::abort();
        }
    });
}

/// The native run with its result as JSON.
fn run_native_rounds(controller: Controller) -> anyhow::Result<Value> {
    let NativeTrial { seconds, cwnd_segs: cwnd, lost_segs: lost, ns_per_ack: ns } =
        native::run_trial(controller)
            .ok_or_else(|| Exit::Failed("the algorithm set the congestion window to 0".into()))?;
    let found = format!(
        "{seconds:.1} s of 100 Mb/s x 20 ms: window {cwnd} packets at the end, {lost} packets lost\n{ns:.0} ns per ACK"
    );
    Ok(json!({ "found": found, "seconds": seconds, "cwnd_segs": cwnd, "lost_segs": lost, "ns_an_ack": ns }))
}

fn library_failure(error: LibraryError) -> anyhow::Error {
    match error {
        LibraryError::Build(error) => experiment::Error::from(&error).into(),
        LibraryError::Load { .. } => Exit::Failed(error.to_string()).into(),
        other => Exit::BadInput(other.to_string()).into(),
    }
}
