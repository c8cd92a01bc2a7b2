//! Flows of UDT, Tsunami and QUIC in scenarios: simulated beside TCP, in the lab, and compared.

use std::path::Path;

use serde_json::Value;

use crate::common::{
    TestDir, binary, eventually, is_root,
    lab::{Lab, Served, signal},
    lab_slots::acquire_all_lab_slots,
};

/// A path of 100 Mb/s and 20 ms, and these flows from h1 to h2.
fn scenario(top: &str, forward: &str, flows: &[&str]) -> String {
    let flow = |(number, keys): (usize, &&str)| {
        format!("[[flows]]\nname = \"f{}\"\nfrom = \"h1\"\nto = \"h2\"\n{keys}\n", number + 1)
    };
    let flows: String = flows.iter().enumerate().map(flow).collect();
    format!(
        r#"{top}
fixed_neighbours = true
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
name = "path"
ends = ["h1", "h2"]
forward = {{ {forward} }}
backward = {{ delay = "10ms" }}
{flows}"#
    )
}

fn goodput(run: &Value, flow: usize) -> f64 {
    run["flows"][flow]["goodput_bps"].as_f64().unwrap()
}

#[test]
fn all_transports_share_a_simulated_path_with_tcp() {
    let forward = "rate = \"100mbit\", delay = \"10ms\", queue = \"250kB\"";
    let flows = ["kind = \"udt\"", "kind = \"tsunami\"\nrate = \"40mbit\"", "cc = \"cubic\""];
    let test_dir = TestDir::new(&scenario("duration = \"20s\"", forward, &flows));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "sim"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for flow in ["f1", "f2", "f3"] {
        assert!(ran.stdout.contains(flow), "{}", ran.stdout);
    }
    let json = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
    let run = &json["runs"][0];
    let kinds: Vec<&Value> = run["flows"].as_array().unwrap().iter().map(|flow| &flow["kind"]).collect();
    assert_eq!(kinds, ["udt", "tsunami", "tcp"]);
    assert!((20e6..40e6).contains(&goodput(run, 1)), "{run}");
    let sum: f64 = (0..3).map(|flow| goodput(run, flow)).sum();
    assert!((70e6..97e6).contains(&sum), "{run}");
    assert!(run["fairness_jain"].as_f64().unwrap() < 1.0);
    // The picture has the rate of each.
    let drawn = test_dir.run(&["plot", "last", "--metric", "goodput,rtt", "-o", "picture.svg"]);
    assert_eq!(drawn.code, 0, "{drawn:?}");
    assert!(std::fs::read_to_string(test_dir.path("picture.svg")).unwrap().contains("f2"));
}

#[test]
fn verdicts_name_the_rate_the_path_and_losses() {
    let forward = "rate = \"100mbit\", delay = \"10ms\", queue = \"500kB\"";
    let verdict = |forward: &str, flow: &str| {
        let test_dir = TestDir::new(&scenario("duration = \"20s\"", forward, &[flow]));
        let json = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
        json["runs"][0]["flows"][0].clone()
    };
    let paced = verdict(forward, "kind = \"tsunami\"\nrate = \"40mbit\"");
    assert_eq!(paced["verdict"], "pacing", "{paced}");
    assert!(paced["evidence"][0].as_str().unwrap().contains("40 Mb/s"), "{paced}");
    let full = verdict(forward, "kind = \"udt\"\nrate = \"110mbit\"");
    assert_eq!(full["verdict"], "path_rate", "{full}");
    let lossy = verdict(&format!("{forward}, loss = 0.003"), "kind = \"udt\"");
    assert_eq!(lossy["verdict"], "loss", "{lossy}");
    assert!(lossy["remedy"].as_str().unwrap().contains("tolerate_loss"), "{lossy}");
    let small = verdict(forward, "kind = \"udt\"\nreceive_buffer = \"60kB\"");
    assert_eq!(small["verdict"], "receive_window", "{small}");
    assert!(small["remedy"].as_str().unwrap().contains("receive_buffer"), "{small}");
}

