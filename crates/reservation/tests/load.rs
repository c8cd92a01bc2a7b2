//! Many points and many reservations: utilisation, fairness, and the cost of an agreement.
//!
//! The default size takes seconds.
//! `LONGFAT_POINTS=1000 LONGFAT_RESERVATIONS=100000 cargo test -p longfat-reservation load -- --nocapture`
//! prints the figures of docs/agent.md.

use std::collections::BTreeMap;

use reservation::{Outcome, Reason, Settings};
use units::Time;

use crate::simulation::{Network, Simulation, throughput};

fn size(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Finished => "finished",
        Outcome::Failed(_) => "failed",
        Outcome::NotRun(Reason::Conflict { .. }) => "no free slot",
        Outcome::NotRun(Reason::Unreachable { .. }) => "unreachable",
        Outcome::NotRun(
            Reason::NotStarted { .. } | Reason::SlotPassed { .. } | Reason::StillRunning { .. },
        ) => "not started",
        Outcome::NotRun(Reason::ClocksDisagree { .. }) => "clocks disagree",
        Outcome::NotRun(_) => "other",
    }
}

#[test]
fn utilisation_and_fairness_of_a_mesh() {
    let points = size("LONGFAT_POINTS", 100) as usize;
    let reservations = size("LONGFAT_RESERVATIONS", 3000);
    println!(
        "| load | faults | finished | no free slot | other | utilisation | fairness | messages | proposals |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (load, has_faults) in [(0.3, false), (0.6, false), (0.6, true), (0.9, false), (1.5, false)] {
        mesh(points, reservations, load, has_faults);
    }
}

/// Random pairs request tests of 30 s. `load` is the requested share of each point's time, padding included.
fn mesh(points: usize, reservations: u64, load: f64, has_faults: bool) {
    let network = if has_faults {
        Network { loss_ppm: 10_000, duplicate_ppm: 10_000, crash_ppm: 100, ..Network::default() }
    } else {
        Network::default()
    };
    let settings = Settings { retention: Time::from_secs(86_400 * 30), ..Settings::default() };
    let mut simulation = Simulation::new(points, 42, network, &settings);
    // Verifying a whole calendar with each step is for the small simulations.
    simulation.verify_every = 97;
    let start = simulation.now;
    // Two ends each; 30 s and twice 1.24 s, the mean padding.
    let span = reservations as f64 * 2.0 * 32.5 / load / points as f64;
    let mut requested = vec![0_u64; points];
    let mut requests = BTreeMap::new();
    for _ in 0..reservations {
        let at =
            start + Time::from_secs_f64(span * simulation.draws.below(1 << 30) as f64 / f64::from(1 << 30));
        let lead = simulation.draws.below(points as u64) as usize;
        let peer = (lead + 1 + simulation.draws.below(points as u64 - 1) as usize) % points;
        requests.entry((at, lead)).or_insert(peer);
    }
    for ((at, lead), peer) in &requests {
        requested[*lead] += 1;
        simulation.request_at(*at, *lead, *lead, throughput(*peer, *at, 600, 30));
    }
    if has_faults {
        for host in (0..points).step_by(50) {
            let at = start + Time::from_secs_f64(span / 2.0);
            simulation.step_clock_at(at, host, 3_600_000_000_000);
            simulation.step_clock_at(at + Time::from_secs(300), host, -3_600_000_000_000);
        }
        let side = (0..points).map(|host| host % 2 == 0).collect();
        simulation.partition_at(
            start + Time::from_secs_f64(span / 4.0),
            start + Time::from_secs_f64(span / 4.0 + 120.0),
            side,
        );
    }
    let end = start + Time::from_secs_f64(span);
    simulation.run_until(end);
    let busy: f64 = simulation.hosts.iter().map(|host| host.exclusive_time.as_secs_f64()).sum();
    simulation.network = Network::default();
    simulation.run_until(end + Time::from_secs(6000));
    simulation.assert_all_ended();

    let outcomes = simulation.outcomes();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut finished = vec![0_u64; points];
    for (id, outcome) in &outcomes {
        *kinds.entry(kind(outcome)).or_default() += 1;
        if *outcome == Outcome::Finished {
            finished[id.origin.0[1..].parse::<usize>().unwrap()] += 1;
        }
    }
    let count = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
    let all = requests.len() as f64;
    let served: Vec<f64> = finished
        .iter()
        .zip(&requested)
        .filter(|(_, requested)| **requested > 0)
        .map(|(finished, requested)| *finished as f64 / *requested as f64)
        .collect();
    let fairness = model::jain_index(&served).expect("some requests");
    let proposals: u64 = simulation
        .hosts
        .iter()
        .map(|host| {
            host.point.as_ref().map_or(0, |point| {
                point
                    .reservations()
                    .filter(|known| known.role == reservation::Role::Lead)
                    .map(|known| u64::from(known.revision))
                    .sum()
            })
        })
        .sum();
    let utilisation = busy / (points as f64 * span);
    let other = all - (count("finished") + count("no free slot")) as f64;
    println!(
        "| {load} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {fairness:.4} | {:.1} | {:.2} |",
        if has_faults { "yes" } else { "no" },
        100.0 * count("finished") as f64 / all,
        100.0 * count("no free slot") as f64 / all,
        100.0 * other / all,
        100.0 * utilisation,
        simulation.counts.messages as f64 / all,
        proposals as f64 / all,
    );
    println!("{kinds:?} {:?}", simulation.counts);
    if !has_faults {
        assert_eq!(outcomes.len(), requests.len());
        assert_eq!(other, 0.0, "{kinds:?}");
        let min_share = if load < 0.5 { 0.97 } else { 0.4 };
        assert!(count("finished") as f64 / all > min_share, "{kinds:?}");
        assert!(fairness > 0.9, "{fairness}");
    }
}
