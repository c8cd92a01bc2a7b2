use std::path::Path;

use super::*;
use crate::{archive::Archive, test::Figures, test_row::tests::row as archive_row};

fn archive() -> Archive {
    Archive::open(Path::new(":memory:"), None).unwrap()
}

/// A test of a to b with this number and outcome.
pub fn test(number: i64, state: State, verdict: Option<&str>, reason_kind: Option<&str>) -> TestRow {
    TestRow {
        state,
        reason: reason_kind.map(|kind| format!("because of {kind}")),
        reason_kind: reason_kind.map(str::to_owned),
        figures: Figures {
            verdict: verdict.map(str::to_owned),
            goodput_bps: verdict.map(|_| number as f64),
            ..Figures::default()
        },
        record: None,
        ..archive_row(&format!("a/{number}"), number * 1000)
    }
}

/// A test that found a cause.
pub fn finished(number: i64, verdict: &str) -> TestRow {
    test(number, State::Finished, Some(verdict), None)
}

#[test]
fn each_outcome_is_counted_once() {
    let mut archive = archive();
    for row in [
        test(1, State::Running, None, None),
        finished(1, "loss"),
        finished(1, "loss"),
        test(2, State::Failed, None, Some("restarted")),
        test(3, State::NotRun, None, Some("rule")),
        test(4, State::NotRun, None, Some("conflict")),
        // After a kill, the record turned out to be complete.
        finished(2, "path_rate"),
    ] {
        archive.put(&row, &[]).unwrap();
    }
    let pairs = archive.pairs().unwrap();
    let [pair] = &pairs[..] else { panic!("{pairs:?}") };
    assert_eq!(pair.tests, TestCounts { finished: 2, failed: 0, refused: 1, not_run: 1 });
    assert_eq!(pair.best_goodput_bps, Some(2.0));
    assert_eq!(pair.throughput.as_ref().unwrap().start_us, 2000);
    assert_eq!(pair.conclusion.as_ref().unwrap().start_us, 2000, "a conflict is not conclusive");
    assert_eq!(pair.latency, None);
    assert_eq!(archive.pair("a", "b").unwrap().as_ref(), Some(pair));
    assert_eq!(archive.pair("b", "a").unwrap(), None);
}

#[test]
fn the_figures_of_a_pair_are_from_tcp_tests_of_the_deciding_kind() {
    let mut archive = archive();
    let diagnosis = |number, verdict| TestRow { kind: "diagnose".into(), ..finished(number, verdict) };
    let pair = |archive: &Archive| archive.pair("a", "b").unwrap().unwrap();
    // Without a throughput test, diagnoses determine the cause.
    archive.put(&diagnosis(900, "receive_buffer"), &[]).unwrap();
    let facts = pair(&archive);
    assert_eq!((facts.best_goodput_bps, facts.throughput.unwrap().kind.as_str()), (Some(900.0), "diagnose"));
    assert_eq!(facts.conclusion.unwrap().cause, "receive_buffer");
    // The first throughput test determines the cause, although the diagnosis is newer.
    archive.put(&finished(10, "loss"), &[]).unwrap();
    let facts = pair(&archive);
    assert_eq!((facts.best_goodput_bps, facts.conclusion.unwrap().cause.as_str()), (Some(10.0), "loss"));
    // UDP tests and diagnoses do not change it.
    let udp = TestRow {
        figures: Figures { goodput_bps: Some(5000.0), ..Figures::default() },
        ..test(2000, State::Finished, None, None)
    };
    for row in [udp, diagnosis(3000, "policer"), diagnosis(3001, "policer")] {
        archive.put(&row, &[]).unwrap();
    }
    let facts = pair(&archive);
    assert_eq!(facts.best_goodput_bps, Some(10.0));
    assert_eq!(facts.throughput.unwrap().start_us, 10_000);
    assert_eq!((facts.cause.unwrap().cause, facts.conclusion.unwrap().cause), ("loss".into(), "loss".into()));
    assert_eq!(facts.tests.finished, 5);
    archive.put(&finished(4000, "loss"), &[]).unwrap();
    assert_eq!(pair(&archive).best_goodput_bps, Some(4000.0));
    // The changes of each kind are separate.
    let changes = |kind: &str, since_us| archive.changes("a", "b", kind, since_us).unwrap();
    let causes = |kind: &str| changes(kind, 0).into_iter().map(|change| change.cause).collect::<Vec<_>>();
    assert_eq!(causes("throughput"), ["loss"]);
    assert_eq!(causes("diagnose"), ["receive_buffer", "policer"]);
    assert_eq!(
        changes("throughput", 3_500_000).len(),
        1,
        "the cause at the beginning, not the cause found by another kind of tests"
    );
}

