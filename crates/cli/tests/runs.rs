//! Recorded runs on the command line: names of runs, lists, removal, read-only directories, configuration,
//! completions.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::common::{CommandOutput, SMALL, TestDir, binary, is_root};

const QUEUE: &str = "links.h1-s1.forward.queue";

/// A test directory with four runs: two queues by `--set`, each by model and simulator.
fn four_runs() -> TestDir {
    let test_dir = TestDir::new(SMALL);
    for queue in ["20p", "100p"] {
        let set = format!("{QUEUE}={queue}");
        test_dir.run(&["run", "./s.toml", "--engine", "model,sim", "--set", &set, "--json"]).json();
    }
    test_dir
}

fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn records_state_engine_settings_and_point() {
    let test_dir = four_runs();
    let list = test_dir.run(&["ls", "--json"]).json();
    let sims: Vec<&Value> = list.as_array().unwrap().iter().filter(|run| run["engine"] == "sim").collect();
    let queues: Vec<&str> = sims.iter().map(|run| run["set"][QUEUE].as_str().unwrap()).collect();
    assert_eq!(queues, ["20p", "100p"]);
    assert_eq!(sims[0]["file"], "./s.toml");
    let text = test_dir.run(&["ls"]).stdout;
    assert!(text.contains(&format!("{QUEUE}=20p")) && !text.contains("s.toml"), "{text}");
    let long = test_dir.run(&["ls", "--long"]).stdout;
    assert!(
        long.contains("./s.toml") && long.contains(&format!("runs/s/{}", sims[0]["id"].as_str().unwrap()))
    );
    let shown = test_dir.run(&["show", sims[0]["id"].as_str().unwrap()]).stdout;
    assert!(shown.contains("./s.toml") && shown.contains(&format!("{QUEUE}=20p")), "{shown}");

    let swept = ["run", "s.toml", "--engine", "sim", "--json"];
    let swept =
        TestDir::new(&format!("{SMALL}[[sweeps]]\nfield = \"{QUEUE}\"\nvalues = [\"20p\", \"100p\"]\n"))
            .run(&swept)
            .json();
    let run = &swept["runs"][1];
    assert_eq!((&run["sweep"][QUEUE], &run["file"]), (&"100p".into(), &"s.toml".into()));
    assert_eq!(run["record"], format!("runs/s/{}", run["id"].as_str().unwrap()));
}

#[test]
fn parquet_files_have_the_runs_settings_as_columns_and_metadata() {
    let test_dir = four_runs();
    let list = test_dir.run(&["ls", "--engine", "sim", "--json"]).json();
    for (run, queue) in list.as_array().unwrap().iter().zip(["20p", "100p"]) {
        let record = test_dir.path(run["path"].as_str().unwrap());
        for table in ["flows", "links", "events"] {
            let path = record.join(format!("{table}.parquet"));
            let file = record::ColumnFile::open(&path).unwrap();
            let only = |column: &str| {
                let texts =
                    file.texts(0, column).unwrap().unwrap_or_else(|| panic!("no {column} in {table}"));
                assert_eq!(texts.rows.len() as u64, file.rows(0), "{table} {column}");
                texts.names
            };
            assert_eq!(only("engine"), ["sim"]);
            assert_eq!(only("scenario"), ["s"]);
            assert_eq!(only("set"), [format!("{{\"{QUEUE}\":\"{queue}\"}}")]);
            assert_eq!(only("variant"), [""; 0], "runs without a variant have empty cells");
            let repeats = file.ints(0, "repeat").unwrap().unwrap();
            assert!(repeats.iter().all(|repeat| *repeat == Some(1)));
            let bytes = fs::read(&path).unwrap();
            let metadata = format!("\"set\":{{\"{QUEUE}\":\"{queue}\"}}");
            assert!(bytes.windows(metadata.len()).any(|part| part == metadata.as_bytes()), "{table}");
        }
    }
}

