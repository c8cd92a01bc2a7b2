//! Every algorithm, with every parameter at its default or its extremes, under random events of a path.
//!
//! Random sequences of ACKs, losses, timeouts, marks, undos and idle times, with windows from 1 to 2^30
//! packets, up to 2^20 packets acknowledged at once, round-trip times from 1 us to 100 s and clocks that
//! jump: no window is ever 0, no threshold below 2 after a loss, nothing wraps. All tests run again with the
//! compiler's checks for undefined behaviour (division by zero, shifts, bounds, alignment), which end the
//! process.

use cc::native::{Library, SharedObject, build};
use cc::{Algorithm, Parameter, ParameterType, ParameterValues, Source};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use tcp::{AckSample, CaEvent, CaState, CongestionControl, Operation, RateSample, TcpSock};

/// Makes the child process rebuild the files with `LONGFAT_CC`.
const FROM_SOURCE: &str = "LONGFAT_TEST_FROM_SOURCE";
/// Maximum window with default parameters: 2^30 plus the growth of 300 ACKs of 2^20 packets, three packets
/// for each.
const WINDOW_MAX: u32 = 2_200_000_000;
/// Algorithms whose window shrinks without a loss.
const DELAY_BASED: &[&str] = &["vegas", "fast", "bbr", "bbr3"];

/// One event.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ack {
        acked: u32,
        rtt_us: i32,
        lost: u32,
        marked: bool,
        app_limited: bool,
        wait_us: u64,
    },
    /// A duplicate ACK.
    Duplicate {
        marked: bool,
    },
    Loss,
    Timeout,
    Mark,
    Recovered,
    Undo,
    Idle {
        wait_us: u64,
    },
    Received {
        marked: bool,
    },
    /// PRR or the window validation sets the window.
    SetWindow {
        cwnd: u32,
    },
}

/// A number of up to this many bits; all lengths have the same probability.
fn bits(max_bits: u32) -> impl Strategy<Value = u64> {
    (0..=max_bits, any::<u64>())
        .prop_map(|(length, value)| if length == 0 { 0 } else { value >> (64 - length) })
}

fn window() -> impl Strategy<Value = u32> {
    bits(30).prop_map(|bits| (bits as u32).max(1))
}

fn step() -> impl Strategy<Value = Step> {
    let ack = (bits(20), bits(27), 0..20_u32, any::<(bool, bool)>(), bits(36), 0..8_u32);
    let ack = ack.prop_map(|(acked, rtt, lost, (marked, app_limited), wait_us, kind)| Step::Ack {
        acked: acked.max(1) as u32,
        rtt_us: if kind == 0 { -1 } else { rtt.clamp(1, 100_000_000) as i32 },
        lost: if kind == 1 { lost } else { 0 },
        marked: marked && kind == 2,
        app_limited: app_limited && kind == 3,
        wait_us: if kind == 4 { wait_us } else { wait_us >> 18 },
    });
    prop_oneof![
        40 => ack,
        2 => any::<bool>().prop_map(|marked| Step::Duplicate { marked }),
        2 => Just(Step::Loss),
        1 => Just(Step::Timeout),
        1 => Just(Step::Mark),
        3 => Just(Step::Recovered),
        1 => Just(Step::Undo),
        1 => bits(40).prop_map(|wait_us| Step::Idle { wait_us }),
        2 => any::<bool>().prop_map(|marked| Step::Received { marked }),
        1 => window().prop_map(|cwnd| Step::SetWindow { cwnd }),
    ]
}

/// Initial state of a connection.
#[derive(Debug, Clone)]
struct Start {
    cwnd: u32,
    mss: u32,
    ecn: bool,
    srtt_us: u32,
    now_us: u64,
    /// For each parameter: default, minimum or maximum.
    extremes: Vec<u8>,
}

fn start() -> impl Strategy<Value = Start> {
    let mss = prop_oneof![Just(1), Just(536), Just(1448), Just(8948), Just(65_495)];
    let extremes = prop_oneof![Just(vec![0; 40]), proptest::collection::vec(0..3_u8, 40)];
    (window(), mss, any::<bool>(), bits(27), bits(50), extremes).prop_map(
        |(cwnd, mss, ecn, rtt, now, extremes)| {
            let srtt_us = (rtt.min(100_000_000) as u32) << 3;
            Start { cwnd, mss, ecn, srtt_us, now_us: now + 1_000, extremes }
        },
    )
}

