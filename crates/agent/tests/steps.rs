//! Either agent is killed at each step of a reservation and started again: nothing is booked twice, no
//! calendar stays blocked, and no result is lost.

use std::{path::Path, time::Duration};

use agent::{CalendarFile, Explained, NewReservation, State, TestRow};
use reservation::Settings;

use crate::agents::{Agent, Mesh, end, results, step_clock, wait_for_empty_calendar, wait_until, wanted};

/// The moments at which the lead is killed, and the expected outcome.
const LEAD: [(&str, Expected); 10] = [
    ("Before created", Expected::Nothing),
    ("Written held", Expected::AnyEnd),
    ("Sent held", Expected::AnyEnd),
    ("Written confirming", Expected::AnyEnd),
    ("Sent confirming", Expected::AnyEnd),
    ("Written booked", Expected::AnyEnd),
    ("Written running", Expected::NoResult),
    ("Started running", Expected::NoResult),
    ("ResultStored any", Expected::Result),
    ("Written ended", Expected::Result),
];
/// The moments at which the peer is killed, and the expected outcome. The peer cannot lose a result.
const PEER: [(&str, Expected); 6] = [
    ("Before created", Expected::AnyEnd),
    ("Written held", Expected::AnyEnd),
    ("Sent held", Expected::AnyEnd),
    ("Written booked", Expected::AnyEnd),
    ("Started running", Expected::NoResult),
    ("Written ended", Expected::Result),
];

/// The outcome of a test during which an agent was killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// The request was not durable: its user got no reply.
    Nothing,
    /// The reservation ends; if the test ran, it has a result.
    AnyEnd,
    /// The test did not complete, and is not run a second time.
    NoResult,
    /// The test has its result.
    Result,
}

fn request() -> NewReservation {
    wanted("a", "b", "throughput")
}

/// Kills the agent of `victim` (0: the lead) at the moment, and checks the outcome of the reservation.
fn play(mesh: &Mesh, victim: usize, moment: &str, expected: Expected) {
    let context = format!("victim {victim}, {moment}");
    let kill_at = |index: usize| if index == victim { moment } else { "" };
    let start = |index: usize| Agent::start_with(&mesh.directories[index], kill_at(index));
    let mut agents: Vec<Agent> = (0..2).map(start).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    let before = results(&a).len();
    let requested: Option<Explained> = match expected {
        Expected::Nothing => {
            // Its user gets no reply.
            let state = mesh.directories[0].join("state");
            std::thread::spawn(move || agent::Client::new(&state).reserve(request()));
            None
        }
        _ if victim == 0 => {
            let state = mesh.directories[0].join("state");
            // The agent may be killed before it replies.
            let requested = std::thread::spawn(move || agent::Client::new(&state).reserve(request()));
            agents[0].wait_for_moment();
            requested.is_finished().then(|| requested.join().unwrap().ok()).flatten()
        }
        _ => Some(a.reserve(request()).unwrap()),
    };
    if victim != 0 || expected == Expected::Nothing {
        agents[victim].wait_for_moment();
    }
    agents.remove(victim).kill();
    let _survivor = agents;
    let _restarted = Agent::start(&mesh.directories[victim]);
    if expected == Expected::Nothing {
        assert_eq!(results(&a).len(), before, "{context}");
    } else {
        // Every reservation gets a row when it ends.
        let row: TestRow = wait_until(&format!("an end ({context})"), || {
            let rows = results(&a);
            let new = rows.len() > before && rows[0].state != State::Running;
            new.then(|| rows.into_iter().next()).flatten()
        });
        if let Some(requested) = &requested {
            assert_eq!(row.id, requested.id, "{context}");
        }
        let over = end(&a, &row.id);
        match expected {
            Expected::Result => assert_eq!(row.state, State::Finished, "{context}: {row:?}"),
            Expected::NoResult => {
                assert_ne!(row.state, State::Finished, "{context}: {row:?}");
                assert_ne!(over.phase, "finished", "{context}: {}", over.text);
            }
            _ => {}
        }
        if row.state == State::Finished {
            assert!(
                row.record.as_ref().is_some_and(|record| Path::new(record).exists()),
                "{context}: {row:?}"
            );
            // The other end gets it too, however often either was killed.
            wait_until(&format!("the peer's copy ({context})"), || {
                results(&b).into_iter().find(|copy| copy.id == row.id)
            });
        } else {
            assert!(row.reason.is_some(), "{context}: {row:?}");
        }
    }
    [&a, &b].into_iter().for_each(wait_for_empty_calendar);
    // Both still agree on new tests.
    let next = a.reserve(request()).unwrap();
    let over = end(&a, &next.id);
    assert_eq!(over.phase, "finished", "after {context}: {}", over.text);
    // The peer records the end after the lead: its restart would do so instead, and stop at the next round's
    // moment.
    [&a, &b].into_iter().for_each(wait_for_empty_calendar);
}

