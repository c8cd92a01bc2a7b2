//! Runs of the matrix, kept in a directory: those of the lab and of guest kernels once and for all, the simulator's anew each
//! time.
//!
//! Four labs run side by side, at real-time priority: a flow that waits for other programs sends in bursts (measured: a
//! quarter of the goodput beside compilers). None of them polls, for that would starve the others: this program holds the
//! right to do so. The machine should have nothing else to do all the same.

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

/// Labs side by side.
const LABS: usize = 4;
/// They carry so many Mb/s at most.
const MOST_MBPS: f64 = 700.0;
/// Where the simulator's goodputs differ by more than this share, chance decides.
const SPREAD: f64 = 0.03;
/// So often a run is tried until it can be trusted.
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

/// The first `runs` runs of a case.
pub fn jobs(case: &Case, runs: u32) -> Vec<Job> {
    (0..runs).map(|run| Job { case: case.clone(), run }).collect()
}

/// What makes runs, and where they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The directory of its runs.
    directory: String,
    /// The arguments of `longfat run`.
    arguments: Vec<String>,
    /// Cases that say nothing of socket buffers have [`BUFFERS`].
    sets_buffers: bool,
}

/// Where a case's settings begin, and buffers as Linux 6.1 and 6.12 begin with. With them all versions have the same; without them
/// a guest and its simulation have those of the version.
const SETTINGS: &str = r#""net.ipv4.tcp_no_metrics_save" = "1""#;
const BUFFERS: &str =
    r#""net.ipv4.tcp_rmem" = "4096 131072 6291456", "net.ipv4.tcp_wmem" = "4096 16384 4194304""#;

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
        Side { sets_buffers: true, ..Side::new(&format!("sim-{release}"), &arguments) }
    }

    /// The kernel `release` in a guest in virtual time.
    pub fn guest(release: &str) -> Self {
        let arguments = ["--engine", &format!("kernel:{release}")];
        Side { sets_buffers: true, ..Side::new(&format!("kernel-{release}"), &arguments) }
    }

    fn new(directory: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).into()).collect();
        Side { directory: directory.into(), arguments, sets_buffers: false }
    }
}

/// Where runs are kept.
pub struct Store {
    root: PathBuf,
    /// The program.
    pub binary: PathBuf,
}

impl Store {
    /// In `root`. The program is the one that this bench was built with, or that the environment's LONGFAT names. Labs run a copy
    /// of it, so that building it anew disturbs nothing.
    pub fn open(root: &Path) -> Self {
        fs::create_dir_all(root).expect("the store can be made");
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
            serde_json::from_slice(&listed.expect("longfat runs").stdout).expect("JSON");
        let names = listed["kernels"].as_array().into_iter().flatten().map(|kernel| &kernel["name"]);
        names.filter_map(|name| name.as_str().map(Into::into)).collect()
    }

