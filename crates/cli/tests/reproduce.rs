//! `longfat reproduce`: compares closed forms and short simulations with published figures. Long experiments
//! are run by hand (docs/reproduced.md has the command and the table).

use std::collections::BTreeMap;

use crate::common;
use common::{CommandOutput, TestDir, lab_slots::acquire_lab_slot};
use serde_json::Value;

fn reproduce(args: &[&str]) -> (i32, Value) {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&[&["reproduce", "--json"], args].concat());
    (ran.code, ran.parsed())
}

/// The figures of a result; `variant` picks one of several.
fn figure<'a>(document: &'a Value, id: &str, variant: &str, metric: &str) -> &'a Value {
    let results = document["results"].as_array().unwrap();
    let result = results.iter().find(|r| r["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let figures = result["figures"].as_array().unwrap();
    let found = figures.iter().find(|f| f["variant"] == variant && f["metric"] == metric);
    found.unwrap_or_else(|| panic!("{id} {variant} {metric}: {figures:?}"))
}

#[test]
fn every_published_id_is_listed_and_the_closed_forms_agree() {
    let (_, document) = reproduce(&["--engine", "model"]);
    assert_eq!(document["schema"], "longfat.reproduce/1");
    let results = document["results"].as_array().unwrap();
    let listed: Vec<&str> = results.iter().map(|r| r["id"].as_str().unwrap()).collect();
    for id in include_str!("../../experiment/tests/published_ids.txt").lines() {
        assert!(listed.contains(&id), "{id}");
    }
    for result in results {
        let figures = result["figures"].as_array().unwrap();
        assert_eq!(figures.is_empty(), result["not_run"].is_string(), "{result}");
        check_engines(result);
        for form in figures.iter().filter(|f| f["metric"].as_str().unwrap().starts_with("model.")) {
            let expected = if form["contradiction"].is_string() { "contradicted" } else { "within" };
            assert_eq!(form["verdict"], expected, "{form}");
        }
    }
}

/// Each engine has each figure of a result, or states why it has not.
fn check_engines(result: &Value) {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let Some(engines) = result["engines"].as_array() else {
        assert!(result["not_run"].is_string(), "{result}");
        return;
    };
    let names: Vec<&str> = engines.iter().filter_map(|one| one["engine"].as_str()).collect();
    assert_eq!(names, ["model", "sim", "lab", "kernel", "hosts"], "{result}");
    for one in engines {
        let others = one["others"].as_array().into_iter().flatten();
        let with_reason = others.filter(|other| !other["reason"].as_str().unwrap().is_empty());
        let without: u64 = with_reason.map(|other| count(&other["figures"])).sum();
        let total = count(&one["reliable"]) + count(&one["unreliable"]) + without;
        assert_eq!(total, count(&one["figures"]), "{result}");
    }
}

/// A simulated ping over 20 ms whose published figure is 50 ms.
const MISSED_PING: &str = r#"duration = "2s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { delay = "20ms" }
[[flows]]
name = "ping"
kind = "ping"
from = "h1"
to = "h2"
[[published]]
id = "L8-ping"
metric = "flows.ping.median_rtt"
value = "50ms"
tolerance = "10%"
"#;

#[test]
fn a_miss_is_a_failure_without_a_documented_cause_of_its_engine() {
    let run = |keys: &str| {
        let test_dir = TestDir::new(&format!("{MISSED_PING}{keys}"));
        test_dir.run(&["reproduce", "L8-ping", "--dir", ".", "--engine", "sim"])
    };
    let ran = run("");
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("missed, without a documented cause: 1"), "{ran:?}");
    let ran = run("known_miss = { lab = \"another engine\" }\n");
    assert_eq!(ran.code, 3, "the cause is another engine's: {ran:?}");
    let ran = run(
        "known_miss = { sim = \"the path is shorter\" }\nexperiment = { sim = \"longfat run x --set duration=1s\" }\n",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let cause = "documented cause: the path is shorter; experiment: longfat run x --set duration=1s";
    assert!(ran.stdout.contains(cause), "{ran:?}");
    assert!(ran.stdout.contains("missed, with a documented cause: 1"), "{ran:?}");
}

#[test]
fn each_engine_that_does_not_run_a_figure_has_a_reason() {
    let test_dir = TestDir::new("");
    let args = ["reproduce", "G-r1", "G-endbuf", "--engine", "model", "--markdown", "new.md"];
    let ran = test_dir.run(&args);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Which engine has which figures"), "{ran:?}");
    let written = std::fs::read_to_string(test_dir.path("new.md")).unwrap();
    let row = |id: &str| {
        let rows = page_rows(&written);
        rows.into_iter().find(|row| row["id"] == id && row.contains_key("guest kernel")).unwrap()
    };
    let formula = row("G-r1");
    assert_eq!((formula["model"].as_str(), formula["figures"].as_str()), ("2 of 2", "2"));
    assert_eq!(formula["lab"], "a formula: nothing to run");
    let long = row("G-endbuf");
    assert_eq!((long["model"].as_str(), long["simulated"].as_str()), ("does not apply", "can run"));
    for engine in ["lab", "guest kernel", "hosts"] {
        assert_eq!(long[engine], "needs Linux 2.4", "{long:?}");
    }
}

#[test]
fn figures_of_real_kernels_have_their_own_part_of_a_page() {
    let test_dir = TestDir::new("");
    let page = "# Page\n<!-- written by longfat reproduce --engine lab --markdown: begin -->\nold\n\
                <!-- written by longfat reproduce --engine lab --markdown: end -->\n";
    std::fs::write(test_dir.path("page.md"), page).unwrap();
    let ran = test_dir.run(&["reproduce", "--engine", "model", "--markdown", "page.md"]);
    assert!(ran.code == 2 && ran.stderr.contains("no markers"), "only the other part: {ran:?}");
    assert_eq!(std::fs::read_to_string(test_dir.path("page.md")).unwrap(), page);
}

#[test]
fn contradictory_sources_are_reported_with_the_formulas_value() {
    let (code, document) = reproduce(&["--engine", "model", "G-r2", "G-r8", "G-r9"]);
    assert_eq!(code, 0, "a contradiction is not a failure");
    let ours = |id: &str, variant| {
        let figure = figure(&document, id, variant, "model.bulk.reno_recovery_s");
        (figure["published"].as_f64().unwrap(), figure["model"].as_f64().unwrap())
    };
    // C RTT^2 / (2 MSS)
    assert_eq!(ours("G-r2", "g-r2"), (0.096, 0.171233));
    assert_eq!(ours("G-r8", "g-r8").1, 6164.383562);
    assert_eq!(ours("G-r9", "g-r9").1, 1004.464286);
}

#[test]
fn the_model_shares_a_bottleneck_as_with_synchronized_losses() {
    let (_, document) = reproduce(&["--engine", "model", "G-rttfair"]);
    let model = |metric| figure(&document, "G-rttfair", "reno", metric)["model"].as_f64().unwrap();
    let (far, near) = (model("flows.rtt181.goodput"), model("flows.rtt117.goodput"));
    assert!((near / far - 181.0f64.powi(2) / 117.0f64.powi(2)).abs() < 1e-9, "{near} {far}");
    assert!(
        (0.72e9..0.78e9).contains(&(near + far)),
        "three quarters, for the queue is small: {}",
        near + far
    );
}

#[test]
fn lab_8_and_the_100_mbit_hop_are_reproduced() {
    let (_, document) = reproduce(&["L8-check", "L8-default", "H-100m"]);
    for (variant, metric) in [
        ("default", "flows.bulk.goodput"),
        ("tuned", "flows.bulk.goodput"),
        ("tuned", "flows.bulk.steady_goodput"),
    ] {
        assert_eq!(figure(&document, "L8-check", variant, metric)["verdict"], "within");
    }
    assert_eq!(figure(&document, "L8-default", "default", "flows.bulk.receive_window")["verdict"], "within");
    let small = |variant| figure(&document, "H-100m", variant, "flows.bulk.goodput");
    for variant in ["queue-25p", "queue-50p"] {
        assert_eq!(small(variant)["verdict"], "within", "{}", small(variant));
    }
    assert_eq!(small("paced")["verdict"], "no_figure");
    assert!(small("paced")["sim"].as_f64().unwrap() >= 90e6, "{}", small("paced"));
    assert!(document["runs"].as_array().unwrap().iter().any(|r| r["kernel"] == "6.1"));
}

#[test]
fn unknown_ids_are_bad_input_and_prefixes_select_all() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["reproduce", "L9-nothing"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("L9-nothing") && ran.stderr.contains("the nearest are "), "{ran:?}");
    let (_, document) = reproduce(&["--engine", "model", "L13"]);
    let ids: Vec<&str> =
        document["results"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["L13-topo", "L13-1500", "L13-9000", "L13-why", "L13-jumbo"]);
}

