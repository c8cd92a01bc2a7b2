//! Runs of the matrix, kept in a directory: the lab's once and for all, the simulator's anew each time.
//!
//! Three labs run side by side. The one that began first has a processor for itself; it takes the short round trips, for
//! which the others' frames would come too late. Labs run at real-time priority, since a flow that waits for other
//! programs sends in bursts (measured: a quarter of the goodput beside compilers).

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::Duration,
};

use schema::{RunSummary, Summary};

use crate::draw::Case;

/// Round trips shorter than this, in ms, are the first lab's alone.
const SHORT_RTT_MS: f64 = 10.0;
/// Side by side labs carry so many Mb/s at most.
const MOST_MBPS: f64 = 600.0;
/// An emulator that stood still for longer in all, in ms, made bursts of its own: the run is repeated.
const STILL_MS: f64 = 30.0;
/// So often a run is tried; of those that can be trusted the calmest counts.
const TRIES: u32 = 5;

/// One run of one scenario.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its scenario.
    pub case: Case,
    /// From 0.
    pub run: u32,
}

impl Job {
    fn name(&self) -> String {
        format!("{:02}-{}", self.case.number, self.run + 1)
    }
}

/// All runs of `cases`.
pub fn jobs(cases: &[Case]) -> Vec<Job> {
    cases.iter().flat_map(|case| (0..case.runs()).map(|run| Job { case: case.clone(), run })).collect()
}

/// Where runs are kept.
pub struct Store {
    root: PathBuf,
    binary: PathBuf,
}

impl Store {
    /// In `root`. Its labs run a copy of the program, so that building it anew disturbs nothing.
    pub fn open(root: &Path) -> Self {
        for engine in ["lab", "sim"] {
            fs::create_dir_all(root.join(engine)).expect("the store can be made");
        }
        Store { root: root.to_owned(), binary: PathBuf::from(env!("CARGO_BIN_EXE_longfat")) }
    }

    /// The kept run of an engine.
    pub fn kept(&self, engine: &str, job: &Job) -> Option<RunSummary> {
        let text = fs::read_to_string(self.summary_path(engine, job)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The directory of the kept run's record.
    pub fn record(&self, engine: &str, job: &Job) -> Option<PathBuf> {
        let id = self.kept(engine, job)?.id;
        Some(self.runs_dir(engine, job).join(job.name()).join(id))
    }

    fn summary_path(&self, engine: &str, job: &Job) -> PathBuf {
        self.root.join(engine).join(format!("{}.json", job.name()))
    }

    fn runs_dir(&self, engine: &str, job: &Job) -> PathBuf {
        self.root.join(engine).join(job.name())
    }

    fn run(&self, command: Command, engine: &str, job: &Job) -> RunSummary {
        let mut command = command;
        let file = self.root.join(format!("{}.toml", job.name()));
        fs::write(&file, job.case.toml(job.run)).expect("the scenario can be written");
        command.arg("--runs").arg(self.runs_dir(engine, job)).arg("run").arg(&file);
        let output = command.args(["--engine", engine, "--json"]).output().expect("longfat runs");
        let summary: Summary = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{}: {e}: {}", job.name(), String::from_utf8_lossy(&output.stderr)));
        summary.runs.into_iter().next().expect("a run")
    }

    fn keep(&self, engine: &str, job: &Job, run: &RunSummary) {
        let text = serde_json::to_string_pretty(run).expect("JSON");
        fs::write(self.summary_path(engine, job), text).expect("the summary can be written");
    }

    /// Runs in the simulator what `jobs` say, on all processors.
    pub fn simulate(&self, jobs: &[Job]) {
        let next = Mutex::new(jobs.iter());
        let take = || next.lock().expect("no worker panicked").next();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(job) = take() {
                        let _ = fs::remove_dir_all(self.runs_dir("sim", job));
                        let run = self.run(Command::new(&self.binary), "sim", job);
                        self.keep("sim", job, &run);
                    }
                });
            }
        });
    }

    /// Runs in the lab what of `jobs` is not kept yet.
    pub fn emulate(&self, jobs: &[Job]) {
        let copy = self.root.join("longfat");
        fs::copy(&self.binary, &copy).expect("the program can be copied");
        let left = jobs.iter().filter(|job| self.kept("lab", job).is_none()).cloned().collect();
        let desk = Mutex::new(Desk { left, carried: [0.0; 3] });
        thread::scope(|scope| {
            for lane in 0..3 {
                let (desk, copy) = (&desk, &copy);
                scope.spawn(move || {
                    // The first lab has its processor before the others begin.
                    thread::sleep(Duration::from_secs(2 * lane as u64));
                    while let Some(taken) = take(desk, lane) {
                        match taken {
                            Some(job) => self.emulate_one(copy, &job, lane),
                            None => thread::sleep(Duration::from_millis(500)),
                        }
                    }
                });
            }
        });
    }

    fn emulate_one(&self, copy: &Path, job: &Job, lane: usize) {
        let mut calmest: Option<(f64, RunSummary)> = None;
        for attempt in 1..=TRIES {
            let mut command = Command::new("chrt");
            command.args(["-r", "1"]).arg(copy);
            let run = self.run(command, "lab", job);
            let shared = run.quality.notes.iter().any(|note| note.contains("another lab ran"));
            let usable = run.quality.ok && (job.case.rtt_ms >= SHORT_RTT_MS || !shared);
            let still = still_ms(&run);
            println!(
                "lab {lane}: {} attempt {attempt}: usable {usable}, stood still {still} ms, late {:?} us {:?}",
                job.name(),
                run.quality.emulator_late_p99_us,
                if usable { &[] } else { run.quality.notes.as_slice() }
            );
            if usable && calmest.as_ref().is_none_or(|(least, _)| still < *least) {
                calmest = Some((still, run));
            }
            if calmest.as_ref().is_some_and(|(least, _)| *least <= STILL_MS) {
                break;
            }
        }
        match calmest {
            Some((_, run)) => self.keep("lab", job, &run),
            None => println!("{}: never to be trusted; it is run again the next time", job.name()),
        }
    }
}

/// What is still to be done, and the Mb/s that each lab carries.
struct Desk {
    left: Vec<Job>,
    carried: [f64; 3],
}

/// The next run for a lab; inside, `None` where it has to wait for another.
fn take(desk: &Mutex<Desk>, lane: usize) -> Option<Option<Job>> {
    let mut desk = desk.lock().expect("no lab panicked");
    desk.carried[lane] = 0.0;
    let others: f64 = desk.carried.iter().sum();
    let is_short = |job: &Job| job.case.rtt_ms < SHORT_RTT_MS;
    let fits = |job: &Job| others == 0.0 || others + job.case.rate_mbps <= MOST_MBPS;
    let own = |job: &Job| if lane == 0 { is_short(job) } else { !is_short(job) };
    if desk.left.is_empty() || (lane > 0 && desk.left.iter().all(is_short)) {
        return None;
    }
    let found = desk.left.iter().position(|job| own(job) && fits(job));
    let found = found.or_else(|| desk.left.iter().position(|job| lane == 0 && fits(job)));
    let Some(index) = found else { return Some(None) };
    let job = desk.left.remove(index);
    desk.carried[lane] = job.case.rate_mbps;
    Some(Some(job))
}

/// How long the emulator stood still in all, by its own remark.
fn still_ms(run: &RunSummary) -> f64 {
    let told =
        run.quality.notes.iter().find_map(|note| note.strip_prefix("the emulator stood still for up to "));
    told.and_then(|note| note.split(", ").nth(1)?.split(' ').next()?.parse().ok()).unwrap_or(0.0)
}