    /// The kept run of a side.
    pub fn kept(&self, side: &Side, job: &Job) -> Option<RunSummary> {
        let text = fs::read_to_string(self.summary_path(side, job)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The directory of the kept run's record.
    pub fn record(&self, side: &Side, job: &Job) -> Option<PathBuf> {
        let id = self.kept(side, job)?.id;
        let runs = self.runs_dir(side, job);
        fs::read_dir(runs)
            .ok()?
            .flatten()
            .map(|scenario| scenario.path().join(&id))
            .find(|path| path.is_dir())
    }

    /// Runs that the lab needs of a case: one where the simulator's goodput hardly depends on the seed (which decides only
    /// by how many microseconds hosts are late), else as many as the simulator makes. None before the simulator's are kept.
    pub fn lab_runs(&self, sim: &Side, case: &Case) -> Option<u32> {
        let kept: Option<Vec<RunSummary>> =
            jobs(case, REPEATS).iter().map(|job| self.kept(sim, job)).collect();
        let goodputs: Vec<f64> = kept?.iter().map(goodput_bps).collect();
        let (least, most) = goodputs.iter().fold((f64::MAX, 0.0f64), |(l, m), g| (l.min(*g), m.max(*g)));
        Some(if case.is_random || most > least * (1.0 + SPREAD) { REPEATS } else { 1 })
    }

    fn summary_path(&self, side: &Side, job: &Job) -> PathBuf {
        self.root.join(&side.directory).join(format!("{}.json", job.name()))
    }

    fn runs_dir(&self, side: &Side, job: &Job) -> PathBuf {
        self.root.join(&side.directory).join(job.name())
    }

    fn run(&self, command: Command, side: &Side, job: &Job) -> RunSummary {
        let mut command = command;
        fs::create_dir_all(self.root.join(&side.directory)).expect("the store can be made");
        let file = self.root.join(&side.directory).join(format!("{}.toml", job.name()));
        let mut text = job.case.toml(job.run);
        if side.sets_buffers && !text.contains("tcp_rmem") {
            text = text.replace(SETTINGS, &format!("{SETTINGS}, {BUFFERS}"));
        }
        fs::write(&file, text).expect("the scenario can be written");
        command.arg("--runs").arg(self.runs_dir(side, job)).arg("run").arg(&file);
        let output = command.args(&side.arguments).arg("--json").output().expect("longfat runs");
        let summary: Summary = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{}: {e}: {}", job.name(), String::from_utf8_lossy(&output.stderr)));
        summary.runs.into_iter().next().expect("a run")
    }

    fn keep(&self, side: &Side, job: &Job, run: &RunSummary) {
        let text = serde_json::to_string_pretty(run).expect("JSON");
        fs::write(self.summary_path(side, job), text).expect("the summary can be written");
    }

    /// Runs in a guest what of `jobs` is not kept yet, on all processors.
    pub fn run_guests(&self, guest: &Side, jobs: &[Job]) {
        self.simulate(guest, &self.missing(guest, jobs));
    }

    /// What of `jobs` is not kept yet.
    fn missing(&self, side: &Side, jobs: &[Job]) -> Vec<Job> {
        jobs.iter().filter(|job| self.kept(side, job).is_none()).cloned().collect()
    }

    /// Runs in virtual time what `jobs` say, on all processors.
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

    /// Runs in the lab what of `jobs` is not kept yet.
    pub fn emulate(&self, jobs: &[Job]) {
        let left = self.missing(&Side::lab(), jobs);
        if left.is_empty() {
            return;
        }
        let copy = self.root.join("longfat");
        fs::copy(&self.binary, &copy).expect("the program can be copied");
        let _held = right_to_poll();
        let desk = Mutex::new(Desk { left, carried: [0.0; LABS] });
        thread::scope(|scope| {
            for lane in 0..LABS {
                let (desk, copy) = (&desk, &copy);
                scope.spawn(move || {
                    while let Some(taken) = take(desk, lane) {
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
        for attempt in 1..=TRIES {
            let run = self.run(at_real_time(program), &Side::lab(), job);
            let quality = &run.quality;
            println!("{} attempt {attempt}: ok {} {:?}", job.name(), quality.is_reliable(), quality.notes);
            if quality.is_reliable() {
                return self.keep(&Side::lab(), job, &run);
            }
        }
        println!("{}: never to be trusted; it is run again the next time", job.name());
    }
}

/// Of all flows together.
pub fn goodput_bps(run: &RunSummary) -> f64 {
    run.flows.iter().filter_map(|flow| flow.goodput_bps).sum()
}

/// The right to poll, which one lab of a machine may have (see `lab`'s journal): whoever holds it keeps it from all.
fn right_to_poll() -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name("longfat-spin").ok()?;
    UnixListener::bind_addr(&name).ok()
}

fn at_real_time(program: &Path) -> Command {
    let mut command = Command::new("chrt");
    command.args(["-r", "1"]).arg(program);
    command
}

/// What is still to be done, and the Mb/s that each lab carries.
struct Desk {
    left: Vec<Job>,
    carried: [f64; LABS],
}

/// The next run for a lab; inside, `None` where it has to wait for another.
fn take(desk: &Mutex<Desk>, lane: usize) -> Option<Option<Job>> {
    let mut desk = desk.lock().expect("no lab panicked");
    desk.carried[lane] = 0.0;
    let others: f64 = desk.carried.iter().sum();
    let fits = |job: &Job| others == 0.0 || others + job.case.rate_mbps <= MOST_MBPS;
    if desk.left.is_empty() {
        return None;
    }
    let found = desk.left.iter().position(fits);
    let Some(index) = found else { return Some(None) };
    let job = desk.left.remove(index);
    desk.carried[lane] = job.case.rate_mbps;
    Some(Some(job))
}
