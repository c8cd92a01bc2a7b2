//! A guest kernel as an engine: boots User-Mode Linux in virtual time, has this program run the scenario in it, and takes the
//! record over.
//!
//! The record's directory, while it is written, has a directory that is shared with the guest: the scenario and the summary
//! that was begun go in, a record comes out.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context;
use guest::{Cache, Guest, Image, Line, Running, init::OUTPUT};
use lab::Progress;
use record::Writer;
use scenario::{Cc, Kind, Scenario};
use schema::{FlowSample, RunSummary, SUMMARY_SCHEMA, Summary};
use serde::{Deserialize, Serialize};
use units::Time;

use crate::{exit::Exit, flow_context::FlowPath, kernel_command, lab_engine::Rows};

/// The shared directory's name, inside the record's.
const SHARED_DIR: &str = "guest";
/// What is in the shared directory: the scenario,
pub const SCENARIO: &str = "scenario.toml";
/// the summary of the run as it was begun,
pub const BEGUN: &str = "begun.json";
/// the guest's records,
pub const RUNS: &str = "runs";
/// how far the run is,
pub const PROGRESS: &str = "progress.json";
/// why the guest's program failed, if it did,
pub const FAILURE: &str = "failure.json";
/// and a file that asks the guest to stop early.
pub const STOP: &str = "stop";

/// A guest's memory beside what is on the way in its network, bytes. Only what is used is taken from this machine.
const BASE_MEMORY: u64 = 2 << 30;
/// Of a frame on the way, the network keeps its buffer, and the hosts what is not yet acknowledged or read.
const COPIES: u64 = 3;
/// More than this is never on the way: it is that of 100 Gb/s over 300 ms.
const MAX_HELD: u64 = 4 << 30;
/// The largest packets that a queue counted in packets may hold, bytes.
const MAX_MTU: u32 = 9000;
/// A guest whose clock does not move for this much processor time is caught in a loop that waits for the time to pass.
const STUCK: Duration = Duration::from_secs(120);
/// A guest that does nothing for this time on the wall's clock waits for something that will never come.
const IDLE: Duration = Duration::from_secs(60);
/// A guest that was asked to stop is killed after this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Lines of the guest's console that an error quotes.
const CONSOLE_LINES: usize = 20;

/// Why the guest's program failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its exit code.
    pub exit: u8,
    /// The error and its causes.
    pub message: String,
}

/// How far a run is, as the guest reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProgressLine {
    elapsed_ns: u64,
    flows: Vec<ProgressFlow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ProgressFlow {
    flow: String,
    time_us: i64,
    bytes_received: Option<i64>,
    snd_cwnd_segs: Option<i64>,
    snd_mss_bytes: Option<i64>,
    srtt_us: Option<i64>,
}

