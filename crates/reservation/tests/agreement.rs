//! Agreements without faults, and with one fault at a chosen step.

use reservation::{
    Admission, AdmitAll, Body, Candidate, Class, Now, Outcome, Phase, Point, Reason, Recurrence,
    ReservationId, Role, Settings, Spec, Task,
};
use units::{Instant, Time};

use crate::simulation::{EPOCH, Network, Simulation, name, throughput, utc_at};

fn simulation(count: usize) -> Simulation {
    Simulation::new(count, 3, Network::default(), &Settings::default())
}

fn seconds(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn id(origin: usize, number: u64) -> ReservationId {
    ReservationId { number, origin: name(origin) }
}

fn point(simulation: &Simulation, host: usize) -> &Point {
    simulation.hosts[host].point.as_ref().unwrap()
}

fn outcome(simulation: &Simulation, host: usize, id: &ReservationId) -> Outcome {
    match &point(simulation, host).reservation(id).unwrap().phase {
        Phase::Ended(outcome) => outcome.clone(),
        phase => panic!("{id} has not ended: {phase:?}"),
    }
}

#[test]
fn two_points_book_run_and_complete_a_test() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(5));
    for host in 0..2 {
        assert_eq!(point(&simulation, host).reservation(&id(0, 1)).unwrap().phase, Phase::Booked);
    }
    let [lead, peer] =
        [0, 1].map(|host| point(&simulation, host).reservation(&id(0, 1)).unwrap().slot.unwrap());
    assert_eq!(lead.start, peer.start);
    assert_eq!(lead.padding, peer.padding, "both keep the same time free");
    let errors = simulation.clocks(0).error + simulation.clocks(1).error;
    assert!(peer.padding >= seconds(1) + errors + Time::from_millis(400), "{peer:?}");
    assert!(point(&simulation, 0).explain(&id(0, 1)).unwrap().contains("booked for 2027-01-15"));
    simulation.run_until(start + seconds(200));
    assert_eq!(
        (outcome(&simulation, 0, &id(0, 1)), outcome(&simulation, 1, &id(0, 1))),
        (Outcome::Finished, Outcome::Finished)
    );
    assert_eq!(simulation.counts.runs, 1);
    simulation.assert_all_ended();
}

#[test]
fn the_peers_calendar_moves_the_slot() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 2, 2, throughput(1, start + seconds(60), 0, 30));
    simulation.request_at(start + seconds(5), 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(20));
    let other = point(&simulation, 1).reservation(&id(2, 1)).unwrap().slot.unwrap();
    let moved = point(&simulation, 1).reservation(&id(0, 1)).unwrap().slot.unwrap();
    let gap = moved.from().since(other.until());
    assert!(gap < seconds(1), "the next slot begins where the other ends: {gap}");
    simulation.run_until(start + seconds(400));
    assert_eq!(simulation.counts.runs, 2);
    simulation.assert_all_ended();
}

#[test]
fn without_a_common_slot_the_conflict_is_named() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 2, 2, throughput(1, start + seconds(60), 0, 30));
    simulation.request_at(start + seconds(5), 0, 0, throughput(1, start + seconds(70), 5, 30));
    simulation.run_until(start + seconds(20));
    let text = point(&simulation, 0).explain(&id(0, 1)).unwrap();
    assert!(
        text.starts_with(
            "p0000/1: not run: no free slot at p0001: the exclusive test p0002/1 occupies 2027-01-15 "
        ),
        "{text}"
    );
    let busy = point(&simulation, 1).calendar().busy(utc_at(start), utc_at(start) + seconds(1000));
    assert_eq!(busy.slots.len(), 1);
    assert_eq!(busy.not_free_for_exclusive, busy.slots[0].until.since(busy.slots[0].from));
    assert_eq!(busy.free_for_exclusive.len(), 2);
}

/// Both propose the same time to each other at the same instant.
#[test]
fn crossing_proposals_both_get_a_slot() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.request_at(start, 1, 1, throughput(0, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(400));
    assert_eq!(simulation.counts.runs, 2);
    simulation.assert_all_ended();
}

#[test]
fn a_ring_of_crossing_proposals_ends() {
    let mut simulation = simulation(7);
    let start = simulation.now;
    for host in 0..7 {
        simulation.request_at(start, host, host, throughput((host + 1) % 7, start + seconds(60), 600, 30));
    }
    simulation.run_until(start + seconds(1000));
    assert_eq!(simulation.counts.runs, 7, "{:?}", simulation.outcomes());
    simulation.assert_all_ended();
}

