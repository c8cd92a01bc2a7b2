//! Sweeps the queue of a path on all processors and prints the goodput of each point:
//! `cargo run --release -p longfat-experiment --example sweep`.

use experiment::{EngineChoice, Experiment, RecordedRuns, RunOptions, Selection};

fn main() -> experiment::Result<()> {
    let experiment = Experiment::from_file("scenarios/gallery/dsl.toml")?.set("duration", "10s");
    let queues = ["25kB", "50kB", "100kB", "200kB", "400kB", "800kB"].map(str::to_owned).to_vec();
    let selection = Selection {
        variants: vec!["bufferbloat".into()],
        over: vec![("links.modem-server.forward.queue".into(), queues)],
        ..Selection::with_engine(EngineChoice::Sim)
    };
    let plan = experiment.plan_sweep(&selection, Some("flows.ping.max_rtt"), &RecordedRuns::none())?;
    let sweep = plan.run(&RunOptions::default())?;
    for point in &sweep.points {
        println!("{:>6}: {:.1} ms", point.values[0].text, point.mean.unwrap_or(f64::NAN) * 1e3);
    }
    Ok(())
}
