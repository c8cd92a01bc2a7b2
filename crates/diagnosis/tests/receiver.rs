//! How reliably the receiving end alone finds what limits a flow, compared with the verdict of both ends, in
//! virtual time: the table in docs/receiver.md.

use std::fmt::Write;

use diagnosis::{Native, Path, TcpPlan};
use scenario::{Cc, FlowKind, Scenario, ScenarioFile, TcpSpec};
use schema::{Cause, FlowSample, ReceiverFinding};
use sim::{HostDefaults, MeasurementSession};
use units::{BitRate, Time};
use verdict::{FlowContext, FlowTimes, Generator, decide, judge_receiver, summarize};

use crate::{
    cases::{Case, Fault},
    virtual_path::{MAX_MEASUREMENTS, VirtualPath},
};

/// Duration of each test.
const TEST_DURATION: Time = Time::from_secs(10);
/// Paths of each row of the table.
const PATHS_PER_ROW: usize = 30;
/// The seed of the first path: these paths were not used to choose thresholds.
const FIRST_SEED: u64 = 95_000;
/// Minimum share of correct findings, and maximum share of wrong ones, over the whole table.
const MIN_CORRECT_SHARE: f64 = 0.8;
const MAX_WRONG_SHARE: f64 = 0.05;

/// A limit that the sender or the receiver of the test sets; the path has no fault.
#[derive(Debug, Clone, Copy)]
enum HostLimit {
    /// The writer's rate, as a share of the path's rate.
    WriteRate(f64),
    /// The reader's rate, as a share of the path's rate.
    ReadRate(f64),
    /// The pacing rate, as a share of the path's rate.
    Pacing(f64),
    /// BBR, which fills no queue.
    Bbr,
}

