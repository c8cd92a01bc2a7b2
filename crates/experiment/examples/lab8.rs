//! Runs Lab 8 by closed forms and in the simulator, and prints the limit of each flow:
//! `cargo run --release -p longfat-experiment --example lab8`.

use experiment::{EngineChoice, Experiment, RunOptions, Selection};

fn main() -> experiment::Result<()> {
    let experiment = Experiment::from_file("scenarios/lab8.toml")?.set("duration", "10s");
    let engines = vec![EngineChoice::Model, EngineChoice::Sim];
    let selection = Selection { engines, ..Selection::default() };
    for run in experiment.run(&selection, &RunOptions::default())?.runs {
        for flow in &run.flows {
            let (variant, gbps) =
                (run.variant.as_deref().unwrap_or(""), flow.goodput_bps.unwrap_or(0.0) / 1e9);
            println!("{} {variant}: {gbps:.2} Gb/s, {:?}", run.engine, flow.verdict);
            flow.evidence.iter().for_each(|sentence| println!("    {sentence}"));
        }
    }
    Ok(())
}
