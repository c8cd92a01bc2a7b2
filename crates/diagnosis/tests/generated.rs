//! Diagnoses of generated cases in virtual time, scored against what TCP gets with each fault taken away.
//!
//! LONGFAT_CASES says how many of each number of faults are drawn, LONGFAT_FIRST_CASE where their numbers begin.

use std::{collections::BTreeMap, sync::Mutex};

use diagnosis::{Kind, Observed, Options, Ranking, diagnose};
use scenario::{Scenario, ScenarioFile};
use sim::{Machine, Session};
use units::{BitRate, Time};

use crate::{
    cases::{Case, Fault},
    virtual_path::{Native, PLACES, VirtualPath},
};

const TEST: Time = Time::from_secs(10);
/// A fault whose removal gains less than this share is none; more than the second is one for sure.
const SLIGHT: f64 = 0.05;
const MATERIAL: f64 = 0.15;
/// Two faults whose removals gain nearly the same are equally right.
const EQUAL: f64 = 0.9;
/// A promised gain is right to within this share of it.
const CLOSE: f64 = 0.25;

fn with_path<T>(case: &Case, measure: impl FnOnce(&mut VirtualPath<'_>) -> T) -> T {
    let file =
        ScenarioFile::parse("case.toml", &case.text()).unwrap_or_else(|e| panic!("{e}\n{}", case.text()));
    let scenario: Scenario = Session::room(file.resolve(None, &[]).unwrap(), "h1", "h2", PLACES);
    let (machine, mut native) = (Machine::default(), Native::default());
    let session = Session::new(&scenario, PLACES, &machine, &mut native).unwrap();
    measure(&mut VirtualPath::new(session, &scenario, case.cc))
}

/// What TCP gets without each of the faults.
fn truth(case: &Case) -> Vec<(Fault, f64)> {
    case.faults.iter().map(|fault| (*fault, goodput(&case.without(*fault)))).collect()
}

fn goodput(case: &Case) -> f64 {
    with_path(case, |path| path.goodput(TEST))
}

fn answer(case: &Case) -> (Observed, Ranking) {
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
    /// The first limit is one whose removal gains most.
    RightFirst,
    /// Another, but said to be in doubt.
    Vague,
    /// Such a limit is in the list, further down.
    InList,
    Wrong,
}

struct Scored {
    case: Case,
    score: Score,
    /// Promised and true gain, bit/s, where the first limit is right and has a fault.
    gains: Option<(f64, f64)>,
    line: String,
}

fn scored(case: Case) -> Scored {
    let without = truth(&case);
    let (seen, ranking) = answer(&case);
    // Beside other traffic no two tests get the same: what counts is what this one would gain.
    let got = seen.flow.as_ref().and_then(|flow| flow.steady_goodput_bps.or(flow.goodput_bps)).unwrap_or(0.0);
    let gain = |without: f64| (without - got) / got.max(1.0);
    let best = without.iter().map(|(_, without)| gain(*without)).fold(0.0, f64::max);
    let mut right: Vec<Kind> = without
        .iter()
        .filter(|(_, without)| gain(*without) >= (EQUAL * best).max(SLIGHT))
        .map(|(fault, _)| fault.kind())
        .collect();
    if best < MATERIAL {
        // Each hides the other: no one alone is to be removed, and either is a place to begin.
        let together = case.faults.len() > 1 && gain(goodput(&case.without_any())) >= MATERIAL;
        right.extend(case.faults.iter().filter(|_| together).map(|fault| fault.kind()));
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
        let of_kind = without.iter().filter(|(fault, _)| fault.kind() == first.kind);
        let (_, without) = of_kind.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((first.gain_bps?, without - got))
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
        mb(got),
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

/// What was measured, for whoever asks why.
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

/// A row for each fault and each pair of faults: how often which score.
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
        "| faults | cases | right first | in doubt | in the list | wrong |\n|---|---|---|---|---|---|\n",
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

/// LONGFAT_CASES more of each number of faults give the table of docs/diagnose.md.
#[test]
fn generated_cases_are_diagnosed() {
    let (count, first) = (number("LONGFAT_CASES", 40), number("LONGFAT_FIRST_CASE", 20_001));
    let cases = (0..3).flat_map(|faults| (first..first + count).map(move |seed| Case::drawn(seed, faults)));
    let done = score_all(cases.collect());
    for scored in done.iter().filter(|scored| scored.score != Score::RightFirst) {
        println!("{}", scored.line);
    }
    let is_close = |(promised, gained): &(f64, f64)| (promised - gained).abs() <= CLOSE * gained.abs();
    for scored in done.iter().filter(|scored| scored.gains.as_ref().is_some_and(|gains| !is_close(gains))) {
        let (promised, gained) = scored.gains.unwrap_or_default();
        println!("gain {:.1} for {:.1}: {}", promised / 1e6, gained / 1e6, scored.line);
    }
    let gains: Vec<(usize, bool)> =
        done.iter().filter_map(|s| Some((s.case.faults.len(), is_close(s.gains.as_ref()?)))).collect();
    println!("{}", table(&done));
    for faults in 1..3 {
        let of_these: Vec<bool> = gains.iter().filter(|g| g.0 == faults).map(|g| g.1).collect();
        let close = of_these.iter().filter(|close| **close).count();
        println!("{faults} faults: {close} of {} gains within a quarter", of_these.len());
    }
    let share = |faults: usize, score: Score| {
        let all = done.iter().filter(|scored| scored.case.faults.len() == faults);
        all.filter(|scored| scored.score == score).count() as f64 / count as f64
    };
    assert_eq!(share(0, Score::RightFirst), 1.0, "a path without a fault is healthy");
    assert!(share(1, Score::RightFirst) >= 0.9, "one fault: {}", share(1, Score::RightFirst));
    assert!(share(2, Score::RightFirst) >= 0.75, "two faults: {}", share(2, Score::RightFirst));
    assert!(share(1, Score::Wrong) <= 0.05 && share(2, Score::Wrong) <= 0.1, "wrong");
}
