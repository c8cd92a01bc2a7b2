//! UDP flows in the lab: the same figures and columns as the simulator's, and Gigabit Ethernet's payload limits.

mod common;

use common::{Place, one_lab_at_a_time, shipped};
use schema::{FlowSample, Metrics};
use serde_json::Value;

/// h1 - h2 with `link` between them and a udp flow as `flow` says, for two seconds.
fn scenario(link: &str, flow: &str) -> String {
    format!(
        r#"duration = "2s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = {{ {link} }}
[[flows]]
name = "f"
kind = "udp"
from = "h1"
to = "h2"
{flow}
"#
    )
}

/// The flow in both engines: simulator and lab.
fn both(place: &Place) -> [Value; 2] {
    let all = place.run(&["run", "s.toml", "--engine", "sim,lab", "--json"]).json();
    ["sim", "lab"].map(|engine| {
        let runs = all["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["engine"] == engine).unwrap();
        eprintln!("{engine}: {} {}", run["flows"][0], run["quality"]);
        run["flows"][0].clone()
    })
}

fn figure(flow: &Value, name: &str) -> f64 {
    flow[name].as_f64().unwrap_or_else(|| panic!("{name}: {flow}"))
}

#[test]
fn a_steady_flow_has_the_simulators_figures_and_columns() {
    let _turn = one_lab_at_a_time();
    let place =
        Place::new(&scenario(r#"rate = "100mbit", delay = "10ms""#, "rate = \"10mbit\"\npacket = \"1000B\""));
    let [sim, lab] = both(&place);
    assert!((figure(&lab, "goodput_bps") / figure(&sim, "goodput_bps") - 1.0).abs() < 0.02, "{lab}");
    assert_eq!((figure(&lab, "datagrams_lost"), figure(&lab, "datagrams_duplicated")), (0.0, 0.0));
    assert!((figure(&lab, "datagrams_sent") / figure(&sim, "datagrams_sent") - 1.0).abs() < 0.02, "{lab}");
    // 10 ms and 81 us on the wire; the hosts' own time comes to it.
    let least = figure(&lab, "min_owd_us");
    assert!((10_000.0..12_000.0).contains(&least), "{least}");
    let names = |flow: &Value| flow.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&lab), names(&sim));

    // The same columns are filled.
    let filled = |engine: &str| {
        let runs = record::list(&place.path("runs")).unwrap();
        let run = runs.into_iter().filter_map(|entry| entry.run.ok()).find(|run| run.run().engine == engine);
        let row = run.unwrap().flows().unwrap().pop().unwrap();
        let known = FlowSample::COLUMNS.iter().map(|c| c.name).filter(|name| row.get(name).is_some());
        known.collect::<Vec<_>>()
    };
    assert_eq!(filled("lab"), filled("sim"));
    assert!(filled("lab").contains(&"owd_us"));
}

#[test]
fn what_a_link_does_to_datagrams_is_counted_as_in_the_simulator() {
    let _turn = one_lab_at_a_time();
    let share = |flow: &Value, name: &str| figure(flow, name) / figure(flow, "datagrams_sent");
    // Twice what the link carries.
    let flow = "rate = \"40mbit\"\npacket = \"1000B\"";
    let place = Place::new(&scenario(r#"rate = "20mbit", delay = "5ms", queue = "50p""#, flow));
    let [sim, lab] = both(&place);
    assert!((figure(&sim, "loss_share") - figure(&lab, "loss_share")).abs() < 0.02, "{sim} {lab}");
    assert!((figure(&lab, "goodput_bps") / figure(&sim, "goodput_bps") - 1.0).abs() < 0.02, "{lab}");
    let place = Place::new(&scenario(r#"delay = "5ms", loss = "2%", duplicate = "5%""#, flow));
    let [sim, lab] = both(&place);
    for name in ["datagrams_lost", "datagrams_duplicated"] {
        let (sim, lab) = (share(&sim, name), share(&lab, name));
        assert!(lab > 0.0 && (sim - lab).abs() < 0.01, "{name}: {sim} {lab}");
    }
    let place = Place::new(&scenario(r#"delay = "20ms", jitter = "4ms", jitter_reorders = true"#, flow));
    let [sim, lab] = both(&place);
    assert!(
        (share(&sim, "datagrams_reordered") - share(&lab, "datagrams_reordered")).abs() < 0.1,
        "{sim} {lab}"
    );
    assert!((figure(&lab, "jitter_us") / figure(&sim, "jitter_us") - 1.0).abs() < 0.5, "{sim} {lab}");
}

#[test]
fn bursts_fragments_and_sizes_are_the_simulators() {
    let _turn = one_lab_at_a_time();
    let same = |flow: &str, tolerance: f64| {
        let place = Place::new(&scenario(r#"delay = "5ms""#, flow));
        let [sim, lab] = both(&place);
        for name in ["bytes", "datagrams_sent"] {
            let (sim, lab) = (figure(&sim, name), figure(&lab, name));
            assert!((lab / sim - 1.0).abs() <= tolerance, "{flow}: {name} {sim} {lab}");
        }
        [sim, lab]
    };
    same("rate = \"40mbit\"\npacket = \"1000B\"\non = \"50ms\"\noff = \"150ms\"", 0.02);
    // Lengths are drawn of the same seed.
    same("rate = \"40mbit\"\npacket = \"1000B\"\non = \"20ms\"\noff = \"30ms\"\nrandom = true", 0.05);
    same("rate = \"40mbit\"\npacket = \"8000B\"", 0.02);
    let [sim, lab] = same("rate = \"8mbit\"\npacket = \"1000B\"\nsize = \"100500B\"", 0.0);
    assert_eq!((figure(&sim, "bytes"), figure(&lab, "bytes")), (100_500.0, 100_500.0));
    // It ends when the last has come, after 105 ms.
    assert!((figure(&lab, "goodput_bps") / figure(&sim, "goodput_bps") - 1.0).abs() < 0.2, "{sim} {lab}");
}

#[test]
fn datagrams_without_room_for_their_header_are_refused() {
    let place = Place::new(&scenario("delay = \"5ms\"", "rate = \"1mbit\"\npacket = \"15B\""));
    let ran = place.run(&["run", "s.toml", "--engine", "lab"]);
    assert!(ran.code == 4 && ran.stderr.contains("16 bytes"), "{ran:?}");
}

/// H-udp957 and H-tcp941.
#[test]
fn gigabit_ethernet_carries_957_and_941_megabits() {
    let _turn = one_lab_at_a_time();
    let place = Place::new(&shipped("h-gigabit.toml"));
    let document = place.run(&["run", "s.toml", "--engine", "sim,lab", "--json"]).parsed();
    let lab = document["runs"].as_array().unwrap().iter().find(|run| run["engine"] == "lab").unwrap();
    for published in document["published"].as_array().unwrap() {
        let value = figure(published, "published");
        assert!((figure(published, "sim") / value - 1.0).abs() < 0.003, "{published}");
        if lab["quality"]["ok"] == true {
            assert!((figure(published, "lab") / value - 1.0).abs() < 0.003, "{published}");
        } else {
            eprintln!("the lab's {published} was not judged: {}", lab["quality"]);
        }
    }
}
