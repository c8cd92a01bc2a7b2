//! UDP flows in the lab: the figures and columns match the simulator's, and Gigabit Ethernet's payload limits
//! hold.

use crate::common;
use common::{
    TestDir, bundled_scenario,
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};
use schema::{FlowSample, Metrics};
use serde_json::Value;

/// h1 - h2 with the link parameters `link` and a udp flow with the parameters `flow`, for two seconds.
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

/// Runs a flow in the simulator and in the lab. Returns the test directory, both results, and the share of
/// its time that the lab skipped because the sender or the emulator stalled on a busy machine.
fn both(link: &str, flow: &str) -> (TestDir, [Value; 2], f64) {
    let test_dir = TestDir::new(&scenario(link, flow));
    let all = test_dir.run(&["run", "s.toml", "--engine", "sim,lab", "--json"]).json();
    let run =
        |engine: &str| all["runs"].as_array().unwrap().iter().find(|run| run["engine"] == engine).unwrap();
    let flows = ["sim", "lab"].map(|engine| run(engine)["flows"][0].clone());
    (test_dir, flows, skipped_s(run("lab")) / 2.0)
}

/// Seconds for which the emulator stalled or the sender skipped its schedule, from the notes.
fn skipped_s(run: &Value) -> f64 {
    let quality = &run["quality"];
    let notes = quality["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let skipped_ms =
        |note: &str| -> Option<f64> { note.split_once("skipped ")?.1.split(' ').next()?.parse().ok() };
    notes.filter_map(skipped_ms).sum::<f64>() * 1e-3 + quality["stalled_total_us"].as_f64().unwrap() * 1e-6
}

fn figure(flow: &Value, name: &str) -> f64 {
    flow[name].as_f64().unwrap_or_else(|| panic!("{name}: {flow}"))
}

/// The lab's figure divided by the simulator's.
fn ratio([sim, lab]: &[Value; 2], name: &str) -> f64 {
    figure(lab, name) / figure(sim, name)
}

#[test]
fn a_steady_flow_matches_the_simulator() {
    let _slot = acquire_lab_slot();
    let flow = "rate = \"10mbit\"\npacket = \"1000B\"";
    let (test_dir, flows, left_out) = both(r#"rate = "100mbit", delay = "10ms""#, flow);
    let near = 0.02 + left_out;
    for name in ["goodput_bps", "datagrams_sent"] {
        assert!((ratio(&flows, name) - 1.0).abs() < near, "{name}: {flows:?}");
    }
    let [sim, lab] = &flows;
    assert_eq!((figure(lab, "datagrams_lost"), figure(lab, "datagrams_duplicated")), (0.0, 0.0));
    // 10 ms and 83 us on the wire, plus the hosts' time. Stalls below 0.3 ms do not stop the lab's clock.
    let min_owd_us = figure(lab, "min_owd_us");
    assert!((9_700.0..12_000.0).contains(&min_owd_us), "{min_owd_us}");
    let names = |flow: &Value| flow.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(lab), names(sim));

    // Both engines fill the same columns.
    let filled = |engine: &str| {
        let runs = record::list(&test_dir.path("runs")).unwrap();
        let run =
            runs.into_iter().filter_map(|entry| entry.run.ok()).find(|run| run.run().engine.name() == engine);
        // On a busy machine, one sample may have no datagram and therefore no delay.
        let rows = run.unwrap().flows().unwrap();
        let is_known = |name: &&str| rows.iter().any(|row| row.get(name).is_some());
        let known = FlowSample::COLUMNS.iter().map(|column| column.name).filter(is_known);
        known.collect::<Vec<_>>()
    };
    assert_eq!(filled("lab"), filled("sim"));
    assert!(filled("lab").contains(&"owd_us"));
}

#[test]
fn loss_duplication_and_reordering_match_the_simulator() {
    let _slot = acquire_lab_slot();
    let share = |flow: &Value, name: &str| figure(flow, name) / figure(flow, "datagrams_sent");
    let flow = "rate = \"40mbit\"\npacket = \"1000B\"";
    // The link has half of the sent rate.
    let (_, flows, left_out) = both(r#"rate = "20mbit", delay = "5ms", queue = "50p""#, flow);
    let [sim, lab] = &flows;
    let loss = figure(sim, "loss_share") - figure(lab, "loss_share");
    assert!(loss.abs() < 0.02 + left_out, "{flows:?}");
    assert!((ratio(&flows, "goodput_bps") - 1.0).abs() < 0.02 + left_out, "{flows:?}");

    let (_, [sim, lab], _) = both(r#"delay = "5ms", loss = "2%", duplicate = "5%""#, flow);
    for name in ["datagrams_lost", "datagrams_duplicated"] {
        let (sim, lab) = (share(&sim, name), share(&lab, name));
        assert!(lab > 0.0 && (sim - lab).abs() < 0.01, "{name}: {sim} {lab}");
    }

    let (_, flows, _) = both(r#"delay = "20ms", jitter = "4ms", jitter_reorders = true"#, flow);
    let [sim, lab] = &flows;
    let reordered = [sim, lab].map(|flow| share(flow, "datagrams_reordered"));
    assert!((reordered[0] - reordered[1]).abs() < 0.1, "{flows:?}");
    assert!((ratio(&flows, "jitter_us") - 1.0).abs() < 0.5, "{flows:?}");
}

#[test]
fn bursts_fragments_and_sizes_match_the_simulator() {
    let _slot = acquire_lab_slot();
    let same = |flow: &str, tolerance: f64| {
        let (_, flows, left_out) = both(r#"delay = "5ms""#, flow);
        for name in ["bytes", "datagrams_sent"] {
            let near = (ratio(&flows, name) - 1.0).abs() <= tolerance + left_out;
            assert!(near, "{flow}, {left_out} excluded: {name} of {flows:?}");
        }
        (flows, left_out)
    };
    // The skipped time may contain a whole burst, and bursts carry the data in a quarter of the time.
    same("rate = \"40mbit\"\npacket = \"1000B\"\non = \"50ms\"\noff = \"150ms\"", 0.05);
    // Both engines draw the lengths from the same seed.
    same("rate = \"40mbit\"\npacket = \"1000B\"\non = \"20ms\"\noff = \"30ms\"\nrandom = true", 0.05);
    same("rate = \"40mbit\"\npacket = \"8000B\"", 0.02);
    let (flows, left_out) = same("rate = \"8mbit\"\npacket = \"1000B\"\nsize = \"100500B\"", 0.0);
    assert_eq!((figure(&flows[1], "bytes"), figure(&flows[1], "datagrams_sent")), (100_500.0, 101.0));
    // The flow ends when the last datagram has arrived, after 105 ms.
    let late = 0.25 + 2.0 * left_out / 0.105;
    assert!((1.0 / ratio(&flows, "goodput_bps") - 1.0).abs() < late, "{flows:?}");
}

#[test]
fn datagrams_shorter_than_their_header_are_refused() {
    let test_dir = TestDir::new(&scenario("delay = \"5ms\"", "rate = \"1mbit\"\npacket = \"15B\""));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "lab"]);
    assert!(ran.code == 4 && ran.stderr.contains("16 bytes"), "{ran:?}");
}

/// H-udp957 and H-tcp941, except for the time that a busy machine skipped.
#[test]
fn gigabit_ethernet_carries_957_and_941_megabits() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(&bundled_scenario("h-gigabit.toml"));
    let document = test_dir.run(&["run", "s.toml", "--engine", "sim,lab", "--json"]).parsed();
    let lab = document["runs"].as_array().unwrap().iter().find(|run| run["engine"] == "lab").unwrap();
    // Each flow lasts ten seconds.
    let left_out = skipped_s(lab) / 10.0;
    let published = document["published"].as_array().unwrap();
    assert_eq!(published.len(), 2);
    for figures in published {
        let of = |engine| figure(figures, engine) / figure(figures, "published");
        assert!((of("sim") - 1.0).abs() < 0.003, "{figures}");
        assert!((1.0 - 0.003 - left_out..1.003).contains(&of("lab")), "{left_out} excluded: {figures} {lab}");
    }
}
