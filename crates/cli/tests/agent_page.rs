//! Executes the commands of docs/agent.md for two and three points on one machine as a reader would.

use std::{net::TcpListener, path::Path};

use crate::common::TestDir;

/// The first and the heading after the last of the page's parts that are executed.
const PARTS: [&str; 2] = ["## Two points on one machine", "## Commands"];
/// Ports of the page, which may be in use here.
const PORTS: [&str; 3] = ["4901", "4902", "4903"];
/// Exit code of the script if an agent does not reply in time.
const NO_REPLY: u8 = 99;

/// The shell examples of the page, with free ports.
fn examples() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, text) = text.split_once(PARTS[0]).unwrap();
    let (text, _) = text.split_once(PARTS[1]).unwrap();
    // All are open together, so that no two have the same port.
    let sockets = PORTS.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut text = text.to_owned();
    for (port, socket) in PORTS.iter().zip(&sockets) {
        text = text.replace(port, &socket.local_addr().unwrap().port().to_string());
    }
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix("sh\n")).map(Into::into).collect()
}

/// Shell that waits until a command succeeds, as a reader does who types one command after the other.
fn wait_until(command: &str) -> String {
    format!(
        "for try in $(seq 600); do {command} && break; [ $try -lt 600 ] || exit {NO_REPLY}; sleep 0.2; done\n"
    )
}

/// Waits until an agent replies.
fn wait_for_agent(point: &str) -> String {
    wait_until(&format!("longfat agent status --dir {point} >/dev/null 2>&1"))
}

/// The examples as a script that ends at the first command that fails.
fn script(examples: &[String]) -> String {
    // The shell ends all agents that it has started.
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n");
    for line in examples.iter().flat_map(|example| example.lines()) {
        if line.contains("--duration 90s") {
            // The page shows that it is refused.
            script += &format!("if {line}; then exit 1; fi\n");
            continue;
        }
        script += &format!("{line}\n");
        if let Some(point) = line.strip_prefix("longfat agent run --dir ") {
            script += &wait_for_agent(point.trim_end_matches(" &"));
        } else if line.starts_with("for ") && line.contains("longfat agent run") {
            script.extend(["a", "b", "c"].map(wait_for_agent));
        } else if line.starts_with("longfat agent init") || line.starts_with("longfat agent join") {
            // A clock that nothing synchronizes pads each slot with half a minute.
            script += "sed -i 's/^clock_error = \"auto\"/clock_error = \"100ms\"/' */agent.toml\n";
        }
        if line.starts_with("longfat agent join") && line.ends_with("--dir c < token") {
            script += &wait_until("longfat agent status --dir b | grep -q '^c '");
        }
    }
    script
}

#[test]
fn three_points_test_each_other_on_one_machine() {
    let dir = TestDir::new("");
    let examples = examples();
    assert!(examples.len() >= 7, "{examples:?}");
    let mut script = script(&examples);
    for point in ["a", "b", "c"] {
        script += &format!("longfat agent status --dir {point} | grep ' throughput '\n");
    }
    let output = dir.with_longfat("bash").args(["-c", &script]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{script}\n{stdout}\n{stderr}", output.status);
    let printed = format!("{stderr}\n{stdout}");
    for part in [
        "b/agent.toml is the configuration of the point b, a member of the mesh of a.",
        "c/agent.toml is the configuration of the point c, a member of the mesh of a.",
        "a/1: finished",
        "throughput a to b: goodput ",
        "a/2: finished",
        "latency b to a: ",
        "a/4: not run: point a does not allow it: refused by max_duration of class mesh: 90 s requested, at most 60 s",
        "cancelled at a: not needed",
        "the authority is a",
        "a/agent.toml: no mistakes; point a, 2 recurring tests",
        "b/agent.toml: no mistakes; point b, 2 recurring tests",
        "c/agent.toml: no mistakes; point c, 2 recurring tests",
    ] {
        assert!(printed.contains(part), "{part:?} is not in\n{printed}");
    }
    // What `cancel` and `why` print, and the row of `results`, twice with the last block of the page.
    assert!(printed.matches("cancelled at a: not needed").count() >= 4, "{printed}");
    for to in ["a", "b", "c"] {
        let is_row = |line: &str| line.starts_with(&format!("to-{to} ")) && line.contains(&format!(" {to} "));
        let points = stdout.lines().filter(|line| is_row(line)).count();
        assert_eq!(points, 2, "two other points test {to}: {printed}");
    }
}
