//! Each method on random paths in virtual time, against what the network knows. The bench does a thousand.

mod virtual_path;

use probe::{Available, AvailableAnswer, Buffer, BufferAnswer, Capacity};
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

#[test]
fn the_buffer_is_within_five_per_cent() {
    let mut score = Score::default();
    let mut kinds = 0;
    let mut all = 0;
    for seed in paths() {
        let path = RandomPath::new(seed);
        let answer = path.open().run(&mut Buffer::new(path.limits()));
        let value = answer.buffer_bytes.map(|found| found.value);
        let (truth, kind) = path.buffer();
        let named = answer.kind == kind;
        let error = score.add(value, truth, answer.validity.valid && named);
        all += 1;
        kinds += usize::from(named);
        if error.abs() > 0.05 || !named {
            println!("{seed}: {:+.1} % {path:?}\n   {:?}", error * 100.0, BufferAnswer { plot: Vec::new(), ..answer });
        }
    }
    println!("buffer: median {:.4}, 75 % {:.4}, {} doubtful, {kinds} of {all} named", score.median(), score.quantile(0.75), score.doubtful());
    assert!(score.median() < 0.05);
    assert_eq!(score.wrong_without_warning(0.15), 0);
}

#[test]
fn available_bandwidth_is_within_ten_per_cent() {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let answer = path.open().run(&mut Available::new(path.limits()));
        let value = answer.available_bps.map(|found| found.value);
        let error = score.add(value, path.available_bps(), answer.validity.valid);
        if error.abs() > 0.1 {
            println!("{seed}: {:+.1} % {path:?}\n   {:?}", error * 100.0, AvailableAnswer { capacity: None, ..answer });
        }
    }
    println!("available: median {:.4}, 75 % {:.4}, {} doubtful", score.median(), score.quantile(0.75), score.doubtful());
    assert!(score.median() < 0.1);
    assert_eq!(score.wrong_without_warning(0.3), 0);
}