#[test]
fn the_report_has_tables_pictures_and_contradictions() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["reproduce", "L8-ping", "L8-util", "G-r2", "--report", "r.html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("L8-ping") && ran.stdout.contains("the source contradicts itself"),
        "{ran:?}"
    );
    let page = std::fs::read_to_string(test_dir.path("r.html")).unwrap();
    for part in ["<svg", "G-r2", "contradicts itself", "171", "L8-util", "</html>"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn commands_that_are_said_to_show_a_result_exist() {
    let test_dir = TestDir::new("");
    let (_, document) = reproduce(&["--engine", "model", "G", "U", "H-pathbuff", "H-tools"]);
    let results = document["results"].as_array().unwrap();
    let shown: Vec<&str> = results.iter().filter_map(|r| r["shown"].as_str()).collect();
    let commands =
        shown.iter().flat_map(|text| text.split(", ")).filter_map(|one| one.strip_prefix("longfat "));
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() > 5, "{shown:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert_eq!(test_dir.run(&words).code, 0, "{command}");
    }
}

#[test]
fn each_engine_is_judged_and_a_closed_form_that_ignores_the_queue_has_no_number() {
    let (code, document) = reproduce(&["H-100m", "L8-hol", "L8-zero"]);
    assert_eq!(code, 0, "misses have documented causes");
    let engine = |figure: &Value, name: &str| {
        let judged = figure["judged"].as_array().unwrap().iter();
        judged.clone().find(|one| one["engine"] == name).cloned().unwrap_or_else(|| panic!("{figure}"))
    };
    let small = figure(&document, "H-100m", "queue-25p", "flows.bulk.goodput");
    let model = engine(small, "model");
    assert_eq!((&model["verdict"], &model["figure"]), (&"does_not_apply".into(), &Value::Null));
    assert!(model["why"].as_str().unwrap().contains("slow start overflows the queue"), "{model}");
    assert!(
        small["model"].is_null() && small["verdict"] == "within" && small["kind"] == "published",
        "{small}"
    );
    // The verdict is that of the simulated figure, not of the closed form alone.
    let stalled = "flows.bulk.goodput from 5.02 s to 5.1 s / flows.bulk.steady_goodput";
    let half = figure(&document, "L8-hol", "window-1-bdp", stalled);
    assert_eq!(engine(half, "sim")["verdict"], "within", "{half}");
    assert!((0.42..0.58).contains(&half["sim"].as_f64().unwrap()), "{half}");
    let whole = figure(&document, "L8-hol", "window-2-bdp", stalled);
    assert!(whole["sim"].as_f64().unwrap() > 0.9 && whole["claim"].is_string(), "{whole}");
}

