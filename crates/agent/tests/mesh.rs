//! Agents in normal operation: all kinds of tests, third parties, rules, cancellation, recurring tests,
//! members.

use std::time::Duration;

use agent::{Lookup, LookupTexts, Members, NewReservation, State};

use crate::agents::{
    Agent, Mesh, RENEW_DAYS, configure, end, results, wait_for_empty_calendar, wait_until, wanted,
};

#[test]
fn tests_run_in_their_slots_and_both_ends_have_the_result() {
    let mesh = Mesh::of(&["a", "b", "c"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b, c] = [0, 1, 2].map(|index| mesh.client(index));
    for (client, from, to, kind) in
        [(&a, "a", "b", "throughput"), (&b, "b", "a", "latency"), (&c, "a", "b", "throughput")]
    {
        let requested = client.reserve(wanted(from, to, kind)).unwrap();
        let over = end(client, &requested.id);
        assert_eq!(over.phase, "finished", "{}", over.text);
        // At the lead, the peer, and the requesting point.
        for client in [&a, &b, client] {
            let row = wait_until("the result", || {
                results(client).into_iter().find(|row| row.id == requested.id && row.state == State::Finished)
            });
            assert_eq!((row.from.as_str(), row.to.as_str(), row.kind.as_str()), (from, to, kind));
            assert_eq!(row.reason, None);
            assert!(row.figures.min_rtt_us.is_some_and(|rtt| rtt > 0.0), "{row:?}");
            assert_eq!(row.figures.goodput_bps.is_some_and(|bps| bps > 1e6), kind == "throughput", "{row:?}");
            let record = row.record.unwrap();
            assert!(std::path::Path::new(&record).join("summary.json").exists(), "{record}");
        }
    }
    [&a, &b, &c].into_iter().for_each(wait_for_empty_calendar);
    // Tests that exclude each other got slots one after the other.
    let both = [a.reserve(wanted("a", "b", "throughput")), b.reserve(wanted("b", "a", "throughput"))];
    let both = both.map(|requested| requested.unwrap().id);
    assert_eq!(end(&a, &both[0]).phase, "finished", "{:?}", a.why(&both[0]));
    assert_eq!(end(&b, &both[1]).phase, "finished", "{:?}", b.why(&both[1]));
}

#[test]
fn a_test_that_was_not_run_names_the_rule_or_the_conflict() {
    let mesh = Mesh::of(&["a", "b"]);
    let limits = mesh.directories[1].join("limits.toml");
    let text = std::fs::read_to_string(&limits).unwrap();
    let text = text.replace("max_duration = \"60s\"", "max_duration = \"20s\"");
    std::fs::write(&limits, text.replace("max_priority = 0", "max_priority = 1")).unwrap();
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    let why = |wanted: NewReservation| end(&a, &a.reserve(wanted).unwrap().id).text;
    // The rule of the requesting point, and that of the other.
    let long = |seconds: u64| NewReservation {
        duration_us: Some(seconds * 1_000_000),
        ..wanted("a", "b", "throughput")
    };
    let own = why(long(90));
    assert!(own.contains("point a does not allow it: refused by max_duration of class mesh: 90 s"), "{own}");
    let other = why(long(30));
    assert!(
        other.contains("point b does not allow it: refused by max_duration of class mesh: 30 s"),
        "{other}"
    );
    let udp = why(NewReservation { rate_bps: Some(1_000_000), ..wanted("a", "b", "throughput") });
    assert!(udp.contains("refused by allow_udp = false of class mesh"), "{udp}");
    // The limits of a do not apply to its own users; those of b do.
    let high = why(NewReservation { priority: 2, ..wanted("a", "b", "throughput") });
    assert!(
        high.contains("point b does not allow it: refused by max_priority of class mesh: priority 2 requested, at most 1"),
        "{high}"
    );
    // A conflict names the point whose calendar has it.
    let first = a.reserve(NewReservation { in_us: 60_000_000, ..wanted("a", "b", "throughput") }).unwrap();
    wait_until("the booking", || {
        a.why(&first.id).unwrap().into_iter().find(|explained| explained.phase == "booked")
    });
    let second = NewReservation { in_us: 60_000_000, within_us: 0, ..wanted("a", "b", "throughput") };
    let conflict = why(second.clone());
    assert!(
        conflict.contains(&format!("no free slot at a: the exclusive test {} occupies", first.id)),
        "{conflict}"
    );
    // Higher priority displaces it; the reason is kept.
    let winner = a.reserve(NewReservation { priority: 1, ..second }).unwrap();
    wait_until("the displacement", || {
        let loser = a.why(&first.id).unwrap().remove(0);
        loser.text.contains(&format!("{} of priority 1 displaced it", winner.id)).then_some(())
    });
    for id in [&first.id, &winner.id] {
        let cancelled = a.cancel(id, "not needed").unwrap();
        assert!(cancelled.text.ends_with("not run: cancelled at a: not needed"), "{}", cancelled.text);
    }
    wait_for_empty_calendar(&mesh.client(1));
    // Tests that were not run are in the archive.
    let refused = results(&a).into_iter().filter(|row| row.state == State::NotRun);
    assert!(refused.clone().count() >= 5 && refused.clone().all(|row| row.reason.is_some()));
    // Names that do not exist.
    let unknown = a.reserve(wanted("a", "z", "throughput")).unwrap_err().to_string();
    assert!(unknown.contains("the points are: a, b"), "{unknown}");
    assert!(a.why("a/999").is_err() && a.cancel("nonsense", "").is_err());
}

#[test]
fn recurring_tests_survive_restarts_and_no_occurrence_runs_twice() {
    let mesh = Mesh::of(&["a", "b"]);
    let test = "\n[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"latency\"\nduration = \"1s\"\nevery = \"6s\"\nslip = \"5s\"\n";
    let path = mesh.directories[0].join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + test).unwrap();
    configure(&mesh.directories[0], "test_ports", "\"5202-5299\"");
    let _b = Agent::start(&mesh.directories[1]);
    let client = mesh.client(0);
    let finished = || {
        let rows = results(&client);
        rows.into_iter()
            .filter(|row| row.task.as_deref() == Some("t") && row.state == State::Finished)
            .count()
    };
    let first = Agent::start(&mesh.directories[0]);
    wait_until("two occurrences", || (finished() >= 2).then_some(()));
    first.kill();
    let _second = Agent::start(&mesh.directories[0]);
    wait_until("two more occurrences", || (finished() >= 4).then_some(()));
    // No nominal start was reserved twice: starts of background tests may coincide, but each occurrence is 6
    // s after another.
    let rows = results(&client);
    let mut periods: Vec<i64> =
        rows.iter().filter(|row| row.task.is_some()).map(|row| row.start_us / 6_000_000).collect();
    let all = periods.len();
    periods.sort_unstable();
    periods.dedup();
    assert_eq!(periods.len(), all, "{rows:?}");
    assert!(!client.why("t").unwrap().is_empty());
}