#[test]
fn tests_with_different_options_are_not_compared() {
    let mut archive = archive();
    let with = |options: &str, row: TestRow| TestRow { options: Some(options.into()), ..row };
    let pair = |archive: &Archive| archive.pair("a", "b").unwrap().unwrap();
    let shown = |archive: &Archive| {
        let facts = pair(archive);
        let newest = facts.throughput.unwrap();
        (newest.start_us, newest.options, facts.best_goodput_bps, facts.cause.unwrap().cause)
    };
    // Without other tests, those with options decide.
    archive.put(&with("parallel=8", finished(900, "path_rate")), &[]).unwrap();
    let eight = Some("parallel=8".to_string());
    assert_eq!(shown(&archive), (900_000, eight.clone(), Some(900.0), "path_rate".into()));
    // Not those with yet other options, nor tests without a result.
    for number in [901, 902] {
        archive.put(&with("congestion=bbr", finished(number, "loss")), &[]).unwrap();
        archive.put(&test(number + 10, State::Failed, None, Some("test_failed")), &[]).unwrap();
    }
    assert_eq!(shown(&archive), (900_000, eight, Some(900.0), "path_rate".into()));
    // A test without options does, with its goodput alone.
    for number in [920, 921] {
        let row = finished(number, "receive_window");
        let figures = Figures { goodput_bps: Some(100.0), ..row.figures.clone() };
        archive.put(&TestRow { figures, ..row }, &[]).unwrap();
    }
    assert_eq!(shown(&archive), (921_000, None, Some(100.0), "receive_window".into()));
    archive.put(&with("parallel=8", finished(930, "path_rate")), &[]).unwrap();
    assert_eq!(shown(&archive).0, 921_000);
    let cause = pair(&archive).cause.unwrap();
    assert_eq!(archive.last_goodput(&cause).unwrap(), Some(100.0), "of an alert");
    assert_eq!(pair(&archive).tests.finished, 6);
    // When the tests without options have ended for long, others decide.
    let later = 921 + OPTIONS_TIMEOUT_US / 1000 + 1;
    archive.put(&with("parallel=8", finished(later, "path_rate")), &[]).unwrap();
    let (start_us, options, best_goodput_bps, _) = shown(&archive);
    assert_eq!((start_us, options.as_deref()), (later * 1000, Some("parallel=8")));
    assert_eq!(best_goodput_bps, Some(later as f64));
}

#[test]
fn the_newest_test_counts_whatever_its_options() {
    let mut archive = archive();
    let with = |options: &str, row: TestRow| TestRow { options: Some(options.into()), ..row };
    let diagnosis = |number| TestRow { kind: "diagnose".into(), ..finished(number, "policer") };
    let starts = |archive: &Archive| {
        let facts = archive.pair("a", "b").unwrap().unwrap();
        let (shown, tested) = (facts.throughput.unwrap(), facts.tested.unwrap());
        (shown.start_us, tested.kind, tested.start_us)
    };
    archive.put(&diagnosis(30), &[]).unwrap();
    assert_eq!(starts(&archive), (30_000, "diagnose".into(), 30_000));
    archive.put(&finished(10, "loss"), &[]).unwrap();
    assert_eq!(starts(&archive), (10_000, "throughput".into(), 10_000));
    // The options of the recurring test have been changed: the results with the old ones still decide.
    for number in [11, 12] {
        archive.put(&with("parallel=4", finished(number, "path_rate")), &[]).unwrap();
    }
    assert_eq!(starts(&archive), (10_000, "throughput".into(), 12_000));
    let facts = archive.pair("a", "b").unwrap().unwrap();
    assert_eq!((facts.cause.unwrap().cause.as_str(), facts.best_goodput_bps), ("loss", Some(10.0)));
    // A test by UDP, a diagnosis, a test without a result, and a result that arrives late.
    let udp = TestRow {
        figures: Figures { goodput_bps: Some(5.0), ..Figures::default() },
        ..test(20, State::Finished, None, None)
    };
    let failed = test(22, State::Failed, None, Some("test_failed"));
    for row in [udp, diagnosis(31), failed, with("congestion=bbr", finished(9, "loss"))] {
        archive.put(&row, &[]).unwrap();
    }
    assert_eq!(starts(&archive).2, 12_000);
    // The clock was wrong, and was corrected.
    archive.put(&with("parallel=4", finished(1_000_000, "path_rate")), &[]).unwrap();
    assert_eq!(starts(&archive).2, 1_000_000_000);
    archive.set_latest_start(500_000);
    for number in [13, 2_000_000] {
        archive.put(&with("parallel=4", finished(number, "path_rate")), &[]).unwrap();
        assert_eq!(starts(&archive), (10_000, "throughput".into(), 13_000));
    }
}

