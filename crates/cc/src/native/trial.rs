//! A short run of a native build against a simulated path, round by round.

use std::time::Instant;

use tcp::{
    AckSample, CongestionControl, Operation, RateSample,
    test_kit::{Path, Rounds},
};

use super::Controller;

/// Round trips of the run.
const ROUNDS: u64 = 400;
/// ACKs to time: enough for a resolution of a nanosecond each.
const TIMED_ACKS: u32 = 100_000;

/// Result of a trial run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NativeTrial {
    /// Simulated time.
    pub seconds: f64,
    /// The congestion window at the end, segments.
    pub cwnd_segs: u32,
    /// Segments marked lost since the start.
    pub lost_segs: u64,
    /// Time that the algorithm takes for one ACK, ns.
    pub ns_per_ack: f64,
}

/// Runs slow start into the queue of 100 Mb/s x 20 ms, a timeout, and recovery; then measures the cost of one
/// ACK. `None` if the algorithm sets the congestion window to 0.
pub fn run_trial(controller: Controller) -> Option<NativeTrial> {
    let mut rounds = Rounds::new(Path::default(), controller);
    rounds.run(ROUNDS / 2);
    rounds.timeout();
    let last = rounds.run(ROUNDS / 2).pop();
    let (cwnd_segs, lost_segs) = last.map_or((rounds.sk().snd_cwnd, 0), |round| (round.cwnd, round.lost));
    let seconds = rounds.time_us() as f64 / 1e6;
    if cwnd_segs == 0 {
        return None;
    }
    Some(NativeTrial { seconds, cwnd_segs, lost_segs, ns_per_ack: ns_per_ack(&mut rounds) })
}

/// The calls of one ACK, as the kernel makes them, on a copy of the socket: pkts_acked and cong_avoid, or
/// cong_control.
fn ns_per_ack(rounds: &mut Rounds<Controller>) -> f64 {
    let mut sk = rounds.sk().clone();
    let srtt_us = i64::from(sk.srtt_us >> 3);
    let ack = AckSample {
        pkts_acked: 1,
        rtt_us: i32::try_from(srtt_us).unwrap_or(i32::MAX),
        in_flight: sk.packets_out,
    };
    let sample = RateSample {
        delivered: 1,
        interval_us: srtt_us.max(1),
        rtt_us: srtt_us,
        acked_sacked: 1,
        ..RateSample::default()
    };
    let controller = rounds.controller();
    let start = Instant::now();
    for _ in 0..TIMED_ACKS {
        sk.snd_una = sk.snd_una.wrapping_add(1448);
        controller.pkts_acked(&mut sk, &ack);
        let una = sk.snd_una;
        if controller.has(Operation::CongControl) {
            controller.cong_control(&mut sk, una, 0, &sample);
        } else {
            controller.cong_avoid(&mut sk, una, 1);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(TIMED_ACKS)
}
