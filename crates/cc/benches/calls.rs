//! Duration of a native call, for each built-in algorithm: `cargo bench -p longfat-cc --bench calls`.
//!
//! The calls of one ACK (in_ack_event, pkts_acked, then cong_avoid or cong_control) in avoidance at a window
//! of 1000.

use cc::native::Library;
use cc::{Algorithm, ParameterValues, Source};
use tcp::{AckSample, CongestionControl, Operation, RateSample, TcpSock};

const ACKS: u32 = 2_000_000;

/// This thread's processor time, ns, because other programs may use the machine.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has schedstat");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("schedstat begins with nanoseconds")
}

fn main() {
    for algorithm in Algorithm::all() {
        let library = Library::open(&Source::BuiltIn(algorithm), &ParameterValues::new()).unwrap();
        let mut cc = library.controller(None).unwrap();
        let mut sk = TcpSock { snd_cwnd: 1000, snd_ssthresh: 500, ..TcpSock::default() };
        sk.set_is_cwnd_limited(true);
        (sk.srtt_us, sk.rtt_min.s[0].v) = (160_000, 20_000);
        (sk.tcp_clock_cache, sk.tcp_mstamp) = (1_000_000_000, 1_000_000);
        cc.init(&mut sk);
        let acked = AckSample { pkts_acked: 2, rtt_us: 20_100, in_flight: 1000 };
        let mut calls = 0u64;
        let start = processor_ns();
        for ack in 0..ACKS {
            sk.tcp_clock_cache += 20_000;
            sk.tcp_mstamp += 20;
            sk.delivered = sk.delivered.wrapping_add(2);
            sk.snd_una = ack.wrapping_mul(2896);
            sk.snd_nxt = sk.snd_una.wrapping_add(1_448_000);
            (sk.packets_out, sk.max_packets_out) = (1000, 1000);
            if cc.has(Operation::InAckEvent) {
                cc.in_ack_event(&mut sk, 2);
                calls += 1;
            }
            if cc.has(Operation::PktsAcked) {
                cc.pkts_acked(&mut sk, &acked);
                calls += 1;
            }
            if cc.has(Operation::CongControl) {
                let sample = RateSample {
                    prior_mstamp: sk.tcp_mstamp - 20_000,
                    prior_delivered: sk.delivered.wrapping_sub(1000),
                    delivered: 1000,
                    interval_us: 20_000,
                    rtt_us: 20_100,
                    acked_sacked: 2,
                    prior_in_flight: 1000,
                    ..RateSample::default()
                };
                cc.cong_control(&mut sk, ack, 4, &sample);
            } else {
                let una = sk.snd_una;
                cc.cong_avoid(&mut sk, una, 2);
            }
            calls += 1;
            sk.snd_cwnd = sk.snd_cwnd.clamp(900, 1100);
        }
        let ns = (processor_ns() - start) as f64;
        let (an_ack, a_call) = (ns / f64::from(ACKS), ns / calls as f64);
        println!("{:12} {an_ack:6.1} ns per ACK, {a_call:6.1} ns per call", algorithm.name);
    }
}
