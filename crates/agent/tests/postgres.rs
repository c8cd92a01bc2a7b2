//! The common archive in a real PostgreSQL server, which is stopped and started while results arrive.

use std::{collections::BTreeMap, path::Path};

use agent::{NewReservation, State, TestRow};
use testing::{Missing, postgres::Cluster};

use crate::{
    agents::{Agent, Mesh, end, results, wait_for_empty_calendar, wait_until, wanted},
    http::{document, get, serve_http},
};

/// Adds the common archive to a point's configuration.
fn archive_to(directory: &Path, address: &str) {
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[archive]\npostgres = \"{address}\"\n")).unwrap();
}

/// The contents of the common archive, as a point's HTTP interface shows them.
fn stored(address: &str) -> BTreeMap<String, TestRow> {
    let (status, body) = get(address, "/api/v1/results?limit=10000");
    if status != 200 {
        return BTreeMap::new();
    }
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    let rows: Vec<TestRow> = serde_json::from_value(document["tests"].clone()).unwrap();
    rows.into_iter().map(|row| (row.id.clone(), row)).collect()
}

#[test]
fn no_result_is_lost_or_stored_twice_while_the_server_stops_and_starts() {
    let Some(mut cluster) = Cluster::create() else {
        return testing::skip(Missing::Tool, "PostgreSQL 15 or newer is not installed");
    };
    let mesh = Mesh::of(&["a", "b"]);
    for directory in &mesh.directories {
        archive_to(directory, &cluster.address());
    }
    let address = serve_http(&mesh.directories[0]);
    let mut agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let clients = [0, 1].map(|index| mesh.client(index));
    let (names, others) = (["a", "b"], ["b", "a"]);
    let run = |index: usize| {
        let wanted =
            NewReservation { duration_us: Some(1_000_000), ..wanted(names[index], others[index], "latency") };
        let over = end(&clients[index], &clients[index].reserve(wanted).unwrap().id);
        assert_eq!(over.phase, "finished", "{}", over.text);
    };
    let wait_for_all = || {
        wait_until("all results in the common archive", || {
            let kept = clients
                .iter()
                .zip(names)
                .flat_map(|(client, name)| results(client).into_iter().filter(move |row| row.from == name));
            let kept: BTreeMap<String, TestRow> = kept.map(|row| (row.id.clone(), row)).collect();
            let waiting = clients.iter().map(|client| client.status().unwrap().unforwarded_results);
            (waiting.flatten().sum::<u64>() == 0 && stored(&address) == kept).then_some(kept)
        })
    };
    // The server has not been started yet: tests run without it.
    run(0);
    assert!(clients[0].status().unwrap().unforwarded_results.unwrap() > 0);
    let (status, body) = get(&address, "/api/v1/results");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("PostgreSQL"), "{body}");
    for round in 0..3 {
        cluster.start();
        run(round % 2);
        if round > 0 {
            wait_for_all();
        }
        // While a test runs and results are sent.
        let wanted = wanted("a", "b", "latency");
        let id = clients[0].reserve(wanted).unwrap().id;
        cluster.stop();
        assert_eq!(end(&clients[0], &id).phase, "finished", "{:?}", clients[0].why(&id));
        run(1);
        if round == 1 {
            // The point is killed while results wait.
            agents.remove(0).kill();
            agents.insert(0, Agent::start(&mesh.directories[0]));
        }
    }
    cluster.start();
    let kept = wait_for_all();
    assert_eq!(kept.len(), 10);
    assert!(kept.values().all(|row| row.state == State::Finished));
    // Each was counted once.
    let pairs = document(&address, "/api/v1/mesh")["pairs"].clone();
    let finished = pairs.as_array().unwrap().iter().map(|pair| pair["tests"]["finished"].as_u64().unwrap());
    assert_eq!(finished.sum::<u64>(), 10, "{pairs}");
    clients.iter().for_each(wait_for_empty_calendar);
}