fn extreme(parameter: &Parameter, which: u8) -> i64 {
    match (which, parameter.ty) {
        (1, ParameterType::Integer { bytes, signed: true }) => i64::MIN >> (64 - 8 * u32::from(bytes)),
        (1, _) => 0,
        (2, ParameterType::Bool) => 1,
        (2, ParameterType::Integer { bytes, signed: true }) => i64::MAX >> (64 - 8 * u32::from(bytes)),
        (2, ParameterType::Integer { bytes, signed: false }) => {
            (u64::MAX >> (64 - 8 * u32::from(bytes))) as i64
        }
        _ => parameter.default_raw,
    }
}

/// A socket with its algorithm, and the kernel's side of the events.
struct Connection<C> {
    cc: C,
    sk: TcpSock,
    loss_based: bool,
    window_max: u32,
}

impl<C: CongestionControl> Connection<C> {
    fn new(mut cc: C, start: &Start, loss_based: bool) -> Connection<C> {
        let mut sk = TcpSock { snd_cwnd: start.cwnd, mss_cache: start.mss, ..TcpSock::default() };
        sk.ecn_flags = u8::from(start.ecn);
        sk.srtt_us = start.srtt_us;
        if start.srtt_us > 0 {
            sk.rtt_min.s[0].v = start.srtt_us >> 3;
        }
        sk.tcp_mstamp = start.now_us;
        sk.tcp_clock_cache = start.now_us * 1000;
        sk.delivered_mstamp = start.now_us;
        cc.init(&mut sk);
        // With maximum parameters any window is possible. A wrap would show as a decrease without a loss.
        let defaults = start.extremes.iter().all(|which| *which == 0);
        let window_max = if defaults { WINDOW_MAX } else { u32::MAX };
        let mut connection = Connection { cc, sk, loss_based, window_max };
        connection.fill();
        connection
    }

    /// Sends the data that the window allows, limited to the range of sequence numbers.
    fn fill(&mut self) {
        let max_segs = (1 << 30) / self.sk.mss_cache;
        let window = self.sk.snd_cwnd.min(max_segs.max(1));
        if window > self.sk.packets_out {
            let more = window - self.sk.packets_out;
            self.sk.snd_nxt = self.sk.snd_nxt.wrapping_add(more * self.sk.mss_cache);
            self.sk.packets_out = window;
        }
        self.sk.max_packets_out = self.sk.packets_out;
        self.sk.set_is_cwnd_limited(true);
    }