#[test]
fn higher_priority_displaces_and_the_displaced_test_moves() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 600, 30));
    let urgent = Spec { priority: 9, ..throughput(1, start + seconds(60), 0, 30) };
    simulation.request_at(start + seconds(5), 2, 2, urgent);
    simulation.run_until(start + seconds(20));
    let [moved, first] =
        [id(0, 1), id(2, 1)].map(|id| point(&simulation, 1).reservation(&id).unwrap().slot.unwrap());
    assert!(moved.from() >= first.until());
    let text = point(&simulation, 0).explain(&id(0, 1)).unwrap();
    assert!(text.contains("lost its previous slot: p0002/1 of priority 9 displaced it at p0001"), "{text}");
    simulation.run_until(start + seconds(400));
    assert_eq!(simulation.counts.runs, 2);
    simulation.assert_all_ended();
}

#[test]
fn a_running_test_is_not_displaced() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 0, 100));
    let urgent = Spec { priority: 9, ..throughput(1, start + seconds(80), 600, 30) };
    simulation.request_at(start + seconds(70), 2, 2, urgent);
    simulation.run_until(start + seconds(600));
    let [running, urgent] =
        [id(0, 1), id(2, 1)].map(|id| point(&simulation, 1).reservation(&id).unwrap().slot.unwrap());
    assert!(urgent.from() >= running.until());
    assert_eq!(simulation.counts.runs, 2);
}

#[test]
fn background_tests_run_beside_exclusive_ones() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    let background = Spec { class: Class::Background, ..throughput(1, start + seconds(60), 0, 30) };
    simulation.request_at(start, 0, 0, background);
    simulation.request_at(start + seconds(1), 0, 0, throughput(1, start + seconds(60), 0, 30));
    simulation.run_until(start + seconds(400));
    assert_eq!(simulation.counts.runs, 2);
}

#[test]
fn a_third_party_requests_a_test_and_receives_its_outcome() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 2, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(5));
    assert_eq!(point(&simulation, 0).reservation(&id(2, 1)).unwrap().role, Role::Lead);
    let text = point(&simulation, 2).explain(&id(2, 1)).unwrap();
    assert!(text.contains("p0000 has a slot at 2027-01-15"), "{text}");
    simulation.run_until(start + seconds(400));
    assert_eq!(outcome(&simulation, 2, &id(2, 1)), Outcome::Finished);
    simulation.assert_all_ended();
}

/// A point behind a firewall requests that another one lead a test with itself.
#[test]
fn the_requester_may_be_the_peer() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    simulation.request_at(start, 1, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(400));
    assert_eq!(outcome(&simulation, 1, &id(1, 1)), Outcome::Finished);
    assert_eq!(simulation.counts.runs, 1);
    simulation.assert_all_ended();
}

/// The round trip is 15 times the default: the first padding would be too short.
#[test]
fn a_long_round_trip_is_measured_before_the_slot_is_booked() {
    let network = Network {
        min_delay: Time::from_millis(1500),
        max_delay: Time::from_millis(1501),
        ..Network::default()
    };
    let mut simulation = Simulation::new(2, 3, network, &Settings::default());
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(30));
    let booked = point(&simulation, 1).reservation(&id(0, 1)).unwrap();
    assert_eq!((booked.revision, &booked.phase), (2, &Phase::Booked));
    assert!(booked.slot.unwrap().padding >= seconds(7), "{booked:?}");
    simulation.run_until(start + seconds(400));
    assert_eq!(simulation.counts.runs, 1);
}

/// A reply after 29.8 s needs more padding than any slot may have. Later tests measure it again instead of
/// always using this value.
#[test]
fn one_slow_reply_does_not_prevent_later_tests() {
    let slow = Network {
        min_delay: Time::from_millis(14_900),
        max_delay: Time::from_millis(14_901),
        ..Network::default()
    };
    let mut simulation = Simulation::new(2, 3, slow, &Settings::default());
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(200), 600, 30));
    simulation.run_until(start + seconds(150));
    let Outcome::NotRun(Reason::Rule { rule, .. }) = outcome(&simulation, 0, &id(0, 1)) else {
        panic!("{:?}", outcome(&simulation, 0, &id(0, 1)));
    };
    assert!(rule.contains("padding"), "{rule}");
    simulation.network = Network::default();
    simulation.request_at(start + seconds(200), 0, 0, throughput(1, start + seconds(300), 600, 30));
    simulation.run_until(start + seconds(1500));
    assert_eq!(outcome(&simulation, 0, &id(0, 2)), Outcome::Finished);
    simulation.assert_all_ended();
}

