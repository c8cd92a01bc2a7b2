//! Alerts on a change of the cause that limits a pair.

use std::{path::Path, time::Duration};

use agent::{Client, Filter, PairName};

use crate::agents::{Agent, Mesh, end, wait_until, wanted};

/// Adds lines to a point's configuration.
fn add(directory: &Path, lines: &str) {
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + lines).unwrap();
}

/// A short throughput test from a to b with this outcome.
fn run(client: &Client, phase: &str) {
    let within_us = if phase == "finished" { 60_000_000 } else { 3_000_000 };
    let wanted = agent::NewReservation { within_us, ..wanted("a", "b", "throughput") };
    let over = end(client, &client.reserve(wanted).unwrap().id);
    assert_eq!(over.phase, phase, "{}", over.text);
}

/// Tests that get no result are a cause: the peer is stopped and started again.
#[test]
fn a_change_of_the_cause_is_alerted_once_even_if_the_receiver_was_down() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let (receiver, alerts) = (directory.join("receiver"), directory.join("alerts"));
    let line = format!("test -e '{}' && cat >> '{}'", receiver.display(), alerts.display());
    add(directory, &format!("\n[alerts]\ncommand = [\"/bin/sh\", \"-c\", \"{line}\"]\n"));
    let a = Agent::start(directory);
    let client = mesh.client(0);
    let peer = Agent::start(&mesh.directories[1]);
    let run = |phase: &str| run(&client, phase);
    run("finished");
    peer.kill();
    run("not_run");
    run("not_run");
    // The receiver does not accept the alert, and the agent is killed: the next agent of this point sends the
    // alert.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!alerts.exists());
    a.kill();
    std::fs::write(&receiver, "").unwrap();
    let _a = Agent::start(directory);
    let text =
        wait_until("the alert", || std::fs::read_to_string(&alerts).ok().filter(|text| text.ends_with('}')));
    let document: serde_json::Value = serde_json::from_str(&text).expect("one alert");
    assert_eq!(document["schema"], "longfat.alert/1");
    assert_eq!((&document["from"], &document["to"]), (&"a".into(), &"b".into()));
    assert_eq!(document["cause"], "no_result");
    assert!(document["previous"].is_string(), "{document}");
    // It dates from the first of the tests that got no result.
    let rows = client.results(Filter { limit: 10, ..Filter::default() }).unwrap();
    let first = rows.iter().rfind(|row| row.reason_kind.as_deref() == Some("unreachable")).unwrap();
    assert_eq!(
        (&document["since_us"], &document["test"]),
        (&first.start_us.into(), &first.id.clone().into())
    );
}

/// A muted change is reported when the mute is ended; an acknowledged cause is shown as such until it changes.
#[test]
fn mutes_delay_alerts_and_acknowledgements_end_with_the_cause() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let alerts = directory.join("alerts");
    let line = format!("cat >> '{}'", alerts.display());
    add(directory, &format!("\n[alerts]\ncommand = [\"/bin/sh\", \"-c\", \"{line}\"]\n"));
    let a = Agent::start(directory);
    let client = mesh.client(0);
    let pair = |from: &str, to: &str| PairName { from: from.into(), to: to.into() };
    let hour = Duration::from_secs(3600);
    assert!(client.mute(pair("a", "z"), hour, "").is_err(), "no such point");
    assert!(client.acknowledge(pair("a", "b"), None, "").is_err(), "no cause yet");
    let peer = Agent::start(&mesh.directories[1]);
    run(&client, "finished");
    let muted = client.mute(pair("*", "b"), hour, "maintenance of b").unwrap();
    assert_eq!((muted.mutes.len(), muted.mutes[0].text.as_str()), (1, "maintenance of b"));
    peer.kill();
    run(&client, "not_run");
    run(&client, "not_run");
    // The mute remains in force after a restart of the agent.
    a.kill();
    let _a = Agent::start(directory);
    std::thread::sleep(Duration::from_secs(1));
    assert!(!alerts.exists());
    assert_eq!(client.alerts().unwrap().mutes.len(), 1);
    assert!(client.mute(pair("*", "b"), Duration::ZERO, "").unwrap().mutes.is_empty());
    let text =
        wait_until("the alert", || std::fs::read_to_string(&alerts).ok().filter(|text| text.ends_with('}')));
    let document: serde_json::Value = serde_json::from_str(&text).expect("one alert");
    assert_eq!(document["cause"], "no_result");

    let known = client.acknowledge(pair("a", "b"), None, "b is rebuilt").unwrap();
    assert_eq!(known.acknowledged.len(), 1);
    assert_eq!(known.acknowledged[0].since_us, document["since_us"].as_i64().unwrap());
    let state = directory.join("state");
    let shown = agent::known_mesh(&state).unwrap();
    let acknowledgement = shown.pairs[0].acknowledgement.as_ref().unwrap();
    assert_eq!(acknowledgement.text, "b is rebuilt");
    assert!(acknowledgement.user.ends_with("@a"), "{acknowledgement:?}");
    // Another cause.
    let _peer = Agent::start(&mesh.directories[1]);
    run(&client, "finished");
    run(&client, "finished");
    assert!(agent::known_mesh(&state).unwrap().pairs[0].acknowledgement.is_none());
    assert!(client.alerts().unwrap().acknowledged.is_empty());
}

/// A receiver that fails delays neither the others nor later changes, and those that have an alert do not get it again. Tests may be days
/// apart: the age of an alert counts from when its change was found.
#[test]
fn a_broken_receiver_delays_no_other_alert_and_old_causes_are_alerted() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let alerts = directory.join("alerts");
    let line = format!("cat >> '{0}'; echo >> '{0}'", alerts.display());
    add(
        directory,
        &format!(
            "\n[alerts]\nwebhook = \"http://127.0.0.1:1/\"\ncommand = [\"/bin/sh\", \"-c\", \"{line}\"]\n"
        ),
    );
    let archive = directory.join("state/archive.sqlite");
    let now_us = i64::try_from(os::realtime().as_micros()).unwrap();
    let days_us = |days: i64| now_us - days * 86_400_000_000;
    // Changes that tests found, each after a test that found another cause.
    let insert = |pairs: &[(&str, &str)]| {
        let database = rusqlite::Connection::open(&archive).unwrap();
        for (from, to) in pairs {
            let insert = "INSERT INTO causes VALUES (?1, ?2, 'throughput', ?3, ?4, 'a/1', ?5)";
            database.execute(insert, rusqlite::params![from, to, days_us(6), "path_rate", 0]).unwrap();
            database.execute(insert, rusqlite::params![from, to, days_us(3), "loss", 1]).unwrap();
        }
    };
    let sent = || -> Vec<(String, String)> {
        let text = std::fs::read_to_string(&alerts).unwrap_or_default();
        let documents = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let name = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        documents.map(|document| (name(&document["from"]), name(&document["to"]))).collect()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    insert(&[("a", "b"), ("b", "a")]);
    let agent = Agent::start(directory);
    wait_until("two alerts", || (sent().len() >= 2).then_some(()));
    agent.kill();
    insert(&[("b", "c")]);
    let _agent = Agent::start(directory);
    wait_until("the third alert", || sent().contains(&pair("b", "c")).then_some(()));
    assert_eq!(sent(), [pair("a", "b"), pair("b", "a"), pair("b", "c")]);
}
