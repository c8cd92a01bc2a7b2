//! `longfat diagnose` on the paths of `lab_paths/paths.toml` in standing labs; one flow of each judged by
//! `test`, `watch` and `import pcap` at once, and another by `run`.
//!
//! By default a few paths. `LONGFAT_PATHS=all cargo test -p longfat --test all lab_paths -- --nocapture`
//! tests all of them, four at a time, and prints the tables of docs/diagnose.md; any other value tests the
//! paths whose names contain it.

use std::{
    collections::BTreeMap,
    fmt::Write,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    sync::Mutex,
    thread::{self, sleep},
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value;

use crate::common::{
    CommandOutput, TestDir, binary, eventually, is_root,
    lab::Lab,
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};

/// The paths that are tried without LONGFAT_PATHS; each takes more than a minute.
const DEFAULT_PATHS: [&str; 2] = ["other datagrams at 60 Mb/s", "policer, 41.7 Mb/s and 60 kB"];
/// Maximum number of attempts until the result of a path is correct: other programs on the machine disturb
/// labs.
const MAX_TRIES: u32 = 3;
/// Number of simultaneous labs.
const LABS: usize = 4;
/// Duration of each TCP test.
const TEST_S: &str = "8";
/// TCP payload of a link of 100 Mb/s, in Mb/s: 1448 of 1514 bytes.
const USUAL_MAX_MBPS: f64 = 95.7;
/// A goodput may exceed what the path allows by this share: samples of both ends are some milliseconds apart.
const TOLERANCE: f64 = 1.02;
/// Gains that simulations predict vary by this share of the path's rate.
const GAIN_TOLERANCE: f64 = 1.05;

#[derive(Deserialize)]
struct Paths {
    paths: Vec<LabPath>,
}

/// A row of the table; see paths.toml.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabPath {
    name: String,
    right: Vec<String>,
    flow: Vec<String>,
    #[serde(default)]
    change: String,
    #[serde(default)]
    others: Vec<String>,
    #[serde(default)]
    prepare: Vec<String>,
    #[serde(default)]
    steps: Vec<(f64, String)>,
    #[serde(default = "usual_max_mbps")]
    max_mbps: f64,
}

fn usual_max_mbps() -> f64 {
    USUAL_MAX_MBPS
}

/// A program that runs during the test; killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The limits that each command named, by command: the verdict, and a second one if it named two; none if a
/// command shows none.
type Verdicts = BTreeMap<&'static str, Vec<String>>;

/// How the diagnosis of a path is rated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rating {
    Right,
    Inconclusive,
    Wrong,
}

/// The result of one attempt at one path.
struct Tried {
    rating: Rating,
    /// The first limit's kind, and the alternative if it is uncertain.
    first: String,
    got_mbps: f64,
    without_mbps: Option<String>,
    verdicts: Verdicts,
    /// Statements that must hold and did not.
    failures: Vec<String>,
    /// The longest stall of the emulator.
    stalled: Duration,
    document: Value,
}

impl LabPath {
    fn scenario(&self) -> String {
        let mut text = read("base.toml");
        for (number, kind) in self.others.iter().enumerate() {
            let _ = write!(text, "[[flows]]\nname = \"other-{number}\"\nfrom = \"h3\"\nto = \"h4\"\n");
            if kind != "tcp" {
                let _ = writeln!(text, "kind = \"udp\"\nrate = \"{kind}\"");
            }
        }
        text + &format!("[[variants]]\nname = \"path\"\n{}\n", self.change)
    }