#[test]
fn the_list_is_filtered() {
    let test_dir = four_runs();
    fs::write(test_dir.path("other.toml"), SMALL).unwrap();
    test_dir.run(&["run", "other.toml", "--engine", "model", "--json"]).json();
    let count = |args: &[&str]| ids(&test_dir.run(&[&["ls", "--json"], args].concat()).json()).len();
    assert_eq!(count(&[]), 5);
    assert_eq!(count(&["--scenario", "s"]), 4);
    assert_eq!(count(&["--engine", "model"]), 3);
    assert_eq!(count(&["--engine", "sim", "--limit", "1"]), 1);
    assert_eq!((count(&["--since", "1h"]), count(&["--since", "2999-01-01"])), (5, 0));
    let newest = test_dir.run(&["ls", "--limit", "2", "--json"]).json();
    assert_eq!(ids(&newest), ids(&test_dir.run(&["ls", "--json"]).json())[3..]);
    let none = test_dir.run(&["ls", "--scenario", "nosuch"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "none of the 5 runs matches\n"));
    let wrong = test_dir.run(&["ls", "--since", "yesterday"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("2026-11-21"), "{wrong:?}");
}

#[test]
fn texts_of_records_cannot_control_the_terminal() {
    const ESCAPE: &str = "\u{1b}]0;owned\u{7}\u{9b}2Jname";
    let test_dir = four_runs();
    let sims = ids(&test_dir.run(&["ls", "--engine", "sim", "--json"]).json());
    let id = sims[0].as_str();
    let path = test_dir.path(&format!("runs/s/{id}/summary.json"));
    let mut summary: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    summary["title"] = ESCAPE.into();
    let run = &mut summary["runs"][0];
    for text in ["id", "variant", "file", "kernel", "started"] {
        run[text] = ESCAPE.into();
    }
    for text in ["name", "from", "to", "cc", "remedy"] {
        run["flows"][0][text] = ESCAPE.into();
    }
    run["flows"][0]["evidence"] = vec![ESCAPE].into();
    run["quality"]["notes"] = vec![ESCAPE].into();
    fs::write(&path, summary.to_string()).unwrap();
    for args in [
        &["show", id][..],
        &["compare", id, "last"],
        &["ls", "--long"],
        &["show", id, "--json"],
        &["show", ESCAPE],
        &["run", "s.toml", "--set", &format!("flows.{ESCAPE}.cc=reno")],
    ] {
        let ran = test_dir.run(args);
        let printed = format!("{}{}", ran.stdout, ran.stderr);
        assert!(printed.contains("name"), "{args:?}: {ran:?}");
        assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {ran:?}");
    }
    assert_eq!(test_dir.run(&["show", id, "--json"]).json()["title"], ESCAPE, "escaped in documents");
    // A file is exported unchanged.
    let exported = test_dir.run(&["export", "csv", id, "--table", "flows"]).stdout;
    assert!(exported.starts_with("time_us,flow,"), "{exported}");
}

/// `s/` selects all runs of the scenario, even if a directory has this name or a record cannot be read.
#[test]
fn all_readable_runs_of_a_scenario_are_selected() {
    let test_dir = four_runs();
    fs::create_dir_all(test_dir.path("s/results")).unwrap();
    fs::create_dir(test_dir.path("runs/s/notes")).unwrap();
    let table = test_dir.run(&["export", "table", "s/", "-o", "all.csv"]);
    assert_eq!((table.code, table.stdout.contains("of 4 runs")), (0, true), "{table:?}");
    assert!(table.stderr.contains("skipped s/notes: cannot read"), "{table:?}");
    let engines = test_dir.run(&["compare", "s", "--engines", "--json"]);
    assert_eq!(engines.json()["scenario"], "s");
    let prune = test_dir.run(&["prune", "--keep", "0", "--json"]).json();
    assert_eq!(prune["removed"].as_array().unwrap().len(), 4, "{prune}");
    let refused = test_dir.run(&["rm", "notes"]);
    assert!(refused.code == 2 && refused.stderr.contains("is not a record"), "{refused:?}");
    assert!(test_dir.path("runs/s/notes").is_dir());
    let none = test_dir.run(&["report", "s/", "-o", "report.html"]);
    assert!(none.code == 2 && none.stderr.contains("no run of scenario s"), "{none:?}");
}

#[test]
fn runs_are_removed_and_pruned() {
    let test_dir = four_runs();
    let list = || ids(&test_dir.run(&["ls", "--json"]).json());
    let before = list();
    let ambiguous = test_dir.run(&["rm", &before[0][..8]]);
    assert!(ambiguous.code == 2 && ambiguous.stderr.contains("several runs"), "{ambiguous:?}");
    let one_is_wrong = test_dir.run(&["rm", &before[0], "nosuchrun"]);
    assert!(one_is_wrong.code == 2 && one_is_wrong.stderr.contains("the nearest of 4"), "{one_is_wrong:?}");
    assert_eq!(list(), before, "a mistake removes nothing");
    let removed = test_dir.run(&["rm", "last", &format!("runs/s/{}", before[0])]);
    assert_eq!((removed.code, removed.stdout.as_str()), (0, "removed 2 runs\n"));
    assert_eq!(list(), before[1..3]);

    let prune = |args: &[&str]| test_dir.run(&[&["prune", "--json"], args].concat()).json();
    assert_eq!(prune(&["--keep", "1", "--dry-run"])["would_remove"].as_array().unwrap().len(), 1);
    assert_eq!(prune(&["--keep", "0", "--older-than", "1h"])["removed"].as_array().unwrap().len(), 0);
    assert_eq!(prune(&["--keep", "0", "--scenario", "other"])["removed"].as_array().unwrap().len(), 0);
    assert_eq!(prune(&["--keep", "1"])["removed"], serde_json::json!([format!("s/{}", before[1])]));
    assert_eq!(test_dir.run(&["prune"]).code, 2, "everything would be removed");
    assert_eq!(prune(&["--keep", "0"])["removed"].as_array().unwrap().len(), 1);
    assert!(!test_dir.path("runs/s").exists(), "the scenario's directory was empty");
}

/// A run of several minutes, which the test kills.
#[test]
fn runs_that_are_being_written_are_not_removed() {
    let test_dir = TestDir::new(&SMALL.replace("duration = \"1s\"", "duration = \"100000s\""));
    let mut run =
        test_dir.longfat(&["run", "s.toml", "--engine", "sim"]).stderr(Stdio::null()).spawn().unwrap();
    let listed = || ids(&test_dir.run(&["ls", "--json"]).json());
    assert!(crate::common::eventually(|| !listed().is_empty()));
    let id = listed().remove(0);
    let refused = test_dir.run(&["rm", &id, "--json"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.parsed()["error"]["message"].as_str().unwrap().contains("is being written"),
        "{refused:?}"
    );
    let pruned = test_dir.run(&["prune", "--keep", "0", "--json"]).json();
    assert_eq!(pruned["skipped"].as_array().unwrap().len(), 1, "{pruned}");
    run.kill().unwrap();
    run.wait().unwrap();
    let removed = test_dir.run(&["rm", &id]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(listed(), [""; 0]);
}

#[test]
fn no_record_is_kept_on_request() {
    let test_dir = TestDir::new(SMALL);
    let json = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--no-record", "--json"]).json();
    assert!(json["runs"][1]["flows"][0]["goodput_bps"].as_f64().unwrap() > 50e6);
    assert_eq!(json["runs"][1]["record"], Value::Null);
    let over = format!("{QUEUE}=20p,50p,100p,200p");
    let sweep = test_dir.run(&["sweep", "s.toml", "--over", &over, "--no-record", "--json"]).json();
    assert_eq!(sweep["points"].as_array().unwrap().len(), 4);
    assert!(!test_dir.path("runs").exists());
    let refused = test_dir.run(&["run", "s.toml", "--engine", "sim", "--no-record", "--trace", "bulk"]);
    assert_eq!(refused.code, 2, "{refused:?}");
}

#[test]
fn in_a_read_only_directory_a_run_prints_its_results() {
    let test_dir = TestDir::new(SMALL);
    // Permissions do not stop root; /proc refuses all users, but with the error of a missing file, so
    // root needs a read-only mount.
    let ran = if is_root() {
        let script = format!(
            "mkdir ro && mount -t tmpfs -o ro none ro && cd ro && {} run ../s.toml --engine model,sim",
            binary()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).current_dir(test_dir.dir.path()).env_remove("LONGFAT_RUNS");
        CommandOutput::from(command.output().unwrap())
    } else {
        fs::create_dir(test_dir.path("ro")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
        fs::set_permissions(test_dir.path("ro"), mode).unwrap();
        test_dir.run(&["--runs", "ro/runs", "run", "s.toml", "--engine", "model,sim"])
    };
    if ran.stderr.contains("unshare") || ran.stderr.contains("mount:") {
        testing::skip(testing::Missing::Privilege, "a read-only mount needs the privilege to mount");
        return;
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("sim") && ran.stdout.contains("bulk"), "{ran:?}");
    assert!(ran.stderr.contains("no record is kept") && ran.stderr.contains("--runs DIR"), "{ran:?}");
}

#[test]
fn an_error_is_one_json_document() {
    let test_dir = TestDir::new(&SMALL.replace("delay =", "dealy ="));
    let scenario = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json"]);
    let error = &scenario.parsed()["error"];
    assert_eq!((scenario.code, &error["exit_code"], &error["kind"]), (2, &2.into(), &"bad_input".into()));
    let mistake = &error["mistakes"][0];
    assert!(mistake["location"].as_str().unwrap().starts_with("s.toml:11:"), "{error}");
    assert_eq!(mistake["help"], "did you mean \"delay\"?");
    for args in [
        &["show", "nosuch", "--json"][..],
        &["frobnicate", "--json"],
        &["run", "--json"],
        &["bdp", "10", "50ms", "--json"],
        &["reproduce", "L9", "--json"],
        &["--json", "ls", "--since", "x"],
    ] {
        let ran = test_dir.run(args);
        let document = ran.parsed();
        assert_eq!(document["schema"], "longfat.error/1", "{args:?}");
        assert_eq!((ran.code, &document["error"]["exit_code"]), (2, &2.into()), "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}: the message is for people too");
    }
    // A run with a missed figure has printed its summary: no second document.
    let missed = TestDir::new(&format!(
        "{SMALL}[[published]]\nid = \"x\"\nmetric = \"flows.bulk.goodput\"\nvalue = \"1gbit\"\ntolerance = \"1%\"\n"
    ));
    let ran = missed.run(&["run", "s.toml", "--engine", "model", "--json"]);
    assert_eq!((ran.code, &ran.parsed()["published"][0]["verdict"]), (3, &"missed".into()));
    let scenario = fs::read_to_string(missed.path("s.toml")).unwrap();
    fs::write(missed.path("s.toml"), scenario + "known_miss = \"the source used another link\"\n").unwrap();
    let ran = missed.run(&["run", "s.toml", "--engine", "model"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("x: the model misses the figure; documented cause: the source used another link"),
        "{ran:?}"
    );
    // With another value the figure is no miss, so it has no cause.
    let ran = missed.run(&["run", "s.toml", "--engine", "model", "--set", "flows.bulk.cc=reno"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("differs") && !ran.stdout.contains("documented cause"), "{ran:?}");
}

#[test]
fn unreliable_runs_have_an_exit_code() {
    // No data arrives: the SYN is lost, and the run ends before its retransmission.
    let test_dir = TestDir::new(&SMALL.replace("queue = \"250kB\"", "queue = \"250kB\", loss = \"99.9%\""));
    let run = |more: &[&str]| test_dir.run(&[&["run", "s.toml", "--engine", "sim", "--json"], more].concat());
    let plain = run(&[]);
    if plain.parsed()["runs"][0]["quality"]["ok"] == true {
        panic!("the run is reliable, so this test is inconclusive: {plain:?}");
    }
    assert_eq!(plain.code, 0, "{plain:?}");
    let required = run(&["--require-reliable"]);
    assert_eq!(required.code, 5, "{required:?}");
    assert!(required.stderr.contains("unreliable measurement: sim"), "{required:?}");
}

#[test]
fn mistakes_are_printed_once_with_the_nearest_names() {
    let test_dir = TestDir::new(&SMALL.replace("cc = \"cubic\"", "cc = \"cubik\""));
    for engines in ["sim", "lab,model", "model,sim"] {
        let ran = test_dir.run(&["run", "s.toml", "--engine", engines]);
        assert_eq!(ran.code, 2, "{engines}: {ran:?}");
        assert_eq!(
            ran.stderr.matches("cubik\"").count() - ran.stderr.matches("cc = \"cubik\"").count(),
            1,
            "{ran:?}"
        );
        assert!(
            ran.stderr.contains("s.toml:18:6") && ran.stderr.contains("did you mean \"cubic\"?"),
            "{ran:?}"
        );
        assert!(!test_dir.path("runs").exists());
    }
    let test_dir = four_runs();
    for (args, expected) in [
        (&["plot", "last", "--metric", "goodputt", "-o", "x.svg"][..], "the nearest are goodput, "),
        (&["plot", "last", "-o", "x.gif"], "cannot write x.gif"),
        (&["report", "last", "-o", "x.pdf"], "cannot write x.pdf"),
        (&["reproduce", "L8-defualt"], "the nearest are L8-default, "),
        (&["sweep", "s.toml", "--over", "duration=1s,2s", "--metric", "flows.bulk.gap"], "the nearest of "),
    ] {
        let ran = test_dir.run(args);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{args:?}: {ran:?}");
        assert!(ran.stderr.len() < 300, "the message must not list all names: {ran:?}");
    }
    let shown = test_dir.run(&[
        "plot",
        "last",
        "--metric",
        "cwnd",
        "--against",
        "rtt",
        "--from",
        "0.2s",
        "--to",
        "0.5s",
    ]);
    let all = test_dir.run(&["plot", "last", "--metric", "cwnd", "--against", "rtt"]);
    assert!(shown.code == 0 && all.code == 0 && shown.stdout != all.stdout, "{shown:?}");
}

#[test]
fn settings_come_from_files_and_options_override_them() {
    let test_dir = TestDir::new(SMALL);
    let run = |args: &[&str]| {
        let mut command = test_dir.longfat(args);
        command.env("XDG_CONFIG_HOME", test_dir.path("home"));
        CommandOutput::from(command.output().unwrap())
    };
    fs::create_dir_all(test_dir.path("home/longfat")).unwrap();
    fs::write(test_dir.path("home/longfat/config.toml"), "runs = \"mine\"\nengine = \"model\"\n").unwrap();
    assert_eq!(run(&["run", "s.toml", "--json"]).json()["runs"][0]["engine"], "model");
    assert!(test_dir.path("home/longfat/mine/s").exists(), "relative to the file");
    fs::write(
        test_dir.path("longfat.toml"),
        "runs = \"project\"\n[tokens]\n\"far.example.org\" = \"far.token\"\n",
    )
    .unwrap();
    assert_eq!(
        run(&["run", "s.toml", "--json"]).json()["runs"][0]["engine"],
        "model",
        "the user's setting still applies"
    );
    assert!(test_dir.path("project/s").exists());
    run(&["run", "s.toml", "--engine", "sim", "--runs", "given", "--json"]).json();
    assert!(test_dir.path("given/s").exists());
    let settings = run(&["config", "--json"]).json();
    let source = |name: &str| {
        let all = settings["settings"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name).unwrap();
        one["source"].as_str().unwrap().to_owned()
    };
    assert!(source("runs").ends_with("/longfat.toml") && source("engine").ends_with("longfat/config.toml"));
    assert!(source("tokens.far.example.org").ends_with("/longfat.toml"), "{settings}");
    assert!(run(&["config"]).stdout.contains("project"), "as text");
    fs::write(test_dir.path("longfat.toml"), "runs = \"x\"\nengin = \"sim\"\n").unwrap();
    let unknown = run(&["ls"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("longfat.toml") && unknown.stderr.contains("line 2, column 1"),
        "{unknown:?}"
    );
    fs::write(test_dir.path("longfat.toml"), "engine = \"ns3\"\n").unwrap();
    assert!(run(&["ls"]).stderr.contains("there is no engine \"ns3\""));
}

#[test]
fn theme_and_units_change_texts_and_reports_but_no_document() {
    let test_dir = TestDir::new(SMALL);
    let simulate = ["run", "s.toml", "--engine", "sim", "--report", "r.html"];
    let plain = test_dir.run(&simulate);
    let report = || fs::read_to_string(test_dir.path("r.html")).unwrap();
    assert!(
        plain.stdout.contains(" Mb/s  ") && report().contains("@media (prefers-color-scheme:dark)"),
        "{plain:?}"
    );
    let document = test_dir.run(&["show", "last", "--json"]).stdout;
    let picture = test_dir.run(&["plot", "last"]).stdout;
    let set = |text: &str| fs::write(test_dir.path("longfat.toml"), text).unwrap();
    set("theme = \"dark\"\n[units]\nrates = \"bytes\"\nsizes = \"binary\"\n");
    assert_eq!(test_dir.run(&["show", "last", "--json"]).stdout, document);
    assert_eq!(test_dir.run(&["plot", "last"]).stdout, picture);
    let shown = test_dir.run(&["show", "last"]).stdout;
    let line =
        |name: &str| shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("goodput").ends_with(" MB/s") && line("max cwnd").ends_with("iB"), "{shown}");
    let ran = test_dir.run(&simulate);
    assert!(ran.stdout.contains(" MB/s  "), "{ran:?}");
    assert!(report().contains("@media all{") && !report().contains("prefers-color-scheme"));
    let settings = test_dir.run(&["config"]).stdout;
    for (name, value) in [("theme", "dark"), ("units.rates", "bytes"), ("units.sizes", "binary")] {
        let line = settings.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains(value) && line.ends_with("longfat.toml"), "{settings}");
    }
    for (text, part) in [
        ("theme = \"blue\"", "there are auto, light and dark"),
        ("[units]\nrates = \"mb\"", "units.rates: unknown unit of rates \"mb\""),
        ("[units]\nspeed = \"bits\"", "line 2, column 1"),
    ] {
        set(text);
        let wrong = test_dir.run(&["ls"]);
        assert!(wrong.code == 2 && wrong.stderr.contains(part), "{text}: {wrong:?}");
    }
}

#[test]
fn shells_complete_runs_and_scripts_are_installed() {
    let test_dir = four_runs();
    let id = ids(&test_dir.run(&["ls", "--json"]).json()).remove(0);
    let complete = |words: &[&str]| {
        let mut command = test_dir.longfat(&[&["--", "longfat"], words].concat());
        command.env("LONGFAT_COMPLETE", "fish");
        CommandOutput::from(command.output().unwrap()).stdout
    };
    for command in [&["show", ""][..], &["rm", ""], &["compare", "last", ""], &["plot", &id[..6]]] {
        assert!(complete(command).contains(&id), "{command:?}: {}", complete(command));
    }
    assert!(!complete(&["--runs", "elsewhere", "show", ""]).contains(&id));
    assert!(complete(&["show", "s/"]).contains(&format!("s/{id}")), "{}", complete(&["show", "s/"]));
    assert!(complete(&["plot", "s"]).contains("s/\t") && !complete(&["show", "s"]).contains("s/\t"));
    assert!(complete(&["ls", "--scenario", ""]).starts_with("s"));
    for command in [&["run", ""][..], &["sweep", ""], &["scenario", "validate", ""], &["lab", "up", ""]] {
        let found = complete(command);
        assert!(found.contains("s.toml") && found.contains("socket-buffers"), "{command:?}: {found}");
        assert!(found.contains("lab8\tBDP and TCP buffer size"), "{command:?}: {found}");
    }
    let near = complete(&["run", "soc"]);
    assert!(near.contains("socket-buffers") && !near.contains("lab8"), "{near}");
    assert!(complete(&["pru"]).contains("prune") && complete(&["ls", "--sin"]).contains("--since"));
    for (shell, path) in [
        ("bash", "data/bash-completion/completions/longfat"),
        ("zsh", "data/zsh/site-functions/_longfat"),
        ("fish", "config/fish/completions/longfat.fish"),
    ] {
        let mut command = test_dir.longfat(&["completions", "install", shell]);
        command.env("XDG_DATA_HOME", test_dir.path("data")).env("XDG_CONFIG_HOME", test_dir.path("config"));
        let ran = CommandOutput::from(command.output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains(path), "the message names the path: {ran:?}");
        let script = fs::read_to_string(test_dir.path(path)).unwrap();
        assert_eq!(script.trim_end(), test_dir.run(&["completions", shell]).stdout.trim_end());
        assert!(script.contains("LONGFAT_COMPLETE"), "{script}");
    }
}
