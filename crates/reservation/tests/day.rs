//! A day of a mesh of 50 points that all test each other, with lost and repeated messages, kills, partitions,
//! and clock steps of an hour.

use reservation::{Class, Recurrence, Settings, Spec, Task};
use units::Time;

use crate::simulation::{Network, Simulation, name, throughput, utc_at};

const POINTS: usize = 50;
const DAY: Time = Time::from_secs(86_400);
/// Time between two tests of a pair.
const EVERY: Time = Time::from_secs(4 * 3600);
/// An hour, ns.
const HOUR_NS: i64 = 3_600_000_000_000;

/// The simulation asserts with each step that nothing is booked twice and that no two tests that exclude each
/// other run.
#[test]
fn nothing_is_booked_twice_in_a_day_of_a_mesh_of_50_points() {
    let network = Network { loss_ppm: 10_000, duplicate_ppm: 10_000, crash_ppm: 100, ..Network::default() };
    let settings = Settings { retention: Time::from_secs(3 * 86_400), ..Settings::default() };
    let mut simulation = Simulation::new(POINTS, 24, network, &settings);
    simulation.verify_every = 101;
    let start = simulation.now;
    for from in 0..POINTS {
        for to in (0..POINTS).filter(|to| *to != from) {
            let task = Task {
                name: format!("to-{to}").as_str().into(),
                lead: name(from),
                spec: Spec { class: Class::Exclusive, ..throughput(to, start, 0, 20) },
                recurrence: Recurrence {
                    first: utc_at(start),
                    every: EVERY,
                    slip: EVERY / 2,
                    random_start: true,
                    until: Some(utc_at(start) + DAY),
                    max_runs: None,
                },
            };
            simulation.add_task(from, task);
        }
    }
    for number in 0..12_u64 {
        let at = start + Time::from_secs(number * 7200);
        let host = simulation.draws.below(POINTS as u64) as usize;
        let by_ns = if number.is_multiple_of(2) { HOUR_NS } else { -HOUR_NS };
        simulation.step_clock_at(at + Time::from_secs(600), host, by_ns);
        simulation.step_clock_at(at + Time::from_secs(1800), host, -by_ns);
        let side: Vec<bool> = (0..POINTS).map(|_| simulation.draws.below(2) == 0).collect();
        simulation.partition_at(at + Time::from_secs(3600), at + Time::from_secs(3900), side);
    }
    simulation.run_until(start + DAY);
    // The faults end; so must all reservations.
    simulation.network = Network::default();
    simulation.run_until(start + DAY + EVERY + Time::from_secs(3600));
    simulation.assert_all_ended();
    let counts = &simulation.counts;
    let wanted = (POINTS * (POINTS - 1)) as u64 * (DAY.as_nanos() / EVERY.as_nanos());
    println!("{wanted} tests wanted, {counts:?}");
    // The faults happened, and did not keep the tests from running.
    assert!(counts.crashes > 10, "{counts:?}");
    assert!(counts.runs > wanted * 9 / 10, "{} of {wanted} ran", counts.runs);
}
