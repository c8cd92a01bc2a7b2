//! Runs of the matrix, stored in a directory. Runs of the lab and of guest kernels are executed once, those
//! of the simulator each time.
//!
//! Four labs run in parallel at real-time priority: a flow that waits for other programs sends in bursts
//! (measured: a quarter of the goodput beside compilers). None of them polls, because that would starve the
//! others: this program holds the busy-poll lock. The machine should otherwise be idle.

use std::{
    env, fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::Duration,
};

use schema::{RunSummary, Summary};

use crate::draw::{Case, REPEATS};

/// Number of parallel labs.
const LABS: usize = 4;
/// Maximum total rate of the parallel labs, Mb/s.
const MAX_TOTAL_MBPS: f64 = 700.0;
/// If the goodputs of a case's runs differ by more than this share, the result depends on chance.
const SPREAD: f64 = 0.03;
/// Maximum number of attempts until a run is reliable.
const MAX_ATTEMPTS: u32 = 5;

/// One run of one scenario.
#[derive(Debug, Clone)]
pub struct Job {
    /// The scenario.
    pub case: Case,
    /// Number of the run, from 0.
    pub run: u32,
}

impl Job {
    fn name(&self) -> String {
        format!("{:02}-{}", self.case.number, self.run + 1)
    }
}

/// The first `runs` runs of a case.
pub fn jobs(case: &Case, runs: u32) -> Vec<Job> {
    (0..runs).map(|run| Job { case: case.clone(), run }).collect()
}

/// One of the two compared implementations, and where its runs are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Directory of the runs.
    directory: String,
    /// The arguments of `longfat run`.
    arguments: Vec<String>,
    /// Whether cases without socket buffers get [`BUFFERS`].
    sets_buffers: bool,
    /// Whether hosts get [`NO_JITTER`].
    removes_jitter: bool,
}

/// The beginning of a case's settings, and the initial buffers of Linux 6.1 and 6.12. With them all versions
/// have the same buffers; without them a guest and its simulation have those of the version.
const SETTINGS: &str = r#""net.ipv4.tcp_no_metrics_save" = "1""#;
const BUFFERS: &str =
    r#""net.ipv4.tcp_rmem" = "4096 131072 6291456", "net.ipv4.tcp_wmem" = "4096 16384 4194304""#;

/// Simulated hosts react in zero time, as hosts of guests in virtual time do.
const ALL_HOSTS: &str = "[hosts.\"*\"]\n";
const NO_JITTER: &str = "receive_jitter = \"0s\"\n";

impl Side {
    /// This machine's kernel in the lab.
    pub fn lab() -> Self {
        Side::new("lab", &["--engine", "lab"])
    }

    /// The simulator of this machine's kernel.
    pub fn sim() -> Self {
        Side::new("sim", &["--engine", "sim"])
    }

    /// The simulator of the kernel `release`.
    pub fn sim_of(release: &str) -> Self {
        let arguments = ["--engine", "sim", "--kernel", release];
        let side = Side::new(&format!("sim-{release}"), &arguments);
        Side { sets_buffers: true, removes_jitter: true, ..side }
    }

    /// The kernel `release` in a guest in virtual time.
    pub fn guest(release: &str) -> Self {
        let arguments = ["--engine", &format!("kernel:{release}")];
        Side { sets_buffers: true, ..Side::new(&format!("kernel-{release}"), &arguments) }
    }

    fn new(directory: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).into()).collect();
        Side { directory: directory.into(), arguments, sets_buffers: false, removes_jitter: false }
    }
}

/// The store of runs.
pub struct Store {
    root: PathBuf,
    /// The program.
    pub binary: PathBuf,
}

impl Store {
    /// Opens the store in `root`. The program is the one built with this benchmark, or LONGFAT. Labs run a
    /// copy of it, so that a rebuild does not affect them.
    pub fn open(root: &Path) -> Self {
        fs::create_dir_all(root).expect("the store can be created");
        let own = || PathBuf::from(env!("CARGO_BIN_EXE_longfat"));
        Store { root: root.to_owned(), binary: env::var_os("LONGFAT").map_or_else(own, PathBuf::from) }
    }

    /// The kernel of this machine.
    pub fn kernel(&self) -> String {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        release.trim().to_string()
    }