    /// Brings the path up, judges one flow by all commands, and diagnoses the path.
    fn tried(&self) -> Tried {
        let test_dir = TestDir::new(&self.scenario());
        let lab = Lab::up(&test_dir, &["--variant", "path"]);
        let _servers =
            [start_server(&lab, "h2", 5201), start_server(&lab, "h4", 5201), start_server(&lab, "h4", 5202)];
        for line in &self.prepare {
            let (host, command) = line.split_once(": ").unwrap();
            let ran = lab.sh(host, command);
            assert_eq!(ran.code, 0, "{line}: {ran:?}");
        }
        let _others: Vec<Running> =
            self.others.iter().enumerate().map(|(number, kind)| start_other(&lab, number, kind)).collect();
        // Waits until the other connections have left slow start.
        sleep(Duration::from_secs(if self.others.is_empty() { 0 } else { 3 }));
        let mut verdicts = if self.steps.is_empty() { judged(&lab) } else { BTreeMap::new() };
        let document = self.diagnosed(&lab);
        let stalled = Duration::from_secs_f64(lab.status()["stalled_max_us"].as_f64().unwrap() * 1e-6);
        drop(lab);
        if self.steps.is_empty() && self.prepare.is_empty() {
            verdicts.insert("run", verdict_of_run(&test_dir));
        }
        self.rated(document, verdicts, stalled)
    }