#[test]
fn longfats_own_figures_are_listed_apart_from_published_ones() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["reproduce", "--engine", "model", "L8-default", "L8-check"]);
    let (published, regression) = ran.stdout.split_once("Regression figures").unwrap();
    assert!(published.contains("L8-default") && !published.contains("L8-check"), "{ran:?}");
    assert!(regression.contains("L8-check") && regression.contains("MEASURED BEFORE"), "{ran:?}");
    let (_, document) = reproduce(&["--engine", "model", "L8-check"]);
    assert_eq!(figure(&document, "L8-check", "tuned", "flows.bulk.goodput")["kind"], "measured_by_us");
}

/// The rows of a page's generated tables: the cells by heading, without an engine's verdict in parentheses.
fn page_rows(page: &str) -> Vec<BTreeMap<String, String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let (mut heads, mut rows) = (Vec::new(), Vec::new());
    let (_, generated) = page.split_once("--markdown: begin -->").unwrap();
    let (generated, _) = generated.split_once("<!-- written by longfat reproduce --markdown: end").unwrap();
    for line in generated.lines() {
        match line {
            _ if line.starts_with("| id |") => heads = cells(line),
            _ if line.starts_with("| ") => rows.push(heads.iter().cloned().zip(cells(line)).collect()),
            _ => {}
        }
    }
    rows
}

fn committed_page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduced.md");
    std::fs::read_to_string(path).unwrap()
}

