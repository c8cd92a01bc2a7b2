//! Instructions per packet, counted by valgrind: the same in each run, so a regression shows on any machine.
//!
//! Each case is simulated up to two times, and the difference is reported: both contain the cost of reading
//! the scenario and of the window's growth.

use std::{path::PathBuf, process::Command};

use crate::{cases::Case, meter};

/// Relative difference from the committed count that is accepted.
const TOLERANCE: f64 = 0.05;

/// Cases, and the two times of virtual time between which instructions are counted, ms.
const COUNTED: [(&str, u32, u32); 6] = [
    ("loss-free", 4_000, 8_000),
    ("loss-free-single", 4_000, 5_000),
    ("recovery", 1_410, 1_520),
    ("recovery-single", 1_410, 1_520),
    ("window-200000", 4_150, 4_200),
    ("g-mtufair", 20_000, 21_000),
];

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/tcp/instructions.csv")
}

/// The simulation that runs under valgrind: `counted CASE MS`.
pub fn run_counted(name: &str, ms: u32) {
    let outcome = match Case::named(name) {
        Some(case) => meter::run(&case.lasting(ms), ms).0,
        None => crate::long_run(name, &[("duration".into(), format!("{ms}ms"))]),
    };
    println!("packets {}", outcome.data_segments);
}

/// Instructions and packets up to a time; `None` without valgrind.
fn count(name: &str, ms: u32) -> Option<(f64, f64)> {
    let program = std::env::current_exe().expect("this program");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = valgrind.args(["counted", name, &ms.to_string()]).output().ok()?;
    let number_after = |text: &[u8], word: &str| {
        let text = String::from_utf8_lossy(text).into_owned();
        let rest = text.lines().find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()))?;
        rest.trim_start_matches(':').trim().parse::<f64>().ok()
    };
    let (packets, instructions) =
        (number_after(&output.stdout, "packets"), number_after(&output.stderr, "Collected"));
    assert!(packets.is_some() && instructions.is_some(), "valgrind: {output:?}");
    instructions.zip(packets)
}

/// Prints instructions per packet beside the committed counts; with `write`, replaces the committed counts.
/// False if a count is outside the tolerance.
pub fn check(write: bool) -> bool {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: instructions are counted by valgrind, which is not installed");
        return true;
    }
    let committed = std::fs::read_to_string(file()).unwrap_or_default();
    let committed_of = |name: &str| {
        let value = committed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(','))?;
        value.parse::<f64>().ok()
    };
    let (mut good, mut lines) = (true, String::from("case,instructions_per_packet\n"));
    println!("{:18} {:>22} {:>10} {:>8}", "case", "instructions per packet", "committed", "");
    let counts: Vec<_> = std::thread::scope(|scope| {
        let tasks = COUNTED.map(|(name, from, to)| {
            (name, scope.spawn(move || count(name, from)), scope.spawn(move || count(name, to)))
        });
        tasks.map(|(name, from, to)| (name, from.join(), to.join())).into()
    });
    for (name, from, to) in counts {
        let (Ok(Some(from)), Ok(Some(to))) = (from, to) else { panic!("{name} was not counted") };
        let per_packet = (to.0 - from.0) / (to.1 - from.1);
        let known = committed_of(name);
        let change = known.map_or(f64::INFINITY, |known| per_packet / known - 1.0);
        let is_good = change.abs() <= TOLERANCE;
        good &= is_good;
        let note = if is_good { "" } else { "off" };
        println!(
            "{name:18} {per_packet:>22.1} {:>10.1} {:>+7.1}% {note}",
            known.unwrap_or(f64::NAN),
            change * 100.0
        );
        lines.push_str(&format!("{name},{per_packet:.1}\n"));
    }
    if write {
        std::fs::write(file(), lines).expect("written");
    }
    good || write
}
