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

use guest::{Cache, Guest, Image, Line, Running, init::OUTPUT};
use lab::Progress;
use scenario::{Cc, Kind, Scenario};
use schema::{FlowSample, RunSummary, SUMMARY_SCHEMA, Summary};
use serde::{Deserialize, Serialize};
use units::Time;

use super::{Engine, Task};
use crate::{Error, ErrorKind, Outcome, Result, RunObserver, error::Attempted, flow_context::FlowPath};

/// The shared directory's name, inside the record's.
const SHARED_DIR: &str = "guest";
/// What is in the shared directory: the scenario,
pub(super) const SCENARIO: &str = "scenario.toml";
/// the summary of the run as it was begun,
pub(super) const BEGUN: &str = "begun.json";
/// the guest's records,
pub(super) const RUNS: &str = "runs";
/// how far the run is,
pub(super) const PROGRESS: &str = "progress.json";
/// why the guest's program failed, if it did,
pub(super) const FAILURE: &str = "failure.json";
/// and a file that asks the guest to stop early.
pub(super) const STOP: &str = "stop";

/// A guest's memory beside what is on the way in its network, bytes. Only what is used is taken from this machine.
const BASE_MEMORY: u64 = 2 << 30;
/// A frame on the way is in the network's buffer; as much again may wait at hosts and in buffers that are too large for it.
const COPIES: u64 = 2;
/// More than this is never on the way: it is that of 100 Gb/s over 300 ms.
const MAX_HELD: u64 = 4 << 30;
/// The largest packets that a queue counted in packets may hold, bytes.
const MAX_MTU: u32 = 9000;
/// A guest whose clock stands for this much processor time is in a loop that waits for the time to pass.
const STUCK: Duration = Duration::from_secs(120);
/// A guest that uses no processor time for this long, in real time, waits for something that will never happen.
const IDLE: Duration = Duration::from_secs(60);
/// A guest that was asked to stop is killed after this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Lines of the guest's console that an error quotes.
const CONSOLE_LINES: usize = 20;

/// Why the guest's program failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// Whose business it is.
    pub kind: ErrorKind,
    /// The error and its causes.
    pub message: String,
}

/// How far a run is, as the guest reports it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgressReport {
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

impl ProgressReport {
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
        let report = ProgressReport {
            elapsed_ns: progress.elapsed.0,
            flows: progress.flows.iter().map(flow).collect(),
        };
        serde_json::to_string(&report).unwrap_or_default()
    }

    /// The progress in a report; `None` where it is not whole.
    fn parse(text: &str) -> Option<Progress> {
        let report: ProgressReport = serde_json::from_str(text).ok()?;
        let flow = |flow: ProgressFlow| FlowSample {
            flow: flow.flow,
            time_us: flow.time_us,
            bytes_received: flow.bytes_received,
            snd_cwnd_segs: flow.snd_cwnd_segs,
            snd_mss_bytes: flow.snd_mss_bytes,
            srtt_us: flow.srtt_us,
            ..FlowSample::default()
        };
        let flows = report.flows.into_iter().map(flow).collect();
        Some(Progress { elapsed: Time(report.elapsed_ns), flows })
    }
}

/// The kernel of this version or name, without a request the newest; its checksum is right.
///
/// # Errors
/// Where the user has none: the message says which command makes one. Where the file is damaged.
pub fn find(request: Option<&str>) -> Result<Image> {
    let image = Cache::of_this_user().and_then(|cache| cache.find(request));
    let image = image.map_err(|error| Error::Missing(error.to_string()))?;
    image.verify()?;
    Ok(image)
}

