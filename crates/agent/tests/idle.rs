//! An agent without work: its memory, and that nothing wakes it up.

use std::{fs, path::Path, thread::sleep, time::Duration};

use crate::agents::{Agent, CLOCK_THREAD, Mesh, end, wait_for_empty_calendar, wait_until, wanted};
use crate::http::{document, serve_http};

/// Maximum resident memory, bytes. The test program is larger than the agent itself.
const MAX_RESIDENT_BYTES: u64 = 60 << 20;
/// Time without a wake-up of the loop.
const QUIET: Duration = Duration::from_secs(20);

/// How often the threads of an agent have slept until an event (`voluntary_ctxt_switches` of proc(5)), except the one that follows the
/// test's clock.
fn wake_ups(pid: u32) -> u64 {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).unwrap();
    let count = |task: &Path| {
        // A thread that has ended since has no files.
        if fs::read_to_string(task.join("comm")).ok()?.trim() == CLOCK_THREAD {
            return None;
        }
        let status = fs::read_to_string(task.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.filter_map(|task| count(&task.ok()?.path())).sum()
}

#[test]
fn an_idle_agent_sleeps_and_is_small() {
    let mesh = Mesh::of(&["a", "b"]);
    let address = serve_http(&mesh.directories[0]);
    let agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let client = mesh.client(0);
    // It has worked, so that connections were opened and files were read.
    let test = client.reserve(wanted("a", "b", "throughput")).unwrap();
    assert_eq!(end(&client, &test.id).phase, "finished");
    document(&address, "/api/v1/mesh");
    [&client, &mesh.client(1)].into_iter().for_each(wait_for_empty_calendar);
    let before = wake_ups(agents[0].pid());
    client.status().unwrap();
    // A request is an event; it is counted when the loop sleeps again.
    wait_until("a wake-up", || (wake_ups(agents[0].pid()) > before).then_some(()));
    let resident = client.status().unwrap().resident_bytes.unwrap();
    assert!(resident < MAX_RESIDENT_BYTES, "{resident} bytes");
    // Connections and reservations that have ended have timers for some time.
    wait_until("a time without wake-ups", || {
        let before = agents.iter().map(|agent| wake_ups(agent.pid())).collect::<Vec<_>>();
        sleep(QUIET);
        (agents.iter().map(|agent| wake_ups(agent.pid())).collect::<Vec<_>>() == before).then_some(())
    });
}