    /// The releases of the kernels that guests can be booted with (`longfat kernel build`), oldest first.
    pub fn guest_kernels(&self) -> Vec<String> {
        let listed = Command::new(&self.binary).args(["--json", "kernel", "list"]).output();
        let listed: serde_json::Value =
            serde_json::from_slice(&listed.expect("longfat can be started").stdout).expect("JSON");
        let names = listed["kernels"].as_array().into_iter().flatten().map(|kernel| &kernel["name"]);
        names.filter_map(|name| name.as_str().map(Into::into)).collect()
    }

    /// The stored run of a side.
    pub fn kept(&self, side: &Side, job: &Job) -> Option<RunSummary> {
        let text = fs::read_to_string(self.summary_path(side, job)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The directory of the stored run's record.
    pub fn record(&self, side: &Side, job: &Job) -> Option<PathBuf> {
        let id = self.kept(side, job)?.id;
        let runs = self.runs_dir(side, job);
        fs::read_dir(runs)
            .ok()?
            .flatten()
            .map(|scenario| scenario.path().join(&id))
            .find(|path| path.is_dir())
    }

    /// Number of lab runs of a case: one if the simulator's goodput hardly depends on the seed and the start,
    /// else as many as in the simulator; `None` before the simulator's runs.
    pub fn lab_runs(&self, sim: &Side, case: &Case) -> Option<u32> {
        let runs = self.runs(sim, case, REPEATS)?;
        Some(if case.is_random || is_spread(&runs) { REPEATS } else { 1 })
    }

    /// Number of runs of a case in a guest: as in the lab, but also as many as in the simulator if the
    /// simulator's goodput differs from that of the kernel's first run by more than [`SPREAD`]. The kernel's
    /// runs then show whether its own goodput depends on the start. `None` before the first run of both.
    pub fn guest_runs(&self, sim: &Side, guest: &Side, case: &Case) -> Option<u32> {
        let simulated = self.runs(sim, case, REPEATS)?;
        let first = self.runs(guest, case, 1)?.iter().map(goodput_bps).sum::<f64>();
        let mean = simulated.iter().map(goodput_bps).sum::<f64>() / simulated.len() as f64;
        if (mean / first - 1.0).abs() > SPREAD {
            return Some(REPEATS);
        }
        self.lab_runs(sim, case)
    }

    /// Number of stored runs of a case, counted from the first.
    pub fn stored_runs(&self, side: &Side, case: &Case) -> u32 {
        jobs(case, REPEATS).iter().take_while(|job| self.kept(side, job).is_some()).count() as u32
    }

    /// The first `count` runs of a case; `None` if one is not stored.
    pub fn runs(&self, side: &Side, case: &Case, count: u32) -> Option<Vec<RunSummary>> {
        jobs(case, count).iter().map(|job| self.kept(side, job)).collect()
    }

    fn summary_path(&self, side: &Side, job: &Job) -> PathBuf {
        self.root.join(&side.directory).join(format!("{}.json", job.name()))
    }

    fn runs_dir(&self, side: &Side, job: &Job) -> PathBuf {
        self.root.join(&side.directory).join(job.name())
    }

    fn run(&self, command: Command, side: &Side, job: &Job) -> RunSummary {
        let mut command = command;
        fs::create_dir_all(self.root.join(&side.directory)).expect("the store can be created");
        let file = self.root.join(&side.directory).join(format!("{}.toml", job.name()));
        let mut text = job.case.toml(job.run);
        if side.sets_buffers && !text.contains("tcp_rmem") {
            text = text.replace(SETTINGS, &format!("{SETTINGS}, {BUFFERS}"));
        }
        if side.removes_jitter {
            text = text.replace(ALL_HOSTS, &format!("{ALL_HOSTS}{NO_JITTER}"));
        }
        fs::write(&file, text).expect("the scenario can be written");
        command.arg("--runs").arg(self.runs_dir(side, job)).arg("run").arg(&file);
        let output = command.args(&side.arguments).arg("--json").output().expect("longfat can be started");
        let summary: Summary = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{}: {e}: {}", job.name(), String::from_utf8_lossy(&output.stderr)));
        summary.runs.into_iter().next().expect("a run")
    }

    fn keep(&self, side: &Side, job: &Job, run: &RunSummary) {
        let text = serde_json::to_string_pretty(run).expect("JSON");
        fs::write(self.summary_path(side, job), text).expect("the summary can be written");
    }

    /// Runs those of `jobs` in a guest that are not stored yet, on all processors.
    pub fn run_guests(&self, guest: &Side, jobs: &[Job]) {
        self.simulate(guest, &self.missing(guest, jobs));
    }

    /// Those of `jobs` that are not stored yet.
    fn missing(&self, side: &Side, jobs: &[Job]) -> Vec<Job> {
        jobs.iter().filter(|job| self.kept(side, job).is_none()).cloned().collect()
    }

    /// Runs `jobs` in virtual time, on all processors.
    pub fn simulate(&self, side: &Side, jobs: &[Job]) {
        let next = Mutex::new(jobs.iter());
        let take = || next.lock().expect("no worker panicked").next();
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(job) = take() {
                        let _ = fs::remove_dir_all(self.runs_dir(side, job));
                        let run = self.run(Command::new(&self.binary), side, job);
                        self.keep(side, job, &run);
                    }
                });
            }
        });
    }

    /// Runs those of `jobs` in the lab that are not stored yet.
    pub fn emulate(&self, jobs: &[Job]) {
        let left = self.missing(&Side::lab(), jobs);
        if left.is_empty() {
            return;
        }
        let copy = self.root.join("longfat");
        fs::copy(&self.binary, &copy).expect("the program can be copied");
        let _held = acquire_busy_poll_lock();
        let queue = Mutex::new(JobQueue { remaining: left, lab_mbps: [0.0; LABS] });
        thread::scope(|scope| {
            for lab in 0..LABS {
                let (queue, copy) = (&queue, &copy);
                scope.spawn(move || {
                    while let Some(taken) = take(queue, lab) {
                        match taken {
                            Some(job) => self.emulate_one(copy, &job),
                            None => thread::sleep(Duration::from_millis(500)),
                        }
                    }
                });
            }
        });
    }

    fn emulate_one(&self, program: &Path, job: &Job) {
        for attempt in 1..=MAX_ATTEMPTS {
            let run = self.run(at_real_time(program), &Side::lab(), job);
            let quality = &run.quality;
            println!("{} attempt {attempt}: ok {} {:?}", job.name(), quality.is_reliable(), quality.notes);
            if quality.is_reliable() {
                return self.keep(&Side::lab(), job, &run);
            }
        }
        println!("{}: no attempt was reliable; the next `lab` tries again", job.name());
    }
}

