//! Writes a report and plots of synthetic runs to a directory, for inspection after a change to the drawing:
//! `cargo run -p longfat-view --example synthetic_pictures -- /tmp/pictures`

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::path::PathBuf;

use view::{PlotOptions, ReportExtra, plot, report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("give a directory to write to")?);
    std::fs::create_dir_all(&dir)?;
    let runs = [synthetic::run("default", 20, 10.6e6), synthetic::run("tuned", 20, 80e6)];
    let options = PlotOptions { title: Some("tuned".into()), ..PlotOptions::default() };
    std::fs::write(dir.join("one.svg"), plot(&[&runs[1]], &["goodput", "cwnd", "rtt", "queue"], &options)?)?;
    std::fs::write(
        dir.join("two.svg"),
        plot(&[&runs[0], &runs[1]], &["goodput", "cwnd", "rtt", "queue", "retrans", "state"], &options)?,
    )?;
    let mut summary = synthetic::summary_of(&runs);
    std::fs::write(dir.join("report.html"), report(&summary, &runs, &ReportExtra::default()))?;
    summary.runs[0].quality.reliability = schema::Reliability::Invalid;
    summary.runs[0].quality.notes =
        vec!["The emulator was up to 54 ms late: another program took the processor.".into()];
    let extra = ReportExtra {
        created: Some("2026-11-21".into()),
        command: Some("longfat run scenarios/lab8.toml".into()),
    };
    std::fs::write(dir.join("unreliable.html"), report(&summary, &runs, &extra))?;
    Ok(())
}
