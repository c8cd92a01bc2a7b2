//! Import of Mininet's Python programs, as students and teachers have them.

use crate::common;
use std::path::{Path, PathBuf};

use common::{
    CommandOutput, SMALL, TestDir,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mininet").join(name)
}

fn import(test_dir: &TestDir, file: &Path, options: &[&str]) -> CommandOutput {
    test_dir.run(&[&["scenario", "import", "mininet", file.to_str().unwrap()], options].concat())
}

/// The scenario, which must parse.
fn imported(test_dir: &TestDir, name: &str, options: &[&str]) -> (toml::Table, String) {
    let ran = import(test_dir, &program(name), options);
    assert_eq!(ran.code, 0, "{ran:?}");
    (ran.stdout.parse().unwrap_or_else(|e| panic!("{name}: {e}: {ran:?}")), ran.stderr)
}

fn links(scenario: &toml::Table) -> Vec<String> {
    let ends = |link: &toml::Value| {
        let ends: Vec<&str> = link["ends"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        ends.join("-")
    };
    scenario["links"].as_array().unwrap().iter().map(ends).collect()
}

#[test]
fn topologies_of_all_styles_are_imported() {
    if !have(&["python3"]) {
        return;
    }
    let test_dir = TestDir::new(SMALL);
    let (single, _) = imported(&test_dir, "single.py", &["--topo", "single3"]);
    assert_eq!(links(&single), ["h1-s1", "h2-s1", "h3-s1"]);
    assert_eq!(single["hosts"]["h3"]["address"].as_str(), Some("10.0.0.3/8"));
    let (class, _) = imported(&test_dir, "single.py", &["--topo", "SingleSwitch,n=2"]);
    assert_eq!(links(&class).len(), 2);
    let (tree, _) = imported(&test_dir, "single.py", &["--topo", "tree,depth=2,fanout=2"]);
    assert_eq!(links(&tree), ["s2-h1", "s2-h2", "s1-s2", "s3-h3", "s3-h4", "s1-s3"].map(str::to_owned));
    let (linear, _) = imported(&test_dir, "linear.py", &[]);
    assert_eq!(links(&linear), ["h1-s1", "h2-s2", "s2-s1", "h3-s3", "s3-s2"]);
    assert_eq!(linear["links"][0]["both"]["delay"].as_str(), Some("2 ms"));

    let (dumbbell, notes) = imported(&test_dir, "class_lab.py", &[]);
    let bottleneck = dumbbell["links"].as_array().unwrap().last().unwrap();
    assert_eq!(bottleneck["both"]["rate"].as_str(), Some("10 Mb/s"));
    assert_eq!(bottleneck["both"]["queue"].as_str(), Some("50p"));
    assert!(dumbbell["hosts"]["h1"]["start"].as_str().unwrap().contains("tcp_rmem"), "{dumbbell}");
    for left_out in ["processor limits", "not executed: sysctl", "iperf -t 10 -c 10.0.0.3", "use_htb"] {
        assert!(notes.contains(left_out), "{left_out}: {notes}");
    }

    let (router, notes) = imported(&test_dir, "router.py", &[]);
    let interfaces = &router["routers"]["r0"]["interfaces"];
    assert_eq!(interfaces["eth1"][0].as_str(), Some("172.16.0.1/12"), "{router}");
    assert_eq!(router["hosts"]["h1"]["gateway"].as_str(), Some("192.168.1.1"));
    assert!(notes.contains("r0-eth1 is called r0-eth0 here"), "{notes}");

    let (direct, notes) = imported(&test_dir, "direct.py", &[]);
    assert_eq!(direct["hosts"]["h1"]["address"].as_str(), Some("10.0.0.12/24"));
    assert_eq!((direct["fixed_neighbours"].as_bool(), single.get("fixed_neighbours")), (Some(true), None));
    assert!(notes.contains("controller not imported") && notes.contains("RuntimeError: later"), "{notes}");
}

#[test]
fn an_imported_program_comes_up() {
    if !have(&["python3", "ping"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let written = import(&test_dir, &program("router.py"), &["-o", "router.toml"]);
    assert!(written.code == 0 && written.stdout.contains("wrote router.toml"), "{written:?}");
    let lab = Lab::of(&test_dir, Path::new("router.toml"), &[]);
    let all = lab.shell(&["pingall"]);
    assert!(all.stdout.contains("0% dropped"), "{all:?}");
}

#[test]
fn programs_that_fail_are_named_and_have_no_effect() {
    if !have(&["python3"]) {
        return;
    }
    let test_dir = TestDir::new(SMALL);
    let file = test_dir.path("x.py");
    for (text, options, expected) in [
        ("topos = {\n", &[][..], "line 1: SyntaxError"),
        ("import nosuchmodule\n", &[], "No module named 'nosuchmodule'"),
        ("print('hello')\n", &[], "builds no Mininet network"),
        ("from mininet.topo import Topo\nclass A(Topo): pass\nclass B(Topo): pass\n", &[], "--topo: A, B"),
        (
            "from mininet.topo import Topo\nclass A(Topo): pass\n",
            &["--topo", "C"],
            "no topology C; there are A",
        ),
        ("import os\nos._exit(3)\n", &[], "ended python3"),
        // The program ends even if longfat was interrupted and cannot kill it.
        ("import resource\nraise Exception(resource.getrlimit(resource.RLIMIT_CPU))\n", &[], "(30, 30)"),
        ("from mininet.net import Mininet\nn = Mininet()\nn.addLink('h1', 'h2')\n", &[], "no node h1"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = import(&test_dir, &file, options);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{text}: {ran:?}");
    }
    let marker = test_dir.path("marker");
    let text = format!(
        "import os, subprocess\nos.system('touch {0}')\nsubprocess.run(['touch', '{0}'])\n\
         from mininet.net import Mininet\nnet = Mininet()\nh = net.addHost('h1')\nh.cmd('touch {0}')\n\
         s = net.addSwitch('s1')\nnet.addLink(h, s)\n",
        marker.display()
    );
    std::fs::write(&file, text).unwrap();
    let ran = import(&test_dir, &file, &[]);
    assert!(ran.code == 0 && ran.stderr.contains("not executed: touch") && !marker.exists(), "{ran:?}");
    // The program is killed, and no temporary files remain.
    std::fs::write(&file, "while True: pass\n").unwrap();
    let temporary = test_dir.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = test_dir.longfat(&["scenario", "import", "mininet", "x.py"]);
    let ran = CommandOutput::from(command.env("TMPDIR", &temporary).output().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("did not end"), "{ran:?}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