#[test]
fn quic_shares_a_simulated_path_and_its_verdicts_name_the_limits() {
    let forward = "rate = \"100mbit\", delay = \"10ms\", queue = \"250kB\"";
    let flows = ["kind = \"quic\"", "kind = \"quic\"\ncc = \"reno\"", "cc = \"cubic\""];
    let test_dir = TestDir::new(&scenario("duration = \"10s\"", forward, &flows));
    let [first, second] =
        [(), ()].map(|()| test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json());
    assert_eq!(first["runs"][0]["flows"], second["runs"][0]["flows"]);
    let run = &first["runs"][0];
    assert_eq!((&run["flows"][0]["cc"], &run["flows"][1]["cc"]), (&"cubic".into(), &"reno".into()), "{run}");
    let sum: f64 = (0..3).map(|flow| goodput(run, flow)).sum();
    assert!((80e6..96e6).contains(&sum), "{run}");
    let verdict = |forward: &str, flow: &str| {
        let test_dir = TestDir::new(&scenario("duration = \"10s\"", forward, &[flow]));
        let json = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json();
        json["runs"][0]["flows"][0].clone()
    };
    let full = verdict(forward, "kind = \"quic\"");
    assert_eq!(full["verdict"], "path_rate", "{full}");
    let lossy = verdict(&format!("{forward}, loss = 0.003"), "kind = \"quic\"");
    assert_eq!(lossy["verdict"], "loss", "{lossy}");
    let small = verdict(forward, "kind = \"quic\"\nreceive_buffer = \"60kB\"");
    assert_eq!(small["verdict"], "receive_window", "{small}");
    assert!(small["evidence"].to_string().contains("flow-control window has 60,000 bytes"), "{small}");
}

#[test]
fn mistakes_in_a_quic_flow_are_reported_with_their_position() {
    let mistake = |top: &str, flow: &str| {
        let text = scenario(top, "rate = \"100mbit\"", &[flow]);
        let ran = TestDir::new(&text).run(&["run", "s.toml", "--engine", "sim"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.stderr
    };
    let unknown = mistake("duration = \"1s\"", "kind = \"quic\"\ncc = \"cubix\"");
    assert!(unknown.contains("longfat has no congestion control \"cubix\""), "{unknown}");
    let pacing = mistake("duration = \"1s\"", "kind = \"quic\"\npacing = \"1gbit\"");
    assert!(pacing.contains("unknown key \"pacing\" in a quic flow"), "{pacing}");
    let small = mistake("duration = \"1s\"", "kind = \"quic\"\n[hosts.\"*\"]\nmtu = 1000");
    assert!(small.contains("QUIC needs packets of 1228 bytes, and h1 has an MTU of 1000"), "{small}");
}

#[test]
fn the_model_states_that_it_has_no_closed_form() {
    let test_dir = TestDir::new(&scenario(
        "duration = \"5s\"",
        "rate = \"100mbit\", delay = \"10ms\"",
        &["kind = \"udt\""],
    ));
    let json = test_dir.run(&["run", "s.toml", "--engine", "model", "--json"]).json();
    let notes = json["runs"][0]["quality"]["notes"].to_string();
    assert!(notes.contains("the model ignores flows.f1: there is no closed form for it"), "{json}");
}

/// The play-out of a stream, in the table and in JSON.
#[test]
fn a_stream_is_sustainable_up_to_the_remaining_rate_of_the_path() {
    let forward = "rate = \"100mbit\", delay = \"10ms\", queue = \"250kB\", overhead = 38";
    let run = |keys: &str| {
        let flow = format!("kind = \"stream\"\n{keys}");
        let test_dir = TestDir::new(&scenario("duration = \"10s\"", forward, &[&flow]));
        let text = test_dir.run(&["run", "s.toml", "--engine", "sim"]).stdout;
        (
            text,
            test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]).json()["runs"][0]["flows"][0]
                .clone(),
        )
    };
    let (text, flow) = run("rate = \"40mbit\"");
    assert!(text.contains("SUSTAINABLE") && text.contains("yes, up to"), "{text}");
    let stream = &flow["stream"];
    assert_eq!((&stream["is_sustainable"], &stream["in_time_share"]), (&true.into(), &1.0.into()), "{flow}");
    // 1464 of 1538 bytes on the wire are payload: 95.2 of 100 Mb/s.
    let sustainable_bps = stream["sustainable_up_to_bps"].as_f64().unwrap();
    assert!((94e6..96.5e6).contains(&sustainable_bps), "{flow}");
    let (text, flow) = run("rate = \"120mbit\"");
    assert!(text.contains("no, up to"), "{text}");
    assert_eq!(
        (&flow["stream"]["is_sustainable"], &flow["verdict"]),
        (&false.into(), &"path_rate".into()),
        "{flow}"
    );
}