    fn wait(&mut self, us: u64) {
        self.sk.tcp_mstamp += us;
        self.sk.tcp_clock_cache = self.sk.tcp_mstamp * 1000;
        self.sk.tcp_wstamp_ns = self.sk.tcp_clock_cache + us / 2;
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ack { acked, rtt_us, lost, marked, app_limited, wait_us } => {
                self.wait(wait_us);
                self.ack(acked, rtt_us, lost, marked, app_limited)?;
            }
            Step::Duplicate { marked } => self.duplicate(marked),
            Step::Loss => self.reduce(CaState::Recovery)?,
            Step::Mark => self.reduce(CaState::Cwr)?,
            Step::Timeout => self.timeout()?,
            Step::Recovered => self.recovered(),
            Step::Undo => self.undo()?,
            Step::Idle { wait_us } => {
                self.wait(wait_us);
                self.sk.packets_out = 0;
                self.sk.snd_una = self.sk.snd_nxt;
                self.duplicate(false);
                self.duplicate(true);
                self.cc.cwnd_event(&mut self.sk, CaEvent::TxStart);
                self.cc.cwnd_event(&mut self.sk, CaEvent::CwndRestart);
            }
            Step::Received { marked } => {
                self.sk.rcv_nxt = self.sk.rcv_nxt.wrapping_add(self.sk.mss_cache);
                let event = if marked { CaEvent::EcnIsCe } else { CaEvent::EcnNoCe };
                self.cc.cwnd_event(&mut self.sk, event);
            }
            Step::SetWindow { cwnd } => self.sk.snd_cwnd = cwnd,
        }
        self.fill();
        self.check(step)
    }

    fn ack(
        &mut self,
        acked: u32,
        rtt_us: i32,
        lost: u32,
        marked: bool,
        app_limited: bool,
    ) -> Result<(), TestCaseError> {
        let acked = acked.min(self.sk.packets_out).max(1);
        let sk = &mut self.sk;
        let prior_in_flight = sk.packets_out;
        let prior_delivered = sk.delivered.wrapping_sub(acked);
        sk.delivered = sk.delivered.wrapping_add(acked);
        sk.delivered_ce = sk.delivered_ce.wrapping_add(if marked { acked } else { 0 });
        sk.delivered_mstamp = sk.tcp_mstamp;
        sk.lost = sk.lost.wrapping_add(lost);
        sk.packets_out -= acked.min(sk.packets_out);
        sk.snd_una = sk.snd_una.wrapping_add(acked.wrapping_mul(sk.mss_cache));
        if rtt_us >= 0 {
            let rtt = rtt_us as u32;
            sk.srtt_us = if sk.srtt_us == 0 { rtt << 3 } else { sk.srtt_us - (sk.srtt_us >> 3) + rtt };
            sk.rtt_min.s[0].v = sk.rtt_min.s[0].v.min(rtt);
        }
        sk.app_limited = u32::from(app_limited);
        self.cc.in_ack_event(&mut self.sk, if marked { 5 } else { 1 });
        let sample = AckSample { pkts_acked: acked, rtt_us, in_flight: prior_in_flight };
        self.cc.pkts_acked(&mut self.sk, &sample);
        let ack = self.sk.snd_una;
        if self.cc.has(Operation::CongControl) {
            let sample = RateSample {
                prior_delivered,
                delivered: acked as i32,
                interval_us: i64::from(rtt_us),
                rtt_us: i64::from(rtt_us),
                losses: lost as i32,
                acked_sacked: acked,
                prior_in_flight,
                is_app_limited: app_limited,
                ..RateSample::default()
            };
            self.cc.cong_control(&mut self.sk, ack, 0, &sample);
        } else if self.sk.ca_state() < CaState::Recovery {
            let before = self.sk.snd_cwnd;
            self.cc.cong_avoid(&mut self.sk, ack, acked);
            let after = self.sk.snd_cwnd;
            // Linux's hybla has a largest window.
            let is_largest = self.cc.name() == "hybla" && after == 65_535;
            prop_assert!(
                !self.loss_based || after >= before || is_largest,
                "an ACK took the window from {} to {}",
                before,
                after
            );
        }
        Ok(())
    }

    fn duplicate(&mut self, marked: bool) {
        self.cc.in_ack_event(&mut self.sk, if marked { 5 } else { 1 });
        self.cc.pkts_acked(&mut self.sk, &AckSample { pkts_acked: 0, rtt_us: -1, in_flight: 0 });
        let sample = RateSample { delivered: -1, interval_us: -1, rtt_us: -1, ..RateSample::default() };
        let ack = self.sk.snd_una;
        self.cc.cong_control(&mut self.sk, ack, 0, &sample);
    }

    /// `tcp_init_cwnd_reduction` and its callers.
    fn reduce(&mut self, to: CaState) -> Result<(), TestCaseError> {
        if self.sk.ca_state() >= to {
            return Ok(());
        }
        self.sk.high_seq = self.sk.snd_nxt;
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.prior_ssthresh = self.sk.snd_ssthresh;
        self.threshold()?;
        self.enter(to);
        if !self.cc.has(Operation::CongControl) {
            self.sk.snd_cwnd = self.sk.snd_ssthresh.min(self.sk.snd_cwnd);
        }
        Ok(())
    }

    fn timeout(&mut self) -> Result<(), TestCaseError> {
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.threshold()?;
        self.cc.cwnd_event(&mut self.sk, CaEvent::Loss);
        self.sk.lost_out = self.sk.packets_out;
        self.sk.snd_cwnd = 1;
        self.sk.snd_cwnd_cnt = 0;
        self.enter(CaState::Loss);
        self.sk.lost_out = 0;
        self.sk.packets_out = 0;
        Ok(())
    }

    fn threshold(&mut self) -> Result<(), TestCaseError> {
        let threshold = self.cc.ssthresh(&mut self.sk);
        prop_assert!(threshold >= 2, "a threshold of {} at a window of {}", threshold, self.sk.snd_cwnd);
        self.sk.snd_ssthresh = threshold;
        Ok(())
    }

    fn recovered(&mut self) {
        if matches!(self.sk.ca_state(), CaState::Cwr | CaState::Recovery) {
            self.cc.cwnd_event(&mut self.sk, CaEvent::CompleteCwr);
        }
        self.enter(CaState::Open);
    }

    fn undo(&mut self) -> Result<(), TestCaseError> {
        if self.sk.ca_state() < CaState::Cwr {
            return Ok(());
        }
        let cwnd = self.cc.undo_cwnd(&mut self.sk);
        prop_assert!(cwnd >= 1, "an undo to a window of 0");
        self.sk.snd_cwnd = cwnd;
        self.enter(CaState::Open);
        Ok(())
    }

    fn enter(&mut self, state: CaState) {
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
    }

    fn check(&mut self, step: Step) -> Result<(), TestCaseError> {
        let sk = &self.sk;
        prop_assert!(sk.snd_cwnd >= 1, "the window is 0 after {:?}", step);
        prop_assert!(sk.snd_cwnd <= self.window_max, "a window of {} after {:?}", sk.snd_cwnd, step);
        prop_assert!(sk.snd_ssthresh >= 1, "the threshold is 0 after {:?}", step);
        prop_assert!(sk.sk_pacing_rate >= 1, "the pacing rate is 0 after {:?}", step);
        let segs = self.cc.min_tso_segs(&mut self.sk);
        prop_assert!(segs <= 127, "super-packets of {} segments", segs);
        Ok(())
    }
}