#[test]
fn a_third_party_cancels_its_request() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 2, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(10));
    simulation.cancel(2, &id(2, 1));
    simulation.run_until(start + seconds(20));
    for host in 0..2 {
        let text = point(&simulation, host).explain(&id(2, 1)).unwrap();
        assert!(text.contains("not run: cancelled at p0002"), "{text}");
    }
    assert_eq!(simulation.counts.runs, 0);
    simulation.assert_all_ended();
}

#[test]
fn a_test_without_a_peer_needs_no_message() {
    let mut simulation = simulation(1);
    let start = simulation.now;
    let trace = Spec { peer: None, ..throughput(0, start + seconds(10), 10, 5) };
    simulation.request_at(start, 0, 0, trace);
    simulation.run_until(start + seconds(60));
    assert_eq!((simulation.counts.runs, simulation.counts.messages), (1, 0));
    assert_eq!(outcome(&simulation, 0, &id(0, 1)), Outcome::Finished);
}

#[test]
fn an_unreachable_peer_is_named_after_the_last_possible_start() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    simulation.partition_at(start, start + seconds(5000), vec![false, true]);
    simulation.request_at(start + seconds(1), 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(700));
    let reason = Reason::Unreachable { point: name(1) };
    assert_eq!(outcome(&simulation, 0, &id(0, 1)), Outcome::NotRun(reason));
    assert!(simulation.counts.longest_hold <= seconds(31));
}

#[test]
fn a_temporary_partition_only_delays_the_test() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    simulation.partition_at(start, start + seconds(100), vec![false, true]);
    simulation.request_at(start + seconds(1), 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(800));
    assert_eq!(outcome(&simulation, 0, &id(0, 1)), Outcome::Finished);
}

#[test]
fn clocks_that_disagree_are_named() {
    for (host, by_s) in [(0, 3600), (0, -3600), (1, 3600), (1, -3600)] {
        let mut simulation = simulation(2);
        let start = simulation.now;
        simulation.step_clock_at(start, host, by_s * 1_000_000_000);
        let wide = Spec { earliest: EPOCH, ..throughput(1, start, 20_000, 30) };
        simulation.request_at(start + seconds(1), 0, 0, wide);
        simulation.run_until(start + seconds(100));
        let Outcome::NotRun(Reason::ClocksDisagree { difference, .. }) = outcome(&simulation, 0, &id(0, 1))
        else {
            panic!("{:?}", outcome(&simulation, 0, &id(0, 1)));
        };
        assert!(difference.abs_diff(seconds(3600)) < seconds(1), "{difference}");
        assert_eq!(simulation.counts.runs, 0);
    }
}

/// The clock of either end is stepped between the booking and the start: nothing runs, and both ends have the
/// reason.
#[test]
fn a_clock_step_after_booking_prevents_the_run() {
    for (host, by_s) in [(0, 3600), (0, -3600), (1, 3600), (1, -3600)] {
        let mut simulation = simulation(2);
        let start = simulation.now;
        simulation.request_at(start, 0, 0, throughput(1, start + seconds(600), 0, 30));
        simulation.step_clock_at(start + seconds(300), host, by_s * 1_000_000_000);
        simulation.run_until(start + seconds(9000));
        assert_eq!(simulation.counts.runs, 0);
        for host in 0..2 {
            assert!(matches!(outcome(&simulation, host, &id(0, 1)), Outcome::NotRun(_)));
        }
        simulation.assert_all_ended();
    }
}