/// Finds out before any run what a guest kernel cannot run.
///
/// # Errors
/// Congestion controls of C files: User-Mode Linux cannot load them (struct_ops needs a BPF JIT compiler). Flows whose path
/// takes no time: the guest's clock would never move.
pub fn check(scenario: &Scenario) -> Result<()> {
    lab::check_flows(scenario)?;
    for flow in &scenario.flows {
        let Kind::Tcp(tcp) = &flow.kind else { continue };
        if let Some(cc @ (Cc::Own { .. } | Cc::File { .. })) = &tcp.cc {
            return Err(Error::Missing(format!(
                "flow {}: a guest kernel cannot load the congestion control {:?} from a C file (User-Mode Linux has no \
                 struct_ops); use --engine sim, or a name of the kernel's own such as cubic, bbr or highspeed",
                flow.name,
                cc.name()
            )));
        }
        if FlowPath::of(scenario, flow).is_some_and(|path| is_instant(&path)) {
            return Err(Error::BadInput(format!(
                "flow {}: no link on its path has a rate or a delay, so all of its data would be sent in no time and the guest's \
                 clock would never move; give a link a rate",
                flow.name
            )));
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
    let held = |direction: &net::PipeSpec| {
        let rate = direction.rate.mean().map_or(0.0, units::BitRate::as_f64);
        let on_the_way = (rate / 8.0 * direction.delay.as_secs_f64()) as u64;
        on_the_way.saturating_add(direction.queue.bytes(u64::from(MAX_MTU)).map_or(0, |bytes| bytes.0))
    };
    // Data fills one direction, its acknowledgements need little in the other.
    let links = scenario.links.iter().map(|link| held(&link.forward).max(held(&link.backward)));
    BASE_MEMORY + COPIES * links.fold(0, u64::saturating_add).min(MAX_HELD)
}

/// The lab inside a guest kernel.
pub(crate) struct Kernel<'a> {
    pub image: &'a Image,
}

impl Engine for Kernel<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, begun, observer, writer, stop } = task;
        let Some(writer) = writer else {
            return Err(Error::BadInput("a guest needs a directory for its record".into()));
        };
        let began = Instant::now();
        let shared = Shared::create(writer.path(), scenario, &begun)?;
        let program = std::env::current_exe().attempted(|| "find this program's own file".into())?;
        let guest = Guest {
            kernel: &self.image.path,
            memory: memory(scenario),
            shared: &shared.0,
            init: &program,
            arguments: &["guest".into(), "init".into(), scenario.seed.to_string().into()],
        };
        let mut running = guest.boot()?;
        let console = follow(&mut running, observer, &shared, stop)?;
        drop(running);
        let outcome = shared.take(writer.path(), begun, &console, began.elapsed())?;
        observer.rows(&outcome.flows, &outcome.links, &outcome.events);
        Ok(outcome)
    }
}

