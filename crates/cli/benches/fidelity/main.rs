//! `make fidelity`: compares the simulator with this machine's kernel in the lab, over a matrix of random
//! scenarios.
//!
//! `sim` runs the simulator again, `lab` runs in the lab what the store lacks, `report` writes
//! docs/fidelity.md and its pictures; no argument means all three. `guests` runs the matrix in every kernel
//! of `longfat kernel list` in virtual time, and in the simulator of each version, and writes
//! docs/fidelity-kernels.md; with `all-starts` each kernel runs every scenario as often as the simulator.
//! `guests-report` only writes the page from stored runs. The store is the directory LONGFAT_FIDELITY, or
//! `fidelity` beside the program.

mod draw;
mod report;
mod runs;

use std::{env, path::PathBuf};

use draw::REPEATS;
use runs::{Job, Side, Store};

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let requested = |word: &str| words.is_empty() || words.iter().any(|w| w == word);
    let default = PathBuf::from(env!("CARGO_BIN_EXE_longfat")).with_file_name("fidelity");
    let store = Store::open(&env::var_os("LONGFAT_FIDELITY").map_or(default, PathBuf::from));
    let cases = draw::matrix();
    if words.iter().any(|w| w == "list") {
        cases.iter().for_each(|case| println!("{}", case.title()));
        return;
    }
    let all: Vec<Job> = cases.iter().flat_map(|case| runs::jobs(case, REPEATS)).collect();
    let needed = |sim: &Side| -> Vec<Job> {
        let of = |case| runs::jobs(case, store.lab_runs(sim, case).expect("the simulator has run"));
        cases.iter().flat_map(of).collect()
    };
    if requested("sim") {
        store.simulate(&Side::sim(), &all);
    }
    if requested("lab") {
        store.emulate(&needed(&Side::sim()));
    }
    if requested("report") {
        report::write(&cases, &store);
    }
    if words.iter().any(|w| w == "guests") {
        for release in &store.guest_kernels() {
            let (sim, guest) = (Side::sim_of(release), Side::guest(release));
            store.simulate(&sim, &all);
            store.run_guests(&guest, &needed(&sim));
            // The first runs decide which scenarios need more.
            let of = |case| runs::jobs(case, store.guest_runs(&sim, &guest, case).expect("both have run"));
            store.run_guests(&guest, &cases.iter().flat_map(of).collect::<Vec<_>>());
            if words.iter().any(|w| w == "all-starts") {
                store.run_guests(&guest, &all);
            }
        }
    }
    if words.iter().any(|w| w.starts_with("guests")) {
        report::write_guests(&cases, &store, &store.guest_kernels());
    }
}
