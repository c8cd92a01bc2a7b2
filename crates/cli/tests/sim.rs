//! `longfat run --engine sim`: needs no privilege, writes the same kind of record as the lab, and the same
//! bytes each time.

use crate::common;
use std::path::PathBuf;

use common::{SMALL, TestDir, bundled_scenario};
use schema::TraceKind;

/// The files of the only run in the test directory.
fn record(test_dir: &TestDir) -> PathBuf {
    let scenario = std::fs::read_dir(test_dir.path("runs")).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(scenario).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn round_trip_times_are_exact_and_the_first_includes_arp() {
    let test_dir = TestDir::new(&bundled_scenario("lab8-ping.toml"));
    let all = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let run = &all["runs"][0];
    assert_eq!((run["engine"].as_str(), run["quality"]["ok"].as_bool()), (Some("sim"), Some(true)));
    let flow = &run["flows"][0];
    assert_eq!(flow["first_rtt_us"].as_f64(), Some(40_000.0));
    assert_eq!(flow["median_rtt_us"].as_f64(), Some(20_000.0));
    // 40, 20, 20 and 20 ms: as ping prints them.
    assert_eq!(flow["mean_rtt_us"].as_f64(), Some(25_000.0));
    assert!((flow["mdev_rtt_us"].as_f64().unwrap() - 8660.3).abs() < 0.1, "{flow}");
}

#[test]
fn repeated_runs_write_the_same_bytes() {
    let tables: Vec<Vec<Vec<u8>>> = (0..2)
        .map(|_| {
            let test_dir = TestDir::new(SMALL);
            let run = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
            let flow = &run["runs"][0]["flows"][0];
            assert!(flow["goodput_bps"].as_f64().unwrap() > 50e6, "{flow}");
            assert_eq!((flow["cc"].as_str(), flow["cc_from"].as_str()), (Some("cubic"), Some("longfat")));
            let dir = record(&test_dir);
            let tables = ["flows.parquet", "links.parquet", "events.parquet"];
            tables.iter().map(|name| std::fs::read(dir.join(name)).unwrap()).collect()
        })
        .collect();
    assert!(tables[0] == tables[1]);
}

/// The bytes of the record depend neither on the machine nor on its number of processors. When the simulation
/// is meant to change, `LONGFAT_UPDATE=1` writes the new hashes.
#[test]
fn records_have_the_committed_hashes() {
    // Settings that a host does not specify are this machine's.
    let small = format!(
        "{SMALL}[hosts.\"*\"]\nsysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 131072 6291456\", \
         \"net.ipv4.tcp_wmem\" = \"4096 16384 4194304\" }}\n"
    );
    let lossy = small.replace("queue = \"250kB\"", "queue = \"250kB\", loss = 0.001");
    let jittery =
        small.replace("queue = \"250kB\"", "queue = \"250kB\", jitter = \"1ms\"").replace("cubic", "bbr");
    let scenarios = [("small", small), ("lossy", lossy), ("jittery-bbr", jittery)];
    let mut hashes = String::new();
    for (name, scenario) in scenarios {
        let test_dir = TestDir::new(&scenario);
        test_dir.run(&["run", "s.toml", "--engine", "sim", "--kernel", "6.1", "--json"]).json();
        for table in ["flows", "links", "events"] {
            let bytes = std::fs::read(record(&test_dir).join(format!("{table}.parquet"))).unwrap();
            // The version in the files must not change the hashes; all versions so far have the same length.
            let version = concat!("longfat version ", env!("CARGO_PKG_VERSION"));
            let bytes = replaced(&bytes, version.as_bytes(), b"longfat version 0.1.0");
            hashes.push_str(&format!("{name} {table} {:016x}\n", fnv1a(&bytes)));
        }
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sim-hashes.txt");
    if std::env::var_os("LONGFAT_UPDATE").is_some() {
        std::fs::write(&file, &hashes).unwrap();
    }
    assert_eq!(hashes, std::fs::read_to_string(&file).unwrap());
}

/// `bytes` with the only occurrence of `old` replaced.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert_eq!(at.len(), 1, "{at:?}");
    [&bytes[..at[0]], new, &bytes[at[0] + old.len()..]].concat()
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo 1991).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn an_unknown_congestion_control_or_engine_is_bad_input() {
    let test_dir = TestDir::new(&SMALL.replace("cubic", "nosuch"));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "sim"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("nosuch") && ran.stderr.contains("longfat cc list"), "{ran:?}");
    assert!(
        !test_dir.path("runs/s").exists()
            || std::fs::read_dir(test_dir.path("runs/s")).unwrap().next().is_none()
    );
    let ran = test_dir.run(&["run", "s.toml", "--engine", "ns3"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("model, sim, lab, kernel"), "{ran:?}");
}

#[test]
fn a_trace_is_recorded_on_request() {
    let test_dir = TestDir::new(SMALL);
    test_dir.run(&["run", "s.toml", "--engine", "sim", "--trace", "bulk", "--json"]).json();
    let run = record::Run::open(&record(&test_dir)).unwrap();
    let (trace, last) = (run.trace().unwrap(), run.flows().unwrap().pop().unwrap());
    let sent: i64 = trace.iter().filter_map(|row| row.len_bytes).sum();
    // Segments sent at the last instant may be in the trace only.
    assert!(sent >= last.bytes_sent.unwrap() && sent < last.bytes_sent.unwrap() + 100_000, "{sent}");
    assert!(trace.iter().any(|row| row.kind == TraceKind::Ack));
    let counted = test_dir.run(&["show", "last", "--web100", "--json"]).json();
    let all = &counted["flows"][0]["all"];
    // As above.
    let segments = all["DataSegsOut"].as_i64().unwrap() + all["SegsRetrans"].as_i64().unwrap();
    let expected = last.data_segs_out_segs.unwrap();
    assert!(segments >= expected && segments < expected + 100, "{segments} segments, not {expected}");
    assert!(all["SlowStart"].as_i64() > Some(0) && all["acks_in"].as_i64() > Some(0), "{all}");
    let text = test_dir.run(&["show", "last", "--web100"]).stdout;
    assert!(text.contains("DupAcksIn") && text.lines().count() == 5, "{text}");
    for (args, what) in [(["sim", "blk"], "no TCP flow"), (["model", "bulk"], "--engine sim")] {
        let ran = test_dir.run(&["run", "s.toml", "--engine", args[0], "--trace", args[1]]);
        assert!(ran.code == 2 && ran.stderr.contains(what), "{ran:?}");
    }
}

#[test]
fn web100_counters_need_a_trace() {
    let test_dir = TestDir::new(SMALL);
    test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let ran = test_dir.run(&["show", "last", "--web100"]);
    assert!(ran.code == 2 && ran.stderr.contains("--trace FLOW"), "{ran:?}");
}

#[test]
fn a_write_has_one_byte_to_one_mebibyte() {
    for (size, mistake) in [
        ("8KiB", None),
        ("1B", None),
        ("1MiB", None),
        ("0B", Some("cannot be zero")),
        ("2MiB", Some("write 1B to 1MiB")),
    ] {
        let flow = format!("cc = \"cubic\"\nwrite_size = \"{size}\"");
        let test_dir = TestDir::new(&SMALL.replace("cc = \"cubic\"", &flow));
        let ran = test_dir.run(&["scenario", "validate", "s.toml"]);
        assert_eq!(ran.code, if mistake.is_some() { 2 } else { 0 }, "{ran:?}");
        assert!(mistake.is_none_or(|mistake| ran.stderr.contains(mistake)), "{ran:?}");
    }
}

#[test]
fn datagrams_are_simulated_and_predicted() {
    let udp = "kind = \"udp\"\nrate = \"200mbit\"\nstop = \"900ms\"";
    let test_dir = TestDir::new(&SMALL.replace("cc = \"cubic\"", udp));
    let all = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    let flow = |engine: &str| {
        let runs = all["runs"].as_array().unwrap();
        runs.iter().find(|run| run["engine"] == engine).unwrap()["flows"][0].clone()
    };
    let (model, sim) = (flow("model"), flow("sim"));
    let goodput = |flow: &serde_json::Value| flow["steady_goodput_bps"].as_f64().unwrap();
    assert!((goodput(&sim) / goodput(&model) - 1.0).abs() < 0.01, "{model} {sim}");
    let lost = |flow: &serde_json::Value| flow["loss_share"].as_f64().unwrap();
    // At the start the queue absorbs a fiftieth of a second of data.
    assert!((lost(&sim) - lost(&model)).abs() < 0.03 && lost(&model) > 0.5, "{model} {sim}");
    let printed = test_dir.run(&["run", "s.toml", "--engine", "sim"]);
    assert!(printed.code == 0 && printed.stdout.contains("UDP FLOW"), "{printed:?}");
    let test_dir = TestDir::new(&SMALL.replace("cc = \"cubic\"", "kind = \"xcp\""));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "lab"]);
    assert!(ran.code == 4 && ran.stderr.contains("--engine sim"), "{ran:?}");
}