/// Wide bounds: a lab on a busy machine delays packets. docs/transports.md has 20 paths.
#[test]
fn simulator_and_lab_agree_on_four_paths() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return testing::skip(testing::Missing::Privilege, "labs need a privilege");
    }
    let _slot = acquire_all_lab_slots();
    let paths = [
        ("rate = \"50mbit\", delay = \"10ms\", queue = \"200p\"", "kind = \"udt\""),
        (
            "rate = \"100mbit\", delay = \"5ms\", queue = \"100p\", loss = 0.001",
            "kind = \"tsunami\"\nrate = \"60mbit\"",
        ),
        ("rate = \"50mbit\", delay = \"10ms\", queue = \"200p\"", "kind = \"quic\""),
        (
            "rate = \"80mbit\", delay = \"20ms\", queue = \"300p\", loss = 0.002",
            "kind = \"udt\"\ntolerate_loss = \"1%\"",
        ),
    ];
    for (forward, flow) in paths {
        let test_dir = TestDir::new(&scenario("duration = \"10s\"", forward, &[flow]));
        let mut tried = Vec::new();
        let agrees = (0..4).any(|_| {
            let json = test_dir.run(&["run", "s.toml", "--engine", "sim,lab", "--json"]).json();
            let runs = json["runs"].as_array().unwrap();
            let of = |engine: &str| runs.iter().find(|run| run["engine"] == engine).unwrap();
            let (simulated, measured) = (goodput(of("sim"), 0), goodput(of("lab"), 0));
            let is_reliable = of("lab")["quality"]["ok"] == true;
            tried.push((simulated, measured, is_reliable));
            is_reliable && (0.75..1.33).contains(&(measured / simulated))
        });
        if !agrees && tried.iter().all(|(.., is_reliable)| !is_reliable) {
            return testing::skip(
                testing::Missing::QuietMachine,
                format_args!("no lab run of {flow} was reliable"),
            );
        }
        assert!(agrees, "{flow} over {forward}: {tried:?}");
    }
}

/// A tenth of the rate: each transport delivers data, alone and beside TCP, with little overhead unless it
/// overloads the path.
#[test]
fn the_built_in_sweep_compares_all_transports() {
    let test_dir = TestDir::new("");
    let args = [
        "sweep",
        "transports",
        "--engine",
        "sim",
        "--set",
        "duration=4s",
        "--set",
        "links.bottleneck.forward.rate=80mbit",
        "--metric",
        "flows.bulk.overhead",
        "--json",
    ];
    let json = test_dir.run(&args).json();
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 3 * 4 * 2 * 4);
    for point in points {
        let overhead = point["figures"][0].as_f64().unwrap();
        // Tsunami's target is eight times this path's rate.
        let max_overhead = if point["sweep"]["flows.bulk.kind"] == "tsunami" { 8.0 } else { 1.5 };
        assert!((1.0..max_overhead).contains(&overhead), "{point}");
    }
}