/// Rows of the committed page that the command's tables do not have, with the columns that both have except
/// `without`.
fn missing_rows(committed: &str, written: &str, without: &[&str]) -> Vec<String> {
    let strip =
        |cell: &str| cell.split(" (within)").next().unwrap().split(" (missed)").next().unwrap().to_owned();
    let written = page_rows(written);
    let has = |row: &BTreeMap<String, String>| {
        written.iter().any(|other| {
            row.iter()
                .filter(|(head, _)| !without.contains(&head.as_str()))
                .all(|(head, cell)| other.get(head).is_none_or(|own| strip(own) == strip(cell)))
        })
    };
    page_rows(committed).iter().filter(|row| !has(row)).map(|row| format!("{row:?}")).collect()
}

/// `make reproduced` writes the page.
#[test]
fn the_page_of_reproduced_results_has_the_rows_of_the_command() {
    let test_dir = TestDir::new("");
    let committed = committed_page();
    test_dir.run(&["reproduce", "--engine", "model", "--markdown", "new.md"]);
    let written = std::fs::read_to_string(test_dir.path("new.md")).unwrap();
    assert_eq!(page_rows(&committed).len(), page_rows(&written).len());
    // Simulated figures are checked below; the model's of scenarios without a kernel are for the machine that
    // wrote the page.
    let measured = ["simulated", "lab", "model", "source's kernel", "today's kernel", "verdict"];
    assert_eq!(missing_rows(&committed, &written, &measured), [""; 0]);
    let own_kernel = |page: &str| -> Vec<String> {
        let of = |row: &BTreeMap<String, String>| {
            let figure = row.get("figure")?;
            // Not their excerpts, whose hosts have this machine's kernel.
            let is_fixed = ["closed-forms", "lab8-kernel-6-1", "u-buffers", "g-rttfair ", "g-mtufair "];
            let is_fixed = is_fixed.iter().any(|name| figure.starts_with(name));
            is_fixed.then(|| format!("{figure} {}", row["model"].split(" (").next().unwrap()))
        };
        page_rows(page).iter().filter_map(of).collect()
    };
    assert_eq!(own_kernel(&committed), own_kernel(&written));
}

/// Major and minor version of a release as `6.18.44-1`.
fn version(release: &str) -> String {
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

#[test]
fn the_page_has_the_simulated_figures_of_quick_results() {
    let test_dir = TestDir::new("");
    let mut results = vec!["L8-ping", "G-recover"];
    // L13's hosts have this machine's kernel: its figures are those of the version that wrote the page.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let is_of_page = committed_page().contains(&format!("({} here)", version(&release)));
    if is_of_page {
        results.push("L13-9000");
    }
    test_dir.run(&[&["reproduce"], &results[..], &["--markdown", "new.md"]].concat());
    let written = std::fs::read_to_string(test_dir.path("new.md")).unwrap();
    let committed = committed_page();
    // Rows of figures, not of engines.
    let mut written = page_rows(&written);
    written.retain(|row| row.contains_key("verdict"));
    assert_eq!(written.len(), if is_of_page { 8 } else { 7 });
    for row in &written {
        let same = |other: &&BTreeMap<String, String>| {
            ["id", "figure", "kind"].iter().all(|head| other.get(*head) == row.get(*head))
        };
        let rows = page_rows(&committed);
        let on_page = rows.iter().find(same).unwrap_or_else(|| panic!("{row:?}"));
        assert_eq!(on_page["simulated"], row["simulated"], "{row:?}");
        assert_eq!(on_page["verdict"], row["verdict"], "{row:?}");
    }
}

/// Also those of the lab.
#[test]
fn every_miss_of_the_page_has_a_cause() {
    assert!(!committed_page().contains("missed, without a documented cause"));
}

/// Whether the cell of an engine in a row of the page is a miss.
fn is_miss(row: &BTreeMap<String, String>, column: &str) -> bool {
    let cell = row.get(column).map_or("-", String::as_str);
    match cell.split_once('(') {
        Some((_, verdict)) => verdict.starts_with("missed"),
        None => row["verdict"] == "missed" && !["-", "does not apply"].contains(&cell),
    }
}

#[test]
fn documented_misses_of_computed_engines_occur() {
    let rows = page_rows(&committed_page());
    for one in experiment::reproduce::experiments(None).unwrap() {
        for figure in one.file.published() {
            let variant = figure.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            let metric = view::words::metric_scope(&figure.metric_path());
            let what = format!("{}{variant}: {metric}", one.file.name());
            let is_row = |row: &&BTreeMap<String, String>| {
                row["id"] == figure.id && row.get("figure") == Some(&what) && row.contains_key("verdict")
            };
            for (engine, column) in [("model", "model"), ("sim", "simulated")] {
                let is_documented = figure.known_miss.of(engine).is_some();
                let missed = rows.iter().filter(is_row).any(|row| is_miss(row, column));
                assert!(missed || !is_documented, "{what}: the {engine} does not miss it; remove the cause");
            }
        }
    }
}

#[test]
#[ignore = "runs all simulations, minutes of all processors"]
fn the_page_matches_the_output_of_the_command() {
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("page.md"), committed_page()).unwrap();
    test_dir.run(&["reproduce", "--markdown", "page.md"]);
    assert_eq!(
        std::fs::read_to_string(test_dir.path("page.md")).unwrap(),
        committed_page(),
        "make reproduced"
    );
}