#[test]
fn recurring_tests_run_with_slip_and_end() {
    let mut simulation = simulation(2);
    let start = simulation.now;
    let recurrence = Recurrence {
        first: utc_at(start) + seconds(100),
        every: seconds(600),
        slip: seconds(300),
        random_start: true,
        until: None,
        max_runs: Some(10),
    };
    let task = Task { name: "mesh".into(), lead: name(0), spec: throughput(1, start, 0, 20), recurrence };
    simulation.add_task(0, task);
    simulation.run_until(start + seconds(3000));
    simulation.kill(0);
    simulation.run_until(start + seconds(8000));
    let starts: Vec<Time> = point(&simulation, 0)
        .reservations()
        .filter(|known| known.phase == Phase::Ended(Outcome::Finished))
        .map(|known| known.slot.unwrap().start.since(utc_at(start)))
        .collect();
    assert_eq!(starts.len(), 10, "a restart neither repeats nor omits an occurrence: {starts:?}");
    for (number, start) in starts.iter().enumerate() {
        let late = start.minus(seconds(100 + 600 * number as u64));
        assert!(late <= seconds(302), "{late}");
    }
    assert!(starts.windows(2).any(|pair| pair[1].minus(pair[0]).abs_diff(seconds(600)) > seconds(30)));
    assert!(point(&simulation, 0).reservations().all(|known| known.task.is_some()));
}

/// Only a point itself gives its reservations numbers: a member that proposes with another's number changes
/// nothing there.
#[test]
fn a_proposal_with_a_number_that_the_peer_never_assigned_is_refused() {
    let simulation = simulation(2);
    let now = simulation.clocks(1);
    let before = point(&simulation, 1).clone();
    let mut peer = before.clone();
    let mut lead = Point::new(name(0), Settings::default());
    let spec = throughput(1, simulation.now + seconds(60), 600, 30);
    let (_, step) = lead.reserve(simulation.clocks(0), spec.clone(), &reservation::AdmitAll);
    let (_, mut message) = step.messages.into_iter().next().unwrap();
    message.id = id(1, u64::MAX);
    let Body::Propose { request, .. } = &mut message.body else { panic!("{message:?}") };
    request.id = message.id.clone();
    let step = peer.handle_message(now, &name(0), message, &reservation::AdmitAll);
    let refused = Body::Refuse { reason: Reason::Unknown { point: name(1) } };
    assert_eq!(step.messages.iter().map(|(_, message)| &message.body).collect::<Vec<_>>(), [&refused]);
    assert_eq!(peer.state(), before.state());
    let spec = Spec { peer: Some(name(0)), ..spec };
    let (first, _) = peer.reserve(now, spec.clone(), &reservation::AdmitAll);
    let (second, _) = peer.reserve(now, spec, &reservation::AdmitAll);
    assert_eq!((first, second), (id(1, 1), id(1, 2)));
}

/// Replies to requests of points that have no part in a reservation.
#[test]
fn messages_of_uninvolved_points_change_nothing() {
    let mut simulation = simulation(3);
    let start = simulation.now;
    simulation.request_at(start, 0, 0, throughput(1, start + seconds(60), 600, 30));
    simulation.run_until(start + seconds(5));
    let now = simulation.clocks(1);
    let before = point(&simulation, 1).clone();
    let mut peer = before.clone();
    let reason = Reason::Unknown { point: name(2) };
    for body in [Body::Confirm, Body::Start, Body::Cancel { reason }, Body::Confirmed, Body::Started] {
        let message = reservation::Message {
            id: id(0, 1),
            revision: 9,
            sent: now.utc,
            echo: None,
            error: now.error,
            body,
        };
        let step = peer.handle_message(now, &name(2), message, &reservation::AdmitAll);
        assert_eq!((step.events, step.messages), (vec![], vec![]));
    }
    assert_eq!(peer.state(), before.state());
}

/// Refuses all requests.
struct Closed;

impl Admission for Closed {
    fn admit(&self, _: &Candidate<'_>) -> Result<(), String> {
        Err("closed".into())
    }
}

