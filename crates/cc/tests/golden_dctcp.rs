//! DCTCP: alpha's fixed point and dynamics, the reduction by alpha / 2, the receiver's echo, Reno without
//! ECN.

use crate::support;
use cc::ParameterValue;
use cc::native::Controller;
use support::{Flow, controller, path};
use tcp::test_kit::Path;
use tcp::{CaEvent, CaState, CongestionControl, NEEDS_ECN, TcpSock};

const ECN_OK: u8 = 1;
const DEMAND_CWR: u8 = 4;
const ACK_TIMER: u8 = 2;
const ACK_NOW: u8 = 16;

struct Bench {
    cc: Controller,
    sk: TcpSock,
}

impl Bench {
    fn new(ecn_flags: u8, values: &[(&str, ParameterValue)]) -> Bench {
        let mut bench = Bench { cc: controller("dctcp", values), sk: TcpSock::default() };
        bench.sk.ecn_flags = ecn_flags;
        bench.sk.snd_cwnd = 100_000;
        bench.cc.init(&mut bench.sk);
        bench
    }

    /// A round trip of 1000 packets.
    fn round(&mut self, marked: u32) {
        self.sk.delivered += 1000;
        self.sk.delivered_ce += marked;
        self.sk.snd_una = self.sk.snd_nxt;
        self.sk.snd_nxt = self.sk.snd_nxt.wrapping_add(1_448_000);
        self.cc.in_ack_event(&mut self.sk, 0);
    }

    fn alpha(&mut self) -> f64 {
        2.0 * (1.0 - f64::from(self.cc.ssthresh(&mut self.sk)) / f64::from(self.sk.snd_cwnd))
    }
}

#[test]
fn alpha_settles_at_the_fraction_of_marks() {
    for marked in [0, 1, 10, 100, 500, 1000] {
        let mut bench = Bench::new(ECN_OK, &[]);
        for _ in 0..300 {
            bench.round(marked);
        }
        let (alpha, expected) = (bench.alpha(), f64::from(marked) / 1000.0);
        assert!((alpha - expected).abs() < 0.0005, "{alpha} instead of {expected}");
    }
}

#[test]
fn alpha_moves_by_g_each_round() {
    let mut bench = Bench::new(ECN_OK, &[]);
    assert!((bench.alpha() - 1.0).abs() < 1e-4, "alpha starts at 1");
    let mut expected = 1.0;
    for round in 0..40 {
        let marked = if round < 20 { 0 } else { 300 };
        bench.round(marked);
        expected = expected * 15.0 / 16.0 + f64::from(marked) / 1000.0 / 16.0;
        let alpha = bench.alpha();
        assert!((alpha - expected).abs() < 1e-3, "round {round}: {alpha} instead of {expected}");
    }
}

#[test]
fn g_is_a_parameter() {
    let mut bench = Bench::new(ECN_OK, &[("g", ParameterValue::Decimal(0.25))]);
    bench.round(0);
    assert!((bench.alpha() - 0.75).abs() < 1e-3);
}

#[test]
fn a_loss_halves_the_window() {
    let mut bench = Bench::new(ECN_OK, &[]);
    for _ in 0..100 {
        bench.round(0);
    }
    bench.sk.snd_ssthresh = bench.cc.ssthresh(&mut bench.sk);
    bench.cc.set_state(&mut bench.sk, CaState::Recovery);
    assert_eq!(bench.sk.snd_ssthresh, 50_000);
    bench.sk.snd_cwnd = 50_000;
    assert_eq!(bench.cc.undo_cwnd(&mut bench.sk), 100_000);
}

#[test]
fn without_ecn_it_behaves_as_reno() {
    let mut bench = Bench::new(0, &[]);
    for _ in 0..100 {
        bench.round(0);
    }
    assert_eq!(bench.cc.ssthresh(&mut bench.sk), 50_000);
    assert_eq!(bench.cc.flags() & NEEDS_ECN, NEEDS_ECN);
}

#[test]
fn a_change_of_marks_is_acknowledged_at_once() {
    let mut bench = Bench::new(ECN_OK, &[]);
    bench.sk.rcv_nxt = 1000;
    bench.cc.cwnd_event(&mut bench.sk, CaEvent::EcnNoCe);
    assert_eq!(bench.sk.icsk_ack_pending & ACK_NOW, 0);
    assert_eq!(bench.cc.take_ack_request(), None);

    // An ACK is delayed when the first mark arrives: it is sent for the data before, without ECE.
    bench.sk.icsk_ack_pending = ACK_TIMER;
    bench.sk.rcv_nxt = 2000;
    bench.cc.cwnd_event(&mut bench.sk, CaEvent::EcnIsCe);
    assert_eq!(bench.cc.take_ack_request(), Some(1000));
    assert_eq!(bench.sk.icsk_ack_pending & ACK_NOW, ACK_NOW);
    assert_eq!(bench.sk.ecn_flags & DEMAND_CWR, DEMAND_CWR);

    // Further marks: normal ACKs.
    bench.sk.icsk_ack_pending = 0;
    bench.sk.rcv_nxt = 3000;
    bench.cc.cwnd_event(&mut bench.sk, CaEvent::EcnIsCe);
    assert_eq!((bench.cc.take_ack_request(), bench.sk.icsk_ack_pending), (None, 0));

    // No ACK is delayed at the next change.
    bench.cc.cwnd_event(&mut bench.sk, CaEvent::EcnNoCe);
    assert_eq!((bench.cc.take_ack_request(), bench.sk.icsk_ack_pending), (None, ACK_NOW));
    assert_eq!(bench.sk.ecn_flags & DEMAND_CWR, 0);
}

#[test]
fn the_queue_stays_near_the_marking_threshold() {
    let path = Path { mark_from_packets: Some(20), ecn: true, ..path(100_000, 1_000, 1_000) };
    let mut flow = Flow::new(controller("dctcp", &[]), path);
    flow.run_until(1.0, |_| ());
    let mut largest: f64 = 0.0;
    flow.run_until(2.0, |flow| largest = largest.max(flow.queued()));
    let (rate, lost) = flow.delivery(1.0);
    // RFC 8257: the queue oscillates around K by a few packets; Reno would empty it each time.
    assert!(rate > 0.99, "{rate} of the path's rate");
    assert!(largest < 45.0, "{largest} packets were queued");
    assert_eq!(lost, 0.0);
}
