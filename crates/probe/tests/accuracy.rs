//! Each method on random paths in virtual time, against what the network knows: sixty paths, or as many as
//! LONGFAT_PATHS says (docs/probe.md has a thousand).

mod virtual_path;

use probe::{Available, AvailableAnswer, Buffer, BufferAnswer, Capacity, Chirps};
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
    tell("capacity", &score, 0.1);
    assert!(score.median() < 0.03);
    assert!(score.wrong_without_warning(0.1) <= score.answers.len() / 50);
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
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                BufferAnswer { plot: Vec::new(), ..answer }
            );
        }
    }
    tell("buffer", &score, 0.15);
    println!("{kinds} of {all} queues named rightly");
    assert!(score.median() < 0.05 && kinds * 10 >= all * 8);
    assert!(score.wrong_without_warning(0.15) <= score.answers.len() / 50);
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
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                AvailableAnswer { capacity: None, ..answer }
            );
        }
    }
    tell("available", &score, 0.3);
    assert!(score.median() < 0.1);
    assert!(score.wrong_without_warning(0.3) <= score.answers.len() / 50);
}

#[test]
fn chirps_are_cheap_and_less_exact() {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let answer = path.open().run(&mut Chirps::new(path.limits()));
        let value = answer.available_bps.map(|found| found.value);
        score.add(value, path.available_bps(), answer.validity.valid);
    }
    tell("chirps", &score, 0.5);
    assert!(score.median() < 0.35);
    assert!(score.wrong_without_warning(0.5) <= score.answers.len() / 25);
}

fn tell(what: &str, score: &Score, wrong: f64) {
    println!(
        "{what}: error {:.2} % in the median, {:.1} % in 3 of 4; {} of {} doubtful; {} off by more than {:.0} % without a doubt",
        score.median() * 100.0,
        score.quantile(0.75) * 100.0,
        score.doubtful(),
        score.answers.len(),
        score.wrong_without_warning(wrong),
        wrong * 100.0
    );
}
