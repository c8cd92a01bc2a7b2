//! tshark reads the captures of a run: a ping over a link of 10 ms, captured at the sending host and on the
//! link.

use std::{path::Path, process::Command, sync::atomic::AtomicBool};

use scenario::ScenarioFile;

const PING: &str = r#"
duration = "2s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
both = { delay = "10ms" }
[[flows]]
kind = "ping"
name = "ping"
from = "h1"
to = "h2"
count = 3
interval = "100ms"
"#;

/// Time, interface and ICMP type of each echo request and reply in a file.
fn echoes(path: &Path) -> Vec<(f64, String, u32)> {
    let fields = ["frame.time_relative", "frame.interface_name", "icmp.type"].iter().flat_map(|f| ["-e", f]);
    let ran = Command::new("tshark")
        .arg("-r")
        .arg(path)
        .args(["-Y", "icmp", "-T", "fields", "-E", "separator=/s"])
        .args(fields)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{ran:?}");
    text.lines()
        .map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            (columns[0].parse().unwrap(), columns[1].into(), columns[2].parse().unwrap())
        })
        .collect()
}

#[test]
fn packets_are_captured_at_a_host_and_on_a_link() {
    if Command::new("tshark").arg("--version").output().is_err() {
        testing::skip(testing::Missing::Tool, "tshark is not installed");
        return;
    }
    if !std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
        testing::skip(
            testing::Missing::Privilege,
            "only root can run a lab in a process with several threads",
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = ScenarioFile::parse("ping.toml", PING).unwrap_or_else(|e| panic!("{e}"));
    let mut scenario = file.resolve(None, &[]).unwrap_or_else(|e| panic!("{e}"));
    scenario.captures = vec!["h1".into(), "h1-h2".into()];
    let options = lab::RunOptions {
        privilege: lab::acquire_privilege().unwrap(),
        time: lab::TimeMode::Real,
        backend: lab::Backend::for_this_machine(),
        journal: &lab::Journal::at(dir.path().join("journal")),
        capture_dir: Some(dir.path()),
        congestion_controls: &Default::default(),
        own_controls: &Default::default(),
        stop: &AtomicBool::new(false),
    };
    let outcome = lab::run(&scenario, &options, &mut ()).unwrap();
    assert!(!outcome.quality.notes.iter().any(|n| n.contains("capture")), "{:?}", outcome.quality.notes);

    // A reply arrives 20 ms after its request and never earlier. If the sender was delayed, the next request
    // may be sent before it.
    let host = echoes(&dir.path().join("h1.pcapng"));
    assert!(host.iter().all(|e| e.1 == "h1-eth0"));
    let times = |kind: u32| host.iter().filter(|e| e.2 == kind).map(|e| e.0).collect::<Vec<f64>>();
    let (requests, replies) = (times(8), times(0));
    assert_eq!((requests.len(), replies.len(), host.len()), (3, 3, 6), "{host:?}");
    assert!(std::iter::zip(requests, replies).all(|(sent, back)| back - sent >= 0.019_999), "{host:?}");

    // Packets of the link are captured at its output, so request and reply are half a round trip apart.
    let link = echoes(&dir.path().join("h1-h2.pcapng"));
    let times = |name: &str| link.iter().filter(|e| e.1 == name).map(|e| e.0).collect::<Vec<f64>>();
    let (forward, backward) = (times("h1>h2"), times("h2>h1"));
    assert_eq!((forward.len(), backward.len(), link.len()), (3, 3, 6), "{link:?}");
    assert!(
        std::iter::zip(forward, backward).all(|(forward, backward)| backward - forward >= 0.009_999),
        "{link:?}"
    );
}