#[test]
fn the_figures_of_the_newest_probe_and_trace_are_kept() {
    let mut archive = archive();
    let of_kind = |kind: &str, number: i64, figures: Figures| TestRow {
        kind: kind.into(),
        figures,
        ..test(number, State::Finished, None, None)
    };
    let probe = |number: i64, capacity_bps: Option<f64>, available_bps: Option<f64>| {
        of_kind("probe", number, Figures { capacity_bps, available_bps, ..Figures::default() })
    };
    let trace = |number: i64, mtu_bytes: Option<u64>, hops: u64| {
        of_kind("trace", number, Figures { mtu_bytes, hops: Some(hops), ..Figures::default() })
    };
    let facts = |archive: &Archive| archive.pair("a", "b").unwrap().unwrap();
    archive.put(&finished(1, "path_rate"), &[]).unwrap();
    assert_eq!((facts(&archive).probe, facts(&archive).trace), (None, None));
    for row in [probe(10, Some(1e9), Some(8e8)), trace(11, Some(1500), 7)] {
        archive.put(&row, &[]).unwrap();
    }
    let first = facts(&archive);
    let newest = NewestProbe { start_us: 10_000, capacity_bps: Some(1e9), available_bps: Some(8e8) };
    assert_eq!(first.probe, Some(newest));
    let newest = NewestTrace { start_us: 11_000, mtu_bytes: Some(1500), hops: Some(7) };
    assert_eq!(first.trace, Some(newest));
    // They change neither the cause nor the newest throughput test.
    assert_eq!(first.throughput.as_ref().unwrap().start_us, 1000);
    assert_eq!(first.conclusion.as_ref().unwrap().start_us, 1000);
    assert_eq!(first.tested, Some(TestStart { kind: "throughput".into(), start_us: 1000 }));
    // A failed probe, one that runs, and results that arrive late.
    let failed = TestRow { state: State::Failed, ..probe(12, Some(1.0), None) };
    let running = TestRow { state: State::Running, ..trace(13, None, 1) };
    for row in [failed, running, probe(2, Some(1.0), None), trace(3, None, 1)] {
        archive.put(&row, &[]).unwrap();
    }
    assert_eq!((facts(&archive).probe, facts(&archive).trace), (first.probe, first.trace));
    // An inconclusive probe and an incomplete trace have no numbers.
    for row in [probe(14, Some(1e9), None), trace(15, None, 8)] {
        archive.put(&row, &[]).unwrap();
    }
    let second = facts(&archive);
    let newest = NewestProbe { start_us: 14_000, capacity_bps: Some(1e9), available_bps: None };
    assert_eq!(second.probe, Some(newest));
    assert_eq!(second.trace, Some(NewestTrace { start_us: 15_000, mtu_bytes: None, hops: Some(8) }));
    // The clock was wrong, and was corrected.
    for row in [probe(1_000_000, None, None), trace(1_000_001, None, 1)] {
        archive.put(&row, &[]).unwrap();
    }
    archive.set_latest_start(500_000);
    for row in [probe(16, None, Some(1e9)), trace(17, Some(9000), 2), probe(2_000_000, None, None)] {
        archive.put(&row, &[]).unwrap();
    }
    let third = facts(&archive);
    assert_eq!((third.probe.unwrap().start_us, third.trace.unwrap().start_us), (16_000, 17_000));
}
