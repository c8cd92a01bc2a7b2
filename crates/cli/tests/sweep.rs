//! `longfat sweep` and `[[sweeps]]` in the simulator: the same bytes for any number of parallel runs, no run
//! repeated, knees as in the window law, and fitted values.

use crate::common;
use std::{collections::BTreeMap, path::PathBuf};

use common::{SMALL, TestDir};
use serde_json::Value;

/// SMALL with random loss and two swept queues.
fn swept() -> String {
    SMALL.replace("queue = \"250kB\"", "queue = \"250kB\", loss = \"0.1%\"")
        + "[[sweeps]]\nfield = \"links.h1-s1.forward.queue\"\nvalues = [\"20p\", \"100p\"]\n"
}

/// The Parquet files of all records of a test directory, by point, repeat and table.
fn tables(test_dir: &TestDir, runs: &str) -> BTreeMap<(String, u64, String), Vec<u8>> {
    let records = std::fs::read_dir(test_dir.path(runs).join("s")).unwrap();
    let read_record = |dir: PathBuf| {
        let summary: Value =
            serde_json::from_slice(&std::fs::read(dir.join("summary.json")).unwrap()).unwrap();
        let run = summary["runs"][0].clone();
        ["flows.parquet", "links.parquet", "events.parquet"].map(|name| {
            let key = (run["sweep"].to_string(), run["seed"].as_u64().unwrap(), name.to_owned());
            (key, std::fs::read(dir.join(name)).unwrap())
        })
    };
    records.flat_map(|entry| read_record(entry.unwrap().path())).collect()
}

#[test]
fn parallel_runs_write_the_same_bytes() {
    let test_dir = TestDir::new(&swept());
    let all: Vec<_> = [("one", "1"), ("three", "3"), ("again", "3")]
        .iter()
        .map(|(runs, jobs)| {
            let args = ["--runs", runs, "sweep", "s.toml", "--repeat", "3", "--jobs", jobs, "--json"];
            let sweep = test_dir.run(&args).json();
            let points: Vec<Value> = sweep["points"].as_array().unwrap().clone();
            assert_eq!(points.len(), 2);
            assert_eq!(
                (points[0]["values"][0]["text"].as_str(), points[1]["values"][0]["text"].as_str()),
                (Some("20p"), Some("100p"))
            );
            let figures: Vec<String> = points.iter().map(|p| p["figures"].to_string()).collect();
            (tables(&test_dir, runs), figures)
        })
        .collect();
    // Two points, three seeds, three tables; and losses differ by seed.
    assert_eq!(all[0].0.len(), 18);
    assert!(all[0] == all[1] && all[1] == all[2]);
    let events: std::collections::BTreeSet<&Vec<u8>> = all[0]
        .0
        .iter()
        .filter(|((_, _, table), _)| table == "events.parquet")
        .map(|(_, bytes)| bytes)
        .collect();
    assert_eq!(events.len(), 6);
}

#[test]
fn run_executes_and_names_all_points() {
    let test_dir = TestDir::new(&swept());
    let all = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    let runs = all["runs"].as_array().unwrap();
    let queues: Vec<&str> =
        runs.iter().map(|run| run["sweep"]["links.h1-s1.forward.queue"].as_str().unwrap()).collect();
    assert_eq!(queues, ["20p", "20p", "100p", "100p"]);
    assert!(runs[1]["id"].as_str().unwrap().ends_with("-p1"), "{}", runs[1]["id"]);
    let set = test_dir.run(&["run", "s.toml", "--set", "links.h1-s1.forward.queue=5p", "--engine", "sim"]);
    assert_eq!(set.code, 2);
    assert!(set.stderr.contains("this field is swept"), "{set:?}");
}

