//! Properties under faults: lost, repeated and reordered messages, partitions, clock steps of an hour, and
//! kills at any step.

use proptest::prelude::*;
use reservation::{Class, Settings, Spec};
use units::Time;

use crate::simulation::{Network, Simulation, throughput};

#[derive(Debug, Clone)]
struct Faults {
    seed: u64,
    points: usize,
    reservations: u64,
    network: Network,
    clock_steps: u64,
    partitions: u64,
}

fn faults() -> impl Strategy<Value = Faults> {
    let network = (0..300_000_u64, 0..300_000_u64, 1..20_000_u64, 0..60_000_u64);
    (any::<u64>(), 2..6_usize, 1..40_u64, network, 0..4_u64, 0..3_u64).prop_map(
        |(
            seed,
            points,
            reservations,
            (loss_ppm, duplicate_ppm, max_delay_ms, crash_ppm),
            clock_steps,
            partitions,
        )| {
            Faults {
                seed,
                points,
                reservations,
                network: Network {
                    loss_ppm,
                    duplicate_ppm,
                    // Up to 20 s: longer than the first repetitions.
                    max_delay: Time::from_millis(max_delay_ms),
                    min_delay: Time::from_millis(1),
                    crash_ppm,
                    ..Network::default()
                },
                clock_steps,
                partitions,
            }
        },
    )
}

/// Requests and faults for an hour, and then time for all to end. The simulation asserts the properties.
fn play(faults: &Faults) -> Simulation {
    let settings = Settings { retention: Time::from_secs(20_000), ..Settings::default() };
    let mut simulation = Simulation::new(faults.points, faults.seed, faults.network.clone(), &settings);
    let start = simulation.now;
    let points = faults.points as u64;
    for _ in 0..faults.reservations {
        let at = start + Time::from_secs(simulation.draws.below(3600));
        let lead = simulation.draws.below(points) as usize;
        let peer = (lead + 1 + simulation.draws.below(points - 1) as usize) % faults.points;
        let host =
            if simulation.draws.below(4) == 0 { simulation.draws.below(points) as usize } else { lead };
        let window = 1 + simulation.draws.below(900);
        let class = [Class::Exclusive, Class::Exclusive, Class::Normal, Class::Background];
        let spec = Spec {
            class: class[simulation.draws.below(4) as usize],
            priority: simulation.draws.below(3) as i32,
            ..throughput(
                peer,
                at + Time::from_secs(simulation.draws.below(120)),
                window,
                1 + simulation.draws.below(120),
            )
        };
        simulation.request_at(at, host, lead, spec);
    }
    for _ in 0..faults.clock_steps {
        let at = start + Time::from_secs(simulation.draws.below(3600));
        let host = simulation.draws.below(points) as usize;
        let by_ns = [3_600_000_000_000, -3_600_000_000_000][simulation.draws.below(2) as usize];
        simulation.step_clock_at(at, host, by_ns);
        let corrected = at + Time::from_secs(simulation.draws.below(1800));
        simulation.step_clock_at(corrected, host, -by_ns);
    }
    for _ in 0..faults.partitions {
        let from = start + Time::from_secs(simulation.draws.below(3600));
        let until = from + Time::from_secs(simulation.draws.below(600));
        let side = (0..points).map(|_| simulation.draws.below(2) == 0).collect();
        simulation.partition_at(from, until, side);
    }
    simulation.run_until(start + Time::from_secs(6000));
    // The faults end; so must all reservations.
    simulation.network = Network::default();
    simulation.run_until(start + Time::from_secs(14_000));
    simulation
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_double_booking_and_no_stuck_calendar(faults in faults()) {
        let simulation = play(&faults);
        simulation.assert_all_ended();
    }
}

/// The faults do happen, and tests run nevertheless, so the property above is not vacuous.
#[test]
fn tests_run_in_spite_of_faults() {
    let network = Network {
        loss_ppm: 100_000,
        duplicate_ppm: 100_000,
        max_delay: Time::from_secs(3),
        crash_ppm: 10_000,
        ..Network::default()
    };
    let faults = Faults { seed: 5, points: 5, reservations: 60, network, clock_steps: 2, partitions: 2 };
    let simulation = play(&faults);
    simulation.assert_all_ended();
    assert!(simulation.counts.crashes > 3, "{:?}", simulation.counts);
    assert!(simulation.counts.runs > 20, "{:?}", simulation.counts);
}

/// Equal seeds give equal events at all points.
#[test]
fn the_simulation_is_deterministic() {
    let network = Network { loss_ppm: 100_000, crash_ppm: 10_000, ..Network::default() };
    let faults = Faults { seed: 9, points: 4, reservations: 20, network, clock_steps: 1, partitions: 1 };
    let logs = || play(&faults).hosts.into_iter().map(|host| host.log).collect::<Vec<_>>();
    assert_eq!(logs(), logs());
}