impl ProgressLine {
    /// The report of a run's progress.
    pub fn of(progress: &Progress) -> String {
        let flow = |sample: &FlowSample| ProgressFlow {
            flow: sample.flow.clone(),
            time_us: sample.time_us,
            bytes_received: sample.bytes_received,
            snd_cwnd_segs: sample.snd_cwnd_segs,
            snd_mss_bytes: sample.snd_mss_bytes,
            srtt_us: sample.srtt_us,
        };
        let line =
            ProgressLine { elapsed_ns: progress.elapsed.0, flows: progress.flows.iter().map(flow).collect() };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// The progress in a report; `None` where it is not whole.
    fn parse(line: &str) -> Option<Progress> {
        let line: ProgressLine = serde_json::from_str(line).ok()?;
        let flow = |flow: ProgressFlow| FlowSample {
            flow: flow.flow,
            time_us: flow.time_us,
            bytes_received: flow.bytes_received,
            snd_cwnd_segs: flow.snd_cwnd_segs,
            snd_mss_bytes: flow.snd_mss_bytes,
            srtt_us: flow.srtt_us,
            ..FlowSample::default()
        };
        Some(Progress { elapsed: Time(line.elapsed_ns), flows: line.flows.into_iter().map(flow).collect() })
    }
}

/// The kernel of this version or name; without a request the newest.
///
/// # Errors
/// Exit code 4 where the user has none: the message says which command makes one.
pub fn find(request: Option<&str>) -> anyhow::Result<Image> {
    let image = Cache::of_this_user().and_then(|cache| cache.find(request));
    image.map_err(|error| Exit::Missing(error.to_string()).into())
}

/// Finds out before any run what a guest kernel cannot run.
///
/// # Errors
/// Congestion controls of C files: User-Mode Linux cannot load them (struct_ops needs a BPF JIT compiler). Flows whose path
/// takes no time: the guest's clock would never move.
pub fn check(scenario: &Scenario) -> anyhow::Result<()> {
    lab::check_flows(scenario).map_err(crate::lab_engine::failure)?;
    for flow in &scenario.flows {
        if let Kind::Tcp(tcp) = &flow.kind
            && let Some(cc @ (Cc::Own { .. } | Cc::File { .. })) = &tcp.cc
        {
            return Err(Exit::Missing(format!(
                "flow {}: a guest kernel cannot load the congestion control {:?} from a C file (User-Mode Linux has no \
                 struct_ops); use --engine sim, or a name of the kernel's own such as cubic, bbr or highspeed",
                flow.name,
                cc.name()
            ))
            .into());
        }
        if matches!(flow.kind, Kind::Tcp(_))
            && FlowPath::of(scenario, flow).is_some_and(|path| is_instant(&path))
        {
            return Err(Exit::BadInput(format!(
                "flow {}: no link on its path has a rate or a delay, so all of its data would be sent in no time and the guest's \
                 clock would never move; give a link a rate",
                flow.name
            ))
            .into());
        }
    }
    Ok(())
}

/// Whether data crosses a path and is acknowledged in no time.
fn is_instant(path: &FlowPath<'_>) -> bool {
    path.rtt == Time(0) && path.slowest().is_none()
}

/// What a guest needs for a scenario, bytes.
fn memory(scenario: &Scenario) -> u64 {
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    let held = directions.map(|direction| {
        let rate = direction.rate.mean().map_or(0.0, units::BitRate::as_f64);
        let on_the_way = (rate / 8.0 * direction.delay.as_secs_f64()) as u64;
        on_the_way + direction.queue.bytes(u64::from(MAX_MTU)).map_or(0, |bytes| bytes.0)
    });
    BASE_MEMORY + COPIES * held.fold(0, u64::saturating_add).min(MAX_HELD)
}

/// Runs the scenario in a guest and completes `summary`. Progress goes to `report`.
pub fn run(
    scenario: &Scenario,
    summary: RunSummary,
    kernel: &Image,
    report: &mut dyn FnMut(&Progress),
    writer: &mut Writer,
    stop: &AtomicBool,
) -> anyhow::Result<Rows> {
    let began = Instant::now();
    let shared = Shared::create(writer.path(), scenario, &summary)?;
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let guest = Guest {
        kernel: &kernel.path,
        memory: memory(scenario),
        shared: &shared.0,
        init: &program,
        arguments: &["guest".into(), "init".into(), scenario.seed.to_string().into()],
    };
    kernel.verify().map_err(kernel_command::failure)?;
    let mut running = guest.boot().map_err(kernel_command::failure)?;
    let console = follow(&mut running, report, &shared, stop)?;
    drop(running);
    shared.take(writer.path(), summary, &console, began.elapsed())
}

/// Follows a guest until it ends; returns the last lines of its console.
fn follow(
    running: &mut Running,
    report: &mut dyn FnMut(&Progress),
    shared: &Shared,
    stop: &AtomicBool,
) -> anyhow::Result<VecDeque<String>> {
    let mut console = VecDeque::new();
    let mut moved = (running.processor_time(), Time(0));
    let mut asked: Option<Instant> = None;
    let mut worked = (Duration::ZERO, Instant::now());
    loop {
        match running.next_line() {
            Line::End => return Ok(console),
            Line::Silence => {}
            Line::Text(line) => {
                if console.len() == CONSOLE_LINES {
                    console.pop_front();
                }
                console.push_back(line);
            }
        }
        let used = running.processor_time();
        let progress = fs::read_to_string(shared.0.join(PROGRESS)).ok();
        if let Some(progress) = progress.and_then(|text| ProgressLine::parse(&text))
            && progress.elapsed > moved.1
        {
            moved = (used, progress.elapsed);
            report(&progress);
        }
        if used > worked.0 {
            worked = (used, Instant::now());
        }
        if worked.1.elapsed() > IDLE {
            console.push_back(format!("(it did nothing for {} s)", IDLE.as_secs()));
            return Ok(console);
        }
        if used.saturating_sub(moved.0) > STUCK {
            anyhow::bail!(
                "the guest's clock stood at {} for {} s of processor time: something in it waits for the time to pass without \
                 sleeping, or it has very much to do at once",
                moved.1,
                STUCK.as_secs()
            );
        }
        if stop.load(Ordering::Relaxed) {
            let since = *asked.get_or_insert_with(|| {
                // Without the file the guest is killed a little later.
                let _ = fs::write(shared.0.join(STOP), "");
                Instant::now()
            });
            if since.elapsed() > STOP_TIMEOUT {
                return Ok(console);
            }
        }
    }
}

/// The directory that is shared with the guest; it is removed with this value.
struct Shared(PathBuf);

impl Shared {
    fn create(record: &Path, scenario: &Scenario, summary: &RunSummary) -> anyhow::Result<Self> {
        let dir = std::path::absolute(record)?.join(SHARED_DIR);
        fs::create_dir_all(dir.join(RUNS)).with_context(|| format!("cannot make {}", dir.display()))?;
        let shared = Shared(dir);
        let begun = Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: "run".into(),
            title: String::new(),
            host: lab::host_info(),
            published: Vec::new(),
            runs: vec![summary.clone()],
        };
        fs::write(shared.0.join(SCENARIO), scenario.to_toml())?;
        fs::write(shared.0.join(BEGUN), serde_json::to_vec(&begun)?)?;
        Ok(shared)
    }

