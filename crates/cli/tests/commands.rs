//! Commands that need no lab: closed-form formulas, the model engine, records, help.

use crate::common;
use common::{
    CommandOutput, SMALL, TestDir, bundled_scenario, eventually,
    iperf3::{Running, free_port},
    lab::signal,
};

#[test]
fn bdp_computes_the_published_figures() {
    let test_dir = TestDir::new(SMALL);
    let json = test_dir.run(&["bdp", "10gbit", "50ms", "--window", "1MiB", "--json"]).json();
    assert_eq!(json["bdp_bytes"], 62_500_000);
    assert_eq!(json["utilization"], 0.0168);
    assert!((json["utilization_exact"].as_f64().unwrap() - 0.016777216).abs() < 1e-12);
    let old =
        test_dir.run(&["bdp", "10gbit", "20ms", "--buffer", "16MiB", "--kernel", "6.1", "--json"]).json();
    assert_eq!(old["buffer_window_bytes"], 8_388_608);
    assert!((old["buffer_throughput_bps"].as_f64().unwrap() / 3.355e9 - 1.0).abs() < 0.001);
    let gigabit = test_dir.run(&["bdp", "1Gb/s", "1ms", "--json"]).json();
    assert!((gigabit["udp_goodput_bps"].as_f64().unwrap() / 957e6 - 1.0).abs() < 0.001);
    assert!((gigabit["tcp_goodput_bps"].as_f64().unwrap() / 941e6 - 1.0).abs() < 0.001);
    // Published figure G-r7 (docs/reproduced.md): 2.5 Gb/s, 180 ms, MSS 1460.
    let transatlantic = test_dir.run(&["bdp", "2.5gbit", "180ms", "--mss", "1460", "--json"]).json();
    assert!((transatlantic["reno_recovery_s"].as_f64().unwrap() / 3467.0 - 1.0).abs() < 0.001);
    assert_eq!(gigabit["utilization"], serde_json::Value::Null, "without a window there is no utilization");
}