/// Whether the goodputs of a case's runs differ by more than [`SPREAD`].
pub fn is_spread(runs: &[RunSummary]) -> bool {
    let goodputs = runs.iter().map(goodput_bps);
    let (min, max) = goodputs.fold((f64::MAX, 0.0f64), |(min, max), g| (min.min(g), max.max(g)));
    max > min * (1.0 + SPREAD)
}

/// Sum over all flows.
pub fn goodput_bps(run: &RunSummary) -> f64 {
    run.flows.iter().filter_map(|flow| flow.goodput_bps).sum()
}

/// Acquires the busy-poll lock of the machine (see `lab`'s journal), so that no lab polls.
fn acquire_busy_poll_lock() -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name("longfat-spin").ok()?;
    UnixListener::bind_addr(&name).ok()
}

fn at_real_time(program: &Path) -> Command {
    let mut command = Command::new("chrt");
    command.args(["-r", "1"]).arg(program);
    command
}

/// The remaining runs, and the rate of each running lab, Mb/s.
struct JobQueue {
    remaining: Vec<Job>,
    lab_mbps: [f64; LABS],
}

/// The next run for a lab: `None` at the end, `Some(None)` if the lab has to wait for the end of another run.
fn take(queue: &Mutex<JobQueue>, lab: usize) -> Option<Option<Job>> {
    let mut queue = queue.lock().expect("no lab panicked");
    queue.lab_mbps[lab] = 0.0;
    let others: f64 = queue.lab_mbps.iter().sum();
    let fits = |job: &Job| others == 0.0 || others + job.case.rate_mbps <= MAX_TOTAL_MBPS;
    if queue.remaining.is_empty() {
        return None;
    }
    let found = queue.remaining.iter().position(fits);
    let Some(index) = found else { return Some(None) };
    let job = queue.remaining.remove(index);
    queue.lab_mbps[lab] = job.case.rate_mbps;
    Some(Some(job))
}
