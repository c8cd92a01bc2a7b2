//! Diagnoses of generated cases in virtual time, scored against TCP's goodput without each fault.
//!
//! LONGFAT_CASES is the number of cases for each number of faults, LONGFAT_FIRST_CASE the number of the first
//! case.

use std::{collections::BTreeMap, sync::Mutex};

use diagnosis::{Kind, Native, Observed, Options, Ranking, diagnose};
use scenario::{Scenario, ScenarioFile};
use sim::{HostDefaults, MeasurementSession};
use units::{BitRate, Instant, Time};

use crate::{
    cases::{Case, Fault},
    virtual_path::{MAX_MEASUREMENTS, VirtualPath},
};

/// Maximum number of simultaneous faults.
const MAX_FAULTS: usize = 3;
const TEST: Time = Time::from_secs(10);
/// Number of tests over which TCP's goodput is averaged.
const TESTS: u64 = 3;
/// A fault whose removal gains less than the first share has no effect; above the second it certainly limits.
const SLIGHT: f64 = 0.05;
const MATERIAL: f64 = 0.15;
/// Either of two faults may be ranked first if their gains differ by less than this share.
const EQUAL: f64 = 0.9;
/// A predicted gain is counted as correct if its error is at most this share of it.
const CLOSE: f64 = 0.25;

