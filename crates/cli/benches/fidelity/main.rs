//! `make fidelity`: the simulator against this machine's kernel in the lab, over a matrix of scenarios drawn beforehand.
//!
//! `lab` runs what the store lacks, `sim` runs the simulator again, `report` writes docs/fidelity.md and its pictures;
//! without a word all three. The store is the directory of the environment's LONGFAT_FIDELITY, or `fidelity` beside the
//! program.

mod draw;
mod report;
mod runs;

use std::{env, path::PathBuf};

use runs::Store;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let asked = |word: &str| words.is_empty() || words.iter().any(|w| w == word);
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_longfat")).with_file_name("fidelity");
    let store = Store::open(&env::var_os("LONGFAT_FIDELITY").map_or(beside, PathBuf::from));
    let cases = draw::matrix();
    let jobs = runs::jobs(&cases);
    if words.iter().any(|w| w == "list") {
        cases.iter().for_each(|case| println!("{}", case.title()));
        return;
    }
    if asked("lab") {
        store.emulate(&jobs);
    }
    if asked("sim") {
        store.simulate(&jobs);
    }
    if asked("report") {
        report::write(&cases, &store);
    }
}
