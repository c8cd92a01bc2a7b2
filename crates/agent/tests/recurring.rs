//! Recurring tests: their options, tests to each point of the mesh, and a configuration that is read again.

use std::{path::Path, time::Duration};

use agent::{Authority, Client, JoinRequest, NewReservation, State};

use crate::agents::{Agent, Mesh, TIMEOUT, add, configure, end, listen, reload, results, wait_until, wanted};

/// The names of a point's recurring tests.
fn tests(client: &Client) -> Vec<String> {
    let mut names: Vec<String> = client.status().unwrap().tests.into_iter().map(|test| test.name).collect();
    names.sort();
    names
}

fn wait_for_tests(client: &Client, expected: &[&str]) {
    wait_until(&format!("{expected:?}"), || (tests(client) == expected).then_some(()));
}

#[test]
fn options_reach_both_ends_and_are_in_the_result() {
    let mesh = Mesh::of(&["a", "b"]);
    // Each kernel has reno.
    let table = "\n[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"throughput\"\nduration = \"1500ms\"\nomit = \"500ms\"\n\
        parallel = 3\ncongestion = \"reno\"\nevery = \"20s\"\nslip = \"19s\"\n";
    add(&mesh.directories[0], table);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let rows = [0, 1].map(|index| {
        let client = mesh.client(index);
        wait_until("a result", || results(&client).into_iter().find(|row| row.state == State::Finished))
    });
    for row in &rows {
        assert_eq!(row.options.as_deref(), Some("congestion=reno parallel=3 omit=500ms"));
        assert_eq!((row.task.as_deref(), row.duration_us), (Some("t"), 2_000_000), "{row:?}");
        assert!(row.figures.goodput_bps.is_some_and(|bps| bps > 1e6), "{row:?}");
    }
    let path = Path::new(rows[0].record.as_ref().unwrap()).join("summary.json");
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let flows = summary["runs"][0]["flows"].as_array().unwrap();
    let flows: Vec<_> = flows.iter().filter(|flow| flow["kind"] == "tcp").collect();
    assert_eq!(flows.len(), 3, "{flows:?}");
    assert!(flows.iter().all(|flow| flow["cc"] == "reno"), "{flows:?}");
}

#[test]
fn tests_to_each_point_follow_the_members() {
    let mesh = Mesh::of(&["a", "b"]);
    let table =
        "\n[[tests]]\nname = \"t\"\nto = \"*\"\nkind = \"latency\"\nduration = \"1s\"\nevery = \"24h\"\n";
    mesh.directories.iter().for_each(|directory| add(directory, table));
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    assert_eq!((tests(&a), tests(&b)), (vec!["t-b".to_string()], vec!["t-a".to_string()]));
    // A point that joins while the agents run.
    let state = mesh.directories[0].join("state");
    let authority = Authority::open(&state).unwrap();
    let address = a.status().unwrap().address;
    let invitation = authority.invite(&state, "c", &address, TIMEOUT).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let request = JoinRequest { listen: listen(), address: None };
    agent::join_mesh(directory.path(), &invitation, &request).unwrap();
    wait_for_tests(&a, &["t-b", "t-c"]);
    wait_for_tests(&b, &["t-a", "t-c"]);
    a.expel("c").unwrap();
    wait_for_tests(&a, &["t-b"]);
    wait_for_tests(&b, &["t-a"]);
}

#[test]
fn tests_and_limits_are_read_again_and_broken_files_are_refused() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let table =
        "\n[[tests]]\nname = \"old\"\nto = \"b\"\nkind = \"latency\"\nduration = \"1s\"\nevery = \"24h\"\n";
    add(directory, table);
    let mut agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    assert_eq!(tests(&a), ["old"]);
    // Broken: the old tests stay.
    configure(directory, "every", "\"soon\"");
    reload(directory);
    agents[0].wait_for("agent.toml");
    assert_eq!(tests(&a), ["old"]);
    assert!(!agents[0].has_ended());
    // Mended, with another test, and with other limits.
    configure(directory, "every", "\"12h\"");
    add(directory, &table.replace("\"old\"", "\"new\"").replace("\"b\"", "[\"b\"]"));
    let limits = directory.join("limits.toml");
    let text = std::fs::read_to_string(&limits).unwrap();
    std::fs::write(&limits, text.replace("max_duration = \"60s\"", "max_duration = \"9s\"")).unwrap();
    reload(directory);
    wait_for_tests(&a, &["new-b", "old"]);
    let long = NewReservation { duration_us: Some(10_000_000), ..wanted("a", "b", "latency") };
    let refused = end(&a, &a.reserve(long).unwrap().id).text;
    assert!(
        refused.contains("refused by max_duration of class mesh: 10 s requested, at most 9 s"),
        "{refused}"
    );
    // The configuration of another point is not applied.
    let text = std::fs::read_to_string(directory.join("agent.toml")).unwrap();
    let other = std::fs::read_to_string(mesh.directories[1].join("agent.toml")).unwrap();
    std::fs::write(
        directory.join("agent.toml"),
        other.replace("state = \"state\"", "state = \"../b/state\""),
    )
    .unwrap();
    reload(directory);
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(directory.join("agent.toml"), text.replace("\"old\"", "\"last\"")).unwrap();
    reload(directory);
    wait_for_tests(&a, &["last", "new-b"]);
}

#[test]
fn a_running_test_continues_when_it_is_removed_from_the_configuration() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let table = "\n[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"latency\"\nduration = \"10s\"\nevery = \"60s\"\nslip = \"50s\"\n";
    add(directory, table);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    let running = wait_until("a running test", || {
        a.why("t").unwrap().into_iter().find(|known| known.phase == "running")
    });
    std::fs::write(&path, text).unwrap();
    reload(directory);
    wait_for_tests(&a, &[]);
    let ended = end(&a, &running.id);
    assert_eq!(ended.phase, "finished", "{ended:?}");
}
