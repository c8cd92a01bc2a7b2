//! Draws docs/reference.svg and docs/reference.md: runs of the real kernel and the same runs in the
//! simulator. `cargo run --release -p longfat-view --example reference_pictures -- docs`

#![allow(clippy::disallowed_methods, reason = "writes what it draws")]

#[path = "../../sim/tests/support/mod.rs"]
mod support;

use std::{error::Error, fmt::Write, path::PathBuf};

use schema::{FlowSample, Summary};
use support::reference::{
    Figures, Point, Reference, figures, references, rows, simulate, simulated_slow_start, slow_start, trace,
};
use view::{LoadedRun, PlotOptions, plot};

const COLUMNS: usize = 2;
const WIDTH: u32 = 480;

const HEAD: &str = "# The simulator against the real kernel

Goodput, window and round-trip time of single flows in the simulator (seed 1) and in Linux 6.1.192 (HZ 250), in virtual time, over one
drop-tail queue. Each cell is *simulator / kernel*; the second half begins in the middle of the run.
`cargo test -p longfat-sim --test all reference::` checks that every difference is within its tolerance, and
compares the runs with random loss with the spread of the kernel's repeats.

`scripts/docs-pictures.sh` (`cargo run --release -p longfat-view --example reference_pictures -- docs`) writes this page from
`crates/sim/tests/reference/`. Cases: `1a` 100 Mb/s, 100 ms, a queue of 1 BDP; `1b` the same with 0.1 BDP; `1c` 200 Mb/s, 40 ms, 0.5 BDP;
`4-0.1` 1 Gb/s, 117 ms, MTU 9000, 0.1 BDP; `6-N` 1 Gb/s, 20 ms, buffers limited to N; `-gso1` without super-packets.

| case | Mb/s | Mb/s, second half | cwnd, second half | srtt ms, second half | drops | ssthresh after slow start | slow start ends, s |
|---|---|---|---|---|---|---|---|
";

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("give a directory to write to")?);
    let (mut page, mut pictures) = (HEAD.to_owned(), Vec::new());
    for reference in references().into_iter().filter(|reference| reference.loss == 0.0) {
        let outcome = simulate(&reference, 1);
        let (ours, theirs) = (figures(&outcome, &reference), reference.figures);
        write!(page, "| {} ", reference.case)?;
        let shown: [fn(&Figures) -> f64; 5] =
            [|f| f.goodput_mbps, |f| f.goodput_2nd_mbps, |f| f.cwnd_2nd_segs, |f| f.srtt_2nd_ms, |f| f.drops];
        for of in shown {
            write!(page, "| {} / {} ", short(of(&ours)), short(of(&theirs)))?;
        }
        let our = simulated_slow_start(&outcome, &reference).ok_or("no end of slow start")?;
        let their = slow_start(&reference.case).ok_or("no end of slow start")?;
        writeln!(
            page,
            "| {} / {} | {:.2} / {:.2} |",
            our.ssthresh_segs, their.ssthresh_segs, our.end_s, their.end_s
        )?;
        let kernel = trace(&reference.case);
        let simulated = thinned(&rows(&outcome, &reference), &kernel);
        pictures.push(picture(&reference, &kernel, &simulated, pictures.is_empty())?);
    }
    page.push_str("\n![Window and round-trip time of each case, simulator and kernel](reference.svg)\n");
    std::fs::write(dir.join("reference.md"), page)?;
    std::fs::write(dir.join("reference.svg"), gallery(&pictures))?;
    Ok(())
}

fn short(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The simulation's values at the times of the kernel's trace.
fn thinned(rows: &[(f64, &FlowSample)], kernel: &[Point]) -> Vec<Point> {
    let at = |point: &Point| {
        let (_, row) = rows.iter().find(|(time_s, _)| *time_s >= point.time_s - 0.005)?;
        Some(Point { time_s: point.time_s, cwnd_segs: row.snd_cwnd_segs?, srtt_us: row.srtt_us? })
    };
    kernel.iter().filter_map(at).collect()
}

fn loaded(reference: &Reference, name: &str, points: &[Point]) -> Result<LoadedRun, Box<dyn Error>> {
    let mut summary: Summary = serde_json::from_str(record::EXAMPLE_SUMMARY)?;
    summary.runs[0].variant = Some(name.into());
    summary.runs[0].duration_s = reference.duration_s;
    let row = |point: &Point| FlowSample {
        time_us: (point.time_s * 1e6) as i64,
        flow: "f".into(),
        snd_cwnd_segs: Some(point.cwnd_segs),
        snd_mss_bytes: Some(reference.mss),
        srtt_us: Some(point.srtt_us),
        ..FlowSample::default()
    };
    Ok(LoadedRun::from_rows(summary, "", points.iter().map(row).collect(), vec![], vec![]))
}

/// The picture of one case; the first picture of a gallery contains the style sheet.
fn picture(
    reference: &Reference,
    kernel: &[Point],
    simulated: &[Point],
    standalone: bool,
) -> Result<String, Box<dyn Error>> {
    let runs = [loaded(reference, "Linux 6.1", kernel)?, loaded(reference, "simulator", simulated)?];
    let title = Some(reference.case.clone());
    let options = PlotOptions { title, width: WIDTH, panel_height: 90, standalone, ..PlotOptions::default() };
    Ok(plot(&[&runs[0], &runs[1]], &["cwnd", "rtt"], &options)?)
}

/// A picture's height attribute.
fn height(picture: &str) -> f64 {
    let height = picture.split_once(" height=\"").and_then(|(_, rest)| rest.split('"').next());
    height.and_then(|height| height.parse().ok()).unwrap_or(0.0)
}

/// Arranges small pictures in rows.
fn gallery(pictures: &[String]) -> String {
    let tall = pictures.iter().map(|picture| height(picture)).fold(0.0, f64::max);
    let (width, rows) = (COLUMNS * WIDTH as usize, pictures.len().div_ceil(COLUMNS));
    let all = tall * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lf\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" \
         height=\"{all}\">\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
    );
    for (index, picture) in pictures.iter().enumerate() {
        let (x, y) = (index % COLUMNS * WIDTH as usize, tall * (index / COLUMNS) as f64);
        svg.push_str(&picture.replacen("<svg ", &format!("<svg x=\"{x}\" y=\"{y}\" "), 1));
    }
    svg + "</svg>\n"
}