#[test]
fn certificates_are_renewed_while_the_agents_run() {
    let mesh = Mesh::of(&["a", "b"]);
    let certificate =
        |index: usize| std::fs::read_to_string(mesh.directories[index].join("state/tls/point.pem")).unwrap();
    let before = [0, 1].map(certificate);
    // Longer than certificates are valid: both are due at once.
    for directory in &mesh.directories {
        std::fs::write(directory.join(RENEW_DAYS), "1000").unwrap();
    }
    let agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    for (index, before) in before.iter().enumerate() {
        wait_until("a new certificate", || (certificate(index) != *before).then_some(()));
    }
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    assert_eq!(end(&b, &b.reserve(wanted("b", "a", "latency")).unwrap().id).phase, "finished");
    drop(agents);
    // The new ones work after a restart too.
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    assert_eq!(end(&a, &a.reserve(wanted("a", "b", "latency")).unwrap().id).phase, "finished");
}

#[test]
fn an_expelled_point_is_refused_and_a_token_works_once() {
    let mesh = Mesh::of(&["a", "b"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    assert!(b.expel("a").unwrap_err().to_string().contains("only the authority of the mesh, a,"));
    assert!(a.expel("a").is_err() && a.expel("z").is_err());
    assert_eq!(end(&b, &b.reserve(wanted("b", "a", "latency")).unwrap().id).phase, "finished");
    let state = mesh.directories[0].join("state");
    let authority = agent::Authority::open(&state).unwrap();
    let hour = Duration::from_secs(3600);
    let member = authority.invite(&state, "b", "127.0.0.1:1", hour).unwrap_err().to_string();
    assert!(member.contains("b is a member of the mesh already"), "{member}");
    assert!(a.expel("b").unwrap().members.is_empty());
    assert!(a.reserve(wanted("a", "b", "latency")).is_err());
    // b's certificate has not expired, but is refused.
    let requested = b.reserve(NewReservation { within_us: 3_000_000, ..wanted("b", "a", "latency") });
    let over = end(&b, &requested.unwrap().id);
    assert!(over.text.contains("a did not reply"), "{}", over.text);
    // The same name may be invited again after that, by a new token.
    let address = a.status().unwrap().address;
    let invitation = authority.invite(&state, "b", &address, hour).unwrap();
    let request = agent::JoinRequest { listen: crate::agents::listen(), address: None };
    let directory = tempfile::tempdir().unwrap();
    agent::join_mesh(directory.path(), &invitation, &request).unwrap();
    let other = tempfile::tempdir().unwrap();
    let again = agent::join_mesh(other.path(), &invitation, &request).unwrap_err().to_string();
    assert!(again.contains("has been used"), "{again}");
    assert_eq!(a.status().unwrap().members.len(), 1);
    // The old certificate of the name is still refused.
    let requested = b.reserve(NewReservation { within_us: 3_000_000, ..wanted("b", "a", "latency") });
    let over = end(&b, &requested.unwrap().id);
    assert!(over.text.contains("a did not reply"), "{}", over.text);
    // The new point cannot return with its token either after it is expelled.
    a.expel("b").unwrap();
    let key = std::fs::read(directory.path().join("state/tls/key.pem")).unwrap();
    let third = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(third.path().join("state/tls")).unwrap();
    std::fs::write(third.path().join("state/tls/key.pem"), key).unwrap();
    let again = agent::join_mesh(third.path(), &invitation, &request).unwrap_err().to_string();
    assert!(again.contains("is unknown"), "{again}");
    assert!(a.status().unwrap().members.is_empty());
}

#[test]
fn a_waiting_reservation_names_the_unreachable_point() {
    let mesh = Mesh::of(&["a", "b", "c"]);
    let _a = Agent::start(&mesh.directories[0]);
    let a = mesh.client(0);
    // As the lead, and as a third party.
    for (from, to) in [("a", "b"), ("b", "c")] {
        let id = a.reserve(wanted(from, to, "latency")).unwrap().id;
        let text = wait_until("the reason", || {
            let text = a.why(&id).unwrap().remove(0).text;
            text.contains("b cannot be reached: ").then_some(text)
        });
        assert!(text.contains("refused"), "{text}");
        let over = a.cancel(&id, "not needed").unwrap().text;
        assert!(!over.contains("cannot be reached"), "{over}");
    }
}

#[test]
fn announcements_reach_all_points_and_change_with_the_configuration() {
    let mesh = Mesh::of(&["a", "b", "c"]);
    let announce = |index: usize, text: &str| {
        let path = mesh.directories[index].join("agent.toml");
        let own = std::fs::read_to_string(&path).unwrap();
        let own = own.split("\n[directory]").next().unwrap().to_owned();
        std::fs::write(&path, format!("{own}\n[directory]\n{text}\n")).unwrap();
    };
    announce(0, "place = \"Kashima, Japan\"\nlatitude = 35.954\nlongitude = 140.66\nnetworks = [\"JGN\"]");
    announce(1, "place = \"Onsala, Sweden\"\nlatitude = 57.4\nlongitude = 11.93");
    let find = |index: usize, texts: LookupTexts| {
        let members = Members::open(&mesh.directories[index].join("state")).unwrap();
        Lookup::parse(texts, &members).unwrap().find(&members)
    };
    let places = |index: usize| {
        let found = find(index, LookupTexts::default());
        found.into_iter().map(|point| point.place).collect::<Vec<_>>()
    };
    let all =
        |onsala: &str| -> [Option<String>; 3] { [Some("Kashima, Japan".into()), Some(onsala.into()), None] };
    let mut agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    for index in 0..3 {
        wait_until("all places", || (places(index) == all("Onsala, Sweden")).then_some(()));
    }
    wait_until("the limits of all", || {
        let found = find(2, LookupTexts { capability: Some("latency".into()), ..LookupTexts::default() });
        (found.len() == 3 && found.iter().all(|point| point.allows[0].to == "default")).then_some(())
    });
    let near = find(2, LookupTexts { near: Some("59.3,18.1".into()), ..LookupTexts::default() });
    assert_eq!(near[0].name, "b");
    assert!((100.0..1000.0).contains(&near[0].distance_km.unwrap()), "{near:?}");
    // The authority is down when b announces a change, and receives it later.
    agents.remove(0).kill();
    agents.remove(0).kill();
    announce(1, "place = \"Onsala\"");
    agents.push(Agent::start(&mesh.directories[1]));
    agents.push(Agent::start(&mesh.directories[0]));
    let b = mesh.client(1);
    // A message opens a connection.
    b.reserve(wanted("b", "a", "latency")).unwrap();
    for index in 0..3 {
        wait_until("the new place", || (places(index) == all("Onsala")).then_some(()));
    }
}
