//! `longfat plot --box` and `--cdf`: quantiles against an independent computation from other commands'
//! output, groups, and the note in a picture of few runs; also the pictures and documents of `sweep`, from
//! which these start.

use crate::common::{SMALL, TestDir};
use serde_json::Value;

/// SMALL with random loss, so that repeats differ.
fn lossy() -> TestDir {
    TestDir::new(&SMALL.replace("queue = \"250kB\"", "queue = \"250kB\", loss = \"0.2%\""))
}

/// Sweeps the buffer of the sender with this number of repeats.
fn sweep(test_dir: &TestDir, repeats: &str, more: &[&str]) -> Value {
    let over = "flows.bulk.send_buffer=32KiB,4MiB";
    let args = ["sweep", "s.toml", "--over", over, "--repeat", repeats, "--json"];
    test_dir.run(&[&args[..], more].concat()).json()
}

/// The quantile by the formula of NumPy's manual for `linear`: virtual index (n - 1) q, between its
/// neighbours.
fn quantile(figures: &[f64], q: f64) -> f64 {
    let mut rest = figures.to_vec();
    let index = (figures.len() - 1) as f64 * q;
    // Selection by repeated minima, not by sorting.
    let mut taken = Vec::new();
    while taken.len() < index.ceil() as usize + 1 {
        let smallest = (0..rest.len()).min_by(|a, b| rest[*a].partial_cmp(&rest[*b]).unwrap()).unwrap();
        taken.push(rest.swap_remove(smallest));
    }
    let (low, high) = (taken[index.floor() as usize], taken[index.ceil() as usize]);
    low * (1.0 - index.fract()) + high * index.fract()
}

fn assert_figures(group: &Value, figures: &[f64]) {
    for (name, q) in
        [("min", 0.0), ("lower_quartile", 0.25), ("median", 0.5), ("upper_quartile", 0.75), ("max", 1.0)]
    {
        let (found, expected) = (group[name].as_f64().unwrap(), quantile(figures, q));
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{name}: {found}, expected {expected}");
    }
    assert_eq!(group["count"].as_u64(), Some(figures.len() as u64));
}

#[test]
fn boxes_show_the_quantiles_of_the_repeats_of_each_sweep_point() {
    let test_dir = lossy();
    let swept = sweep(&test_dir, "6", &[]);
    let plot = |more: &[&str]| test_dir.run(&[&["plot", "s/"], more].concat());
    let drawn = plot(&["--box", "flows.bulk.goodput", "-o", "b.svg", "--json"]).json();
    let groups = drawn["groups"].as_array().unwrap().clone();
    assert_eq!(groups.len(), 2, "{drawn}");
    for (point, group) in swept["points"].as_array().unwrap().iter().zip(&groups) {
        let figures: Vec<f64> =
            point["figures"].as_array().unwrap().iter().map(|f| f.as_f64().unwrap()).collect();
        assert_figures(group, &figures);
    }
    let svg = std::fs::read_to_string(test_dir.path("b.svg")).unwrap();
    for part in [
        "Goodput of bulk (Mb/s)",
        "Send buffer",
        "6 runs in each group",
        ">32KiB<",
        "dots: single runs",
        "class=\"swatch s0 box median\"",
    ] {
        assert!(svg.contains(part), "{part} in {svg}");
    }
    // The step curve of a point: a dot for each run.
    let cdf = plot(&["--cdf", "flows.bulk.goodput"]);
    assert_eq!(cdf.code, 0, "{cdf:?}");
    for part in ["Cumulative share of runs", "send_buffer 32KiB (median ", "Goodput of bulk (Mb/s)"] {
        assert!(cdf.stdout.contains(part), "{part} in {}", cdf.stdout);
    }
    let paper = plot(&["--box", "run.goodput", "--size", "640x400", "--style", "paper", "--font-size", "14"]);
    assert!(paper.stdout.contains("width=\"640\" height=\"400\""), "{paper:?}");
    assert!(
        paper.stdout.contains(".lf .bg{fill:none}") && paper.stdout.contains("Total goodput"),
        "{paper:?}"
    );
    for file in ["b.png", "b.pdf"] {
        assert_eq!(plot(&["--box", "flows.bulk.goodput", "-o", file]).code, 0);
        assert!(std::fs::metadata(test_dir.path(file)).unwrap().len() > 1000);
    }
}

#[test]
fn few_repeats_are_drawn_as_dots_without_a_box() {
    let test_dir = lossy();
    sweep(&test_dir, "3", &[]);
    let svg = test_dir.run(&["plot", "s/", "--box", "flows.bulk.goodput"]).stdout;
    assert!(svg.contains("no box below 5 runs") && svg.contains("3 runs in each group"), "{svg}");
    assert!(!svg.contains("median\""), "no box: {svg}");
    let dots: usize = svg
        .split("marks\" d=\"")
        .skip(1)
        .map(|path| path.split('"').next().unwrap().matches('M').count())
        .sum();
    assert_eq!(dots, 6);
    let cdf = test_dir.run(&["plot", "s/", "--cdf", "flows.bulk.goodput"]).stdout;
    assert!(cdf.contains("fewer than 5 show little"), "{cdf}");
}