impl HostLimit {
    const ALL: [(&'static str, HostLimit); 4] = [
        ("slow writer", HostLimit::WriteRate(0.4)),
        ("slow reader", HostLimit::ReadRate(0.4)),
        ("pacing", HostLimit::Pacing(0.5)),
        ("none, BBR", HostLimit::Bbr),
    ];

    fn spec(self, rate_bps: f64, cc: &str) -> TcpSpec {
        let share = |share: f64| Some(BitRate((share * rate_bps) as u64));
        let spec = TcpSpec { cc: Some(Cc::Named(cc.into())), ..TcpSpec::default() };
        match self {
            HostLimit::WriteRate(of) => TcpSpec { write_rate: share(of), ..spec },
            HostLimit::ReadRate(of) => TcpSpec { read_rate: share(of), ..spec },
            HostLimit::Pacing(of) => TcpSpec { pacing: share(of), ..spec },
            HostLimit::Bbr => TcpSpec { cc: Some(Cc::Named("bbr".into())), ..spec },
        }
    }
}

/// A test's samples and the verdict of both ends.
fn measured(case: &Case, limit: Option<HostLimit>) -> (Vec<FlowSample>, Option<Cause>) {
    let file = ScenarioFile::parse("case.toml", &case.text()).unwrap();
    let resolved = file.resolve(None, &[]).unwrap();
    let scenario: Scenario = MeasurementSession::reserve(resolved, "h1", "h2", MAX_MEASUREMENTS);
    let (machine, mut native) = (HostDefaults::default(), Native::default());
    let mut session = MeasurementSession::new(&scenario, MAX_MEASUREMENTS, &machine, &mut native).unwrap();
    let Some(limit) = limit else {
        let mut path = VirtualPath::new(session, &scenario, case.cc);
        let seen = path.tcp(&TcpPlan { time: TEST_DURATION, congestion: None }).unwrap().unwrap();
        return (seen.rows, seen.flow.verdict);
    };
    let spec = limit.spec(case.rate_bps, case.cc);
    let bps = |rate: Option<BitRate>| rate.map(BitRate::as_f64);
    let generator =
        Generator { write_bps: bps(spec.write_rate), read_bps: bps(spec.read_rate), ..Generator::default() };
    let pacing_bps = bps(spec.pacing);
    let mut seen = session.measure(FlowKind::Tcp(spec), TEST_DURATION).unwrap();
    let name = seen.rows[0].flow.clone();
    let context = FlowContext {
        name,
        unknown_path: true,
        generator: Some(generator),
        pacing_bps,
        ..FlowContext::default()
    };
    decide(&mut seen.rows, &verdict::LinkRows::default(), &context);
    let micros = |time: Time| time.as_micros() as i64;
    let times = FlowTimes {
        kind: schema::FlowKind::Tcp,
        cc: seen.cc.clone(),
        started_us: seen.connected.map(micros),
        ended_us: Some(micros(seen.ended)),
        bytes: seen.bytes,
    };
    let verdict = summarize(&seen.rows, &seen.events, &times, &context).verdict;
    (seen.rows, verdict)
}

/// The part of a sample that the receiver's own socket gives.
fn receiver_only(row: &FlowSample) -> FlowSample {
    FlowSample {
        time_us: row.time_us,
        flow: row.flow.clone(),
        goodput_bps: row.goodput_bps,
        rcvbuf_bytes: row.rcvbuf_bytes,
        rcv_wnd_bytes: row.rcv_wnd_bytes,
        rcv_space_bytes: row.rcv_space_bytes,
        rcv_ssthresh_bytes: row.rcv_ssthresh_bytes,
        rcv_queue_bytes: row.rcv_queue_bytes,
        rcv_rtt_us: row.rcv_rtt_us,
        rmem_alloc_bytes: row.rmem_alloc_bytes,
        bytes_received: row.bytes_received,
        rcv_ooopack_segs: row.rcv_ooopack_segs,
        rcv_ce_segs: row.rcv_ce_segs,
        ..FlowSample::default()
    }
}

/// The finding that corresponds to a verdict of both ends. `reads_slowly`: an application is the reader.
fn corresponding(verdict: Option<Cause>, reads_slowly: bool) -> ReceiverFinding {
    match verdict {
        Some(Cause::ReceiveWindow) => ReceiverFinding::ReceiveBuffer,
        Some(Cause::Application) if reads_slowly => ReceiverFinding::Reader,
        Some(Cause::SendBuffer | Cause::Application | Cause::Pacing | Cause::HostCpu | Cause::LocalQueue) => {
            ReceiverFinding::Sender
        }
        Some(Cause::PathRate | Cause::Loss | Cause::EcnMarks | Cause::SlowStart) => ReceiverFinding::Network,
        None => ReceiverFinding::Unknown,
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Score {
    correct: usize,
    unknown: usize,
    wrong: usize,
}

impl Score {
    fn add(&mut self, case: &Case, limit: Option<HostLimit>, name: &str) {
        let (rows, verdict) = measured(case, limit);
        let alone: Vec<FlowSample> = rows.iter().map(receiver_only).collect();
        let found = judge_receiver(&alone, &rows[0].flow);
        let finding = found.as_ref().map_or(ReceiverFinding::Unknown, |found| found.finding);
        let correct = corresponding(verdict, matches!(limit, Some(HostLimit::ReadRate(_))));
        match finding {
            finding if finding == correct => self.correct += 1,
            ReceiverFinding::Unknown => self.unknown += 1,
            _ => self.wrong += 1,
        }
        if finding != correct {
            println!(
                "{name} {}: {:.0} Mb/s, {:.0} ms, {}: both ends {verdict:?}, receiver {finding:?}: {:?}",
                case.seed,
                case.rate_bps / 1e6,
                case.rtt.as_secs_f64() * 1e3,
                case.cc,
                found.map(|found| (found.share, found.evidence))
            );
        }
    }

    fn row(self, name: &str) -> String {
        let all = self.correct + self.unknown + self.wrong;
        format!("| {name} | {all} | {} | {} | {} |\n", self.correct, self.unknown, self.wrong)
    }
}

/// The first paths with this fault only, or without a fault.
fn paths(fault: Option<&str>, count: usize) -> Vec<Case> {
    let has_fault = |case: &Case| case.faults.first().map(|fault: &Fault| fault.name()) == fault;
    let faults = usize::from(fault.is_some());
    (FIRST_SEED..).map(|seed| Case::drawn(seed, faults)).filter(has_fault).take(count).collect()
}

const FAULTS: [&str; 12] = [
    "receive buffer",
    "no window scaling",
    "send buffer",
    "own queue",
    "random loss",
    "short queue",
    "policer",
    "no SACK",
    "ECN marks",
    "slow hop",
    "other datagrams",
    "other TCP flows",
];

#[test]
fn the_receiving_end_alone_finds_most_limits() {
    let count = std::env::var("LONGFAT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(PATHS_PER_ROW);
    let (mut table, mut all) = (String::new(), Score::default());
    let mut add_row = |name: &str, score: Score| {
        table.push_str(&score.row(name));
        all = Score {
            correct: all.correct + score.correct,
            unknown: all.unknown + score.unknown,
            wrong: all.wrong + score.wrong,
        };
    };
    for fault in [None].into_iter().chain(FAULTS.map(Some)) {
        let mut score = Score::default();
        let name = fault.unwrap_or("none");
        paths(fault, count).iter().for_each(|case| score.add(case, None, name));
        add_row(name, score);
    }
    for (name, limit) in HostLimit::ALL {
        let mut score = Score::default();
        paths(None, count).iter().for_each(|case| score.add(case, Some(limit), name));
        add_row(name, score);
    }
    let _ = write!(table, "{}", all.row("**all**"));
    println!("{table}");
    let cases = (all.correct + all.unknown + all.wrong) as f64;
    assert!(all.correct as f64 >= MIN_CORRECT_SHARE * cases, "{table}");
    assert!(all.wrong as f64 <= MAX_WRONG_SHARE * cases, "{table}");
    if count == PATHS_PER_ROW {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/receiver.md");
        let text = std::fs::read_to_string(page).unwrap();
        assert!(text.contains(&table), "docs/receiver.md needs this table:\n{table}");
    }
}
