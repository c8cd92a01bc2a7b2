//! Alerts on a change of the cause that limits a pair.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::{Client, Filter, PairName};
use serde_json::Value;

use crate::{
    agents::{Agent, Mesh, add, end, wait_until, wanted},
    receiver::receive,
};

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

/// A muted change is reported when the mute is ended; an acknowledged cause is shown as such until it
/// changes.
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

/// A receiver that fails delays neither the others nor later changes, and those that have an alert do not get
/// it again. Tests may be days apart: the age of an alert counts from when its change was found.
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

/// An Alertmanager, which ends with the test program: its address, and all alerts that it has accepted.
fn alertmanager() -> (String, Arc<Mutex<Vec<Value>>>) {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let alerts = Arc::clone(&accepted);
    let accept = move |document: Value| {
        let new = document.as_array().expect("an array of alerts");
        alerts.lock().unwrap().extend_from_slice(new);
    };
    (receive("/api/v2/alerts", accept), accepted)
}

/// An alert of Alertmanager fires while its cause persists, is neither acknowledged nor muted, and ends with
/// it.
#[test]
fn alertmanager_has_the_present_causes() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let (address, alerts) = alertmanager();
    add(directory, &format!("\n[alerts]\nalertmanager = \"{address}\"\n"));
    let _a = Agent::start(directory);
    let client = mesh.client(0);
    let peer = Agent::start(&mesh.directories[1]);
    run(&client, "finished");
    peer.kill();
    run(&client, "not_run");
    run(&client, "not_run");
    let newest = || {
        let alerts = alerts.lock().unwrap();
        alerts.iter().rfind(|alert| alert["labels"]["cause"] == "no_result").cloned()
    };
    let wait_for = |what: &str, has_ended: bool| {
        wait_until(what, || newest().filter(|alert| alert["endsAt"].is_string() == has_ended))
    };
    let fired = wait_for("the alert", false);
    let labels = serde_json::json!({
        "alertname": "LongfatCause", "from": "a", "to": "b", "cause": "no_result", "severity": "critical"
    });
    assert_eq!(fired["labels"], labels);
    assert_eq!(fired["annotations"]["summary"], "a to b: no result");
    let description = fired["annotations"]["description"].as_str().unwrap();
    assert!(description.starts_with("Tests from a to b have had no result since 2"), "{description}");
    let start: jiff::Timestamp = fired["startsAt"].as_str().unwrap().parse().unwrap();
    let rows = client.results(Filter { limit: 10, ..Filter::default() }).unwrap();
    let first = rows.iter().rfind(|row| row.reason_kind.as_deref() == Some("unreachable")).unwrap();
    assert_eq!(start.as_second(), first.start_us.div_euclid(1_000_000));

    let pair = || PairName { from: "a".into(), to: "b".into() };
    client.mute(pair(), Duration::from_secs(3600), "").unwrap();
    let muted = wait_for("the end of the alert by the mute", true);
    assert_eq!(muted["startsAt"], fired["startsAt"]);
    client.mute(pair(), Duration::ZERO, "").unwrap();
    wait_for("the alert after the mute", false);
    client.acknowledge(pair(), None, "known").unwrap();
    wait_for("the end of the alert by the acknowledgement", true);
}

/// When the cause has gone, the alert ends; an agent that was killed meanwhile fires the present cause again.
#[test]
fn an_alert_of_alertmanager_ends_with_its_cause() {
    let mesh = Mesh::of(&["a", "b"]);
    let directory = &mesh.directories[0];
    let (address, alerts) = alertmanager();
    add(directory, &format!("\n[alerts]\nalertmanager = \"{address}\"\n"));
    let a = Agent::start(directory);
    let client = mesh.client(0);
    run(&client, "not_run");
    run(&client, "not_run");
    let count = || {
        let alerts = alerts.lock().unwrap();
        let mine = alerts.iter().filter(|alert| alert["labels"]["cause"] == "no_result");
        let (ended, firing): (Vec<&Value>, Vec<&Value>) = mine.partition(|alert| alert["endsAt"].is_string());
        (firing.len(), ended.len())
    };
    wait_until("the alert", || (count().0 > 0).then_some(()));
    a.kill();
    let before = count().0;
    let _a = Agent::start(directory);
    wait_until("the alert of the next agent", || (count().0 > before).then_some(()));
    assert_eq!(count().1, 0, "the cause persists");
    let _peer = Agent::start(&mesh.directories[1]);
    // Two tests in succession have to find the same cause, which a busy machine may prevent for some tests.
    wait_until("the end of the alert", || {
        run(&client, "finished");
        (count().1 > 0).then_some(())
    });
}
