//! Captures as tshark reads them: complete, with correct timestamps and checksums, and with the events that
//! lectures show.

use crate::common;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

use common::{
    CommandOutput, SMALL, TestDir, bundled_scenario, eventually,
    lab::{Lab, have, is_alive, signal},
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};

/// Runs tshark on a file, which must be complete and without malformed packets; returns its output.
fn tshark(file: &Path, options: &[&str]) -> CommandOutput {
    let output = Command::new("tshark")
        .arg("-n")
        .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
        .arg("-r")
        .arg(file)
        .args(options)
        .output()
        .unwrap();
    let ran = CommandOutput::from(output);
    assert_eq!(ran.code, 0, "{}: {ran:?}", file.display());
    assert!(!ran.stderr.contains("cut short"), "{}: {ran:?}", file.display());
    ran
}

/// The given fields of each packet that matches `filter`.
fn fields(file: &Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    let names = names.iter().flat_map(|n| ["-e", n]);
    let options: Vec<&str> = ["-Y", filter, "-T", "fields"].into_iter().chain(names).collect();
    let ran = tshark(file, &options);
    ran.stdout.lines().map(|l| l.split('\t').map(str::to_owned).collect()).collect()
}

/// Parses `1763716800.123456789` to nanoseconds, which a double cannot represent.
fn nanos(stamp: &str) -> u128 {
    let (seconds, rest) = stamp.split_once('.').unwrap_or_else(|| panic!("{stamp}"));
    assert_eq!(rest.len(), 9, "{stamp} has no nanoseconds");
    seconds.parse::<u128>().unwrap() * 1_000_000_000 + rest.parse::<u128>().unwrap()
}

/// The captures in the only record of a test directory.
fn captured(test_dir: &TestDir, name: &str) -> PathBuf {
    let runs = std::fs::read_dir(test_dir.path("runs/s")).unwrap().flatten();
    let found: Vec<PathBuf> = runs.map(|run| run.path().join(name)).filter(|file| file.is_file()).collect();
    assert_eq!(found.len(), 1, "one {name} in {:?}", test_dir.path("runs"));
    found[0].clone()
}

/// The smallest buffer for which Linux announces the window scale 9 (tcp_select_initial_window of
/// tcp_output.c).
const SCALE_9: &str = "hosts.h2.sysctl.net.ipv4.tcp_rmem=4096 131072 16777216";