    /// The diagnosis, with the steps during its TCP test.
    fn diagnosed(&self, lab: &Lab) -> Value {
        let command = [binary(), "diagnose", "h2", "--rate", "100mbit", "-t", TEST_S, "--json"];
        let mut diagnosing = spawn_on(lab, "h1", &command);
        let mut lines = BufReader::new(diagnosing.stderr.take().unwrap()).lines().map_while(Result::ok);
        let began = lines.any(|line| line.contains("testing TCP for"));
        assert!(began, "the test never began on {}", self.name);
        let from = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                for (after, step) in &self.steps {
                    sleep(Duration::from_secs_f64(*after).saturating_sub(from.elapsed()));
                    assert_eq!(lab.shell(&[step]).code, 0, "{step}");
                }
            });
            let drained = scope.spawn(|| lines.for_each(drop));
            let ran = CommandOutput::from(diagnosing.wait_with_output().unwrap());
            drained.join().unwrap();
            ran.json()
        })
    }

    fn rated(&self, document: Value, verdicts: Verdicts, stalled: Duration) -> Tried {
        let limit = &document["limits"][0];
        let kind = limit["kind"].as_str().unwrap_or("nothing").to_owned();
        let doubt = &limit["doubt"];
        let rating = match (self.right.contains(&kind), doubt.is_null()) {
            (true, true) => Rating::Right,
            (_, false) => Rating::Inconclusive,
            (false, true) => Rating::Wrong,
        };
        let mbps = |value: &Value| value.as_f64().map(|bps| bps / 1e6);
        let got = mbps(&document["flow"]["steady_goodput_bps"]).or(mbps(&document["flow"]["goodput_bps"]));
        let got_mbps = got.unwrap_or(0.0);
        let mut failures = Vec::new();
        if got_mbps > TOLERANCE * self.max_mbps {
            failures
                .push(format!("a steady goodput of {got_mbps:.1} Mb/s where {} are possible", self.max_mbps));
        }
        let gain = mbps(&limit["gain_bps"]).filter(|gain| *gain > 0.0 && limit["measured"] == true);
        let without = gain.map(|gain| got_mbps + gain);
        if without.is_some_and(|without| without > GAIN_TOLERANCE * USUAL_MAX_MBPS) {
            failures.push(format!("{without:?} Mb/s are promised on a path of 100 Mb/s"));
        }
        if document["healthy"] == true && kind != "path_rate" {
            failures.push("healthy, with a limit".into());
        }
        // An import has no verdict of what a capture cannot show. For a path without a correct verdict, no
        // verdict is compared.
        let known: Vec<&Vec<String>> = verdicts.values().filter(|limits| !limits.is_empty()).collect();
        let is_right = |limits: &&Vec<String>| limits.iter().any(|limit| self.flow.contains(limit));
        if !self.flow.is_empty() && !known.iter().all(is_right) {
            failures.push(format!("verdicts of one flow: {verdicts:?}"));
        }
        let is_common = |limit: &String| known.iter().all(|limits| limits.contains(limit));
        if known.first().is_some_and(|first| !first.iter().any(is_common)) {
            failures.push(format!("the commands disagree: {verdicts:?}"));
        }
        let instead = doubt["instead"].as_str().map(|kind| format!(", or `{kind}`")).unwrap_or_default();
        let inconclusive = if doubt.is_null() { String::new() } else { format!(", inconclusive{instead}") };
        let first = if document["healthy"] == true { "healthy".into() } else { format!("`{kind}`") };
        let at_most = if limit["gain_is_most"] == true { "at most " } else { "" };
        Tried {
            rating,
            first: first + &inconclusive,
            got_mbps,
            without_mbps: without.map(|without| format!("{at_most}{without:.1}")),
            verdicts,
            failures,
            stalled,
            document,
        }
    }

    /// The first attempt that is completely correct, otherwise the best one.
    fn best(&self) -> Tried {
        let mut best: Option<Tried> = None;
        for _ in 0..MAX_TRIES {
            let tried = self.tried();
            let worth = |tried: &Tried| (tried.rating as usize, tried.failures.len());
            if best.as_ref().is_none_or(|best| worth(&tried) < worth(best)) {
                best = Some(tried);
            }
            if best.as_ref().is_some_and(|best| worth(best) == (0, 0)) {
                break;
            }
        }
        best.unwrap()
    }
}

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab_paths");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn spawn_on(lab: &Lab, host: &str, program: &[&str]) -> Child {
    let args = [&["lab", "exec", "--lab", &lab.name, host, "--"], program].concat();
    lab.test_dir.longfat(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn start_silently(lab: &Lab, host: &str, program: &[&str]) -> Running {
    let args = [&["lab", "exec", "--lab", &lab.name, host, "--"], program].concat();
    let child = lab.test_dir.longfat(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(child.unwrap())
}

/// Starts `longfat serve` and waits until it listens.
fn start_server(lab: &Lab, host: &str, port: u16) -> Running {
    let server = start_silently(lab, host, &[binary(), "serve", "-i", "0", "-p", &port.to_string()]);
    let listens =
        || lab.sh(host, "cat /proc/net/tcp /proc/net/tcp6").stdout.contains(&format!(":{port:04X} "));
    assert!(eventually(listens), "no server listens on {host}");
    server
}

/// Starts traffic from h3 to h4: a TCP connection, or datagrams at a rate.
fn start_other(lab: &Lab, number: usize, kind: &str) -> Running {
    let port = (5201 + number).to_string();
    let test = [binary(), "test", "h4", "-p", &port, "-t", "600", "-i", "0", "--no-record"];
    let rate = ["-u", "-b", kind];
    start_silently(lab, "h3", &[&test[..], if kind == "tcp" { &[] } else { &rate[..] }].concat())
}

/// The verdicts of one flow from h1 to h2, by the sender's test, by a watcher, and by the import of a capture
/// at h1.
fn judged(lab: &Lab) -> Verdicts {
    let test_dir = lab.test_dir;
    let watch = ["watch", "--host", "h1", "--lab", &lab.name, "--record", "--json"];
    let watching = test_dir.longfat(&[&watch[..], &["--duration", "12s", "peer", "port", "5201"]].concat());
    let mut watching = watching;
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| test_dir.path("runs/watch").is_dir()), "the watcher has not started");
    assert_eq!(lab.shell(&["pcap h1 flow.pcapng"]).code, 0);
    let tested = lab.exec("h1", &[binary(), "test", "h2", "-t", TEST_S, "--json"]).json();
    assert_eq!(lab.shell(&["pcap stop flow.pcapng"]).code, 0);
    let watched = CommandOutput::from(watching.wait_with_output().unwrap()).json();
    let imported = test_dir.run(&["import", "pcap", "flow.pcapng", "--json"]).json();
    let record = imported["records"][0]["record"].as_str().unwrap().to_owned();
    let shown = test_dir.run(&["show", &record, "--json"]).json();
    // The other connection is the test's control connection.
    let largest = |flows: &Value, bytes: &str| {
        flows
            .as_array()
            .unwrap()
            .iter()
            .max_by_key(|flow| flow.pointer(bytes).and_then(Value::as_u64))
            .map(named_limits)
            .unwrap_or_default()
    };
    BTreeMap::from([
        ("test", named_limits(&tested["flows"][0])),
        ("watch", largest(&watched["connections"], "/tcp_info/bytes_acked")),
        ("import pcap", largest(&shown["runs"][0]["flows"], "/bytes")),
    ])
}

