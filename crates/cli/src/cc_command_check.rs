//! `longfat cc check`: both builds of a congestion control, the verifier's result, and a short run in both.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use cc::{
    Source, Values,
    kernel::{self, Calls, Measuring},
    native::{Controller, Library, LibraryError},
};
use serde_json::{Value, json};
use tcp::{
    AckSample, CongestionControl, Operation, RateSample,
    rounds::{Path, Rounds},
};

use crate::{
    cc_command::{SCHEMA, SourceArgs, failure},
    exit::{self, Exit},
    output,
};

/// Long enough for some ten thousand calls.
const TRIAL: Duration = Duration::from_millis(500);
/// Round trips of the trial in this process.
const ROUNDS: u64 = 400;
/// Longer than any trial that goes well.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough to time one to a nanosecond.
const ACKS: u32 = 100_000;

/// One line of the result.
struct Step {
    name: &'static str,
    state: State,
    /// What was found, or why it failed.
    found: String,
    details: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Failed,
    /// The machine cannot do it.
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

/// Tries and tells. Exit code 4 where the machine cannot try everything, 1 where something failed.
pub fn run(args: &SourceArgs, json: bool) -> anyhow::Result<()> {
    let (source, values) = (args.source()?, args.values()?);
    // A mistake in a parameter is the user's, not the algorithm's. Where it does not even compile, the steps say so.
    if !values.is_empty()
        && let Ok(known) = source.parameters()
    {
        cc::encode(source.name(), &known, &values).map_err(|error| Exit::BadInput(error.to_string()))?;
    }
    // What goes wrong in this process only ends it: first here, then in the kernel.
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
        return Err(Exit::Missing(format!("{} could not be tried in the kernel", source.name())).into());
    }
    Ok(())
}

fn ok(name: &'static str, found: String, details: Value) -> Step {
    Step { name, state: State::Ok, found, details }
}

/// A failure as the command line would tell it.
fn failed(name: &'static str, error: &anyhow::Error) -> Step {
    let missing = exit::is_missing(error);
    let state = if missing { State::Missing } else { State::Failed };
    Step { name, state, found: exit::chain(error), details: Value::Null }
}

/// The kernel's own functions do not check what they are given: a window of 0 packets, or a `w` of 0 for
/// tcp_cong_avoid_ai, divides by zero in them and may stop the machine. The verifier does not see that; a run
/// natively does.
const TOO_DANGEROUS: &str = "not tried: what goes wrong natively could stop the machine here";

fn kernel_steps(source: &Source, values: &Values, natively: &[Step]) -> Vec<Step> {
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
        steps.push(failed(RUN_IN_KERNEL, &Exit::Failed(TOO_DANGEROUS.into()).into()));
        return steps;
    }
    let tried = Measuring::begin().and_then(|measuring| {
        let trial = loaded.try_out(loaded.name(), TRIAL)?;
        let calls = loaded.calls()?;
        drop(measuring);
        Ok((trial, calls))
    });
    steps.push(match tried {
        Err(error) => failed(RUN_IN_KERNEL, &failure(&error)),
        Ok((trial, calls)) => {
            let ran: Vec<&Calls> = calls.iter().filter(|c| c.calls > 0).collect();
            let lines = ran.iter().map(|c| {
                format!("{:<24} {:>8} calls, {:.0} ns each", c.program, c.calls, c.ns_a_call().unwrap_or(0.0))
            });
            let rate = trial.bytes as f64 * 8.0 / trial.took.as_secs_f64();
            let head = format!("{:.1} Gb/s over the loopback device", rate / 1e9);
            let details: Vec<Value> = ran
                .iter()
                .map(|c| json!({ "program": c.program, "calls": c.calls, "ns_a_call": c.ns_a_call() }))
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

fn verified(programs: &[Calls]) -> Step {
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
            vec![built, trial_apart(args).unwrap_or_else(|error| failed(RUN_NATIVELY, &error))]
        }
        Err(error) => vec![failed("native build", &experiment::Error::from(&error).into())],
    }
}

const RUN_IN_KERNEL: &str = "run in kernel";
const RUN_NATIVELY: &str = "run natively";

/// The trial in a process of its own: no verifier has looked at the native form, which may crash or never end.
fn trial_apart(args: &SourceArgs) -> anyhow::Result<Step> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command
        .args(["cc", "trial"])
        .args(args.words())
        // Never written to: it ends when this process does.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start a process for the trial")?;
    let begun = Instant::now();
    while child.try_wait().context("cannot wait for the trial")?.is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().context("cannot read what the trial said")?;
    if let Some(signal) = output.status.signal() {
        let how = match signal {
            SIGKILL => format!("it did not end within {} s", PATIENCE.as_secs()),
            _ => format!("it crashed (signal {signal})"),
        };
        return Err(Exit::Failed(how).into());
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Exit::Failed(said.trim().trim_start_matches("longfat: ").into()).into());
    }
    let mut details: Value =
        serde_json::from_slice(&output.stdout).context("the trial said something else")?;
    let found = details.as_object_mut().and_then(|all| all.remove("found"));
    let found = found.as_ref().and_then(Value::as_str).unwrap_or_default().to_string();
    Ok(ok(RUN_NATIVELY, found, details))
}