fn flow_of<'a>(all: &'a serde_json::Value, engine: &str) -> (&'a serde_json::Value, &'a serde_json::Value) {
    let run = all["runs"].as_array().unwrap().iter().find(|run| run["engine"] == engine).unwrap();
    (run, &run["flows"][0])
}

/// A router in front of a link with a smaller MTU reports it, so the flow gets the link's capacity.
#[test]
fn a_smaller_mtu_behind_a_router_costs_little_goodput() {
    let test_dir = TestDir::new(&bundled_scenario("gallery/chain.toml"));
    let all = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    for engine in ["model", "sim"] {
        let (run, flow) = flow_of(&all, engine);
        assert!(flow["goodput_bps"].as_f64().unwrap() > 50e6, "{engine}: {flow}");
        assert_eq!(flow["mss_bytes"].as_i64(), Some(1348), "{engine}");
        assert_eq!(run["quality"]["ok"], true, "{run}");
    }
}

/// A flow with 0 b/s must state the cause.
#[test]
fn a_flow_without_goodput_has_a_reason() {
    let test_dir = TestDir::new(&bundled_scenario("faults/mtu-black-hole.toml"));
    let all =
        test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--set", "duration=4s", "--json"]).json();
    for engine in ["model", "sim"] {
        let (run, flow) = flow_of(&all, engine);
        assert_eq!(flow["goodput_bps"].as_f64(), Some(0.0), "{engine}");
        assert!(flow["evidence"][0].as_str().unwrap().contains("MTU black hole"), "{engine}: {flow}");
        assert!(flow["remedy"].as_str().unwrap().contains("tcp_mtu_probing"), "{engine}: {flow}");
        let notes = run["quality"]["notes"].to_string();
        assert!(notes.contains("delivered nothing: packets of 1500 bytes"), "{engine}: {notes}");
    }
    // Only acknowledgements are lost: the cause is in the backward direction.
    let test_dir = TestDir::new(&SMALL.replace("[[flows]]", "backward = { down = true }\n[[flows]]"));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]);
    let notes = ran.json()["runs"][0]["quality"]["notes"].to_string();
    assert!(notes.contains("is down"), "{notes}");
}

