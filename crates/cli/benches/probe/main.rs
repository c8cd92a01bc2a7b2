//! Accuracy of `longfat probe` on real sockets, for 40 paths in the lab, whose true values are known.
//!
//! ```sh
//! cargo bench -p longfat --bench probe
//! LONGFAT_PATHS=0-9 LONGFAT=/usr/local/bin/longfat cargo bench -p longfat --bench probe
//! ```
//!
//! Each path is a separate lab with four hosts: the two ends, and two for cross traffic, a UDP stream over
//! the same link. The table has the relative errors of the estimates; a star marks estimates that are
//! reported as invalid.

mod paths;

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use paths::LabPath;
use serde_json::Value;

/// Maximum duration of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(300);

/// Path of the program: `LONGFAT`, or else the one just built.
fn longfat_path() -> String {
    std::env::var("LONGFAT").unwrap_or_else(|_| env!("CARGO_BIN_EXE_longfat").into())
}

fn main() {
    let (from, to) = std::env::var("LONGFAT_PATHS")
        .ok()
        .and_then(|range| range.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))))
        .unwrap_or((0usize, 39usize));
    println!("| path | capacity | available | buffer | named |");
    println!("|---|---|---|---|---|");
    let mut errors: [Vec<f64>; 3] = Default::default();
    let mut unflagged = 0;
    let begin = Instant::now();
    for index in from..=to {
        let path = LabPath::new(index);
        match measure(&path) {
            Ok(row) => {
                let cells: Vec<String> = row.errors.iter().map(Cell::text).collect();
                println!("| {index}: {path} | {} | {} |", cells.join(" | "), row.named);
                for (all, cell) in errors.iter_mut().zip(&row.errors) {
                    unflagged +=
                        usize::from(cell.valid && cell.error.is_none_or(|e| e.abs() > cell.tolerance));
                    all.push(cell.error.map_or(f64::INFINITY, f64::abs));
                }
            }
            Err(why) => println!("| {index}: {path} | failed: {why} | | | |"),
        }
    }
    println!("\n{} paths in {:.0} min", to - from + 1, begin.elapsed().as_secs_f64() / 60.0);
    for ((what, within), all) in
        [("capacity", 3), ("available bandwidth", 10), ("buffer", 5)].iter().zip(&mut errors)
    {
        all.sort_by(f64::total_cmp);
        if let Some(median) = all.get(all.len() / 2) {
            println!(
                "{what}: median error {:.1} % of {} paths (target {within} %)",
                median * 100.0,
                all.len()
            );
        }
    }
    println!("estimates with errors above 10, 20 and 15 % but reported as valid: {unflagged} (target 0)");
}

/// An estimate's error.
struct Cell {
    /// Relative error; `None` without an estimate.
    error: Option<f64>,
    /// Whether it is reported as valid.
    valid: bool,
    /// An estimate with a larger error counts as wrong.
    tolerance: f64,
}

impl Cell {
    fn of(value: &Value, true_value: f64, valid: &Value, tolerance: f64) -> Cell {
        Cell { error: value.as_f64().map(|value| value / true_value - 1.0), valid: valid == true, tolerance }
    }

    fn text(&self) -> String {
        let star = if self.valid { "" } else { "*" };
        self.error.map_or(format!("none{star}"), |error| format!("{:+.1} %{star}", error * 100.0))
    }
}

struct Row {
    errors: [Cell; 3],
    named: String,
}

fn measure(path: &LabPath) -> Result<Row, String> {
    let lab = Lab::up(path)?;
    let _servers = [lab.start("b", &["serve"])?, lab.start("d", &["serve"])?];
    std::thread::sleep(Duration::from_secs(1));
    let cross = path.cross_bps.map(|bps| bps.to_string());
    let _cross_traffic = match &cross {
        Some(bps) => Some(lab.start(
            "c",
            &["test", "10.0.0.4", "-u", "-b", bps, "-l", "1472", "-t", "3600", "--no-record", "-i", "0"],
        )?),
        None => None,
    };
    std::thread::sleep(Duration::from_secs(1));
    let probe = |kind: &str| lab.json("a", &["probe", kind, "10.0.0.2", "--max-rate", "1G", "--json"]);
    let available = probe("available")?;
    let buffer = probe("buffer")?;
    let (a, b) = (&available["answer"], &buffer["answer"]);
    let capacity = &a["capacity"];
    Ok(Row {
        errors: [
            Cell::of(
                &capacity["capacity_bps"]["value"],
                path.capacity_bps(),
                &capacity["validity"]["valid"],
                0.1,
            ),
            Cell::of(&a["available_bps"]["value"], path.available_bps(), &a["validity"]["valid"], 0.2),
            Cell::of(&b["buffer_bytes"]["value"], path.buffer_bytes(), &b["validity"]["valid"], 0.15),
        ],
        named: b["kind"].as_str().unwrap_or("?").to_string(),
    })
}

/// A lab that is up; taken down on drop.
struct Lab {
    name: String,
    scenario_file: tempfile::NamedTempFile,
}

/// A program on a host of the lab; killed on drop.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lab {
    fn up(path: &LabPath) -> Result<Lab, String> {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().map_err(|e| e.to_string())?;
        std::fs::write(file.path(), path.scenario()).map_err(|e| e.to_string())?;
        let name = format!("probe-bench-{}", std::process::id());
        let lab = Lab { name, scenario_file: file };
        let up = Command::new(longfat_path())
            .args(["lab", "up", "--name", &lab.name])
            .arg(lab.scenario_file.path())
            .output()
            .map_err(|e| e.to_string())?;
        match up.status.success() {
            true => Ok(lab),
            false => Err(String::from_utf8_lossy(&up.stderr).into_owned()),
        }
    }

    fn command(&self, host: &str, args: &[&str]) -> Command {
        let mut command = Command::new(longfat_path());
        command.args(["lab", "exec", host, "--lab", &self.name, "--", &longfat_path()]).args(args);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(&self, host: &str, args: &[&str]) -> Result<Program, String> {
        self.command(host, args).stdout(Stdio::null()).spawn().map(Program).map_err(|e| e.to_string())
    }

    /// Runs a program and returns the JSON document that it prints; fails after [`PROBE_TIMEOUT`].
    fn json(&self, host: &str, args: &[&str]) -> Result<Value, String> {
        let mut command = self.command(host, args);
        let out = tempfile::tempfile().map_err(|e| e.to_string())?;
        command.stdout(out.try_clone().map_err(|e| e.to_string())?);
        let mut program = Program(command.spawn().map_err(|e| e.to_string())?);
        let begin = Instant::now();
        while program.0.try_wait().map_err(|e| e.to_string())?.is_none() {
            if begin.elapsed() > PROBE_TIMEOUT {
                return Err(format!("{} takes too long", args[1]));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut text = String::new();
        use std::io::{Read, Seek};
        let mut out = out;
        out.rewind().and_then(|()| out.read_to_string(&mut text)).map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|_| format!("{} failed", args[1]))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // If this fails, `longfat lab clean` removes the lab.
        let _ = Command::new(longfat_path()).args(["lab", "down", &self.name]).output();
    }
}
