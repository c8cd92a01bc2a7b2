//! Builds a C file natively, says what it has, and drives it for a while: `cargo run --example native_trial FILE`.

use cc::native::{Library, build};
use cc::{Source, Values};
use std::path::Path;
use tcp::CongestionControl;
use tcp::rounds::{Path as NetworkPath, Rounds};

fn main() {
    for file in std::env::args().skip(1) {
        println!("== {file}");
        let source = match Source::built_in(&file) {
            Some(source) => source,
            None => Source::file(Path::new(&file)).unwrap(),
        };
        let object = match build(&source) {
            Ok(object) => object,
            Err(why) => {
                println!("{why}");
                continue;
            }
        };
        for parameter in object.parameters() {
            println!("  parameter {} = {}  {}", parameter.name, parameter.default(), parameter.doc);
        }
        let library = Library::load(&object, &Values::new()).unwrap();
        println!("  operations {:?}, main {}", library.names(), library.main_name());
        let mut rounds = Rounds::new(NetworkPath::default(), library.controller(None).unwrap());
        let mut rows = Vec::new();
        while rounds.time_us() < 30_000_000 {
            let Some(row) = rounds.round() else { break };
            if std::env::var_os("VERBOSE").is_some() {
                println!("    {row:?}");
            }
            rows.push(row);
        }
        let cwnd: Vec<u32> = rows.iter().step_by(rows.len() / 20 + 1).map(|r| r.cwnd).collect();
        let name = rounds.controller().name().to_owned();
        println!("  {name}: delivered {}, lost {}, cwnd {cwnd:?}", rounds.sk().delivered, rounds.sk().lost);
    }
}
