//! First steps of researchers: built-in scenarios by name, a new scenario file, a path without a file, plots
//! for a paper, the source of a congestion control, and the table of all runs.

use crate::common::{SMALL, TestDir};

/// Flags of a path that is simulated quickly.
const PATH: [&str; 9] = ["run", "--rate", "20mbit", "--rtt", "10ms", "--duration", "1s", "--engine", "sim"];

#[test]
fn a_built_in_scenario_is_found_by_name_unless_a_file_has_that_name() {
    let test_dir = TestDir::new(SMALL);
    let run = test_dir.run(&["run", "lab8", "--engine", "model", "--json"]).json();
    assert_eq!((run["scenario"].as_str(), run["runs"].as_array().unwrap().len()), (Some("lab8"), 2));
    let listed = test_dir.run(&["scenario", "list", "--json"]).json();
    let listed = listed["scenarios"].as_array().unwrap().clone();
    let of = |name: &str| listed.iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(of("dsl")["collection"], "gallery");
    assert_eq!(of("udp")["collection"], "sweeps");
    let shown = test_dir.run(&["scenario", "show", "gallery/dsl.toml"]);
    assert!(shown.stdout.contains(of("dsl")["title"].as_str().unwrap()), "{shown:?}");
    std::fs::write(test_dir.path("lab8"), SMALL).unwrap();
    let own = test_dir.run(&["scenario", "validate", "lab8", "--json"]).json();
    assert_eq!(own["files"][0]["summary"]["title"], "small");
    std::fs::create_dir(test_dir.path("dsl")).unwrap();
    let built_in = test_dir.run(&["scenario", "validate", "dsl", "--json"]).json();
    assert_eq!(built_in["files"][0]["summary"]["flows"], 2, "a directory is not a scenario file");
}

