//! Prints each flow's mean goodput from a record, reading only two columns:
//! `cargo run -p longfat-record --example columns -- runs/lab8/ID`

use std::collections::BTreeMap;
use std::path::PathBuf;

use record::{ColumnFile, Run, TableName};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path: PathBuf = std::env::args_os().nth(1).ok_or("usage: columns RECORD")?.into();
    let run = Run::open(&path)?;
    println!("{} ({}{})", run.id(), run.run().engine, if run.partial { ", partial" } else { "" });

    let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for file in run.files(TableName::Flows)? {
        let file = ColumnFile::open(&file)?;
        for group in 0..file.groups() {
            let Some(flows) = file.texts(group, "flow")? else { continue };
            let Some(goodputs) = file.numbers(group, "goodput_bps")? else { continue };
            for (flow, goodput) in flows.rows.iter().zip(goodputs).filter(|(_, bps)| !bps.is_nan()) {
                let name = flow.map_or("", |index| flows.names[index as usize].as_str());
                let sum = sums.entry(name.to_owned()).or_default();
                *sum = (sum.0 + goodput, sum.1 + 1);
            }
        }
    }
    for (flow, (sum, count)) in sums {
        println!("  {flow}: {:.3} Gb/s over {count} samples", sum / f64::from(count) / 1e9);
    }
    Ok(())
}