fn with_path<T>(case: &Case, measure: impl FnOnce(&mut VirtualPath<'_>) -> T) -> T {
    let file =
        ScenarioFile::parse("case.toml", &case.text()).unwrap_or_else(|e| panic!("{e}\n{}", case.text()));
    let scenario: Scenario =
        MeasurementSession::reserve(file.resolve(None, &[]).unwrap(), "h1", "h2", MAX_MEASUREMENTS);
    let (machine, mut native) = (HostDefaults::default(), Native::default());
    let session = MeasurementSession::new(&scenario, MAX_MEASUREMENTS, &machine, &mut native).unwrap();
    measure(&mut VirtualPath::new(session, &scenario, case.cc))
}

/// TCP's goodput without each of the faults.
fn truth(case: &Case) -> Vec<(Fault, f64)> {
    case.faults.iter().map(|fault| (*fault, goodput(&case.without(fault.kind())))).collect()
}

/// Mean over several tests, because the goodput of one test varies randomly.
fn goodput(case: &Case) -> f64 {
    let tests = (0..TESTS).map(|more| {
        let again = Case { seed: case.seed + 1_000_000 * more, ..case.clone() };
        with_path(&again, |path| path.goodput(TEST))
    });
    tests.sum::<f64>() / TESTS as f64
}

fn diagnosed(case: &Case) -> (Observed, Ranking) {
    with_path(case, |path| {
        let expected = model::goodput_bps(BitRate(case.rate_bps as u64), 1448, 52, 14);
        let options = Options {
            from: "h1".into(),
            to: "h2".into(),
            expected: Some((expected, "--rate".into())),
            max_rate: BitRate((case.rate_bps * 1.5) as u64),
            datagrams: true,
            datagram_headers: 28,
            probes: true,
            time: TEST,
            congestion: None,
        };
        let sender = path.facts("h1");
        diagnose(path, &options, Some(sender)).unwrap()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Score {
    /// The first limit has the largest true gain.
    RightFirst,
    /// The first limit is another one, but marked as uncertain.
    Vague,
    /// A limit with the largest true gain is further down the list.
    InList,
    Wrong,
}

struct Scored {
    case: Case,
    score: Score,
    /// `Some` if the first limit is right and corresponds to a fault.
    gains: Option<Gains>,
    line: String,
}

/// Predicted and true gain of removing the first limit, bit/s.
struct Gains {
    predicted: f64,
    true_gain: f64,
    /// Goodput of the test.
    test_bps: f64,
    /// Whether the prediction is only an upper bound.
    is_upper_bound: bool,
}

impl Gains {
    fn are_close(&self) -> bool {
        let error = self.predicted - self.true_gain;
        let error = if self.is_upper_bound { -error } else { error.abs() };
        error <= (CLOSE * self.true_gain.abs()).max(SLIGHT * self.test_bps)
    }
}

fn scored(case: Case) -> Scored {
    let without = truth(&case);
    let (seen, ranking) = diagnosed(&case);
    // With other traffic the goodput differs from test to test: count the gain relative to this test.
    let test_bps = seen.test_goodput_bps();
    let gain = |without: f64| (without - test_bps) / test_bps.max(1.0);
    let best = without.iter().map(|(_, without)| gain(*without)).fold(0.0, f64::max);
    let mut right: Vec<Kind> = without
        .iter()
        .filter(|(_, without)| gain(*without) >= (EQUAL * best).max(SLIGHT))
        .map(|(fault, _)| fault.kind())
        .collect();
    if best < MATERIAL {
        // The two limits hide each other: removing only one gains little, so either may come first.
        let hide_each_other = case.faults.len() > 1 && gain(goodput(&case.without_any())) >= MATERIAL;
        right.extend(case.faults.iter().filter(|_| hide_each_other).map(|fault| fault.kind()));
        right.push(Kind::PathRate);
    }
    let kinds: Vec<Kind> = ranking.limits.iter().map(|limit| limit.kind).collect();
    let score = match kinds.first() {
        Some(first) if right.contains(first) => Score::RightFirst,
        _ if ranking.limits.first().is_some_and(|first| first.doubt.is_some()) => Score::Vague,
        _ if kinds.iter().any(|kind| right.contains(kind)) => Score::InList,
        _ => Score::Wrong,
    };
    let gains = ranking.limits.first().filter(|_| score == Score::RightFirst).and_then(|first| {
        let same_kind = without.iter().filter(|(fault, _)| fault.kind() == first.kind);
        let (_, without) = same_kind.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Gains {
            predicted: first.gain_bps?,
            true_gain: (without - test_bps).max(0.0),
            test_bps,
            is_upper_bound: first.gain_is_upper_bound,
        })
    });
    let mb = |bps: f64| format!("{:.1}", bps / 1e6);
    let line = format!(
        "{score:?}: case {} {} {} Mb/s x {} {} queue {:.2} BDP, {:?}: got {}, without {:?}; said {:?}; {}",
        case.seed,
        case.faults.len(),
        mb(case.rate_bps),
        case.rtt,
        case.cc,
        case.queue_bdp,
        case.faults,
        mb(test_bps),
        without
            .iter()
            .map(|(fault, without)| format!("{} {}", fault.name(), mb(*without)))
            .collect::<Vec<_>>(),
        ranking
            .limits
            .iter()
            .map(|limit| format!(
                "{:?} {}+{}",
                limit.kind,
                mb(limit.allows_bps),
                mb(limit.gain_bps.unwrap_or(0.0))
            ))
            .collect::<Vec<_>>(),
        figures(&seen),
    );
    Scored { case, score, gains, line }
}

/// The measurements, to explain a wrong score.
fn figures(seen: &Observed) -> String {
    let mb = |bps: f64| format!("{:.1}", bps / 1e6);
    let flow = seen.flow.clone().unwrap_or_default();
    let available = seen.available.clone();
    let interval = |i: probe::Interval| format!("{} ({} to {})", mb(i.value), mb(i.low), mb(i.high));
    format!(
        "burst {}, capacity {:?}, available {:?} {:?}, verdict {:?} {:?}, datagrams {:?}, {:?} of {:?} B, retransmitted {:?} of {:?}, \
         queued {:?} behind {:?}, RTT {} least {:?} median {:?} max {:?}",
        seen.capacity.as_ref().map_or(0.0, |c| c.goodput_bps / 1e6),
        available.as_ref().and_then(|a| a.capacity.as_ref()?.capacity_bps).map(interval),
        available.as_ref().and_then(|a| a.available_bps).map(interval),
        available.as_ref().map(|a| &a.validity),
        flow.verdict,
        flow.verdict_also,
        seen.datagrams,
        seen.losses,
        seen.bdp().map(f64::round),
        flow.retransmitted_segs,
        flow.sent_segs,
        seen.queued,
        seen.behind_others,
        seen.rtt,
        flow.min_rtt_us.map(f64::round),
        flow.median_rtt_us.map(f64::round),
        flow.max_rtt_us.map(f64::round),
    )
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Diagnoses all cases, on all processors.
fn score_all(mut cases: Vec<Case>) -> Vec<Scored> {
    cases.reverse();
    let (todo, done) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let Some(case) = todo.lock().unwrap().pop() else { break };
                    let scored = scored(case);
                    done.lock().unwrap().push(scored);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// A row for each fault and each pair of faults, with the number of cases by score.
fn table(done: &[Scored]) -> String {
    let mut rows: BTreeMap<(usize, String), [usize; 4]> = BTreeMap::new();
    for scored in done {
        let mut names: Vec<&str> = scored.case.faults.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        let count = names.len();
        let each = (count > 0).then(|| names.join(" + "));
        for name in [Some(String::new()), each].into_iter().flatten() {
            rows.entry((count, name)).or_default()[scored.score as usize] += 1;
        }
    }
    let mut text = String::from(
        "| faults | cases | right first | inconclusive | in the list | wrong |\n|---|---|---|---|---|---|\n",
    );
    for ((count, name), scores) in rows {
        let name = match (count, name.as_str()) {
            (0, _) => "none".to_owned(),
            (count, "") => format!("**{count}, all**"),
            (_, name) => name.to_owned(),
        };
        let [first, vague, list, wrong] = scores;
        let all = scores.iter().sum::<usize>();
        text.push_str(&format!("| {name} | {all} | {first} | {vague} | {list} | {wrong} |\n"));
    }
    text
}

/// Number of predicted gains and of right ones among them, for exact gains and for upper bounds.
#[derive(Default)]
struct Promises {
    faults: usize,
    exact: [usize; 2],
    upper_bounds: [usize; 2],
}

impl Promises {
    fn of(done: &[Scored], faults: usize) -> Self {
        let mut promises = Promises { faults, ..Promises::default() };
        let selected = done.iter().filter(|scored| scored.case.faults.len() == faults);
        for gains in selected.filter_map(|scored| scored.gains.as_ref()) {
            let counts = if gains.is_upper_bound { &mut promises.upper_bounds } else { &mut promises.exact };
            counts[0] += 1;
            counts[1] += usize::from(gains.are_close());
        }
        promises
    }

    fn right_share(&self) -> f64 {
        (self.exact[1] + self.upper_bounds[1]) as f64 / (self.exact[0] + self.upper_bounds[0]).max(1) as f64
    }
}

impl std::fmt::Display for Promises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Promises { faults, exact: [exact, close], upper_bounds: [upper_bounds, hold] } = self;
        write!(
            f,
            "{faults} faults: {close} of {exact} gains within a quarter, {hold} of {upper_bounds} gains at most"
        )
    }
}

/// The measured path is returned as a scenario that runs, with a test of about the same goodput.
#[test]
fn the_measured_path_is_a_scenario() {
    let case = Case {
        rate_bps: 50e6,
        rtt: Time::from_millis(30),
        queue_bdp: 1.0,
        cc: "reno",
        seed: 5,
        faults: vec![Fault::ReceiveBuffer(60_000), Fault::OtherDatagrams(10e6)],
    };
    let (seen, ranking) = diagnosed(&case);
    let file = ScenarioFile::parse("measured.toml", &ranking.scenario.unwrap()).unwrap();
    let scenario = file.resolve(None, &[]).unwrap();
    let test = scenario.flows.iter().find(|flow| flow.name == "test").unwrap();
    assert_eq!((test.from.as_str(), test.to.as_str(), test.start), ("h1", "h2", Instant::from_secs(2)));
    assert_eq!(scenario.duration, Time::from_secs(12));
    let link = scenario.links.iter().find(|link| link.forward.rate.mean().is_some()).unwrap();
    let rate = link.forward.rate.mean().unwrap().as_f64();
    assert!((rate / 50e6 - 1.0).abs() < 0.05, "{rate}");
    let rmem = &scenario.host("h2").unwrap().sysctl["net.ipv4.tcp_rmem"];
    assert!(rmem.ends_with(" 60000"), "{rmem}");
    assert!(seen.flow.is_some());
}

/// A receive buffer that gives the window of a header without scaling: without one, the other limits.
#[test]
fn limits_that_hide_each_other_are_named_together() {
    let case = Case {
        rate_bps: 80e6,
        rtt: Time::from_millis(40),
        queue_bdp: 1.0,
        cc: "reno",
        seed: 5,
        faults: vec![Fault::NoWindowScaling, Fault::ReceiveBuffer(80_000)],
    };
    let (_, ranking) = diagnosed(&case);
    let joint = ranking.together.expect("neither alone is worth removing");
    let mut kinds = joint.kinds.map(|kind| format!("{kind:?}"));
    kinds.sort();
    assert_eq!(kinds, ["ReceiveBuffer", "WindowScaling"], "{ranking:?}");
    assert!(joint.gain_bps > 30e6, "{joint:?}");
}

/// Larger values of LONGFAT_CASES give the table of docs/diagnose.md.
#[test]
fn generated_cases_are_diagnosed() {
    let (count, first) = (number("LONGFAT_CASES", 40), number("LONGFAT_FIRST_CASE", 20_001));
    let cases =
        (0..=MAX_FAULTS).flat_map(|faults| (first..first + count).map(move |seed| Case::drawn(seed, faults)));
    let done = score_all(cases.collect());
    for scored in done.iter().filter(|scored| scored.score != Score::RightFirst) {
        println!("{}", scored.line);
    }
    for scored in done.iter().filter(|scored| scored.gains.as_ref().is_some_and(|gains| !gains.are_close())) {
        let Some(gains) = &scored.gains else { continue };
        println!("gain {:.1} for {:.1}: {}", gains.predicted / 1e6, gains.true_gain / 1e6, scored.line);
    }
    println!("{}", table(&done));
    for faults in 1..=MAX_FAULTS {
        println!("{}", Promises::of(&done, faults));
    }
    let share = |faults: usize, score: Score| {
        let all = done.iter().filter(|scored| scored.case.faults.len() == faults);
        all.filter(|scored| scored.score == score).count() as f64 / count as f64
    };
    assert_eq!(share(0, Score::RightFirst), 1.0, "a path without a fault is healthy");
    assert!(share(1, Score::RightFirst) >= 0.9, "one fault: {}", share(1, Score::RightFirst));
    assert!(share(2, Score::RightFirst) >= 0.75, "two faults: {}", share(2, Score::RightFirst));
    assert!(share(3, Score::RightFirst) >= 0.65, "three faults: {}", share(3, Score::RightFirst));
    let wrong = [1, 2, 3].map(|faults| share(faults, Score::Wrong));
    assert!(wrong[0] <= 0.03 && wrong[1] <= 0.08 && wrong[2] <= 0.1, "wrong: {wrong:?}");
    let promises = [1, 2].map(|faults| Promises::of(&done, faults).right_share());
    // One of 30 predictions is 3 %. In the 300 cases of docs/diagnose.md, 88 % are right.
    assert!(promises[0] >= 0.9 && promises[1] >= 0.6, "gains: {promises:?}");
}