#[test]
fn the_samples_of_a_column_match_the_record() {
    let test_dir = lossy();
    test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let drawn = test_dir.run(&["plot", "last", "--cdf", "srtt_us", "-o", "c.svg", "--json"]).json();
    let csv = test_dir.run(&["export", "csv", "last"]).stdout;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let at = names.iter().position(|name| *name == "srtt_us").unwrap_or_else(|| panic!("{names:?}"));
    let samples: Vec<f64> = lines.filter_map(|row| row[at].parse::<f64>().ok()).map(|us| us * 1e-6).collect();
    assert!(samples.len() > 50, "{}", samples.len());
    assert_figures(&drawn["groups"][0], &samples);
    let svg = std::fs::read_to_string(test_dir.path("c.svg")).unwrap();
    assert!(svg.contains("Cumulative share of samples") && svg.contains("srtt of bulk (ms)"), "{svg}");
    let part =
        test_dir.run(&["plot", "last", "--box", "rtt", "--from", "0.5s", "--to", "0.7s", "--json"]).json();
    let count = part["groups"][0]["count"].as_u64().unwrap() as usize;
    assert!(count > 5 && count < samples.len() / 3, "{count} of {}", samples.len());
}

#[test]
fn unknown_metrics_are_refused_with_the_nearest_names() {
    let test_dir = lossy();
    test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    for (args, part) in [
        (vec!["--box", "flows.bulk.godput"], "the nearest are flows.bulk.goodput"),
        (vec!["--box", "flows.bulk.jitter"], "none of these runs has a value"),
        (vec!["--cdf", "rt"], "the nearest are rtt"),
        (vec!["--cdf", "rtt", "--box", "rtt"], "cannot be used with"),
        (vec!["--cdf", "rtt", "--metric", "cwnd"], "cannot be used with"),
        (vec!["--cdf", "flows.bulk.goodput", "--from", "0.5s"], "one figure for each run"),
        (vec!["--cdf", "datagrams_lost"], "no complete run has a value"),
    ] {
        let ran = test_dir.run(&[&["plot", "last"][..], &args].concat());
        assert!(ran.code == 2 && ran.stderr.contains(part), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_sweep_names_its_file_settings_points_and_records() {
    let test_dir = lossy();
    let swept = sweep(&test_dir, "2", &["--set", "duration=0.8s"]);
    assert_eq!((swept["file"].as_str(), swept["set"]["duration"].as_str()), (Some("s.toml"), Some("0.8s")));
    for (point, value) in swept["points"].as_array().unwrap().iter().zip(["32KiB", "4MiB"]) {
        assert_eq!(point["sweep"]["flows.bulk.send_buffer"].as_str(), Some(value));
        let (runs, records) = (point["runs"].as_array().unwrap(), point["records"].as_array().unwrap());
        assert_eq!((runs.len(), records.len()), (2, 2));
        for (id, record) in runs.iter().zip(records) {
            let record = record.as_str().unwrap();
            assert!(record.ends_with(id.as_str().unwrap()), "{record}");
            assert!(test_dir.path(record).join("summary.json").exists(), "{record}");
        }
    }
    // Runs that were already recorded have their paths too.
    let again = sweep(&test_dir, "2", &["--set", "duration=0.8s"]);
    assert_eq!(again["points"][0]["records"], swept["points"][0]["records"]);
    let without = sweep(&test_dir, "1", &["--set", "duration=0.7s", "--no-record"]);
    assert_eq!(without["points"][0]["records"], serde_json::json!([null]));
}

#[test]
fn the_picture_of_a_sweep_has_the_requested_size_font_and_style() {
    let test_dir = lossy();
    let style = ["--size", "640x400", "--font-size", "14", "--style", "paper"];
    sweep(&test_dir, "1", &[&style[..], &["-o", "s.svg", "--report", "s.html"]].concat());
    let svg = std::fs::read_to_string(test_dir.path("s.svg")).unwrap();
    assert!(svg.contains("width=\"640\" height=\"400\"") && svg.contains(".lf .bg{fill:none}"), "{svg}");
    let page = std::fs::read_to_string(test_dir.path("s.html")).unwrap();
    assert!(
        page.contains("width=\"960\"") && !page.contains(".lf .bg{fill:none}"),
        "the page is for screens"
    );
    let over = ["sweep", "s.toml", "--over", "flows.bulk.mss=500,1000"];
    let nowhere = test_dir.run(&[&over[..], &style].concat());
    assert!(nowhere.code == 2 && nowhere.stderr.contains("need -o FILE"), "{nowhere:?}");
    let small = test_dir.run(&[&over[..], &["-o", "t.svg", "--size", "300x40"]].concat());
    assert!(small.code == 2 && small.stderr.contains("too narrow"), "{small:?}");
}
