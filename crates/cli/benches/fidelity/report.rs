//! Writes the results of the comparison: a row per scenario, quantiles over the matrix, and plots of the
//! largest errors.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use schema::{FlowSummary, RunSummary};

use crate::{
    draw::{Case, REPEATS},
    runs::{Job, Side, Store, goodput_bps, is_spread},
};

/// Number of scenarios with a plot: those with the largest errors of goodput.
const PICTURES: usize = 4;
/// Number of scenarios in the list of the largest errors.
const WORST: usize = 8;
/// Minimum number of retransmissions for a ratio: below it, a difference of one would be a large error.
const MIN_RETRANSMISSIONS: f64 = 20.0;

/// The results of one engine for a scenario: means over the runs.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    /// Sum over all flows, bit/s.
    goodput: f64,
    /// Standard error of that mean, bit/s; 0 for one run.
    goodput_se: f64,
    /// Sum over all flows, segments.
    retransmitted: f64,
    /// Mean over flows, ms.
    rtt_ms: f64,
    /// Mean over flows, bytes.
    cwnd: f64,
}

/// A scenario that both engines have run.
struct Row {
    case: Case,
    lab_runs: u32,
    /// It has random loss or two flows, or the goodputs of one engine's runs differ.
    depends_on_chance: bool,
    lab: Figures,
    sim: Figures,
}

/// Writes docs/fidelity.md, docs/fidelity.csv and the pictures.
pub fn write(cases: &[Case], store: &Store) {
    let docs = docs();
    let (sim, lab) = (Side::sim(), Side::lab());
    let of = |case| row(case, store, &sim, &lab, store.lab_runs(&sim, case)?);
    let mut rows: Vec<Row> = cases.iter().filter_map(of).collect();
    fs::write(docs.join("fidelity.csv"), csv(&rows)).expect("docs/fidelity.csv can be written");
    let kept = rows.len();
    worst_first(&mut rows);
    let mut text = head(kept, cases.len(), store);
    text.push_str(&quantiles(&rows));
    text.push_str(&pictures(&rows, store, &docs));
    text.push_str(&table(&mut rows));
    fs::write(docs.join("fidelity.md"), text).expect("docs/fidelity.md can be written");
    println!("{}", quantiles(&rows));
}

/// Writes docs/fidelity-kernels.md: the simulator of each kernel against that kernel in a guest.
pub fn write_guests(cases: &[Case], store: &Store, kernels: &[String]) {
    let mut text = format!(
        "# The simulator against each kernel in virtual time\n\n\
         `cargo bench -p longfat --bench fidelity -- guests` compares the simulator's model of each Linux version with that version itself\n\
         (`--engine kernel`, which a busy machine does not disturb), and writes this page. The {} scenarios are those of [fidelity.md](fidelity.md),\n\
         60 s each. Hosts of guests react in zero time, and so do the simulated hosts (`receive_jitter = \"0s\"`). An error is the simulator's figure\n\
         divided by the kernel's, minus 1.\n\n\
         The simulator runs each scenario {REPEATS} times, with different seeds and starts; its figures are means. The flow of each further run starts 0.8 ms\n\
         later. A result depends on chance if there is random loss, if there are two flows, or if the goodputs of an engine's runs, the\n\
         simulator's or the kernel's, differ by more than 3 %. The kernel, too, runs a scenario {REPEATS} times if the simulator's result\n\
         depends on chance or differs from the kernel's first run by more than 3 %, and otherwise once (`-- guests all-starts`: always {REPEATS} times).\n\
         [fidelity-causes.md](fidelity-causes.md) explains the differences.\n\n",
        cases.len()
    );
    for release in kernels {
        let (sim, guest) = (Side::sim_of(release), Side::guest(release));
        let of = |case| {
            let runs = store.guest_runs(&sim, &guest, case)?.max(store.stored_runs(&guest, case));
            row(case, store, &sim, &guest, runs)
        };
        let rows: Vec<Row> = cases.iter().filter_map(of).collect();
        let (chance, single): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.depends_on_chance);
        let _ = writeln!(
            text,
            "## Linux {release}\n\n{} scenarios whose results do not depend on chance:\n",
            single.len()
        );
        text.push_str(&quantiles(&single));
        text.push_str("\nThe largest errors of goodput:\n\n");
        text.push_str("| scenario | runs | goodput, kernel | sim | error | retransmissions, kernel | sim |\n|---|---|---|---|---|---|---|\n");
        let mut single = single;
        worst_first(&mut single);
        for row in single.iter().take(WORST) {
            let _ = writeln!(text, "{}", row.cells());
        }
        let beyond =
            chance.iter().filter(|row| row.goodput_error().abs() > 2.0 * row.goodput_error_se()).count();
        let errors = match beyond {
            0 => "No error is".to_owned(),
            1 => "One error is".to_owned(),
            _ => format!("{beyond} errors are"),
        };
        let _ = writeln!(
            text,
            "\n{} scenarios whose results depend on chance. {errors} larger than twice the standard error. The table has means of {REPEATS} \
             runs ±\ntheir standard errors:\n",
            chance.len()
        );
        text.push_str("| scenario | goodput, kernel | sim | error | retransmissions, kernel | sim |\n|---|---|---|---|---|---|\n");
        for row in &chance {
            let _ = writeln!(text, "{}", row.chance_cells());
        }
        text.push('\n');
    }
    fs::write(docs().join("fidelity-kernels.md"), &text).expect("docs/fidelity-kernels.md can be written");
    println!("{text}");
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Sorts by the error of goodput, the largest first.
fn worst_first(rows: &mut [Row]) {
    rows.sort_by(|a, b| b.goodput_error().abs().total_cmp(&a.goodput_error().abs()));
}

