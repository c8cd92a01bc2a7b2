//! Rate traces from files: read once, and contained in printed scenarios.

use std::{cell::RefCell, sync::Arc};

use net::{Rate, RateTrace};
use scenario::{Scenario, ScenarioFile};
use units::{BitRate, Bytes, Time};

const FILE: &str = r#"
duration = "9s"
[hosts]
h1.address = "10.0.0.1/8"
h2.address = "10.0.0.2/8"
[[links]]
ends = ["h1", "h2"]
forward = { trace = "cell/up.trace", queue = "50p" }
backward = { trace = "down.csv" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
[[variants]]
name = "other"
links."h1-h2".forward.trace = "down.csv"
[[variants]]
name = "fixed"
links."h1-h2".both.rate = "5mbit"
"#;

fn load(path: &str) -> Result<String, String> {
    match path {
        "cell/up.trace" => Ok("0\n3\n3\n10\n".into()),
        "down.csv" => Ok("0,10mbit\n2,1mbit\n4,\n".into()),
        "long.csv" => Ok("0,10mbit\n9999h,\n".into()),
        _ => Err("no such file".into()),
    }
}

fn rates(scenario: &Scenario) -> [Rate; 2] {
    [scenario.links[0].forward.rate.clone(), scenario.links[0].backward.rate.clone()]
}

fn up() -> Rate {
    Rate::Trace(Arc::new(RateTrace::Opportunities(vec![0, 3, 3, 10])))
}

fn down() -> Rate {
    let steps = vec![(Time::ZERO, BitRate(10_000_000)), (Time::from_secs(2), BitRate(1_000_000))];
    Rate::Trace(Arc::new(RateTrace::Steps { steps, end: Time::from_secs(4) }))
}

#[test]
fn files_are_read_once_and_formats_detected_by_content() {
    let requested = RefCell::new(Vec::new());
    let counting = |path: &str| {
        requested.borrow_mut().push(path.to_owned());
        load(path)
    };
    let file = ScenarioFile::parse_with("x.toml", FILE, &counting).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(rates(&file.resolve(None, &[]).unwrap()), [up(), down()]);
    assert_eq!(rates(&file.resolve(Some("other"), &[]).unwrap()), [down(), down()]);
    assert_eq!(*requested.borrow(), ["cell/up.trace", "down.csv"]);
}

#[test]
fn printed_scenarios_need_no_file() {
    let file = ScenarioFile::parse_with("x.toml", FILE, &load).unwrap();
    for variant in [None, Some("other"), Some("fixed")] {
        let scenario = file.resolve(variant, &[]).unwrap();
        let again = ScenarioFile::parse("x.toml", &scenario.to_toml()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.resolve(None, &[]).unwrap(), scenario);
    }
}

#[test]
fn a_rate_replaces_a_trace_and_vice_versa() {
    let file = ScenarioFile::parse_with("x.toml", FILE, &load).unwrap();
    let fixed = file.resolve(Some("fixed"), &[]).unwrap();
    assert_eq!(rates(&fixed), [(); 2].map(|()| Rate::Constant(BitRate(5_000_000))));
    let set = [("links.h1-h2.forward.trace".to_owned(), "down.csv".to_owned())];
    assert_eq!(rates(&file.resolve(Some("fixed"), &set).unwrap())[0], down());
    // A trace has no burst, so it replaces that as well.
    let rate = r#"links."h1-h2".both.rate = "5mbit""#;
    let text = FILE.replace(rate, &format!("{rate}\nlinks.\"h1-h2\".both.burst = \"20kB\""));
    let file = ScenarioFile::parse_with("x.toml", &text, &load).unwrap_or_else(|e| panic!("{e}"));
    let link = &file.resolve(Some("fixed"), &set).unwrap().links[0];
    assert_eq!((link.forward.burst, link.backward.burst), (None, Some(Bytes(20_000))));
}

#[test]
fn a_file_named_by_set_needs_a_function_that_reads_it() {
    let (base, _) = FILE.split_once("[[variants]]").unwrap();
    let file = ScenarioFile::parse_with("x.toml", &base.replace("cell/up.trace", "down.csv"), &load).unwrap();
    let set = [("links.h1-h2.forward.trace".to_owned(), "cell/up.trace".to_owned())];
    assert_eq!(rates(&file.resolve_with(None, &set, &load).unwrap())[0], up());
    let error = file.resolve(None, &set).unwrap_err().to_string();
    assert!(error.contains("cannot use \"cell/up.trace\": files cannot be read here"), "{error}");
}

#[test]
fn a_trace_longer_than_a_scenario_is_rejected() {
    let text = FILE.replace("\"down.csv\"", "\"long.csv\"");
    let error = ScenarioFile::parse_with("x.toml", &text, &load).unwrap_err().to_string();
    let message = "x.toml:9:22: the trace has too many lines, or a time or rate that is too large";
    assert!(error.starts_with(message), "{error}");
}

/// Mahimahi counts 4 B in addition to a packet's 1500 B of IP, so each opportunity carries one full packet.
#[test]
fn an_opportunity_of_a_mahimahi_trace_carries_a_full_packet() {
    let overheads = |text: &str| {
        let file = ScenarioFile::parse_with("x.toml", text, &load).unwrap_or_else(|e| panic!("{e}"));
        let scenario = file.resolve(None, &[]).unwrap();
        let again = ScenarioFile::parse("x.toml", &scenario.to_toml()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.resolve(None, &[]).unwrap(), scenario);
        [scenario.links[0].forward.overhead, scenario.links[0].backward.overhead]
    };
    assert_eq!(overheads(FILE), [4, 14]);
    assert_eq!(u64::from(overheads(FILE)[0]) + 1500, net::OPPORTUNITY_BYTES);
    assert_eq!(overheads(&FILE.replace("queue = \"50p\"", "overhead = 38")), [38, 14]);
}