#[test]
fn todays_kernel_is_shown_beside_the_sources() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["reproduce", "H-900", "--engine", "sim", "--markdown", "new.md", "--json"]);
    let document = ran.parsed();
    let figure = |variant| figure(&document, "H-900", variant, "flows.bulk.goodput").clone();
    let (source, today) = (figure("queue-100p"), figure("queue-100p-linux-6-18"));
    assert_eq!((&today["beside"], &today["verdict"]), (&"queue-100p".into(), &"no_figure".into()));
    assert!(source["beside"].is_null(), "{source}");
    let written = std::fs::read_to_string(test_dir.path("new.md")).unwrap();
    let rows = page_rows(&written);
    let row = rows.iter().find(|row| row.get("beside").is_some_and(|beside| beside == "queue-100p")).unwrap();
    assert!(row["figure"].starts_with("h-900 queue-100p-linux-6-18: "), "{row:?}");
    let mbps = |figure: &Value| format!("{:.1} Mb/s", figure["sim"].as_f64().unwrap() / 1e6);
    assert_eq!((&row["source's kernel"], &row["today's kernel"]), (&mbps(&source), &mbps(&today)));
    // In no other table.
    let has_figure = |other: &&BTreeMap<String, String>| other.get("figure") == row.get("figure");
    assert_eq!(rows.iter().filter(has_figure).count(), 1, "{rows:?}");
}

#[test]
fn markdown_replaces_only_its_own_complete_tables() {
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("notes.md"), "mine").unwrap();
    let ran = test_dir.run(&["reproduce", "--engine", "model", "G-r1", "--markdown", "notes.md"]);
    assert!(ran.code == 2 && ran.stderr.contains("no markers"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(test_dir.path("notes.md")).unwrap(), "mine");
    assert_eq!(test_dir.run(&["reproduce", "--engine", "model", "G-r1", "--markdown", "new.md"]).code, 0);
    let written = std::fs::read_to_string(test_dir.path("new.md")).unwrap();
    assert!(written.contains("| G-r1 | closed-forms g-r1-near"), "{written}");
    let ran = test_dir.run(&["reproduce", "--engine", "model", "G-r2", "--markdown", "new.md"]);
    assert!(ran.code == 2 && ran.stderr.contains("omit the ids"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(test_dir.path("new.md")).unwrap(), written);
}

#[test]
fn long_simulations_can_be_skipped() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["reproduce", "G-endbuf", "L8-ping", "--longest-sim", "10s"]);
    assert!(ran.stdout.contains("not run: g-endbuf queue-1-bdp (sim): a simulation of 1200 s"), "{ran:?}");
    assert!(ran.stdout.contains("20.00 ms"), "{ran:?}");
}

#[test]
fn recorded_lab_runs_are_used_again() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new("");
    let args = ["reproduce", "L8-ping", "--engine", "lab", "--reuse", "--json"];
    let runs_and_lab = |ran: &CommandOutput| {
        let document = ran.parsed();
        let id = document["runs"][0]["id"].clone();
        (id, document["results"][0]["engines"][2].clone())
    };
    for _ in 0..3 {
        let first = test_dir.run(&args);
        if first.code == 4 {
            testing::skip(testing::Missing::Privilege, "a lab needs namespaces");
            return;
        }
        let ((first_id, lab), (second_id, _)) = (runs_and_lab(&first), runs_and_lab(&test_dir.run(&args)));
        assert_eq!((&lab["engine"], lab["figures"].as_u64()), (&"lab".into(), Some(4)), "{lab}");
        if lab["unreliable"].is_null() {
            assert_eq!(first_id, second_id, "a reliable run is not repeated: {lab}");
            return;
        }
        assert_ne!(first_id, second_id, "an unreliable run is repeated: {lab}");
    }
    testing::skip(testing::Missing::QuietMachine, "each of three runs was disturbed");
}