#[test]
fn bdp_explains_each_figure_and_an_ambiguous_unit() {
    let test_dir = TestDir::new(SMALL);
    let text = test_dir.run(&["bdp", "10gbit", "20ms", "--window", "8MB", "--buffer", "16MiB"]).stdout;
    assert!(text.contains("A window of 8 MB") && text.contains("A socket buffer of 16 MiB"), "{text}");
    for (args, meanings) in [
        (["10g", "20ms"], ["10 Gbit/s", "10 GB/s"]),
        (["10gbps", "20ms"], ["bit", "byte"]),
        (["10gbit", "20"], ["20ms", "20s"]),
    ] {
        let ran = test_dir.run(&[&["bdp"], args.as_slice()].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(meanings.iter().all(|m| ran.stderr.contains(m)), "{meanings:?}: {}", ran.stderr);
    }
    let impossible = test_dir.run(&["bdp", "10gbit", "0ms"]);
    assert_eq!(impossible.code, 2, "{impossible:?}");
}

#[test]
fn the_model_engine_also_computes_for_the_published_kernel() {
    let test_dir = TestDir::new(&bundled_scenario("lab8.toml"));
    let json = test_dir.run(&["run", "s.toml", "--engine", "model", "--json"]).json();
    let published = &json["published"][0];
    assert_eq!((&published["id"], &published["published"]), (&"L8-default".into(), &3e9.into()));
    let within =
        |figure: &serde_json::Value, expected: f64| (figure.as_f64().unwrap() / expected - 1.0).abs() < 0.02;
    let kernel = json["host"]["kernel"].as_str().unwrap();
    let newer =
        !kernel.starts_with("5.") && kernel[2..].split('.').next().unwrap().parse::<u32>().unwrap() >= 6;
    if kernel.starts_with("6.") && newer {
        assert!(within(&published["model_published_kernel"], 3.32e9), "{published}");
        assert_eq!(published["verdict"], "differs");
    }
    let tuned = &json["runs"][1]["flows"][0];
    assert!(within(&tuned["steady_goodput_bps"], 9.564e9), "{tuned}");
    assert_eq!(tuned["verdict"], "path_rate");
}

#[test]
fn records_are_listed_shown_compared_drawn_and_reported() {
    let test_dir = TestDir::new(&bundled_scenario("verdicts.toml"));
    let json = test_dir.run(&["run", "s.toml", "--engine", "model", "--report", "r.html", "--json"]).json();
    let ids: Vec<&str> = json["runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5);
    let listed = test_dir.run(&["ls", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 5);
    let shown = test_dir.run(&["show", ids[2]]);
    assert!(shown.stdout.contains("path rate"), "{shown:?}");
    let compared = test_dir.run(&["compare", ids[0], ids[2], "--json"]).json();
    assert_eq!((&compared["a"], &compared["b"]), (&ids[0].into(), &ids[2].into()));
    let page = test_dir.run(&["report", ids[0], ids[2], "-o", "page.html", "--json"]).json();
    assert_eq!(page["written"], "page.html");
    for name in ["r.html", "page.html"] {
        let html = std::fs::read_to_string(test_dir.path(name)).unwrap();
        assert!(html.starts_with("<!doctype html>") && html.contains("receive window"), "{name}");
        let html = html.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http://", "https://", " src=", "url(", "@import"] {
            assert!(!html.contains(reference), "{name} must open offline, but has {reference}");
        }
    }
    for args in [
        &["show", "nosuchrun"][..],
        &["plot", ids[0], "--metric", "warp", "-o", "x.svg"],
        &["compare", ids[0], "x"],
    ] {
        let ran = test_dir.run(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{ran:?}");
    }
}

#[test]
fn runs_of_a_changed_scenario_differ_from_the_published_one() {
    let test_dir = TestDir::new(&bundled_scenario("lab8.toml"));
    let slow =
        ["--set", "links.s1-s2.forward.rate=1gbit", "--variant", "tuned", "--engine", "model", "--json"];
    let json = test_dir.run(&[&["run", "s.toml"], &slow[..]].concat()).json();
    let shown = test_dir.run(&["show", "last", "--json"]).json();
    for document in [&json, &shown] {
        assert_eq!(document["published"][0]["verdict"], "differs", "{document}");
    }
    // A report that cannot be written is refused before anything is run.
    let ran = test_dir.run(&["run", "s.toml", "--engine", "model", "--report", "nowhere/r.html"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_eq!(
        test_dir.run(&["ls", "--json"]).json().as_array().unwrap().len(),
        1,
        "the refused command must not run anything"
    );
}

#[test]
fn help_and_usage_errors_are_printed() {
    let test_dir = TestDir::new(SMALL);
    let help = test_dir.run(&["--help"]);
    assert_eq!(help.code, 0);
    for command in
        ["bdp", "run", "lab", "ls", "show", "compare", "plot", "report", "--json", "--runs", "Exit codes"]
    {
        assert!(help.stdout.contains(command), "{command} is not in {}", help.stdout);
    }
    assert_eq!(test_dir.run(&["frobnicate"]).code, 2);
    assert_eq!(test_dir.run(&["lab", "clean"]).code, 0);
}

#[test]
fn longfat_log_selects_messages_on_standard_error() {
    let test_dir = TestDir::new(SMALL);
    let run = |filter: &str| {
        let mut command = test_dir.longfat(&["run", "s.toml", "--engine", "sim"]);
        CommandOutput::from(command.env("LONGFAT_LOG", filter).output().unwrap())
    };
    let logged = run("experiment=info");
    assert_eq!(logged.code, 0, "{logged:?}");
    assert!(logged.stderr.contains(" INFO experiment::run_job: starts run=\"s"), "{}", logged.stderr);
    assert!(!logged.stdout.contains("INFO"), "{}", logged.stdout);
    assert!(!run("lab=trace").stderr.contains("INFO"), "the filter selects another crate");
    let refused = run("experiment=loud");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("LONGFAT_LOG=experiment=loud is not a log filter"), "{}", refused.stderr);
}

#[test]
fn agent_check_warns_if_others_can_read_without_a_token() {
    let test_dir = TestDir::new(SMALL);
    let created = test_dir.run(&["agent", "init", "--name", "a", "--address", "127.0.0.1", "--dir", "a"]);
    assert_eq!(created.code, 0, "{created:?}");
    let file = test_dir.path("a/agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (http, warns) in [
        ("listen = \"127.0.0.1:4863\"\n", false),
        ("listen = \"0.0.0.0:4863\"\n", true),
        ("listen = \"0.0.0.0:4863\"\nread = \"token\"\n", false),
    ] {
        std::fs::write(&file, format!("{text}\n[http]\n{http}")).unwrap();
        let checked = test_dir.run(&["agent", "check", "--dir", "a"]);
        assert_eq!(checked.code, 0, "{checked:?}");
        let warning = "warning: hosts that reach 0.0.0.0:4863 can read";
        assert_eq!(checked.stdout.contains(warning), warns, "{checked:?}");
        let checked = test_dir.run(&["agent", "check", "--dir", "a", "--json"]).json();
        assert_eq!(checked["http_is_open_to_others"], warns);
    }
}

#[test]
fn an_agent_prints_its_warnings_without_longfat_log() {
    let test_dir = TestDir::new(SMALL);
    let listen = format!("127.0.0.1:{}", free_port());
    let init =
        ["agent", "init", "--name", "a", "--listen", listen.as_str(), "--address", "127.0.0.1", "--dir", "a"];
    let created = test_dir.run(&init);
    assert_eq!(created.code, 0, "{created:?}");
    let mut shell = test_dir.with_longfat("sh");
    shell.args(["-c", "exec longfat agent run --dir a 2> log"]).env_remove("LONGFAT_LOG");
    let agent = Running::start(&mut shell);
    let log = || std::fs::read_to_string(test_dir.path("log")).unwrap_or_default();
    assert!(eventually(|| log().contains("the point a listens on")), "{}", log());
    let file = test_dir.path("a/agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace("5202-5299", "6000-6010");
    assert_ne!(changed, text);
    std::fs::write(&file, changed).unwrap();
    signal("-HUP", agent.id());
    let warning = "these keys take effect when the agent is started again: test_ports";
    assert!(eventually(|| log().contains(warning)), "{}", log());
    assert!(!log().contains(" INFO "), "{}", log());
}
