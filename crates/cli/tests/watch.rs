//! `longfat watch`: compared with `ss` and with the lab's counters; its record, exporter and errors.

use crate::common;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    time::Duration,
};

use common::{
    CommandOutput, TestDir, eventually, is_root,
    lab::{Lab, have, signal},
    lab_slots::acquire_all_lab_slots,
};
use serde_json::Value;

/// h1 - h2 at 100 Mb/s and 10 ms with a queue that overflows.
const LOSSY: &str = r#"title = "lossy"
duration = "1s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
name = "wire"
ends = ["h1", "h2"]
forward = { rate = "50mbit", delay = "10ms", queue = "60kB" }
"#;

/// An idle connection that has carried 300 kB.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    for _ in 0..3 {
        sender.write_all(&[0; 100_000]).unwrap();
        receiver.read_exact(&mut [0; 100_000]).unwrap();
    }
    (sender, receiver)
}

/// The names of fields in `ss` and in longfat.
const FIELDS: [(&str, &str); 21] = [
    ("cwnd", "snd_cwnd"),
    ("ssthresh", "snd_ssthresh"),
    ("mss", "snd_mss"),
    ("pmtu", "pmtu"),
    ("rcvmss", "rcv_mss"),
    ("advmss", "advmss"),
    ("bytes_sent", "bytes_sent"),
    ("bytes_acked", "bytes_acked"),
    ("bytes_received", "bytes_received"),
    ("segs_out", "segs_out"),
    ("segs_in", "segs_in"),
    ("data_segs_out", "data_segs_out"),
    ("data_segs_in", "data_segs_in"),
    ("delivered", "delivered"),
    ("reordering", "reordering"),
    ("rcv_space", "rcv_space"),
    ("rcv_ssthresh", "rcv_ssthresh"),
    ("snd_wnd", "snd_wnd"),
    ("rcv_wnd", "rcv_wnd"),
    ("unacked", "unacked"),
    ("notsent", "notsent_bytes"),
];
/// Fields in milliseconds in `ss` and in microseconds in longfat.
const TIMES: [(&str, &str); 4] =
    [("rto", "rto_us"), ("ato", "ato_us"), ("minrtt", "min_rtt_us"), ("busy", "busy_time_us")];
const MEMORY: [(&str, &str); 9] = [
    ("r", "rmem_alloc"),
    ("rb", "rcvbuf"),
    ("t", "wmem_alloc"),
    ("tb", "sndbuf"),
    ("f", "fwd_alloc"),
    ("w", "wmem_queued"),
    ("o", "optmem"),
    ("bl", "backlog"),
    ("d", "drops"),
];