/// No calendar has overlapping bookings, and no two tests ran at once.
fn verify(mesh: &Mesh) {
    for (directory, name) in mesh.directories.iter().zip(["a", "b"]) {
        let file = directory.join("state/calendar.sqlite");
        CalendarFile::open(&file, name.into(), Settings::default()).unwrap();
    }
    let _a = Agent::start(&mesh.directories[0]);
    let mut ran: Vec<TestRow> =
        results(&mesh.client(0)).into_iter().filter(|row| row.state != State::NotRun).collect();
    ran.sort_by_key(|row| row.start_us);
    for pair in ran.windows(2) {
        assert!(pair[0].start_us + pair[0].duration_us <= pair[1].start_us, "{pair:?}");
    }
}

#[test]
fn the_lead_is_killed_at_each_step() {
    let mesh = Mesh::of(&["a", "b"]);
    for (moment, expected) in LEAD {
        play(&mesh, 0, moment, expected);
    }
    verify(&mesh);
}

#[test]
fn the_peer_is_killed_at_each_step() {
    let mesh = Mesh::of(&["a", "b"]);
    for (moment, expected) in PEER {
        play(&mesh, 1, moment, expected);
    }
    verify(&mesh);
}

/// The clock of the lead is stepped by an hour between the booking and the start, and back.
#[test]
fn a_clock_step_starts_no_test_and_blocks_no_calendar() {
    let mesh = Mesh::of(&["a", "b"]);
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let [a, b] = [0, 1].map(|index| mesh.client(index));
    for step_s in [3600, -3600] {
        let booked = a.reserve(NewReservation { in_us: 12_000_000, within_us: 0, ..request() }).unwrap();
        wait_until("the booking", || {
            a.why(&booked.id).unwrap().into_iter().find(|known| known.phase == "booked")
        });
        step_clock(&mesh.directories[0], step_s);
        let over = end(&b, &booked.id);
        assert_eq!(over.phase, "not_run", "{step_s}: {}", over.text);
        // New tests are refused with the cause.
        let refused = a.reserve(NewReservation { within_us: 20_000_000, ..request() }).unwrap();
        let over = end(&a, &refused.id);
        assert!(over.text.contains("clocks"), "{step_s}: {}", over.text);
        step_clock(&mesh.directories[0], 0);
        // With a clock that is an hour late, the slot had not begun.
        let over = end(&a, &booked.id);
        assert_eq!(over.phase, "not_run", "{step_s}: {}", over.text);
        let back = a.reserve(request()).unwrap();
        assert_eq!(end(&a, &back.id).phase, "finished", "{step_s}: {:?}", a.why(&back.id));
        [&a, &b].into_iter().for_each(wait_for_empty_calendar);
    }
    // Two tests ran, one after each step back.
    assert_eq!(results(&a).iter().filter(|row| row.state == State::Finished).count(), 2);
}

#[test]
fn a_peer_that_vanishes_blocks_no_calendar() {
    let mesh = Mesh::of(&["a", "b"]);
    let _a = Agent::start(&mesh.directories[0]);
    let b = Agent::start_with(&mesh.directories[1], "Started running");
    let client = mesh.client(0);
    let during = client.reserve(request()).unwrap();
    b.wait_for_moment();
    // Its connections are not closed, unlike after a kill.
    b.freeze();
    let over = end(&client, &during.id);
    assert_ne!(over.phase, "finished", "{}", over.text);
    wait_for_empty_calendar(&client);
    let unanswered = client.reserve(NewReservation { within_us: 8_000_000, ..request() }).unwrap();
    let over = end(&client, &unanswered.id);
    assert!(over.text.ends_with("not run: b did not reply"), "{}", over.text);
    b.kill();
    let refused = client.reserve(NewReservation { within_us: 8_000_000, ..request() }).unwrap();
    let over = end(&client, &refused.id);
    assert!(over.text.ends_with("not run: b did not reply"), "{}", over.text);
    wait_for_empty_calendar(&client);
    // When the peer is back, reservations succeed again.
    let _b = Agent::start(&mesh.directories[1]);
    let back = client.reserve(request()).unwrap();
    assert_eq!(end(&client, &back.id).phase, "finished", "{:?}", client.why(&back.id));
    assert!(client.status().unwrap().uptime_s < Duration::from_secs(3600).as_secs());
}