/// A point cannot fill the storage of another one with requests that are refused.
#[test]
fn a_refused_request_of_a_third_party_is_not_stored() {
    let now = Now { steady: Instant::from_secs(5), utc: EPOCH, error: Time::from_millis(1) };
    let mut lead = Point::new(name(0), Settings::default());
    let booked = throughput(1, Instant::from_secs(100), 0, 30);
    let (own, step) = lead.reserve(now, booked.clone(), &AdmitAll);
    assert!(!step.events.is_empty());
    let known = lead.reservations().count();
    let free = throughput(1, Instant::from_secs(500), 0, 30);
    type Case<'a> = (&'a dyn Fn(&mut Spec), &'a dyn Admission, &'a str);
    let cases: [Case<'_>; 6] = [
        (&|_| {}, &Closed, "closed"),
        (&|spec| *spec = booked.clone(), &AdmitAll, "no free slot"),
        (&|spec| spec.latest = Instant::NEVER, &AdmitAll, "its latest start is more than"),
        (&|spec| spec.user = Some("x".repeat(1 << 20)), &AdmitAll, "one of its texts is longer"),
        (&|spec| spec.test.parameters = "x".repeat(1 << 20), &AdmitAll, "one of its texts is longer"),
        (&|spec| spec.earliest = Instant::ZERO, &AdmitAll, "its latest start is more than"),
    ];
    let mut requester = Point::new(name(2), Settings::default());
    for (change, admission, expected) in cases {
        let (id, step) = requester.request(now, name(0), free.clone(), &AdmitAll);
        let (_, mut message) = step.messages.into_iter().next().unwrap();
        let Body::Request { request } = &mut message.body else { panic!("{message:?}") };
        change(&mut request.spec);
        let mut reply = lead.handle_message(now, &name(2), message, admission);
        assert_eq!((reply.events, lead.reservations().count()), (vec![], known), "{expected}");
        let (to, report) = reply.messages.remove(0);
        assert_eq!(to, name(2));
        let _ = requester.handle_message(now, &name(0), report, &AdmitAll);
        let text = requester.explain(&id).unwrap();
        assert!(text.contains("not run") && text.contains(expected), "{text}");
    }
    assert!(lead.reservation(&own).is_some());
}

/// The latest start, which a requester chooses, does not keep an ended reservation in memory.
#[test]
fn ended_reservations_are_forgotten_whatever_their_latest_start() {
    let mut now = Now { steady: Instant::from_secs(5), utc: EPOCH, error: Time::from_millis(1) };
    let mut point = Point::new(name(0), Settings::default());
    let spec = throughput(1, Instant::from_secs(100), 300 * 86_400, 30);
    let (id, _) = point.reserve(now, spec, &AdmitAll);
    let _ = point.cancel(now, &id, &"x".repeat(1 << 20), &AdmitAll);
    assert!(point.explain(&id).unwrap().len() < 3000);
    now.utc += seconds(15 * 86_400);
    let _ = point.handle_timeout(now, &AdmitAll);
    assert_eq!(point.reservations().count(), 0);
}

/// Reservations that end at once are remembered: their number is limited too.
#[test]
fn another_point_cannot_fill_the_memory_with_cancelled_reservations() {
    let now = Now { steady: Instant::from_secs(5), utc: EPOCH, error: Time::from_millis(1) };
    let mut peer = Point::new(name(1), Settings { max_known: 10, ..Settings::default() });
    let mut lead = Point::new(name(0), Settings::default());
    for number in 1..=12 {
        let (id, step) = lead.reserve(now, throughput(1, Instant::from_secs(1000), 0, 30), &AdmitAll);
        let mut messages = step.messages;
        messages.extend(lead.cancel(now, &id, "", &AdmitAll).messages);
        let mut replies = Vec::new();
        for (_, message) in messages {
            replies.extend(peer.handle_message(now, &name(0), message, &AdmitAll).messages);
        }
        let is_refused = replies.iter().any(|(_, reply)| matches!(reply.body, Body::Refuse { .. }));
        assert_eq!(is_refused, number > 10, "{replies:?}");
    }
    assert_eq!(peer.reservations().count(), 10);
    // Its own are not limited, and those of the other point are again accepted when the old ones are
    // forgotten.
    for _ in 0..20 {
        let (id, _) = peer.reserve(now, throughput(0, Instant::from_secs(1000), 0, 30), &AdmitAll);
        let _ = peer.cancel(now, &id, "", &AdmitAll);
    }
    let later = Now { utc: EPOCH + seconds(30 * 86_400), ..now };
    let _ = peer.handle_timeout(later, &AdmitAll);
    assert_eq!(peer.reservations().count(), 0);
    let (_, step) = lead.reserve(later, throughput(1, Instant::from_secs(31 * 86_400), 0, 30), &AdmitAll);
    let (_, proposal) = step.messages.into_iter().next().unwrap();
    let _ = peer.handle_message(later, &name(0), proposal, &AdmitAll);
    assert_eq!(peer.reservations().count(), 1);
}
