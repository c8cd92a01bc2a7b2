//! Reno in C with the test kit: the results on which all other tests depend.

use cc::native::Library;
use cc::{ParameterValues, Source};
use tcp::CaState;
use tcp::test_kit::{Path, Rounds};

fn reno(path: Path) -> Rounds<cc::native::Controller> {
    let library = Library::open(&Source::built_in("reno").unwrap(), &ParameterValues::new()).unwrap();
    Rounds::new(path, library.controller(None).unwrap())
}

#[test]
fn reno_doubles_then_grows_by_one_then_halves() {
    let mut rounds = reno(Path { rate_bps: 10_000_000_000, ..Path::default() });
    rounds.sk_mut().snd_ssthresh = 320;
    let rows = rounds.run(15);
    let cwnd: Vec<u32> = rows.iter().map(|r| r.cwnd).collect();
    assert_eq!(cwnd[..5], [20, 40, 80, 160, 320]);
    assert_eq!(cwnd[14] - cwnd[5], 9);
    let before = cwnd[14];

    rounds.lose_next(1);
    let cwnd: Vec<u32> = rounds.run(5).iter().map(|r| r.cwnd).collect();
    assert_eq!(cwnd, [before + 1, before / 2, before / 2 + 1, before / 2 + 2, before / 2 + 3]);
    assert_eq!((rounds.sk().snd_ssthresh, rounds.sk().ca_state()), (before / 2, CaState::Open));
    assert_eq!(rounds.sk().lost, 1);
}

#[test]
fn a_full_queue_makes_a_sawtooth_that_fills_the_link() {
    let mut rounds = reno(Path::default());
    rounds.run_until(10_000_000);
    let (delivered, start) = (rounds.sk().delivered, rounds.time_us());
    let rows = rounds.run_until(40_000_000);
    let rate =
        f64::from(rounds.sk().delivered - delivered) * 1448.0 * 8e6 / (rounds.time_us() - start) as f64;
    let (low, high) =
        (rows.iter().map(|r| r.cwnd).min().unwrap(), rows.iter().map(|r| r.cwnd).max().unwrap());
    assert!(rate > 99e6 && rate <= 100.1e6, "{rate}");
    assert!((340..=352).contains(&high) && (165..=176).contains(&low), "{low} {high}");
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let run = |seed| reno(Path { loss: 0.001, seed, ..Path::default() }).run(300);
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_timeout_restarts_from_one_packet_and_recovers() {
    let mut rounds = reno(Path::default());
    rounds.run(4);
    rounds.timeout();
    assert_eq!((rounds.sk().snd_cwnd, rounds.sk().ca_state()), (1, CaState::Loss));
    rounds.run(12);
    assert_eq!(rounds.sk().ca_state(), CaState::Open);
    assert_eq!(rounds.sk().lost_out, 0);
}

#[test]
fn marks_halve_the_window_once_per_round_trip_without_a_loss() {
    let mut rounds = reno(Path { ecn: true, rate_bps: 10_000_000_000, ..Path::default() });
    rounds.sk_mut().snd_ssthresh = 100;
    rounds.run(6);
    let before = rounds.sk().snd_cwnd;
    rounds.mark_next(20);
    rounds.run(3);
    assert_eq!((rounds.sk().snd_ssthresh, rounds.sk().lost), (before / 2, 0));
}

#[test]
fn an_undo_restores_the_window() {
    let mut rounds = reno(Path { rate_bps: 10_000_000_000, ..Path::default() });
    rounds.sk_mut().snd_ssthresh = 100;
    rounds.run(6);
    let before = rounds.sk().snd_cwnd;
    rounds.lose_next(1);
    rounds.round();
    rounds.undo();
    rounds.run(2);
    assert!(rounds.sk().snd_cwnd >= before);
}

#[test]
fn the_window_does_not_grow_if_the_application_is_slow() {
    let mut rounds = reno(Path { rate_bps: 10_000_000_000, ..Path::default() });
    rounds.sk_mut().snd_ssthresh = 5;
    for _ in 0..20 {
        rounds.set_backlog(Some(3));
        rounds.run(1);
        rounds.idle(50_000);
    }
    assert_eq!(rounds.sk().snd_cwnd, 10);
}