#[test]
fn for_an_unknown_name_the_nearest_are_listed() {
    let test_dir = TestDir::new(SMALL);
    for command in ["sweep", "run"] {
        let ran = test_dir.run(&[command, "lab9"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        let near = ran.stderr.find("nearest names: lab8").unwrap_or_else(|| panic!("{ran:?}"));
        assert!(near < ran.stderr.find("socket-buffers").unwrap(), "{ran:?}");
    }
}

/// The records do not exist, so any other error would come first.
#[test]
fn options_of_pictures_and_reports_are_checked_before_any_work() {
    let test_dir = TestDir::new(SMALL);
    for (args, expected) in [
        (&["plot", "nosuch", "--size", "100x100"][..], "at least 320 pixels"),
        (&["plot", "nosuch", "--size", "400x100"], "too low for 3 panels"),
        (&["plot", "nosuch", "--metric", "goodputt"], "goodputt"),
        (&["plot", "nosuch", "--cdf", "rrt"], "rrt"),
        (&["plot", "nosuch", "--box", "rtt", "--size", "100x100"], "at least 320 pixels"),
        (&["plot", "nosuch", "--against", "rrt"], "rrt"),
        (&["plot", "nosuch", "--from", "5s", "--to", "4s"], "not before"),
        (&["plot", "nosuch", "-o", "no/where.svg"], "directory does not exist"),
        (&["report", "nosuch", "-o", "no/where.html"], "directory does not exist"),
        (&["export", "csv", "nosuch", "-o", "no/where.csv"], "directory does not exist"),
        (&["run", "nosuch", "--report", "no/where.html"], "directory does not exist"),
        (&["run", "nosuch", "--report", "page.pdf"], ".html"),
        (&["sweep", "nosuch", "-o", "x.svg", "--size", "100x100"], "at least 320 pixels"),
        (&["reproduce", "nosuch", "--report", "no/where.html"], "directory does not exist"),
        (&["probe", "buffer", "192.0.2.1", "--plot", "no/where.svg"], "directory does not exist"),
        (&["probe", "buffer", "192.0.2.1", "--plot", "x.png"], ".svg"),
    ] {
        let ran = test_dir.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{args:?}: {ran:?}");
    }
}

/// A key of links, flows or hosts has a longer path; `title` is that of the output.
#[test]
fn errors_of_set_and_over_name_the_whole_path_of_a_key() {
    let test_dir = TestDir::new(SMALL);
    for (option, expected) in [
        ("--over=rtt=10ms,20ms", "sum of the delays of both directions: write links.h1-s1.both.delay"),
        ("--set=bandwidth=1gbit", "write links.h1-s1.forward.rate"),
        ("--set=cc=reno", "write flows.bulk.cc"),
        ("--set=mtu=9000", "write hosts.*.mtu"),
        ("--set=net.ipv4.tcp_rmem=1 2 3", "hosts.*.sysctl"),
    ] {
        let ran = test_dir.run(&["sweep", "s.toml", "--engine", "model", option]);
        assert_eq!(ran.code, 2, "{option}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{option}: {ran:?}");
    }
    let titled = ["run", "s.toml", "--engine", "model", "--set", "title=My path", "--set", "flows.*.cc=reno"];
    let ran = test_dir.run(&titled);
    assert!(ran.code == 0 && ran.stdout.starts_with("My path\n"), "{ran:?}");
    let shown = test_dir.run(&["show", "last", "--json"]).json();
    assert_eq!((&shown["title"], &shown["runs"][0]["flows"][0]["cc"]), (&"My path".into(), &"reno".into()));
    let swept = test_dir.run(&[
        "sweep",
        "s.toml",
        "--engine",
        "model",
        "--over",
        "duration=1s,2s",
        "--set",
        "title=C",
    ]);
    assert!(swept.stdout.starts_with("C\n"), "{swept:?}");
}

#[test]
fn validate_summarizes_files_and_reports_all_mistakes() {
    let test_dir = TestDir::new(SMALL);
    let ok = test_dir.run(&["scenario", "validate", "s.toml", "lab8"]);
    assert_eq!(ok.code, 0, "{ok:?}");
    assert!(ok.stdout.contains("s.toml: ok: 2 hosts, 1 switch, 2 links, 1 flow, 1 s\n"), "{ok:?}");
    assert!(ok.stdout.contains("2 variants (default, tuned)"), "{ok:?}");
    std::fs::write(test_dir.path("bad.toml"), "duration = 5\nsampel = \"1ms\"\n").unwrap();
    let own = SMALL.replace("cc = \"cubic\"", "cc = { name = \"cubic\", nosuch = 1 }");
    std::fs::write(test_dir.path("cc.toml"), own).unwrap();
    let files = ["scenario", "validate", "bad.toml", "s.toml", "cc.toml", "nothing.toml"];
    let ran = test_dir.run(&files);
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["bad.toml:1:12", "bad.toml:2:1", "no parameter \"nosuch\"", "cannot read nothing.toml"] {
        assert!(ran.stderr.contains(part), "{part} in {ran:?}");
    }
    assert!(ran.stdout.contains("s.toml: ok") && ran.stderr.contains("3 of 4 scenario files"), "{ran:?}");
    let json = test_dir.run(&[&files[..], &["--json"]].concat());
    assert_eq!(json.code, 2, "{json:?}");
    let document = json.parsed();
    let ok: Vec<bool> =
        document["files"].as_array().unwrap().iter().map(|f| f["ok"].as_bool().unwrap()).collect();
    assert_eq!(ok, [false, true, false, false]);
    assert_eq!(document["files"][0]["mistakes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_new_file_runs_and_is_not_overwritten() {
    let test_dir = TestDir::new(SMALL);
    let new = |more: &[&str]| {
        let args =
            ["scenario", "new", "--rate", "20mbit", "--rtt", "10ms", "--duration", "1s", "-o", "n.toml"];
        test_dir.run(&[&args[..], more].concat())
    };
    assert_eq!(new(&["--loss", "0.1%", "--cc", "reno"]).code, 0);
    let text = std::fs::read_to_string(test_dir.path("n.toml")).unwrap();
    assert!(text.contains("loss = \"0.1%\"") && text.contains("cc = \"reno\""), "{text}");
    let again = new(&[]);
    assert_eq!((again.code, again.stderr.contains("--force")), (2, true), "{again:?}");
    assert_eq!(std::fs::read_to_string(test_dir.path("n.toml")).unwrap(), text);
    assert_eq!(new(&["--force"]).code, 0);
    let run = test_dir.run(&["run", "n.toml", "--engine", "sim", "--json"]).json();
    assert!(run["runs"][0]["flows"][0]["goodput_bps"].as_f64().unwrap() > 1e6, "{run}");
    let template = test_dir.run(&["scenario", "new", "--template", "dsl"]);
    assert_eq!(template.stdout, test_dir.run(&["scenario", "show", "dsl"]).stdout);
    let unknown = test_dir.run(&["scenario", "new", "--template", "lab9"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("lab8"), "{unknown:?}");
    let wrong = test_dir.run(&["scenario", "new", "--mtu", "7"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("mtu"), "{wrong:?}");
}

#[test]
fn a_path_without_a_file_compares_congestion_controls_and_keeps_its_scenario() {
    let test_dir = TestDir::new(SMALL);
    let ran = test_dir.run(&[&PATH[..], &["--cc", "cubic,reno", "--loss", "1%", "--json"]].concat()).json();
    let runs = ran["runs"].as_array().unwrap();
    let variants: Vec<&str> = runs.iter().map(|run| run["variant"].as_str().unwrap()).collect();
    assert_eq!(
        (ran["scenario"].as_str(), variants),
        (Some("path-20mbit-10ms-loss-1pct"), vec!["cubic", "reno"])
    );
    let id = runs[1]["id"].as_str().unwrap();
    let kept = std::fs::read_to_string(
        test_dir.path("runs/path-20mbit-10ms-loss-1pct").join(id).join("scenario.toml"),
    );
    let kept = kept.unwrap();
    assert!(kept.contains("reno") && kept.contains("loss"), "{kept}");
    let args = [
        "--rate",
        "20mbit",
        "--rtt",
        "10ms",
        "--duration",
        "1s",
        "--over",
        "flows.bulk.streams=1,2",
        "--json",
    ];
    let sweep = test_dir.run(&[&["sweep"], &args[..]].concat()).json();
    assert_eq!(sweep["points"].as_array().unwrap().len(), 2);
    for (args, part) in [
        (vec!["run"], "give a scenario file"),
        (vec!["run", "--rate", "1gbit"], "needs --rate and --rtt"),
        (vec!["run", "s.toml", "--rtt", "1ms"], "--set"),
        (vec!["sweep"], "give a scenario file"),
    ] {
        let ran = test_dir.run(&args);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{args:?}: {ran:?}");
    }
}

#[test]
fn the_table_has_a_row_for_each_run_and_flow() {
    let test_dir = TestDir::new(SMALL);
    test_dir.run(&[&PATH[..], &["--cc", "cubic,reno", "--json"]].concat()).json();
    test_dir.run(&["run", "s.toml", "--engine", "model", "--json"]).json();
    let table = |keys: &[&str], file: &str| {
        test_dir.run(&[&["export", "table"], keys, &["-o", file, "--json"]].concat())
    };
    // The key of a run is given twice: its row occurs once.
    let all = table(&["path-20mbit-10ms/", "last", "last"], "t.csv").json();
    assert_eq!((all["runs"].as_u64(), all["rows"].as_u64()), (Some(3), Some(3)));
    let text = std::fs::read_to_string(test_dir.path("t.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column =
        |name: &str| names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("{name}"));
    let rows: Vec<Vec<&str>> = lines.collect();
    let scenarios: Vec<&str> = rows.iter().map(|row| row[column("scenario")]).collect();
    assert_eq!(scenarios, ["path-20mbit-10ms", "path-20mbit-10ms", "s"]);
    for row in &rows[..2] {
        let number = |name: &str| row[column(name)].parse::<f64>().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            number("goodput_bps") > 1e6 && number("min_rtt_s") > 0.009 && number("min_rtt_s") < 0.1,
            "{row:?}"
        );
    }
    assert_eq!(table(&["last"], "t.parquet").code, 0);
    assert!(std::fs::read(test_dir.path("t.parquet")).unwrap().starts_with(b"PAR1"));
    for (keys, file, part) in
        [(["last"], "t.xls", ".parquet or .csv"), (["nosuch/"], "t.csv", "no run of scenario")]
    {
        let ran = table(&keys, file);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{ran:?}");
    }
}

#[test]
fn a_plot_has_the_requested_size_font_and_style() {
    let test_dir = TestDir::new(SMALL);
    test_dir.run(&[&PATH[..], &["--cc", "cubic,reno", "--json"]].concat()).json();
    let plot = |more: &[&str]| test_dir.run(&[&["plot", "last", "last~1"], more].concat());
    let paper = plot(&["--size", "700x640", "--font-size", "14", "--style", "paper"]);
    assert_eq!(paper.code, 0, "{paper:?}");
    assert!(paper.stdout.contains("width=\"700\" height=\"640\""), "{paper:?}");
    assert!(paper.stdout.contains(".lf .bg{fill:none}") && !paper.stdout.contains("limited by"), "{paper:?}");
    assert!(plot(&[]).stdout.contains("limited by"));
    let small = plot(&["--size", "700x100"]);
    assert!(small.code == 2 && small.stderr.contains("too low for 3 panels"), "{small:?}");
    // With a width alone, the height follows from the content.
    assert_eq!(plot(&["--size", "700"]).code, 0);
    assert_eq!(plot(&["--size", "700x"]).code, 2);
}

#[test]
fn an_algorithm_is_shown_with_parameters_source_and_kernel_file() {
    let test_dir = TestDir::new(SMALL);
    let griddt = test_dir.run(&["cc", "show", "griddt"]);
    assert_eq!(griddt.code, 0, "{griddt:?}");
    for part in ["Grid DT", "a = 1 (number)", "reference_rtt_us = 10000 (microseconds)", "SEC(\"license\")"] {
        assert!(griddt.stdout.contains(part), "{part} in {griddt:?}");
    }
    let source = test_dir.run(&["cc", "show", "griddt", "--source"]).stdout;
    assert!(source.starts_with("/* SPDX") && griddt.stdout.contains(source.trim_end()), "{source}");
    let kernel = test_dir.run(&["cc", "show", "yeah"]);
    assert!(kernel.code == 0 && kernel.stdout.contains("net/ipv4/tcp_yeah.c"), "{kernel:?}");
    let unknown = test_dir.run(&["cc", "show", "cubik"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("the nearest are cubic, "), "{unknown:?}");
    assert_eq!(test_dir.run(&["cc", "show", "yeah", "--source"]).code, 2);
    let json = test_dir.run(&["cc", "show", "cubic", "--json"]).json();
    assert_eq!(json["kernel"]["file"], "net/ipv4/tcp_cubic.c");
    assert!(json["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "beta"), "{json}");
}

#[test]
fn a_new_file_can_be_named_without_an_option() {
    let test_dir = TestDir::new(SMALL);
    let made = test_dir.run(&["scenario", "new", "mine.toml", "--rate", "20mbit", "--rtt", "10ms"]);
    assert!(made.code == 0 && made.stdout.contains("wrote mine.toml"), "{made:?}");
    assert_eq!(test_dir.run(&["scenario", "validate", "mine.toml"]).code, 0);
    assert_eq!(test_dir.run(&["scenario", "new", "a.toml", "-o", "b.toml"]).code, 2);
}

#[test]
fn a_mininet_program_is_refused_as_a_scenario_with_the_command_that_converts_it() {
    let test_dir = TestDir::new(SMALL);
    std::fs::write(test_dir.path("topo.py"), "from mininet.topo import Topo\n").unwrap();
    for command in
        [&["run", "topo.py"][..], &["scenario", "validate", "topo.py"], &["scenario", "import", "topo.py"]]
    {
        let refused = test_dir.run(command);
        let hint = "longfat scenario import mininet topo.py -o topo.toml";
        assert!(refused.code == 2 && refused.stderr.contains(hint), "{command:?}: {refused:?}");
    }
}

#[test]
fn runs_of_one_scenario_form_one_report_and_two_scenarios_are_noted() {
    let test_dir = TestDir::new(SMALL);
    std::fs::write(test_dir.path("other.toml"), SMALL).unwrap();
    for file in ["s.toml", "s.toml", "other.toml"] {
        assert_eq!(test_dir.run(&["run", file, "--engine", "model"]).code, 0);
    }
    assert_eq!(test_dir.run(&["report", "s/", "-o", "page.html"]).code, 0);
    let runs = std::fs::read_dir(test_dir.path("runs/s")).unwrap().count();
    let page = std::fs::read_to_string(test_dir.path("page.html")).unwrap();
    assert!(page.contains(&format!("{runs} runs")), "{page:.3000}");
    let compared = test_dir.run(&["compare", "s/last", "other/last"]);
    assert!(
        compared.code == 0 && compared.stdout.starts_with("These runs are of 2 scenarios (s, other)"),
        "{compared:?}"
    );
    assert!(!test_dir.run(&["compare", "s/last", "s/last"]).stdout.contains("scenarios"));
}

#[test]
fn for_a_misspelt_congestion_control_the_nearest_is_named() {
    let test_dir = TestDir::new(SMALL);
    let ran = test_dir.run(&["test", "127.0.0.1", "-C", "cubik"]);
    assert!(ran.code == 4 && ran.stderr.contains("the nearest are cubic"), "{ran:?}");
}
