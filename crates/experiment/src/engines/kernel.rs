//! A guest kernel as an engine: boots User-Mode Linux in virtual time, runs the scenario in it with this
//! program, and adopts the guest's record.
//!
//! During the run, the record's directory contains a directory that is shared with the guest. The host writes
//! the scenario and the initial summary there; the guest writes its record there.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use guest::{Cache, ConsoleOutput, Guest, Image, RunningGuest, init::OUTPUT};
use lab::Progress;
use scenario::{Cc, FlowKind, Scenario};
use schema::{FlowSample, RunSummary, SUMMARY_SCHEMA, Summary};
use serde::{Deserialize, Serialize};
use units::Time;

use super::{Engine, Task};
use crate::{Error, ErrorKind, Outcome, Result, RunObserver, error::Attempted, flow_context::FlowPath};

/// Name of the shared directory in the record's directory.
const SHARED_DIR: &str = "guest";
/// File in the shared directory: the scenario.
pub(super) const SCENARIO: &str = "scenario.toml";
/// File in the shared directory: the initial summary of the run.
pub(super) const INITIAL_SUMMARY: &str = "begun.json";
/// Subdirectory of the shared directory: the guest's records.
pub(super) const RUNS: &str = "runs";
/// File in the shared directory: the progress of the run.
pub(super) const PROGRESS: &str = "progress.json";
/// File in the shared directory: why the guest's program failed, if it did.
pub(super) const FAILURE: &str = "failure.json";
/// File in the shared directory: requests the guest to stop early.
pub(super) const STOP: &str = "stop";

/// A guest's memory without the packets in flight, bytes. The host allocates only the pages that the guest
/// uses.
const BASE_MEMORY_BYTES: u64 = 2 << 30;
/// Memory per byte in flight: the network buffers each frame once; queues in hosts and rounding of buffer
/// sizes take as much again.
const MEMORY_FACTOR: u64 = 2;
/// Maximum number of bytes in flight: about 100 Gb/s over 300 ms.
const MAX_IN_FLIGHT_BYTES: u64 = 4 << 30;
/// Maximum size of the packets in a queue whose limit is a number of packets, bytes.
const MAX_MTU: u32 = 9000;
/// Livelock guard: maximum processor time of a guest while its clock stalls. Such a guest busy-waits for time
/// to pass.
const MAX_STALL_PROCESSOR_TIME: Duration = Duration::from_secs(120);
/// Deadlock guard: maximum real time in which a guest uses no processor time. Such a guest waits for an event
/// that never occurs.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// A guest is killed this long after the request to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of lines of the guest's console that an error quotes.
const MAX_CONSOLE_LINES: usize = 20;
/// Part of the first line of a kernel panic.
const PANIC: &str = "Kernel panic";
/// Part of the message of a kernel whose buffer for vector registers is smaller than this machine's
/// registers.
const REGISTERS_DO_NOT_FIT: &str = "set fp regs failed";

/// Why the guest's program failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The category of the error.
    pub kind: ErrorKind,
    /// The error and its causes.
    pub message: String,
}

/// Progress of a run, as the guest reports it.
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
    /// Encodes a run's progress.
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
            elapsed_ns: progress.elapsed.as_nanos(),
            flows: progress.flows.iter().map(flow).collect(),
        };
        serde_json::to_string(&report).unwrap_or_default()
    }

    /// Decodes a report; `None` if the file is incomplete.
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
        Some(Progress { elapsed: Time::from_nanos(report.elapsed_ns), flows })
    }
}

/// Finds the kernel of this version or name (without a request: the newest) and verifies its checksum.
///
/// # Errors
/// The user has no such kernel (the message names the command that builds one), or the file is damaged.
pub fn find(request: Option<&str>) -> Result<Image> {
    let image = Cache::of_this_user().and_then(|cache| cache.find(request));
    let image = image.map_err(|error| Error::Missing(error.to_string()))?;
    image.verify()?;
    Ok(image)
}