fn row(case: &Case, store: &Store, sim: &Side, reference: &Side, reference_runs: u32) -> Option<Row> {
    let simulated = store.runs(sim, case, REPEATS)?;
    let real = store.runs(reference, case, reference_runs)?;
    Some(Row {
        case: case.clone(),
        lab_runs: reference_runs,
        depends_on_chance: case.is_random || is_spread(&simulated) || is_spread(&real),
        lab: mean(&real),
        sim: mean(&simulated),
    })
}

fn mean(runs: &[RunSummary]) -> Figures {
    let count = runs.len() as f64;
    let sum = |get: fn(&FlowSummary) -> f64| -> f64 { runs.iter().flat_map(|run| &run.flows).map(get).sum() };
    let flows = runs.iter().map(|run| run.flows.len()).sum::<usize>() as f64;
    let goodput = runs.iter().map(goodput_bps).sum::<f64>() / count;
    let squares: f64 = runs.iter().map(|run| (goodput_bps(run) - goodput).powi(2)).sum();
    Figures {
        goodput,
        goodput_se: (squares / (count - 1.0).max(1.0) / count).sqrt(),
        retransmitted: sum(|flow| flow.retransmitted_segs.unwrap_or(0) as f64) / count,
        rtt_ms: sum(|flow| flow.mean_rtt_us.unwrap_or(0.0)) / flows / 1e3,
        cwnd: sum(|flow| flow.mean_cwnd_bytes.unwrap_or(0) as f64) / flows,
    }
}

impl Row {
    /// Relative error of the simulated goodput.
    fn goodput_error(&self) -> f64 {
        self.sim.goodput / self.lab.goodput - 1.0
    }

    /// Standard error of [`Self::goodput_error`] from the spread of both engines' runs.
    fn goodput_error_se(&self) -> f64 {
        let share = |figures: &Figures| figures.goodput_se / figures.goodput;
        (1.0 + self.goodput_error()) * share(&self.sim).hypot(share(&self.lab))
    }

    /// Cells of a scenario whose result depends on chance: means with their standard errors.
    fn chance_cells(&self) -> String {
        let mbps =
            |figures: &Figures| format!("{:.2} ± {:.2}", figures.goodput / 1e6, figures.goodput_se / 1e6);
        format!(
            "| {} | {} Mb/s | {} | {:+.1} ± {:.1} % | {:.0} | {:.0} |",
            self.case.title(),
            mbps(&self.lab),
            mbps(&self.sim),
            self.goodput_error() * 100.0,
            self.goodput_error_se() * 100.0,
            self.lab.retransmitted,
            self.sim.retransmitted
        )
    }

    /// Common cells of all tables: the scenario, the number of runs, goodput and retransmissions.
    fn cells(&self) -> String {
        format!(
            "| {} | {} | {:.2} Mb/s | {:.2} | {:+.1} % | {:.0} | {:.0} |",
            self.case.title(),
            self.lab_runs,
            self.lab.goodput / 1e6,
            self.sim.goodput / 1e6,
            self.goodput_error() * 100.0,
            self.lab.retransmitted,
            self.sim.retransmitted
        )
    }

    fn retransmission_error(&self) -> f64 {
        let floored = |count: f64| count.max(MIN_RETRANSMISSIONS);
        floored(self.sim.retransmitted) / floored(self.lab.retransmitted) - 1.0
    }

    fn rtt_error(&self) -> f64 {
        self.sim.rtt_ms / self.lab.rtt_ms - 1.0
    }

    fn cwnd_error(&self) -> f64 {
        self.sim.cwnd / self.lab.cwnd - 1.0
    }
}