#[test]
fn a_flow_without_a_closed_form_is_no_fault() {
    let test_dir = TestDir::new(&SMALL.replace("cc = \"cubic\"", "kind = \"xcp\""));
    let all = test_dir.run(&["run", "s.toml", "--engine", "model", "--json"]).json();
    let (run, flow) = flow_of(&all, "model");
    assert!(flow["goodput_bps"].is_null(), "{flow}");
    assert_eq!(run["quality"]["ok"], true, "{run}");
    let notes = run["quality"]["notes"].to_string();
    assert!(notes.contains("the closed forms have no figure for flow bulk"), "{notes}");
}

#[test]
fn a_run_lists_ignored_settings() {
    let text = SMALL.replace("queue = \"250kB\"", "queue = \"250kB\", jitter = \"1ms\"")
        + "[hosts.\"*\"]\nstart = \"true\"\nsysctl = { \"net.ipv4.tcp_fastopen\" = \"3\" }\n";
    let test_dir = TestDir::new(&text);
    let all = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    let notes = |engine| flow_of(&all, engine).0["quality"]["notes"].to_string();
    for part in [".jitter", ".start", "tcp_fastopen"] {
        assert!(notes("model").contains(part), "{part}: {}", notes("model"));
    }
    assert!(notes("sim").contains("tcp_fastopen") && notes("sim").contains(".start"), "{}", notes("sim"));
    assert!(!notes("sim").contains("jitter"), "{}", notes("sim"));
    let printed = test_dir.run(&["run", "s.toml", "--engine", "sim"]);
    assert!(printed.stdout.contains("the simulator ignores"), "{printed:?}");
}

/// The excerpts in the README are from a machine with Linux 6.18.
#[test]
fn the_readme_shows_the_output_of_lab_8() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, section) = readme.split_once("longfat run scenarios/lab8.toml --engine model,sim").unwrap();
    let excerpts: Vec<&str> =
        section.split("```text\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let lines: Vec<&str> = excerpts.iter().flat_map(|text| text.lines()).filter(|l| !l.is_empty()).collect();
    assert!(lines.len() >= 12, "{lines:?}");
    let scenario = root.join("scenarios/lab8.toml");
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["run", scenario.to_str().unwrap(), "--engine", "model,sim", "--kernel", "6.18"]);
    let printed: Vec<&str> = ran.stdout.lines().collect();
    let missing: Vec<&&str> = lines.iter().filter(|line| !printed.contains(line)).collect();
    assert!(missing.is_empty(), "not printed: {missing:?}\n{}", ran.stdout);
}