fn object(algorithm: &'static Algorithm) -> Arc<SharedObject> {
    let source = if std::env::var_os(FROM_SOURCE).is_some() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("algorithms");
        let path = path.join(format!("{}.bpf.c", algorithm.name));
        Source::File { path, text: algorithm.text.to_owned() }
    } else {
        Source::BuiltIn(algorithm)
    };
    build(&source).unwrap_or_else(|e| panic!("cannot build {}: {e}", algorithm.name))
}

#[test]
fn no_window_is_zero_and_nothing_overflows() {
    let mut failures = Vec::new();
    for algorithm in Algorithm::all() {
        let object = object(algorithm);
        let loss_based = !DELAY_BASED.contains(&algorithm.name);
        let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let strategy = (start(), proptest::collection::vec(step(), 1..300));
        let result = runner.run(&strategy, |(start, steps)| {
            let chosen = object.parameters().iter().zip(&start.extremes);
            let values: ParameterValues =
                chosen.map(|(p, which)| (p.name.clone(), p.decode(extreme(p, *which)))).collect();
            let library = Library::load(&object, &values).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let cc = library.controller(None).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let mut connection = Connection::new(cc, &start, loss_based);
            steps.into_iter().try_for_each(|step| connection.step(step))
        });
        match result {
            Ok(()) => (),
            Err(TestError::Fail(why, (start, steps))) => {
                failures.push(format!("{}: {why}\n  {start:?}\n  {steps:?}", algorithm.name));
            }
            Err(TestError::Abort(why)) => failures.push(format!("{}: {why}", algorithm.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn no_undefined_behaviour_occurs() {
    let clang =
        ["clang-16", "clang", "clang-17", "clang-18", "clang-19"].into_iter().find(|name| in_path(name));
    let Some(clang) = clang else { panic!("no clang found; install the package clang-16") };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compiler = folder.path().join("cc");
    // A trap needs no library of the compiler. Additions may wrap (-fwrapv).
    let script = format!(
        "#!/bin/sh\nexec {clang} -fsanitize=undefined -fno-sanitize=function -fsanitize-trap=undefined \"$@\"\n"
    );
    std::fs::write(&compiler, script).expect("writing the compiler's script");
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755))
        .expect("making it executable");
    let program = std::env::current_exe().expect("the test's own path");
    let output = std::process::Command::new(program)
        .args(["--exact", "properties::no_window_is_zero_and_nothing_overflows", "--nocapture"])
        .env("LONGFAT_CC", &compiler)
        .env(FROM_SOURCE, "1")
        .output()
        .expect("starting the test again");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {messages}", output.status);
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