#[test]
fn captures_in_the_record_are_correct() {
    if !have(&["tshark"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let scenario = SMALL.replace("duration = \"1s\"", "duration = \"2s\"\ncapture = [\"h1\", \"h1-s1\"]");
    let test_dir = TestDir::new(&scenario);
    let ran = test_dir.run(&["run", "s.toml", "--set", SCALE_9, "--engine", "lab", "--json"]);
    let bytes = ran.json()["runs"][0]["flows"][0]["bytes"].as_u64().unwrap();
    for name in ["h1.pcapng", "h1-s1.pcapng"] {
        let file = captured(&test_dir, name);
        // tshark sometimes detects a protocol above TCP in random payload.
        let malformed = fields(&file, "_ws.malformed", &["frame.protocols", "frame.number"]);
        let is_ours = |protocols: &str| !protocols.trim_end_matches(":_ws.malformed").contains(":tcp:");
        let ours: Vec<_> = malformed.iter().filter(|f| is_ours(&f[0])).collect();
        assert!(ours.is_empty(), "{name}: {ours:?}");
        let bad = "tcp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"";
        assert_eq!(fields(&file, bad, &["frame.number"]), Vec::<Vec<String>>::new(), "{name}");
        let good = fields(
            &file,
            "tcp.checksum.status == \"Good\" && ip.checksum.status == \"Good\"",
            &["frame.len"],
        );
        assert!(good.len() > 1000, "{name}: {} packets with checksums", good.len());
        let largest = good.iter().map(|f| f[0].parse::<u32>().unwrap()).max();
        assert_eq!(largest, Some(1514), "{name}: segments as on the wire");

        let mut fine = 0;
        for from in ["10.0.0.1", "10.0.0.2"] {
            let stamps = fields(&file, &format!("ip.src == {from}"), &["frame.time_epoch"]);
            let stamps: Vec<u128> = stamps.iter().map(|f| nanos(&f[0])).collect();
            assert!(stamps.is_sorted(), "{name}: timestamps of {from} decrease");
            let span = stamps.last().unwrap() - stamps[0];
            assert!((1_000_000_000..4_000_000_000).contains(&span), "{name}: {span} ns of two seconds");
            fine += stamps.iter().filter(|s| **s % 1000 != 0).count();
        }
        assert!(fine > 0, "{name}: no timestamp is finer than a microsecond");

        let syns = fields(
            &file,
            "tcp.flags.syn == 1",
            &["ip.src", "tcp.options.mss_val", "tcp.options.wscale.shift"],
        );
        assert_eq!(syns.len(), 2, "{name}: {syns:?}");
        assert_eq!((syns[0][0].as_str(), syns[0][1].as_str()), ("10.0.0.1", "1460"), "{name}");
        assert_eq!(syns[1], ["10.0.0.2", "1460", "9"], "{name}");
        let shift: u32 = syns[0][2].parse().unwrap();
        assert!((1..=14).contains(&shift), "{name}: {shift}");

        // All received data was on the wire at least once.
        let data = fields(&file, "ip.src == 10.0.0.1 && tcp.len > 0", &["tcp.len"]);
        let sent: u64 = data.iter().map(|f| f[0].parse::<u64>().unwrap()).sum();
        assert!(sent >= bytes, "{name}: {sent} bytes sent, {bytes} received");
    }
}

/// The imported counters equal those of the sender's kernel, at every capture point.
#[test]
fn an_imported_capture_agrees_with_the_kernel() {
    let _slot = acquire_lab_slot();
    let scenario = SMALL
        .replace("duration = \"1s\"", "duration = \"3s\"\ncapture = [\"h1\", \"h2\"]")
        .replace("queue = \"250kB\"", "queue = \"250kB\", loss = \"0.2%\"");
    let test_dir = TestDir::new(&scenario);
    let kernel = &test_dir.run(&["run", "s.toml", "--engine", "lab", "--json"]).json()["runs"][0]["flows"][0];
    let number =
        |of: &serde_json::Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("no {key}: {of:#}"));
    for name in ["h1.pcapng", "h2.pcapng"] {
        let file = captured(&test_dir, name);
        let imported = test_dir.run(&["import", "pcap", file.to_str().unwrap(), "--json"]).json();
        let record = imported["records"][0]["record"].as_str().unwrap();
        let seen = &test_dir.run(&["show", record, "--json"]).json()["runs"][0]["flows"][0];
        let (ours, theirs) = (number(seen, "retransmitted_segs"), number(kernel, "retransmitted_segs"));
        // Some packets are in flight at the end; a loss that is repaired within 3 ms looks like reordering.
        assert!(
            theirs > 3.0 && (ours - theirs).abs() <= 2.0_f64.max(theirs * 0.1),
            "{name}: {ours} of {theirs}"
        );
        for (key, share) in
            [("bytes", 0.05), ("goodput_bps", 0.05), ("min_rtt_us", 0.05), ("mean_rtt_us", 0.1)]
        {
            let (ours, theirs) = (number(seen, key), number(kernel, key));
            assert!((ours / theirs - 1.0).abs() < share, "{name}: {key} {ours}, the kernel's {theirs}");
        }
        assert_eq!(seen["mss_bytes"], kernel["mss_bytes"]);
        assert_eq!(test_dir.run(&["plot", record, "-o", "plot.svg"]).code, 0);
        let graph = test_dir.run(&["export", "xplot", record]).stdout;
        let sent_again = graph.lines().filter(|line| *line == "R").count() as f64;
        assert!(
            graph.starts_with("timeval unsigned\n") && sent_again == ours,
            "{name}: {sent_again} of {ours}"
        );
        let csv = test_dir.run(&["export", "csv", record, "--table", "events"]).stdout;
        assert_eq!(csv.lines().filter(|line| line.contains(",retransmit,")).count() as f64, ours, "{name}");
        assert_eq!(test_dir.run(&["export", "gnuplot", record, "-o", "gp"]).code, 0);
        assert!(test_dir.path("gp/plot.gp").is_file() && test_dir.path("gp/flows.csv").is_file());
    }
    let ran = test_dir.run(&["import", "pcap", "s.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains("neither a pcap nor a pcapng"), "{ran:?}");
}

/// Compares round-trip times with the kernel's, for an idle and a busy sender, over IPv4 and IPv6, with
/// and without timestamps and SACK, captured at the sender and at the receiver.
#[test]
fn round_trips_of_imported_captures_match_the_kernels() {
    let _slot = acquire_lab_slot();
    let scenario = SMALL
        .replace("\"10.0.0.1/24\"", "[\"10.0.0.1/24\", \"fd00::1/64\"]")
        .replace("\"10.0.0.2/24\"", "[\"10.0.0.2/24\", \"fd00::2/64\"]")
        .replace("delay = \"10ms\"", "delay = \"20ms\"");
    let test_dir = TestDir::new(&scenario);
    let lab = Lab::up(&test_dir, &[]);
    let program = common::binary();
    assert_eq!(lab.sh("h2", &format!("{program} serve -i 0 >serve.log 2>&1 &")).code, 0);
    assert!(eventually(|| lab.sh("h2", "cat /proc/net/tcp6").stdout.contains(":1451 ")));
    let figure = |flow: &serde_json::Value, key: &str| {
        flow[key].as_f64().unwrap_or_else(|| panic!("no {key}: {flow:#}"))
    };
    // Without timestamps a capture at the receiver does not show queues before it.
    let cases: [(&str, &str, &[&str], bool); 6] = [
        ("10.0.0.2", "1 1", &["-b", "20M"], false),
        ("fd00::2", "1 1", &["-b", "20M"], false),
        ("10.0.0.2", "0 0", &["-b", "1M"], false),
        ("fd00::2", "0 1", &["-b", "1M"], false),
        ("fd00::2", "1 1", &[], true),
        ("10.0.0.2", "1 0", &[], true),
    ];
    for (address, options, rate, is_bulk) in cases {
        let (stamps, sack) = options.split_once(' ').unwrap();
        for host in ["h1", "h2"] {
            let stamps = format!("net.ipv4.tcp_timestamps={stamps}");
            let ran = lab.exec(host, &["sysctl", "-qw", &stamps, &format!("net.ipv4.tcp_sack={sack}")]);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        let (mut tries, mut kernel);
        tries = 0;
        loop {
            assert_eq!(lab.shell(&["pcap h1 h1.pcapng", "pcap h2 h2.pcapng"]).code, 0);
            let test = [&[program, "test", address, "-t", "2", "--no-record", "--json"], rate].concat();
            kernel = lab.exec("h1", &test).json()["flows"][0].clone();
            assert_eq!(lab.shell(&["pcap stop h1.pcapng", "pcap stop h2.pcapng"]).code, 0);
            // A stall of the machine shows in the kernel's own round-trip times.
            if is_bulk || figure(&kernel, "max_rtt_us") < 40_000.0 {
                break;
            }
            tries += 1;
            if tries == 3 {
                testing::skip(testing::Missing::QuietMachine, "round trips of an idle path took over 40 ms");
                return;
            }
        }
        for name in ["h1.pcapng", "h2.pcapng"] {
            let file = test_dir.path(name);
            let imported = test_dir.run(&["import", "pcap", file.to_str().unwrap(), "--json"]).json();
            let record = imported["records"][0]["record"].as_str().unwrap();
            let run = &test_dir.run(&["show", record, "--json"]).json()["runs"][0];
            let flows = run["flows"].as_array().unwrap();
            let bytes = |flow: &&serde_json::Value| flow["bytes"].as_u64();
            let seen = flows.iter().max_by_key(bytes).unwrap();
            let case = format!("{address} {options} {rate:?} {name}");
            // 20 ms, plus at most the time that the sender's bursts wait at the link.
            let min_rtt_ratio = figure(seen, "min_rtt_us") / figure(&kernel, "min_rtt_us");
            assert!((0.95..1.05).contains(&min_rtt_ratio), "{case}: {seen:#} {kernel:#}");
            // The kernel is sampled at intervals, but captures have a value per ACK, and ACKs bunch when the
            // queue is long.
            let share = match name {
                _ if is_bulk => 0.4,
                "h1.pcapng" => 0.15,
                _ => 0.25,
            };
            for key in ["median_rtt_us", "mean_rtt_us"] {
                let (ours, theirs) = (figure(seen, key), figure(&kernel, key));
                assert!((ours / theirs - 1.0).abs() < share, "{case}: {key} {ours}, the kernel's {theirs}");
            }
            // No delay lies between the sender and a capture at the sender.
            let printed = run["quality"]["notes"].to_string();
            let is_named = printed.contains(seen["name"].as_str().unwrap());
            assert!(name == "h2.pcapng" || !is_named, "{case}: {printed}");
        }
    }
}

/// Compares the verdict of a lab run with that of its capture at the sender.
#[test]
fn a_capture_at_the_sender_gets_the_verdict_of_the_run() {
    let _slot = acquire_lab_slot();
    for name in ["ecn-marks", "lossy-link", "small-rmem", "small-switch-buffer", "healthy"] {
        let mut verdicts = Vec::new();
        // A stall of the machine may change one of the two.
        for _ in 0..3 {
            let scenario = bundled_scenario(&format!("faults/{name}.toml"));
            let test_dir = TestDir::new(&format!("capture = [\"h1\"]\n{scenario}"));
            let run =
                test_dir.run(&["run", "s.toml", "--engine", "lab", "--set", "duration=5s", "--json"]).json();
            let file = captured(&test_dir, "h1.pcapng");
            let imported = test_dir.run(&["import", "pcap", file.to_str().unwrap(), "--json"]).json();
            let record = imported["records"][0]["record"].as_str().unwrap();
            let shown = test_dir.run(&["show", record, "--json"]).json();
            let of = |document: &serde_json::Value| {
                let flows = document["runs"][0]["flows"].as_array().unwrap();
                let largest = flows.iter().max_by_key(|flow| flow["bytes"].as_u64()).unwrap();
                largest["verdict"].clone()
            };
            verdicts.push((of(&run), of(&shown)));
            if verdicts.iter().any(|(run, capture)| run == capture) {
                break;
            }
        }
        assert!(verdicts.iter().any(|(run, capture)| run == capture), "{name}: {verdicts:?}");
    }
}

#[test]
fn a_reader_that_stops_shows_as_a_zero_window() {
    if !have(&["tshark"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(&bundled_scenario("zero-window.toml"));
    // Autotuning must not make the buffer large enough for all data that arrive during the pause.
    let buffer = "hosts.h2.sysctl.net.ipv4.tcp_rmem=4096 131072 524288";
    let sets = ["duration=4s", "flows.bulk.reader_stops=1s", "flows.bulk.reader_resumes=2500ms", buffer];
    let sets: Vec<&str> = sets.iter().flat_map(|s| ["--set", s]).collect();
    let ran = test_dir.run(&[&["run", "s.toml", "--engine", "lab", "--json"], &sets[..]].concat());
    ran.json();
    let file = captured(&test_dir, "h1.pcapng");
    let first = nanos(&fields(&file, "tcp.flags.syn == 1", &["frame.time_epoch"])[0][0]);
    let seconds = |filter: &str| -> Vec<f64> {
        let found = fields(&file, filter, &["frame.time_epoch"]);
        found.iter().map(|f| (nanos(&f[0]) - first) as f64 / 1e9).collect()
    };
    let zero = seconds("ip.src == 10.0.0.2 && tcp.window_size == 0 && tcp.flags.reset == 0");
    assert!(!zero.is_empty(), "the window never closes");
    assert!(zero.iter().all(|t| (0.9..3.5).contains(t)), "{zero:?}");
    let analysed = seconds("tcp.analysis.zero_window");
    assert!(!analysed.is_empty() && analysed.iter().all(|t| zero.contains(t)), "{analysed:?} of {zero:?}");
    let updates = seconds("ip.src == 10.0.0.2 && tcp.analysis.window_update");
    assert!(updates.iter().any(|t| (2.4..3.5).contains(t)), "{updates:?}");
    let after = seconds("ip.src == 10.0.0.1 && tcp.len > 0").into_iter().filter(|t| *t > 2.5).count();
    assert!(after > 100, "the sender must resume: {after} packets");
}

#[test]
fn captures_of_a_standing_lab_start_and_stop() {
    if !have(&["tshark"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    assert_eq!(lab.shell(&["pcap h1 a.pcapng"]).code, 0);
    let again = lab.shell(&["pcap h2 a.pcapng"]);
    assert!(again.code == 1 && again.stderr.contains("a capture already writes to"), "{again:?}");
    assert_eq!(lab.shell(&["pcap h1 b.pcapng"]).code, 0, "one host in two files");
    assert_eq!(lab.exec("h1", &["ping", "-c", "2", "-i", "0.2", "h2"]).code, 0);
    assert_eq!(lab.shell(&["pcap stop a.pcapng"]).code, 0);
    let twice = lab.shell(&["pcap stop a.pcapng"]);
    assert!(twice.code == 1 && twice.stderr.contains("no capture writes to"), "{twice:?}");
    assert_eq!(lab.exec("h1", &["ping", "-c", "3", "-i", "0.2", "h2"]).code, 0);
    assert_eq!(lab.shell(&["pcap stop b.pcapng"]).code, 0);
    let echoes = |name: &str| fields(&test_dir.path(name), "icmp", &["frame.number"]).len();
    assert_eq!((echoes("a.pcapng"), echoes("b.pcapng")), (4, 10));
    // A second capture, to a file that exists.
    assert_eq!(lab.shell(&["pcap h1 a.pcapng"]).code, 0);
    assert_eq!(lab.exec("h1", &["ping", "-c", "1", "h2"]).code, 0);
    assert_eq!(lab.shell(&["pcap stop a.pcapng"]).code, 0);
    assert_eq!(echoes("a.pcapng"), 2);
}

#[test]
fn a_killed_lab_leaves_a_capture_that_opens() {
    if !have(&["tshark"]) {
        return;
    }
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(SMALL);
    for (end, name) in [("-KILL", "killed.pcapng"), ("-TERM", "ended.pcapng")] {
        let lab = Lab::up(&test_dir, &[]);
        let keeper = lab.keeper();
        assert_eq!(lab.shell(&[&format!("pcap h1 {name}")]).code, 0);
        assert_eq!(lab.exec("h1", &["ping", "-c", "3", "-i", "0.2", "h2"]).code, 0);
        let file = test_dir.path(name);
        // Six echo packets of 98 bytes; the writing thread needs a moment.
        assert!(eventually(|| std::fs::metadata(&file).is_ok_and(|m| m.len() > 6 * 98)));
        signal(end, keeper);
        assert!(eventually(|| !is_alive(keeper)));
        assert_eq!(fields(&file, "icmp", &["frame.number"]).len(), 6, "{end}");
    }
    test_dir.run(&["lab", "clean"]);
}