/// Follows a guest until it ends; returns the last lines of its console.
fn follow(
    running: &mut Running,
    observer: &mut dyn RunObserver,
    shared: &Shared,
    stop: &AtomicBool,
) -> Result<VecDeque<String>> {
    let mut console = VecDeque::new();
    let mut watchdog = Watchdog::new();
    let mut stop_requested: Option<Instant> = None;
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
        let (used, progress) = (running.processor_time(), shared.progress());
        if let Some(progress) = progress.filter(|progress| progress.elapsed > watchdog.elapsed) {
            watchdog.advanced(progress.elapsed, used);
            observer.progress(&progress);
        }
        watchdog.check(used)?;
        if stop.load(Ordering::Relaxed) {
            let since = *stop_requested.get_or_insert_with(|| {
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

/// Detects a guest that will never end.
struct Watchdog {
    /// The run's time at the last progress, and the guest's processor time then.
    elapsed: Time,
    used_then: Duration,
    /// The guest's processor time when it last grew, and when that was.
    used: Duration,
    grew: Instant,
}

impl Watchdog {
    fn new() -> Self {
        Watchdog { elapsed: Time(0), used_then: Duration::ZERO, used: Duration::ZERO, grew: Instant::now() }
    }

    /// The run has reached `elapsed` after this much processor time.
    fn advanced(&mut self, elapsed: Time, used: Duration) {
        (self.elapsed, self.used_then) = (elapsed, used);
    }

    /// Fails where the guest's clock has stood for too long, by the processor time that the guest has `used`, or where the
    /// guest sleeps without a timer.
    fn check(&mut self, used: Duration) -> Result<()> {
        if used > self.used {
            (self.used, self.grew) = (used, Instant::now());
        }
        if used.saturating_sub(self.used_then) > STUCK {
            return Err(Error::Failed(format!(
                "the guest's clock stalled at {} for {} s of processor time: something in the guest waits for the time to pass \
                 without sleeping, or has very much to do at one instant",
                self.elapsed,
                STUCK.as_secs()
            )));
        }
        if self.grew.elapsed() > IDLE {
            let (at, idle) = (self.elapsed, IDLE.as_secs());
            return Err(Error::Failed(format!("the guest stalled at {at}: it did nothing for {idle} s")));
        }
        Ok(())
    }
}

/// The directory that is shared with the guest; it is removed with this value.
struct Shared(PathBuf);

impl Shared {
    fn create(record: &Path, scenario: &Scenario, summary: &RunSummary) -> Result<Self> {
        let in_record = |what: &str| format!("{what} {}", record.display());
        let dir = std::path::absolute(record).attempted(|| in_record("find"))?.join(SHARED_DIR);
        fs::create_dir_all(dir.join(RUNS)).attempted(|| format!("make {}", dir.display()))?;
        let shared = Shared(dir);
        let begun = Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: "run".into(),
            title: String::new(),
            host: lab::host_info(),
            published: Vec::new(),
            runs: vec![summary.clone()],
        };
        let files = [(SCENARIO, scenario.to_toml().into_bytes()), (BEGUN, serde_json::to_vec(&begun)?)];
        for (name, bytes) in files {
            fs::write(shared.0.join(name), bytes).attempted(|| in_record("write to"))?;
        }
        Ok(shared)
    }

    /// How far the guest's run is; `None` before it has begun.
    fn progress(&self) -> Option<Progress> {
        ProgressReport::parse(&fs::read_to_string(self.0.join(PROGRESS)).ok()?)
    }

    /// Takes what the guest has left: its record's rows and captures.
    fn take(
        &self,
        record: &Path,
        summary: RunSummary,
        console: &VecDeque<String>,
        wall: Duration,
    ) -> Result<Outcome> {
        let failure: Option<Failure> =
            fs::read(self.0.join(FAILURE)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let failure = failure.map(Failure::into_error);
        let finished = record::list(&self.0.join(RUNS))?.into_iter().find_map(|entry| {
            // A record that was begun only. One of a run that was stopped early is finished, too.
            let is_finished = entry.path.extension().is_none_or(|extension| extension != "partial");
            is_finished.then_some(entry.run)
        });
        let Some(run) = finished else {
            let output = fs::read_to_string(self.0.join(OUTPUT)).unwrap_or_default();
            return Err(failure.unwrap_or_else(|| unexplained(console, &output)));
        };
        let run = run?;
        let moved = || format!("move captures to {}", record.display());
        for capture in fs::read_dir(&run.path).attempted(moved)?.flatten() {
            if capture.path().extension().is_some_and(|e| e == "pcapng") {
                fs::rename(capture.path(), record.join(capture.file_name())).attempted(moved)?;
            }
        }
        let guests = run.run().clone();
        let summary = RunSummary {
            id: summary.id,
            wall_s: (wall.as_secs_f64() * 1000.0).round() / 1000.0,
            kernel: summary.kernel,
            ..guests
        };
        let (flows, links, events) = (run.flows()?, run.links()?, run.events()?);
        Ok(Outcome { summary, flows, links, events, failed: failure })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Failure {
    fn into_error(self) -> Error {
        let message = format!("in the guest: {}", self.message);
        match self.kind {
            ErrorKind::BadInput => Error::BadInput(message),
            ErrorKind::Missing => Error::Missing(message),
            ErrorKind::Interrupted | ErrorKind::Failed => Error::Failed(message),
        }
    }
}

/// A guest that left nothing: what its kernel and its program said.
fn unexplained(console: &VecDeque<String>, output: &str) -> Error {
    let console = console.iter().map(String::as_str);
    let said: Vec<&str> = console.chain(output.lines()).filter(|line| !line.is_empty()).collect();
    let said = if said.is_empty() { "nothing".into() } else { said.join("\n  ") };
    Error::Failed(format!("the guest kernel ended without a result; it said:\n  {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_never_ends_is_detected() {
        let mut watchdog = Watchdog::new();
        watchdog.check(STUCK).unwrap();
        watchdog.advanced(Time::from_millis(100), STUCK);
        watchdog.check(2 * STUCK).unwrap();
        let error = watchdog.check(2 * STUCK + Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains("100 ms") && error.contains("without sleeping"), "{error}");
        let mut idle = Watchdog::new();
        idle.check(Duration::from_secs(1)).unwrap();
        idle.grew = Instant::now().checked_sub(2 * IDLE).unwrap();
        assert!(idle.check(Duration::from_secs(1)).unwrap_err().to_string().contains("did nothing for 60 s"));
    }

    #[test]
    fn progress_survives_its_report() {
        let flows = vec![FlowSample {
            flow: "bulk".into(),
            time_us: 7,
            bytes_received: Some(9),
            snd_cwnd_segs: Some(10),
            ..FlowSample::default()
        }];
        let progress = Progress { elapsed: Time::from_millis(3), flows };
        let read = ProgressReport::parse(&ProgressReport::of(&progress)).unwrap();
        assert_eq!((read.elapsed, read.flows), (progress.elapsed, progress.flows));
        assert!(ProgressReport::parse("{\"elapsed_ns\": 3").is_none(), "half written");
    }
}
