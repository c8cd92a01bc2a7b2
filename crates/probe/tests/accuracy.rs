//! Each method on random paths in virtual time, against what the network knows. The bench does a thousand.

mod virtual_path;

use probe::Capacity;
use virtual_path::random::{RandomPath, Score};

/// Paths of a test.
fn paths() -> std::ops::Range<u64> {
    0..std::env::var("LONGFAT_PATHS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[test]
fn capacity_is_within_three_per_cent() {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let answer = path.open().run(&mut Capacity::new(path.limits()));
        let value = answer.capacity_bps.map(|found| found.value);
        let error = score.add(value, path.capacity_bps(), answer.validity.valid);
        if error.abs() > 0.03 {
            println!("{seed}: {:+.1} % {path:?}\n   {answer:?}", error * 100.0);
        }
    }
    println!("capacity: median {:.4}, 90 % {:.4}, {} doubtful", score.median(), score.quantile(0.9), score.doubtful());
    assert!(score.median() < 0.03);
    assert_eq!(score.wrong_without_warning(0.1), 0);
}