    /// Takes what the guest has left: its record's rows and captures.
    fn take(
        &self,
        record: &Path,
        summary: RunSummary,
        console: &VecDeque<String>,
        wall: Duration,
    ) -> anyhow::Result<Rows> {
        let failure: Option<Failure> =
            fs::read(self.0.join(FAILURE)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let failure = failure.map(Failure::into_error);
        let found = record::list(&self.0.join(RUNS))?.into_iter().next();
        let Some(entry) = found.filter(|entry| !entry.path.to_string_lossy().ends_with(".partial")) else {
            let output = fs::read_to_string(self.0.join(OUTPUT)).unwrap_or_default();
            return Err(failure.unwrap_or_else(|| unexplained(console, &output)));
        };
        let run = record::Run::open(&entry.path)?;
        for capture in fs::read_dir(&entry.path)?.flatten() {
            if capture.path().extension().is_some_and(|e| e == "pcapng") {
                fs::rename(capture.path(), record.join(capture.file_name()))?;
            }
        }
        let guests = run.run().clone();
        let summary = RunSummary {
            id: summary.id,
            wall_s: (wall.as_secs_f64() * 1000.0).round() / 1000.0,
            kernel: summary.kernel,
            ..guests
        };
        Ok(Rows { summary, flows: run.flows()?, links: run.links()?, events: run.events()?, failed: failure })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Failure {
    fn into_error(self) -> anyhow::Error {
        let message = format!("in the guest: {}", self.message);
        match self.exit {
            2 => Exit::BadInput(message).into(),
            4 => Exit::Missing(message).into(),
            _ => Exit::Failed(message).into(),
        }
    }
}

/// A guest that left nothing: what its kernel and its program said.
fn unexplained(console: &VecDeque<String>, output: &str) -> anyhow::Error {
    let console = console.iter().map(String::as_str);
    let said: Vec<&str> = console.chain(output.lines()).filter(|line| !line.is_empty()).collect();
    let said = if said.is_empty() { "nothing".into() } else { said.join("\n  ") };
    Exit::Failed(format!("the guest kernel ended without a result; it said:\n  {said}")).into()
}