const SIGKILL: i32 = 9;

/// The process of the trial: prints what it found as JSON.
pub fn trial(args: &SourceArgs) -> anyhow::Result<()> {
    let source = args.source()?;
    // The compiler ends by itself, and its folder is to be removed; what it built may not end.
    cc::native::build(&source).map_err(|e| experiment::Error::from(&e))?;
    end_with_input();
    let library = Library::open(&source, &args.values()?).map_err(library_failure)?;
    output::json(&native_trial(library.controller(None).map_err(library_failure)?)?)
}

/// Ends this process when its input does: nobody waits for the trial any more, which may never end by itself.
fn end_with_input() {
    std::thread::spawn(|| {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // At once: a user's constructor that never ends would hold up an orderly exit.
        if ended.is_ok() {
            std::process::abort();
        }
    });
}

/// Slow start into the queue of 100 Mb/s x 20 ms, a timeout, and on from there; then what one ACK costs.
fn native_trial(controller: Controller) -> anyhow::Result<Value> {
    let mut rounds = Rounds::new(Path::default(), controller);
    rounds.run(ROUNDS / 2);
    rounds.timeout();
    let last = rounds.run(ROUNDS / 2).pop();
    let (cwnd, lost) = last.map_or((rounds.sk().snd_cwnd, 0), |round| (round.cwnd, round.lost));
    let seconds = rounds.time_us() as f64 / 1e6;
    if cwnd == 0 {
        return Err(Exit::Failed("it set the congestion window to 0".into()).into());
    }
    let ns = ns_an_ack(&mut rounds);
    let found = format!(
        "{seconds:.1} s of 100 Mb/s x 20 ms: window {cwnd} packets at the end, {lost} packets lost\n{ns:.0} ns an ACK"
    );
    Ok(json!({ "found": found, "seconds": seconds, "cwnd_segs": cwnd, "lost_segs": lost, "ns_an_ack": ns }))
}

/// The calls of one ACK, as the kernel makes them, on a copy of the socket: pkts_acked and cong_avoid, or cong_control.
fn ns_an_ack(rounds: &mut Rounds<Controller>) -> f64 {
    let mut sk = rounds.sk().clone();
    let srtt_us = i64::from(sk.srtt_us >> 3);
    let ack = AckSample {
        pkts_acked: 1,
        rtt_us: i32::try_from(srtt_us).unwrap_or(i32::MAX),
        in_flight: sk.packets_out,
    };
    let sample = RateSample {
        delivered: 1,
        interval_us: srtt_us.max(1),
        rtt_us: srtt_us,
        acked_sacked: 1,
        ..RateSample::default()
    };
    let controller = rounds.controller();
    let begun = Instant::now();
    for _ in 0..ACKS {
        sk.snd_una = sk.snd_una.wrapping_add(1448);
        controller.pkts_acked(&mut sk, &ack);
        let una = sk.snd_una;
        if controller.has(Operation::CongControl) {
            controller.cong_control(&mut sk, una, 0, &sample);
        } else {
            controller.cong_avoid(&mut sk, una, 1);
        }
    }
    begun.elapsed().as_nanos() as f64 / f64::from(ACKS)
}

fn library_failure(error: LibraryError) -> anyhow::Error {
    match error {
        LibraryError::Build(error) => experiment::Error::from(&error).into(),
        LibraryError::Load { .. } => Exit::Failed(error.to_string()).into(),
        other => Exit::BadInput(other.to_string()).into(),
    }
}
