//! `longfat reproduce`: compares closed forms and short simulations with published figures. Long experiments are run
//! by hand (docs/reproduced.md has the command and the table).

use crate::common;
use common::TestDir;
use serde_json::Value;

fn reproduce(args: &[&str]) -> (i32, Value) {
    let place = TestDir::new("");
    let ran = place.run(&[&["reproduce", "--json"], args].concat());
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
        assert!(!figures.is_empty() || result["shown"].is_string(), "{result}");
        for form in figures.iter().filter(|f| f["metric"].as_str().unwrap().starts_with("model.")) {
            let expected = if form["contradiction"].is_string() { "contradicted" } else { "within" };
            assert_eq!(form["verdict"], expected, "{form}");
        }
    }
}

#[test]
fn contradictory_sources_are_reported_with_the_formulas_value() {
    let (code, document) = reproduce(&["--engine", "model", "G-r2", "G-r8", "G-r9"]);
    assert_eq!(code, 0, "a contradiction is no failure");
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
fn the_model_shares_a_bottleneck_as_synchronized_losses_do() {
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
fn lab_8_under_the_published_kernel_and_the_hundred_megabit_hop() {
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
    let place = TestDir::new("");
    let ran = place.run(&["reproduce", "L9-nothing"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("L9-nothing") && ran.stderr.contains("the nearest are "), "{ran:?}");
    let (_, document) = reproduce(&["--engine", "model", "L13"]);
    let ids: Vec<&str> =
        document["results"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["L13-topo", "L13-1500", "L13-9000", "L13-why", "L13-jumbo"]);
}

#[test]
fn the_report_has_tables_pictures_and_contradictions() {
    let place = TestDir::new("");
    let ran = place.run(&["reproduce", "L8-ping", "L8-util", "G-r2", "--report", "r.html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("L8-ping") && ran.stdout.contains("the source contradicts itself"),
        "{ran:?}"
    );
    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    for part in ["<svg", "G-r2", "contradicts itself", "171", "L8-util", "</html>"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}