/// Checks before the first run that a guest kernel can run the scenario.
///
/// # Errors
/// Congestion controls of C files: User-Mode Linux cannot load them (struct_ops needs a BPF JIT compiler).
/// Flows whose path has neither rate nor delay: the guest's clock would never advance.
pub fn check(scenario: &Scenario) -> Result<()> {
    lab::check_flows(scenario)?;
    for flow in &scenario.flows {
        if let FlowKind::Quic(quic) = &flow.kind
            && matches!(quic.cc, Some(Cc::File { .. }))
        {
            return Err(Error::Missing(format!(
                "flow {}: a guest kernel has no C compiler for the congestion control {:?}; use --engine sim, or a congestion control of \
                 longfat (longfat cc list)",
                flow.name,
                quic.cc().name()
            )));
        }
        let FlowKind::Tcp(tcp) = &flow.kind else { continue };
        if let Some(cc @ (Cc::Own { .. } | Cc::File { .. })) = &tcp.cc {
            return Err(Error::Missing(format!(
                "flow {}: a guest kernel cannot load the congestion control {:?} from a C file (User-Mode Linux has no \
                 struct_ops); use --engine sim, or a congestion control of the kernel such as cubic, bbr or highspeed",
                flow.name,
                cc.name()
            )));
        }
        if FlowPath::of(scenario, flow).is_some_and(|path| is_instant(&path)) {
            return Err(Error::BadInput(format!(
                "flow {}: no link on its path has a rate or a delay, so the guest's clock would never advance; give a link a \
                 rate",
                flow.name
            )));
        }
    }
    Ok(())
}

/// Whether a round trip on the path, with any amount of data, takes zero time.
fn is_instant(path: &FlowPath<'_>) -> bool {
    path.propagation == Time::ZERO && path.slowest().is_none()
}

/// Memory of a guest for this scenario, bytes.
fn memory_bytes(scenario: &Scenario) -> u64 {
    let in_flight = |direction: &net::PipeSpec| {
        let rate = direction.rate.mean().map_or(0.0, units::BitRate::as_f64);
        let on_link = (rate / 8.0 * direction.delay.as_secs_f64()) as u64;
        on_link.saturating_add(direction.queue.bytes(u64::from(MAX_MTU)).map_or(0, |bytes| bytes.0))
    };
    // Data fills one direction; acknowledgements in the other need little memory.
    let links = scenario.links.iter().map(|link| in_flight(&link.forward).max(in_flight(&link.backward)));
    BASE_MEMORY_BYTES + MEMORY_FACTOR * links.fold(0, u64::saturating_add).min(MAX_IN_FLIGHT_BYTES)
}

/// The lab inside a guest kernel.
pub(crate) struct Kernel<'a> {
    pub image: &'a Image,
}

impl Engine for Kernel<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, initial, observer, writer, stop } = task;
        let Some(writer) = writer else {
            return Err(Error::BadInput("a guest run needs a record directory (Retention::Record)".into()));
        };
        let began = Instant::now();
        let shared = SharedDir::create(writer.path(), scenario, &initial)?;
        let program = std::env::current_exe().attempted(|| "find this program's executable".into())?;
        let guest = Guest {
            kernel: &self.image.path,
            memory: memory_bytes(scenario),
            shared: &shared.0,
            init: &program,
            arguments: &["guest".into(), "init".into(), scenario.seed.to_string().into()],
        };
        let mut running = guest.boot()?;
        let console = follow(&mut running, observer, &shared, stop)?;
        drop(running);
        let outcome = shared.collect(writer.path(), initial, &console, began.elapsed())?;
        observer.rows(&outcome.flows, &outcome.links, &outcome.events);
        Ok(outcome)
    }
}

/// Adds a line to the last lines of a console. After a kernel panic nothing is added: the stack trace would
/// displace the cause.
fn push_console_line(console: &mut VecDeque<String>, line: String) {
    if console.iter().any(|line| line.contains(PANIC)) {
        return;
    }
    if console.len() == MAX_CONSOLE_LINES {
        console.pop_front();
    }
    console.push_back(line);
}