/// `longfat stream` over a path of 50 Mb/s between two hosts of a lab: the rates up to that of the path are
/// sustainable.
#[test]
fn streams_between_hosts_find_the_rate_that_a_path_sustains() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return testing::skip(testing::Missing::Privilege, "labs need a privilege");
    }
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(&scenario(
        "duration = \"10s\"",
        "rate = \"50mbit\", delay = \"10ms\", queue = \"500kB\"",
        &[],
    ));
    let lab = Lab::up(&test_dir, &[]);
    let _server = Served::on(&lab, "h2", &[]);
    // On a busy machine the sender skips packets, which is not a limit of the path.
    let streamed = (0..5).find_map(|_| {
        let args = [
            "stream",
            "10.0.0.2",
            "--rate",
            "20mbit,80mbit",
            "--time",
            "3s",
            "--tolerate-loss",
            "10",
            "--deadline",
            "300ms",
            "--json",
        ];
        let streamed = lab.exec("h1", &[&[binary()], &args[..]].concat());
        assert_eq!(streamed.code, 0, "{streamed:?}");
        let json = streamed.json();
        (json["runs"].as_array().unwrap().len() == 2).then_some(json)
    });
    let Some(json) = streamed else {
        return testing::skip(testing::Missing::QuietMachine, "the sender was stalled in each attempt");
    };
    assert_eq!(json["sustainable_up_to_bps"], 20e6, "{json}");
    let stream = |run: usize| &json["runs"][run]["flows"][0]["stream"];
    assert_eq!(
        (&stream(0)["is_sustainable"], &stream(1)["is_sustainable"]),
        (&true.into(), &false.into()),
        "{json}"
    );
    let arrived = stream(1)["sustainable_up_to_bps"].as_f64().unwrap();
    assert!((30e6..50e6).contains(&arrived), "{json}");
    let evidence = json["runs"][1]["flows"][0]["evidence"].to_string();
    assert!(evidence.contains("lost on the path"), "{json}");
}

/// `longfat send` between two hosts of a lab over a path that loses packets, by each protocol. The sender is
/// killed and continues.
#[test]
fn each_protocol_sends_files_over_a_lossy_path_and_resumes_after_a_kill() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return testing::skip(testing::Missing::Privilege, "labs need a privilege");
    }
    let _slot = acquire_all_lab_slots();
    let forward = "rate = \"100mbit\", delay = \"5ms\", queue = \"250kB\", loss = 0.001";
    let test_dir = TestDir::new(&scenario("duration = \"10s\"", forward, &[]));
    let lab = Lab::up(&test_dir, &[]);
    let content: Vec<u8> = (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (sent, received) = (test_dir.path("sent"), test_dir.path("received"));
    std::fs::write(&sent, &content).unwrap();
    std::fs::create_dir(&received).unwrap();
    let receive = format!("{} receive {} --no-token >/dev/null 2>&1 & echo $!", binary(), received.display());
    let receiver: u32 = lab.sh("h2", &receive).stdout.trim().parse().unwrap();
    assert!(eventually(|| lab.sh("h2", "cat /proc/net/tcp6").stdout.contains(":B491 ")), "no receiver");

    let protocols: [&[&str]; 6] = [
        &["tcp"],
        &["tcp", "--streams", "4"],
        &["udt", "--tolerate-loss", "1"],
        &["sabul"],
        &["tsunami", "--rate", "60mbit"],
        &["quic", "--cc", "bbr"],
    ];
    for protocol in protocols {
        let arrived = received.join("sent");
        let temporary = received.join(".sent.longfat-new");
        let send =
            [&[binary(), "send", sent.to_str().unwrap(), "10.0.0.2:", "--json", "--protocol"], protocol];
        let send = send.concat();
        let line = format!("{} >/dev/null 2>&1 & echo $!", send.join(" "));
        let sender: u32 = lab.sh("h1", &line).stdout.trim().parse().unwrap();
        // The file's length includes gaps, which do not count for the resumption.
        let has_begun =
            || std::fs::metadata(&temporary).is_ok_and(|file| file.len() > 500_000) || arrived.exists();
        assert!(eventually(has_begun), "{protocol:?}");
        // The process may already have ended.
        lab.sh("h1", &format!("kill -KILL {sender} 2>/dev/null; true"));
        // The receiver may still hold the file's lock.
        let sent_whole = || {
            let ran = lab.exec("h1", &send);
            assert!(ran.code == 0 || ran.stderr.contains("another transfer"), "{protocol:?} {ran:?}");
            ran.code == 0
        };
        assert!(eventually(sent_whole), "{protocol:?}");
        assert!(std::fs::read(&arrived).unwrap() == content, "{protocol:?}");
        std::fs::remove_file(&arrived).unwrap();
    }
    signal("-TERM", receiver);
}