fn head(kept: usize, all: usize, store: &Store) -> String {
    format!(
        "# The simulator against the kernel in the lab\n\n\
         `make fidelity` compares the simulator with this machine's kernel, and writes this page, its pictures and [fidelity.csv](fidelity.csv).\n\
         The lab ran Linux {}. {kept} of {all} scenarios were run, 60 s each. They were drawn at random, from one seed, before anything was measured\n\
         (`crates/cli/benches/fidelity/draw.rs`). Only lab runs whose `quality` is ok count; the others were repeated. The simulator's figures are\n\
         means over 5 seeds. The lab's figures are means of 5 runs if the result depends on chance: with random loss, with two flows, or if the\n\
         simulator's goodput differs by more than 3 % from seed to seed. In all other scenarios the lab ran once. An error is the simulator's figure\n\
         divided by the lab's, minus 1. Goodput and retransmissions are the totals of all flows. [fidelity-causes.md](fidelity-causes.md) explains the differences.\n\n",
        store.kernel()
    )
}

type Measure = (&'static str, fn(&Row) -> f64);

fn quantiles(rows: &[Row]) -> String {
    let measures: [Measure; 4] = [
        ("goodput", Row::goodput_error),
        ("retransmissions", Row::retransmission_error),
        ("mean RTT", Row::rtt_error),
        ("mean cwnd", Row::cwnd_error),
    ];
    let mut text = String::from(
        "| absolute value of the error | median | 75 % | 90 % | worst |\n|---|---|---|---|---|\n",
    );
    for (name, error) in measures {
        let mut sizes: Vec<f64> = rows.iter().map(|row| error(row).abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = share * sizes.len().saturating_sub(1) as f64;
            sizes.get(rank.ceil() as usize).map_or(f64::NAN, |size| size * 100.0)
        };
        let _ = writeln!(
            text,
            "| {name} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
            at(0.5),
            at(0.75),
            at(0.9),
            at(1.0)
        );
    }
    text
}

fn pictures(worst: &[Row], store: &Store, docs: &Path) -> String {
    let mut text = String::from("\n## The largest errors of goodput\n\n");
    for rank in 1..=PICTURES {
        let Some(row) = worst.get(rank - 1) else { break };
        let job = Job { case: row.case.clone(), run: 0 };
        let name = format!("fidelity-{rank}.svg");
        let mut plot = Command::new(&store.binary);
        let sides = [Side::lab(), Side::sim()];
        plot.arg("plot").args(sides.iter().filter_map(|side| store.record(side, &job)));
        plot.args(["--metric", "cwnd,rtt,goodput", "-o"]).arg(docs.join(&name));
        assert!(plot.status().is_ok_and(|status| status.success()), "{name} can be drawn");
        let _ = writeln!(
            text,
            "![Scenario {}]({name})\n\nScenario {}: {:+.1} %.\n",
            row.case.number,
            row.case.title(),
            row.goodput_error() * 100.0
        );
    }
    text
}

fn table(rows: &mut [Row]) -> String {
    rows.sort_by_key(|row| row.case.number);
    let mut text = String::from(
        "## All scenarios\n\n| scenario | lab runs | goodput, lab | sim | error | retransmissions, lab | sim | RTT error | cwnd error |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (rtt, cwnd) = (row.rtt_error() * 100.0, row.cwnd_error() * 100.0);
        let _ = writeln!(text, "{} {rtt:+.1} % | {cwnd:+.1} % |", row.cells());
    }
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "number,cc,rate_mbps,rtt_ms,queue_bdp,queue_bytes,mtu_bytes,loss,buffer_bytes,lab_runs,\
         goodput_lab_bps,goodput_sim_bps,goodput_error,retrans_lab_segs,retrans_sim_segs,\
         rtt_lab_ms,rtt_sim_ms,rtt_error,cwnd_lab_bytes,cwnd_sim_bytes,cwnd_error\n",
    );
    for row in rows {
        let Row { case, lab, sim, .. } = row;
        let buffer = case.buffer_bytes.map_or("machine".into(), |bytes| bytes.to_string());
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{buffer},{},{:.0},{:.0},{:.4},{:.1},{:.1},{:.3},{:.3},{:.4},{:.0},{:.0},{:.4}",
            case.number,
            case.controls.join("+"),
            case.rate_mbps,
            case.rtt_ms,
            case.queue_bdp,
            case.queue_bytes(),
            case.mtu,
            case.loss_name(),
            row.lab_runs,
            lab.goodput,
            sim.goodput,
            row.goodput_error(),
            lab.retransmitted,
            sim.retransmitted,
            lab.rtt_ms,
            sim.rtt_ms,
            row.rtt_error(),
            lab.cwnd,
            sim.cwnd,
            row.cwnd_error()
        );
    }
    text
}