/// Follows a guest until it ends; returns the last lines of its console.
fn follow(
    running: &mut RunningGuest,
    observer: &mut dyn RunObserver,
    shared: &SharedDir,
    stop: &AtomicBool,
) -> Result<VecDeque<String>> {
    let mut console = VecDeque::new();
    let mut watchdog = Watchdog::new();
    let mut stop_requested: Option<Instant> = None;
    loop {
        match running.next_line() {
            ConsoleOutput::End => return Ok(console),
            ConsoleOutput::Silence => {}
            ConsoleOutput::Text(line) => push_console_line(&mut console, line),
        }
        let (used, progress) = (running.processor_time(), shared.progress());
        if let Some(progress) = progress.filter(|progress| progress.elapsed > watchdog.elapsed) {
            watchdog.note_progress(progress.elapsed, used);
            observer.progress(&progress);
        }
        watchdog.check(used)?;
        if stop.load(Ordering::Relaxed) {
            let since = *stop_requested.get_or_insert_with(|| {
                // If the file cannot be written, the guest is killed after STOP_TIMEOUT.
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
    /// The run's time at the last progress.
    elapsed: Time,
    /// The guest's processor time at the last progress.
    used_at_progress: Duration,
    /// The guest's processor time at its last increase.
    used: Duration,
    /// When the guest's processor time last increased.
    increased: Instant,
}

impl Watchdog {
    fn new() -> Self {
        Watchdog {
            elapsed: Time::ZERO,
            used_at_progress: Duration::ZERO,
            used: Duration::ZERO,
            increased: Instant::now(),
        }
    }

    /// Notes that the run reached `elapsed` after this much processor time.
    fn note_progress(&mut self, elapsed: Time, used: Duration) {
        (self.elapsed, self.used_at_progress) = (elapsed, used);
    }

    /// Checks the processor time that the guest has `used`.
    ///
    /// # Errors
    /// The guest's clock stalled for too much processor time, or the guest sleeps without a timer.
    fn check(&mut self, used: Duration) -> Result<()> {
        if used > self.used {
            (self.used, self.increased) = (used, Instant::now());
        }
        if used.saturating_sub(self.used_at_progress) > MAX_STALL_PROCESSOR_TIME {
            return Err(Error::Failed(format!(
                "the guest's clock stalled at {} for {} s of processor time: a program in the guest busy-waits \
                 without sleeping, or has too much work at one instant",
                self.elapsed,
                MAX_STALL_PROCESSOR_TIME.as_secs()
            )));
        }
        if self.increased.elapsed() > MAX_IDLE_TIME {
            let (at, idle) = (self.elapsed, MAX_IDLE_TIME.as_secs());
            return Err(Error::Failed(format!(
                "the guest stalled at {at}: it used no processor time for {idle} s"
            )));
        }
        Ok(())
    }
}

/// The directory that is shared with the guest. Dropping this value removes it.
struct SharedDir(PathBuf);

impl SharedDir {
    fn create(record: &Path, scenario: &Scenario, summary: &RunSummary) -> Result<Self> {
        let in_record = |verb: &str| format!("{verb} {}", record.display());
        let dir = std::path::absolute(record).attempted(|| in_record("find"))?.join(SHARED_DIR);
        fs::create_dir_all(dir.join(RUNS)).attempted(|| format!("create {}", dir.display()))?;
        let shared = SharedDir(dir);
        let initial = Summary {
            schema: SUMMARY_SCHEMA.into(),
            scenario: "run".into(),
            title: String::new(),
            host: lab::host_info(),
            published: Vec::new(),
            runs: vec![summary.clone()],
        };
        let files =
            [(SCENARIO, scenario.to_toml().into_bytes()), (INITIAL_SUMMARY, serde_json::to_vec(&initial)?)];
        for (name, bytes) in files {
            fs::write(shared.0.join(name), bytes).attempted(|| in_record("write to"))?;
        }
        Ok(shared)
    }

    /// Progress of the guest's run; `None` before the first report.
    fn progress(&self) -> Option<Progress> {
        ProgressReport::parse(&fs::read_to_string(self.0.join(PROGRESS)).ok()?)
    }

    /// Reads the rows of the guest's record and moves its captures to this record.
    fn collect(
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
            // A .partial record is unfinished. The record of a run that was stopped early is finished.
            let is_finished = entry.path.extension().is_none_or(|extension| extension != "partial");
            is_finished.then_some(entry.run)
        });
        let Some(run) = finished else {
            let output = fs::read_to_string(self.0.join(OUTPUT)).unwrap_or_default();
            return Err(failure.unwrap_or_else(|| no_result(console, &output)));
        };
        let run = run?;
        let moved = || format!("move captures to {}", record.display());
        for capture in fs::read_dir(&run.path).attempted(moved)?.flatten() {
            if capture.path().extension().is_some_and(|e| e == "pcapng") {
                fs::rename(capture.path(), record.join(capture.file_name())).attempted(moved)?;
            }
        }
        let guest_summary = run.run().clone();
        let summary = RunSummary {
            id: summary.id,
            wall_s: (wall.as_secs_f64() * 1000.0).round() / 1000.0,
            kernel: summary.kernel,
            ..guest_summary
        };
        let (flows, links, events) = (run.flows()?, run.links()?, run.events()?);
        Ok(Outcome { summary, flows, links, events, failed: failure })
    }
}

impl Drop for SharedDir {
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

/// The error for a guest without a record: quotes the output of its kernel and its program.
fn no_result(console: &VecDeque<String>, output: &str) -> Error {
    let console = console.iter().map(String::as_str);
    let lines: Vec<&str> = console.chain(output.lines()).filter(|line| !line.is_empty()).collect();
    let printed = if lines.is_empty() { "nothing".into() } else { lines.join("\n  ") };
    let advice = if printed.contains(REGISTERS_DO_NOT_FIT) {
        "\nThe vector registers of this processor (AMX) do not fit into this kernel. longfat changes that when it builds a kernel: \
         longfat kernel build VERSION --force"
    } else {
        ""
    };
    Error::Failed(format!("the guest kernel ended without a result; its output:\n  {printed}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_kernel_panic_is_quoted_and_not_its_stack() {
        let mut console = VecDeque::new();
        let lines = ["userspace - ptrace set fp regs failed, errno = 14", "Kernel panic - not syncing: init"];
        let stack = (0..2 * MAX_CONSOLE_LINES).map(|depth| format!(" [<{depth:08x}>] ? panic+0x0/0x32c"));
        lines
            .map(String::from)
            .into_iter()
            .chain(stack)
            .for_each(|line| push_console_line(&mut console, line));
        assert_eq!(Vec::from(console), lines);
    }

    #[test]
    fn a_guest_with_too_small_a_register_buffer_is_explained() {
        let console = VecDeque::from([format!("userspace - {REGISTERS_DO_NOT_FIT}, errno = 14")]);
        assert!(no_result(&console, "").to_string().ends_with("longfat kernel build VERSION --force"));
        assert!(!no_result(&VecDeque::new(), "killed").to_string().contains("AMX"));
    }

    #[test]
    fn a_guest_that_never_ends_is_detected() {
        let mut watchdog = Watchdog::new();
        watchdog.check(MAX_STALL_PROCESSOR_TIME).unwrap();
        watchdog.note_progress(Time::from_millis(100), MAX_STALL_PROCESSOR_TIME);
        watchdog.check(2 * MAX_STALL_PROCESSOR_TIME).unwrap();
        let error =
            watchdog.check(2 * MAX_STALL_PROCESSOR_TIME + Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains("100 ms") && error.contains("without sleeping"), "{error}");
        let mut idle = Watchdog::new();
        idle.check(Duration::from_secs(1)).unwrap();
        idle.increased = Instant::now().checked_sub(2 * MAX_IDLE_TIME).unwrap();
        assert!(
            idle.check(Duration::from_secs(1))
                .unwrap_err()
                .to_string()
                .contains("no processor time for 60 s")
        );
    }

    #[test]
    fn progress_reports_round_trip() {
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
        assert!(ProgressReport::parse("{\"elapsed_ns\": 3").is_none(), "incomplete");
    }
}