#[test]
fn recorded_runs_are_not_repeated() {
    let test_dir = TestDir::new(SMALL);
    let over = |values: &str, more: &[&str]| {
        let over = format!("flows.bulk.cc={values}");
        let args = [&["sweep", "s.toml", "--over", &over, "--repeat", "2", "--json"], more].concat();
        let sweep = test_dir.run(&args).json();
        let points = sweep["points"].as_array().unwrap().clone();
        let earlier: Vec<u64> = points.iter().map(|p| p["earlier"].as_u64().unwrap()).collect();
        let figures: Vec<Value> = points.iter().map(|p| p["figures"].clone()).collect();
        (earlier, figures)
    };
    let (earlier, first) = over("reno,cubic", &[]);
    assert_eq!(earlier, [0, 0]);
    // As after an interruption: one record is missing.
    let records: Vec<PathBuf> =
        std::fs::read_dir(test_dir.path("runs/s")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(records.len(), 4);
    let lost = records.iter().find(|path| path.to_string_lossy().ends_with("-r2-p1")).unwrap();
    std::fs::remove_dir_all(lost).unwrap();
    assert_eq!(over("reno,cubic", &[]), (vec![1, 2], first.clone()));
    assert_eq!(over("cubic,bic", &[]).0, [2, 0]);
    assert_eq!(over("reno,cubic", &["--again"]), (vec![0, 0], first));
    // A run with another setting or another kernel is not a repeat.
    assert_eq!(over("cubic", &["--set", "seed=7"]).0, [0]);
    assert_eq!(over("cubic", &["--kernel", "6.1"]).0, [0]);
}

/// Two hosts back to back, as in the socket buffer tests of UCL (2002): Linux 2.4, 1 Gb/s and 150 us.
const BACK_TO_BACK: &str = r#"title = "back to back"
duration = "1s"
hosts."*".kernel = "2.4"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
both = { rate = "1gbit", delay = "75us", queue = "10MB", overhead = 38 }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
receive_buffer = "8MiB"
"#;

/// The knee over the send buffer, and the knee of the window law. Checks the values in which both agree.
fn knee_and_law(test_dir: &TestDir, sizes: &str, rtt_us: f64, plateau_bps: f64) -> (f64, f64) {
    let over = format!("flows.bulk.send_buffer={sizes}");
    let args = ["sweep", "s.toml", "--over", &over, "-o", "plot.svg", "--report", "page.html", "--json"];
    let sweep = test_dir.run(&args).json();
    let knee = &sweep["knees"][0];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{sweep}"));
    // The kernel doubles the requested buffer, and a loaded path has a longer round trip than an empty one.
    assert_eq!(number(&knee["law"]["real_bytes"]), 2.0 * number(&knee["at"]));
    assert!(number(&knee["law"]["loaded_rtt_us"]) > rtt_us, "{knee}");
    assert!((number(&knee["plateau"]) / plateau_bps - 1.0).abs() < 0.05, "{knee}");
    (number(&knee["at"]), number(&knee["law"]["at"]))
}

#[test]
fn the_knee_of_a_sweep_matches_the_window_law() {
    let test_dir = TestDir::new(BACK_TO_BACK);
    let sizes = "2KiB,5KiB,8KiB,10KiB,15KiB,20KiB,25KiB,30KiB,40KiB,60KiB,80KiB";
    let (at, law) = knee_and_law(&test_dir, sizes, 150.0, 941e6);
    assert!((at / law - 1.0).abs() < 0.2, "the knee is at {at}, the law has it at {law}");
    let drawn = std::fs::read_to_string(test_dir.path("plot.svg")).unwrap();
    for part in ["<svg", "Send buffer (KiB)", "swatch dot s0", ">80<", "knee at "] {
        assert!(drawn.contains(part), "{part} in {drawn}");
    }
    let page = std::fs::read_to_string(test_dir.path("page.html")).unwrap();
    assert!(page.contains("knee at") && page.contains("<svg"), "{page}");
    // A current kernel, over a path that holds many of its super-packets.
    let long = BACK_TO_BACK
        .replace("hosts.\"*\".kernel = \"2.4\"\n", "")
        .replace("\"1gbit\", delay = \"75us\"", "\"100mbit\", delay = \"10ms\"")
        .replace("\"1s\"", "\"6s\"")
        .replace("cc = \"reno\"\n", "");
    let sizes = "32KiB,64KiB,96KiB,128KiB,160KiB,192KiB,256KiB,384KiB";
    let (at, law) = knee_and_law(&TestDir::new(&long), sizes, 20_000.0, 92e6);
    assert!((at / law - 1.0).abs() < 0.2, "the knee is at {at}, the law has it at {law}");
}

/// SMALL, and its goodput with an unknown queue as a published figure.
fn with_published(name: &str, goodput_bps: f64) -> String {
    format!(
        "{SMALL}[[published]]\nid = \"{name}\"\nmetric = \"flows.bulk.goodput\"\nvalue = \"{}bit\"\ntolerance = \"1%\"\n",
        goodput_bps as u64
    )
}

#[test]
fn fit_recovers_the_value_that_gave_a_figure() {
    let test_dir = TestDir::new(SMALL);
    let goodput = |set: &str| {
        let run = test_dir
            .run(&["run", "s.toml", "--engine", "sim", "--set", "duration=4s", "--set", set, "--json"])
            .json();
        run["runs"][0]["flows"][0]["goodput_bps"].as_f64().unwrap()
    };
    // The delay fixes the goodput of a flow that starts and ends.
    let (a, b) = (goodput("links.h1-s1.forward.delay=37ms"), goodput("flows.bulk.cc=reno"));
    std::fs::write(test_dir.path("a.toml"), with_published("A", a)).unwrap();
    std::fs::write(
        test_dir.path("b.toml"),
        with_published("B", b).replace("delay = \"10ms\"", "delay = \"37ms\""),
    )
    .unwrap();
    let fit = |more: &[&str]| {
        let common = [
            "sweep",
            "a.toml",
            "--set",
            "duration=4s",
            "--fit",
            "links.h1-s1.forward.delay=5ms..100ms",
            "--max-runs",
            "30",
            "--json",
        ];
        test_dir.run(&[&common, more].concat()).json()["fit"].clone()
    };
    let found = fit(&[]);
    let best = found["unknowns"][0]["best"]["number"].as_f64().unwrap();
    assert!((best / 0.037 - 1.0).abs() < 0.1, "{found}");
    assert!(found["error"].as_f64().unwrap() < 0.01, "{found}");
    assert!(
        found["runs"].as_u64().unwrap() <= 30 && found["tried"].as_array().unwrap().len() > 12,
        "{found}"
    );
    assert_eq!(found["figures"][0]["id"].as_str(), Some("A"));
    // A repeated search, with one run at a time, gives the same result.
    assert_eq!(fit(&["--jobs", "1"]), found);
    // One value for two files with contradictory figures.
    let both = fit(&["b.toml"]);
    assert_eq!(both["figures"].as_array().unwrap().len(), 2);
    let only = fit(&["b.toml", "--to", "A"]);
    assert_eq!(only["unknowns"], found["unknowns"]);
    // A search writes no records.
    assert_eq!(std::fs::read_dir(test_dir.path("runs")).unwrap().count(), 1);
}

#[test]
fn bad_input_is_reported() {
    let test_dir = TestDir::new(SMALL);
    for (args, printed) in [
        (vec![], "nothing is swept"),
        (vec![], "--over links.NAME.both.delay=5ms,50ms"),
        (vec!["--over", "flows.bulk.nosuch=1"], "unknown key \"nosuch\""),
        (vec!["--over", "flows.bulk.cc=reno", "--metric", "flows.x.goodput"], "unknown flow \"x\""),
        (
            vec!["--over", "flows.bulk.cc=reno", "--metric", "flows.bulk.first_rtt"],
            "a tcp flow has no first_rtt; it has goodput",
        ),
        (vec!["--over", "flows.bulk.cc=reno", "-o", "no/where.svg"], "its directory does not exist"),
        (vec!["--fit", "links.h1-s1.forward.queue=1p..9p"], "no published figure"),
        (vec!["--fit", "links.h1-s1.forward.queue=9p..1p"], "two ascending values"),
        (vec!["--fit", "duration=1s..2s", "--over", "seed=1"], "cannot be used with"),
    ] {
        let ran = test_dir.run(&[&["sweep", "s.toml"], args.as_slice()].concat());
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(printed), "{args:?}: {ran:?}");
    }
    assert!(!test_dir.path("runs/s").exists());
    let published = TestDir::new(&with_published("A", 1e7));
    let limited =
        published.run(&["sweep", "s.toml", "--fit", "seed=1..9", "--repeat", "5", "--most-runs", "3"]);
    assert_eq!(limited.code, 2, "{limited:?}");
    assert!(limited.stderr.contains("takes 5 runs"), "{limited:?}");
}