/// The verdict of a flow, and the second limit.
fn named_limits(flow: &Value) -> Vec<String> {
    ["verdict", "verdict_also"].iter().filter_map(|key| flow[key].as_str()).map(str::to_owned).collect()
}

/// The verdict of a run of the same path: another flow, with the same other traffic.
fn verdict_of_run(test_dir: &TestDir) -> Vec<String> {
    let run = ["run", "s.toml", "--engine", "lab", "--variant", "path", "--json"];
    let ran = test_dir.run(&run).parsed();
    let flows = ran["runs"][0]["flows"].as_array().unwrap();
    let bulk = flows.iter().find(|flow| flow["name"] == "bulk").unwrap();
    named_limits(bulk)
}

#[test]
fn the_paths_of_the_file_are_diagnosed() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "only root can bring up these labs");
        return;
    }
    let wanted = std::env::var("LONGFAT_PATHS").ok();
    let is_wanted = |path: &LabPath| match wanted.as_deref() {
        None => DEFAULT_PATHS.contains(&path.name.as_str()),
        Some(part) => part == "all" || path.name.contains(part),
    };
    let paths: Vec<LabPath> = toml::from_str::<Paths>(&read("paths.toml")).unwrap().paths;
    let paths: Vec<LabPath> = paths.into_iter().filter(is_wanted).collect();
    assert!(!paths.is_empty(), "no path has {wanted:?} in its name");
    let _slot = if wanted.is_some() { acquire_all_lab_slots() } else { acquire_lab_slot() };
    let (todo, done) = (Mutex::new(paths.iter().enumerate()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..if wanted.is_some() { LABS } else { 1 } {
            scope.spawn(|| {
                loop {
                    let Some((index, path)) = todo.lock().unwrap().next() else { break };
                    let tried = path.best();
                    println!("{}", line(path, &tried));
                    done.lock().unwrap().insert(index, tried);
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    println!("\n{}", table(&paths, &done));
    let failed: Vec<String> = paths
        .iter()
        .zip(done.values())
        .filter(|(_, tried)| tried.rating == Rating::Wrong || !tried.failures.is_empty())
        .map(|(path, tried)| {
            format!("{}: {:?}\n{:#}", line(path, tried), tried.failures, tried.document["limits"])
        })
        .collect();
    // A machine that stalls the emulator changes the path.
    let stalled = done.values().map(|tried| tried.stalled).max().unwrap_or_default();
    if !failed.is_empty() && wanted.is_none() && stalled >= Duration::from_millis(2) {
        testing::skip(testing::Missing::QuietMachine, format_args!("the emulator stalled: {failed:?}"));
        return;
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A progress line while the paths are tested.
fn line(path: &LabPath, tried: &Tried) -> String {
    format!(
        "{:?}: {}: {}, got {:.1}, {:?}, stalled {:?}, flow {} {:?}",
        tried.rating,
        path.name,
        tried.first,
        tried.got_mbps,
        tried.without_mbps,
        tried.stalled,
        tried.document["flow"]["verdict"],
        tried.verdicts,
    )
}

/// The table of docs/diagnose.md.
fn table(paths: &[LabPath], done: &BTreeMap<usize, Tried>) -> String {
    let mut text = String::from(
        "| path | first limit | rating | test | expected without it | `test` | `watch` | `import pcap` | `run` |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (path, tried) in paths.iter().zip(done.values()) {
        let rating = match tried.rating {
            Rating::Right => "right",
            Rating::Inconclusive => "inconclusive",
            Rating::Wrong => "wrong",
        };
        let verdict = |command| match tried.verdicts.get(command) {
            None => String::new(),
            Some(limits) if limits.is_empty() => "none".into(),
            Some(limits) => format!("`{}`", limits.join("`, `")),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {rating} | {:.1} | {} | {} | {} | {} | {} |",
            path.name,
            tried.first,
            tried.got_mbps,
            tried.without_mbps.as_deref().unwrap_or(""),
            verdict("test"),
            verdict("watch"),
            verdict("import pcap"),
            verdict("run"),
        );
    }
    text
}