#[test]
fn every_field_matches_ss() {
    if !have(&["ss"]) {
        return;
    }
    let (sender, _receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let filter = ["local", "port", &port];
    let own = [&["watch", "--once", "--json"], filter.as_slice()].concat();
    let by_bpf = [&["watch", "--duration", "300ms", "--json"], filter.as_slice()].concat();
    for command in [own, by_bpf] {
        let ss = std::process::Command::new("ss")
            .args(["-tinmH", &format!("sport = :{port}")])
            .output()
            .map(CommandOutput::from)
            .unwrap();
        let document = test_dir.run(&command).json();
        let one = &document["connections"][0];
        let compared = compare(&ss.stdout, one, &document["looks_by"]);
        assert!(compared >= 24, "only {compared} fields are in both: {}", ss.stdout);
        assert_eq!(one["process"]["pid"], std::process::id());
    }
}

/// Compares all fields that both have; returns their number.
fn compare(ss: &str, ours: &Value, looks_by: &Value) -> usize {
    let words: Vec<&str> = ss.split_whitespace().collect();
    let of = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let info = &ours["tcp_info"];
    let mut compared = 0;
    for (theirs, own) in FIELDS {
        if let Some(value) = of(theirs) {
            assert_eq!(info[own].to_string(), value, "{theirs}: {ss}");
            compared += 1;
        }
    }
    for (theirs, own) in TIMES {
        if let Some(value) = of(theirs) {
            let us = value.trim_end_matches("ms").parse::<f64>().unwrap() * 1000.0;
            assert!((info[own].as_f64().unwrap() - us).abs() < 1.0, "{theirs}: {ss} against {info}");
            compared += 1;
        }
    }
    let (rtt, rttvar) = of("rtt").unwrap().split_once('/').unwrap();
    for (value, own) in [(rtt, "rtt_us"), (rttvar, "rttvar_us")] {
        assert!((info[own].as_f64().unwrap() - value.parse::<f64>().unwrap() * 1000.0).abs() < 1.0, "{own}");
    }
    let scales = format!("{},{}", info["snd_wscale"], info["rcv_wscale"]);
    assert_eq!(of("wscale"), Some(scales.as_str()));
    assert!(words.contains(&ours["congestion"].as_str().unwrap()), "{ss}");
    let memory = of("skmem").unwrap().trim_matches(['(', ')']).split(',');
    for part in memory {
        let (name, value) = part.split_at(part.find(|c: char| c.is_ascii_digit()).unwrap());
        let own = MEMORY.iter().find(|(theirs, _)| *theirs == name).unwrap().1;
        // eBPF's storage is charged to the socket.
        if own != "optmem" || looks_by == "sock_diag" {
            assert_eq!(ours["memory"][own].to_string(), value, "{own}: {ss}");
            compared += 1;
        }
    }
    compared + 4
}

#[test]
fn traced_losses_of_a_lab_host_match_the_labs_drops() {
    if !is_root() || !have(&["iperf3"]) {
        testing::skip(testing::Missing::Privilege, "root is needed to trace");
        return;
    }
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(LOSSY);
    let lab = Lab::up(&test_dir, &[]);
    lab.serve_iperf3("h2");
    let watched = ["watch", "--host", "h1", "--lab", &lab.name, "port", "5201"];
    let traced = ["--per-ack", "--interval", "10ms", "--duration", "6s", "--record", "--json"];
    let watching = test_dir
        .longfat(&[watched.as_slice(), &traced].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    lab.exec("h1", &["iperf3", "-c", "h2", "-t", "2", "-C", "reno"]);
    let ran = CommandOutput::from(watching.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    if ran.stderr.contains("round-trip samples are not traced") {
        testing::skip(testing::Missing::Feature, "there is no cgroup2 here");
        return;
    }
    let document = ran.json();
    assert_eq!((&document["lost_events"], &document["looks_by"]), (&0.into(), &"bpf".into()));
    let all = document["connections"].as_array().unwrap();
    let sum = |pick: fn(&Value) -> &Value| all.iter().map(|c| pick(c).as_u64().unwrap()).sum::<u64>();
    let kernel = sum(|c| &c["tcp_info"]["total_retrans"]);
    let traced = sum(|c| &c["counted"]["retransmitted_segs"]);
    let for_nothing = sum(|c| &c["tcp_info"]["dsack_dups"]);
    let status = lab.status();
    let forward = status["links"].as_array().unwrap().iter().find(|l| l["direction"] == "forward").unwrap();
    let dropped = forward["dropped_queue"].as_u64().unwrap();
    assert!(dropped > 0, "{status}");
    assert_eq!(traced, kernel, "each retransmission was traced");
    // iperf3 closes its connection at the end with data in flight, so the last drops may not be repaired.
    let repaired = traced - for_nothing;
    assert!(
        (dropped - 3..=dropped).contains(&repaired),
        "{dropped} drops, {repaired} retransmissions of them"
    );
    let bulk = all.iter().max_by_key(|c| c["tcp_info"]["bytes_acked"].as_u64()).unwrap();
    assert_eq!((&bulk["namespace"], &bulk["closed"]), (&"h1".into(), &true.into()));
    let counted = &bulk["counted"];
    let min_us = counted["round_trip_us"][0].as_u64().unwrap();
    assert!((10_000..11_500).contains(&min_us), "10 ms and the packets' time on the wire: {min_us} us");
    assert!(counted["round_trips"].as_u64() > Some(100) && counted["every_event"] == true, "{counted}");
    assert!(counted["slow_starts"].as_u64() >= Some(1) && counted["recoveries"].as_u64() >= Some(1));

    let shown = test_dir.run(&["show", "last", "--json"]).json();
    let flows = shown["runs"][0]["flows"].as_array().unwrap();
    let flow = flows.iter().max_by_key(|flow| flow["bytes"].as_u64()).unwrap();
    assert!(flow["name"].as_str().unwrap().ends_with(">10.0.0.2:5201"), "{shown}");
    assert!(flow["verdict"] == "loss" || flow["verdict"] == "path_rate", "{flow}");
    for command in [
        ["plot", "last", "-o", "w.svg"].as_slice(),
        &["report", "last", "-o", "w.html"],
        &["compare", "last", "last"],
    ] {
        let ran = test_dir.run(command);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn filter_errors_show_their_position() {
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["watch", "--once", "port", "5201", "and", "prot", "80"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("port 5201 and prot 80\n                ^^^^"), "{}", ran.stderr);
    for wrong in [
        ["watch", "--once", "--namespace", "no-such-namespace"],
        ["watch", "--once", "--interval", "1us"],
        ["watch", "--once", "--interval", "soon"],
    ] {
        assert_eq!(test_dir.run(&wrong).code, 2, "{wrong:?}");
    }
    let none = test_dir.run(&["watch", "--once", "port", "1"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "no connection matches\n"));
}

#[test]
fn web100_has_a_line_for_each_instrument() {
    let (sender, _receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let text = test_dir.run(&["watch", "--once", "--web100", "local", "port", &port]).stdout;
    assert_eq!(text.lines().filter(|line| line.starts_with("  ")).count(), watch::web100::INSTRUMENTS.len());
    let json = test_dir.run(&["watch", "--once", "--web100", "--json", "local", "port", &port]).json();
    let web100 = &json["connections"][0]["web100"];
    // On a busy machine some segments are retransmitted.
    let sent = web100["HCDataOctetsOut"]["value"].as_u64().unwrap();
    assert!((300_000..600_000).contains(&sent), "{sent}");
    assert_eq!(
        (&web100["DupAcksIn"]["value"], &web100["DupAcksIn"]["nearness"]),
        (&Value::Null, &"traced".into())
    );
}

#[test]
fn without_privilege_sampling_works_and_tracing_names_the_missing_privilege() {
    if is_root() && !have(&["setpriv"]) {
        return;
    }
    let (sender, _receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let as_nobody = |args: &[&str]| {
        let mut command = match is_root() {
            true => {
                let mut command = std::process::Command::new("setpriv");
                command.args(["--bounding-set=-all", "--inh-caps=-all", common::binary()]);
                command
            }
            false => std::process::Command::new(common::binary()),
        };
        CommandOutput::from(command.current_dir(test_dir.dir.path()).args(args).output().unwrap())
    };
    let traced = as_nobody(&["watch", "--events", "--duration", "1s", "port", &port]);
    assert_eq!(traced.code, 4, "{traced:?}");
    assert!(traced.stderr.contains("connections cannot be traced") && traced.stderr.contains("still works"));
    let sampled = as_nobody(&["watch", "--duration", "300ms", "--json", "local", "port", &port]);
    assert_eq!(sampled.code, 0, "{sampled:?}");
    let document = sampled.json();
    assert_eq!(document["looks_by"], "sock_diag");
    assert_eq!(document["connections"].as_array().unwrap().len(), 1);
}

#[test]
fn an_interrupted_watch_leaves_a_record_that_opens() {
    let (mut sender, mut receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let args = ["watch", "--record", "--no-bpf", "--interval", "20ms", "--duration", "60s", "port", &port];
    let mut watching = test_dir.longfat(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut carry = || {
        sender.write_all(&[0; 50_000]).unwrap();
        receiver.read_exact(&mut [0; 50_000]).unwrap();
    };
    carry();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("established"), "{first}");
    carry();
    std::thread::sleep(Duration::from_millis(200));
    // `env` has become the program, so this is its process.
    signal("-INT", watching.id());
    let ran = CommandOutput::from(watching.wait_with_output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?}");
    let printed = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("record: "))
        .unwrap_or_else(|| panic!("{ran:?}"));
    let shown = test_dir.run(&["show", printed.rsplit('/').next().unwrap(), "--json"]).json();
    let run = &shown["runs"][0];
    assert_eq!((&run["partial"], run["flows"].as_array().unwrap().len()), (&true.into(), 1), "{run}");
    assert!(run["flows"][0]["bytes"].as_u64() >= Some(50_000), "{run}");
}

/// eBPF samples a connection when it closes. Here no other sample follows the first one.
#[test]
fn a_record_has_the_last_bytes_of_a_connection_that_closed() {
    let (mut sender, mut receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let args = ["watch", "--record", "--interval", "60s", "--duration", "60s", "port", &port];
    let mut watching = test_dir.longfat(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    sender.write_all(&[0; 50_000]).unwrap();
    receiver.read_exact(&mut [0; 50_000]).unwrap();
    drop((sender, receiver));
    std::thread::sleep(Duration::from_millis(500));
    signal("-INT", watching.id());
    let ran = CommandOutput::from(watching.wait_with_output().unwrap());
    let record = ran.stderr.lines().find_map(|line| line.strip_prefix("record: ")).unwrap();
    let shown = test_dir.run(&["show", record.rsplit('/').next().unwrap(), "--json"]).json();
    let run = &shown["runs"][0];
    if run["quality"]["notes"].to_string().contains("sampled by sock_diag") {
        return testing::skip(testing::Missing::Privilege, "eBPF is unavailable");
    }
    // The FIN counts as a byte.
    let bytes = run["flows"][0]["bytes"].as_u64();
    assert!(matches!(bytes, Some(50_000..=50_001)), "{run}");
    assert!(run["flows"][0]["cc"].is_string(), "{run}");
}

/// `longfat watch --record ... | head -1`: the reader closes the pipe after the first line.
#[test]
fn a_closed_reader_ends_the_lines_but_not_the_record() {
    let (mut sender, mut receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    let test_dir = TestDir::new("");
    let mut carry = || {
        sender.write_all(&[0; 50_000]).unwrap();
        receiver.read_exact(&mut [0; 50_000]).unwrap();
    };
    let mut watch = |options: &[&str]| {
        let args =
            [&["watch", "--no-bpf", "--interval", "20ms"][..], options, &["port", port.as_str()]].concat();
        let mut watching =
            test_dir.longfat(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(watching.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("established"), "{first}");
        carry();
        let ran = CommandOutput::from(watching.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stderr
    };
    // Long enough for the lines after the reader has closed; bytes are carried after the first line.
    let printed = watch(&["--record", "--duration", "6s"]);
    let record = printed.lines().find_map(|line| line.strip_prefix("record: ")).expect(&printed);
    let shown = test_dir.run(&["show", record.rsplit('/').next().unwrap(), "--json"]).json();
    let run = &shown["runs"][0];
    assert!(run["partial"] != true && run["duration_s"].as_f64() > Some(4.0), "{run}");
    assert!(run["flows"][0]["bytes"].as_u64() >= Some(50_000), "{run}");
    // Without a record nothing receives the samples: the command ends, whatever its requested duration.
    let begun = std::time::Instant::now();
    watch(&["--duration", "600s"]);
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
}

#[test]
fn aggregates_are_exported_to_prometheus() {
    let (sender, _receiver) = connection();
    let port = sender.local_addr().unwrap().port().to_string();
    // A port that was free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let test_dir = TestDir::new("");
    let exporter = at.port().to_string();
    let args = ["watch", "--no-bpf", "--prometheus", &exporter, "--duration", "60s", "port", &port];
    let mut watching = test_dir.longfat(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let requested = |request: &str| -> Option<String> {
        let mut stream = TcpStream::connect(at).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut result = String::new();
        stream.read_to_string(&mut result).ok()?;
        Some(result)
    };
    let line = "longfat_connections{state=\"established\"} 2";
    let printed =
        eventually(|| requested("GET /metrics HTTP/1.0\r\n\r\n").is_some_and(|text| text.contains(line)));
    let refused = requested("POST / HTTP/1.0\r\n\r\n").unwrap_or_default();
    // Clients that send nothing are disconnected after two seconds each, and do not delay others.
    let _silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(at).unwrap()).collect();
    let begun = std::time::Instant::now();
    let served = requested("GET /metrics HTTP/1.0\r\n\r\n").is_some_and(|text| text.contains(line));
    let delay = begun.elapsed();
    signal("-TERM", watching.id());
    watching.wait().unwrap();
    assert!(printed && refused.contains(" 405 "), "{refused}");
    assert!(served && delay < Duration::from_secs(10), "{delay:?}");
}

#[test]
fn settings_of_a_connection_are_changed_and_restored() {
    let (sender, _receiver) = connection();
    let filter = format!(
        "local port {} and peer port {}",
        sender.local_addr().unwrap().port(),
        sender.peer_addr().unwrap().port()
    );
    let test_dir = TestDir::new("");
    let run = |args: &[&str]| test_dir.run(args);
    let pacing = || {
        let mut rate = 0u64;
        os::read_option(&sender, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate).unwrap();
        rate
    };
    let missing_filter = run(&["watch", "--set", "pacing=80mbit"]);
    assert_eq!(missing_filter.code, 2, "{missing_filter:?}");
    assert!(missing_filter.stderr.contains("--set needs a filter"), "{missing_filter:?}");
    let unknown = run(&["watch", "--set", "mss=1", &filter]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("known: cc, pacing, sndbuf, rcvbuf, cwnd_clamp"), "{unknown:?}");
    let nothing = run(&["watch", "--set", "pacing=80mbit", "port 1 and port 2"]);
    assert_eq!((nothing.code, nothing.stderr.contains("no connection matches")), (1, true), "{nothing:?}");

    let changed = run(&["watch", "--set", "pacing=80mbit", &filter]);
    if changed.code == 4 {
        return testing::skip(testing::Missing::Privilege, changed.stderr);
    }
    assert_eq!(changed.code, 0, "{changed:?}");
    assert!(changed.stdout.contains("pacing     unlimited -> 80 Mb/s"), "{changed:?}");
    assert!(changed.stderr.contains(&format!("undo: longfat watch --restore '{filter}'")), "{changed:?}");
    assert_eq!(pacing(), 10_000_000);
    let restored = run(&["watch", "--restore", &filter, "--json"]);
    let document: Value = serde_json::from_str(&restored.stdout).unwrap();
    assert_eq!(document["schema"], "longfat.watch.set/1");
    assert_eq!(document["connections"][0]["changes"][0]["after"]["pacing"], Value::Null);
    assert_eq!(pacing(), u64::MAX);
}

/// The rate of the healthy path falls to a fifth while the connection is watched.
#[test]
fn a_change_of_the_paths_rate_is_reported_with_its_time() {
    if !have(&["iperf3"]) {
        return;
    }
    let _slots = acquire_all_lab_slots();
    for _ in 0..3 {
        let test_dir = TestDir::new(&common::bundled_scenario("faults/healthy.toml"));
        let lab = Lab::up(&test_dir, &[]);
        lab.serve_iperf3("h2");
        let watch = [
            "watch",
            "--host",
            "h1",
            "--lab",
            &lab.name,
            "--json",
            "--duration",
            "14s",
            "peer",
            "port",
            "5201",
        ];
        let watching =
            test_dir.longfat(&watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let send = ["lab", "exec", "--lab", &lab.name, "h1", "--", "iperf3", "-c", "h2", "-t", "15"];
        let mut sending =
            test_dir.longfat(&send).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!(lab.shell(&["link s1-s2 forward rate 20mbit"]).code, 0);
        let watched = CommandOutput::from(watching.wait_with_output().unwrap()).json();
        let connections = watched["connections"].as_array().unwrap();
        let changes: Vec<&Value> =
            connections.iter().filter_map(|c| c["path_changes"].as_array()).flatten().collect();
        let _ = sending.wait();
        if let [change] = changes[..]
            && change["sentence"].as_str().unwrap().starts_with("the path's rate fell from 9")
            && (change["after_bps"].as_f64().unwrap() / 19.1e6 - 1.0).abs() < 0.1
        {
            return;
        }
        assert!(lab.status()["stalled_max_us"].as_f64().unwrap() >= 2000.0, "{changes:?}");
    }
    testing::skip(testing::Missing::QuietMachine, "the emulator stalled each time");
}
