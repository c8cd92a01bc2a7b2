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

fn with_path<T>(case: &Case, measure: impl FnOnce(&mut VirtualPath<'_>) -> T) -> T {
    let file =
        ScenarioFile::parse("case.toml", &case.text()).unwrap_or_else(|e| panic!("{e}\n{}", case.text()));
    let scenario: Scenario = Session::room(file.resolve(None, &[]).unwrap(), "h1", "h2", PLACES);
    let (machine, mut native) = (Machine::default(), Native::default());
    let session = Session::new(&scenario, PLACES, &machine, &mut native).unwrap();
    measure(&mut VirtualPath::new(session, &scenario, case.cc))
}

/// What TCP gets without each of the faults.
struct Truth {
    got: f64,
    without: Vec<(Fault, f64)>,
}

fn truth(case: &Case) -> Truth {
    let goodput = |case: &Case| with_path(case, |path| path.goodput(TEST));
    let without = case.faults.iter().map(|fault| (*fault, goodput(&case.without(*fault)))).collect();
    Truth { got: goodput(case), without }
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
    RightFirst,
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
    let truth = truth(&case);
    let (seen, ranking) = answer(&case);
    let gain = |without: f64| (without - truth.got) / truth.got.max(1.0);
    let best = truth.without.iter().map(|(_, without)| gain(*without)).fold(0.0, f64::max);
    let mut right: Vec<Kind> = truth
        .without
        .iter()
        .filter(|(_, without)| gain(*without) >= (EQUAL * best).max(SLIGHT))
        .map(|(fault, _)| fault.kind())
        .collect();
    if best < MATERIAL {
        right.push(Kind::PathRate);
    }
    let kinds: Vec<Kind> = ranking.limits.iter().map(|limit| limit.kind).collect();
    let score = match kinds.first() {
        Some(first) if right.contains(first) => Score::RightFirst,
        _ if kinds.iter().any(|kind| right.contains(kind)) => Score::InList,
        _ => Score::Wrong,
    };
    let gains = ranking.limits.first().filter(|_| score == Score::RightFirst).and_then(|first| {
        let of_kind = truth.without.iter().filter(|(fault, _)| fault.kind() == first.kind);
        let (_, without) = of_kind.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((first.gain_bps?, without - truth.got))
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
        mb(truth.got),
        truth
            .without
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

#[test]
fn generated_cases_are_diagnosed() {
    let (count, first) = (number("LONGFAT_CASES", 20), number("LONGFAT_FIRST_CASE", 1));
    let mut cases: Vec<Case> =
        (0..3).flat_map(|faults| (first..first + count).map(move |seed| Case::drawn(seed, faults))).collect();
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
    let done = done.into_inner().unwrap();
    let mut table: BTreeMap<(usize, Score), usize> = BTreeMap::new();
    for scored in &done {
        *table.entry((scored.case.faults.len(), scored.score)).or_default() += 1;
        println!("{}", scored.line);
    }
    let close = |(promised, gained): &(f64, f64)| (promised - gained).abs() <= 0.25 * gained.abs();
    let gains: Vec<_> = done.iter().filter_map(|scored| scored.gains).collect();
    println!("{table:?}");
    println!("gains within a quarter: {} of {}", gains.iter().filter(|g| close(g)).count(), gains.len());
}