#[test]
fn gathered_shards_equal_the_whole_sweep() {
    let test_dir = TestDir::new(&swept());
    let sweep = |runs: &str, more: &[&str]| {
        test_dir.run(&[&["--runs", runs, "sweep", "s.toml", "--repeat", "3", "--json"], more].concat())
    };
    let none = sweep("shards", &["--gather"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("6 of 6 runs have no result in shards/.points"), "{none:?}");
    let executed: Vec<u64> = ["2/4", "1/4", "4/4", "3/4", "2/4", "1/1"]
        .iter()
        .map(|shard| sweep("shards", &["--shard", shard]).json()["executed"].as_u64().unwrap())
        .collect();
    assert_eq!(executed, [2, 2, 1, 1, 0, 0]);
    let (gathered, whole) = (sweep("shards", &["--gather"]).json(), sweep("whole", &[]).json());
    let figures = |sweep: &Value| -> Vec<Value> {
        let points = sweep["points"].as_array().unwrap();
        points
            .iter()
            .map(|point| serde_json::json!([point["values"], point["figures"], point["mean"]]))
            .collect()
    };
    assert_eq!(figures(&gathered), figures(&whole));
    assert_eq!(gathered["points"][0]["earlier"], 3);
    // No records, only results.
    assert!(!test_dir.path("shards/s").exists());
    assert_eq!(sweep("shards", &["--shard", "2/4", "--again"]).json()["executed"], 2);
    for wrong in
        [&["--shard", "5/4"][..], &["--shard", "1/2", "--gather"], &["--shard", "1/2", "--engine", "lab"]]
    {
        assert_eq!(sweep("shards", wrong).code, 2, "{wrong:?}");
    }
}
