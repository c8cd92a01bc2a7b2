//! The ranking for constructed paths and hosts: each fault is named first, and a healthy path is reported as
//! healthy.

use std::convert::Infallible;

use diagnosis::{
    Arrived, Burst, Capacity, Change, DatagramPlan, Datagrams, Kind, Limit, Losses, Mtu, Observed, Options,
    Path, RoundTrips, TcpPlan, TcpResult, rank, repeat,
};
use probe::{AvailableBandwidthResult, Interval, Validity};
use proptest::prelude::*;
use schema::{Cause, FlowSample, FlowSummary, Limited};
use tune::{HostFacts, Reading, SysctlValue};
use units::{BitRate, Instant, Time};
use verdict::StartOfFlow;

const RTT: Time = Time::from_millis(20);
/// 100 Mb/s at MTU 1500, as TCP's payload.
const CAPACITY: f64 = 95.6e6;

fn facts(settings: &[(&str, &str)]) -> HostFacts {
    let mut facts = HostFacts { kernel: "6.18.0".into(), ..HostFacts::default() };
    let defaults = [
        ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
        ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        ("net.ipv4.tcp_window_scaling", "1"),
    ];
    for (name, value) in defaults.iter().chain(settings) {
        let setting = SysctlValue { value: (*value).into(), read_only: false };
        facts.sysctls.insert((*name).into(), Reading::Known(setting));
    }
    facts
}

/// The capacity of a path that was overloaded, without a visible queue or policer.
fn capacity(goodput_bps: f64) -> Capacity {
    Capacity {
        goodput_bps,
        at_least: false,
        offered_bps: None,
        queue: None,
        later_bps: None,
        overflows_here: false,
        at_once_bytes: None,
        how: "datagrams".into(),
    }
}

/// A path of 100 Mb/s and 20 ms without a fault, and a test with a goodput of `got_bps` that was limited by
/// `cause`.
fn seen(got_bps: f64, cause: Cause) -> Observed {
    let mut limited = Limited::default();
    *limited.share_mut(cause) = 1.0;
    Observed {
        from: "h1".into(),
        to: "h2".into(),
        sender: Some(facts(&[])),
        receiver: Some(facts(&[])),
        rtt: RTT,
        median_rtt: None,
        expected: Some((94.1e6, "--rate 100 Mb/s".into())),
        mtu: Mtu { device: 1500, passes: Some(1500) },
        capacity: Some(capacity(CAPACITY)),
        available: None,
        datagrams: Datagrams { sent: 8000, lost: 0 },
        flow: Some(FlowSummary {
            name: "stream-1".into(),
            steady_goodput_bps: Some(got_bps),
            verdict: Some(cause),
            limited,
            limited_steady: limited,
            retransmitted_segs: Some(40),
            sent_segs: Some(10_000),
            min_rtt_us: Some(20_100.0),
            median_rtt_us: Some(21_000.0),
            mss_bytes: Some(1448),
            ..FlowSummary::default()
        }),
        losses: None,
        parallel: None,
        change: None,
        marked_segs: 0,
        start: Default::default(),
        variation: None,
        queued: None,
        behind_others: None,
        sender_busy: Some(0.1),
        receiver_busy: Some(0.1),
    }
}

fn outstanding(bytes: f64) -> Option<Losses> {
    Some(Losses { episodes: 5, outstanding_bytes: bytes, rtt_us: None, longest_rtt_us: None })
}

fn first(seen: &Observed) -> Limit {
    let ranking = rank(seen);
    assert!(ranking.limits.windows(2).all(|pair| pair[0].allows_bps <= pair[1].allows_bps), "{ranking:?}");
    assert_eq!(ranking.healthy, ranking.limits[0].kind == Kind::PathRate);
    ranking.limits[0].clone()
}

#[test]
fn a_healthy_path_is_reported_as_healthy() {
    for cause in [Cause::PathRate, Cause::Loss, Cause::SlowStart] {
        let limit = first(&seen(94e6, cause));
        assert_eq!((limit.kind, limit.measured, limit.change), (Kind::PathRate, true, None), "{cause:?}");
    }
}

#[test]
fn a_test_above_the_expected_rate_is_attributed_to_the_path() {
    let mut seen = Observed { capacity: None, ..seen(290e6, Cause::HostCpu) };
    seen.flow.as_mut().unwrap().evidence = vec!["the hosts did not keep up".into()];
    let path = &rank(&seen).limits[0];
    assert_eq!(path.kind, Kind::PathRate);
    assert_eq!(path.evidence, ["expected from --rate 100 Mb/s: 94.1 Mb/s; the test reached 290 Mb/s"]);
}

#[test]
fn small_buffers_are_named_with_host_setting_and_gain() {
    let small =
        facts(&[("net.ipv4.tcp_rmem", "4096 65536 65536"), ("net.ipv4.tcp_wmem", "4096 16384 65536")]);
    let receive = first(&Observed { receiver: Some(small.clone()), ..seen(18e6, Cause::ReceiveWindow) });
    assert_eq!(
        (receive.kind, receive.host.as_deref(), receive.allows_bps),
        (Kind::ReceiveBuffer, Some("h2"), 18e6)
    );
    let change = receive.change.unwrap();
    assert!(change.contains("on h2: longfat tune --rate 96mbit --rtt 20ms --apply"), "{change}");
    assert!(change.contains("net.ipv4.tcp_rmem = 4096 65536 1048576"), "{change}");
    assert_eq!(receive.gain_bps, Some(CAPACITY - 18e6));
    let send = first(&Observed { sender: Some(small), ..seen(50e6, Cause::SendBuffer) });
    assert_eq!((send.kind, send.host.as_deref()), (Kind::SendBuffer, Some("h1")));
    // If the peer reports no settings, like iperf3, only the verdict shows the limit; the suggested command
    // does not need longfat there.
    let silent = first(&Observed { receiver: None, ..seen(18e6, Cause::ReceiveWindow) });
    assert_eq!(silent.kind, Kind::ReceiveBuffer);
    let change = silent.change.unwrap();
    assert!(
        change.starts_with("on h2: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 1048576\" (twice the"),
        "{change}"
    );
}

#[test]
fn a_window_just_below_the_path_is_named() {
    // 89 to 90 % of the path, as with a buffer that is a little too small.
    for (cause, kind) in [(Cause::ReceiveWindow, Kind::ReceiveBuffer), (Cause::SendBuffer, Kind::SendBuffer)]
    {
        let limit = first(&Observed { expected: None, ..seen(85.5e6, cause) });
        assert_eq!((limit.kind, limit.measured), (kind, true));
        assert_eq!(limit.gain_bps, Some(CAPACITY - 85.5e6));
        // With a standing queue the slowest link was busy all the time.
        let full = Observed { expected: None, queued: Some(0.95), ..seen(85.5e6, cause) };
        assert_eq!(first(&full).kind, Kind::PathRate);
        // Within the error of the capacity.
        assert_eq!(first(&Observed { expected: None, ..seen(92e6, cause) }).kind, Kind::PathRate);
    }
}

#[test]
fn a_burst_with_less_goodput_than_the_test_is_ignored() {
    // A busy iperf3 server received 61 Mb/s of datagrams, but 82 Mb/s of TCP and 95 by four connections.
    let busy = Observed {
        parallel: Some((4, 95e6)),
        capacity: Some(capacity(61e6)),
        receiver: None,
        ..seen(82e6, Cause::ReceiveWindow)
    };
    let limit = first(&busy);
    assert_eq!(
        (limit.kind, limit.gain_bps),
        (Kind::ReceiveBuffer, Some(13e6)),
        "not fair queueing, not a policer"
    );
}

#[test]
fn a_path_that_changed_comes_first() {
    let change = Change { at: Instant::from_millis(6200), before_bps: 94e6, after_bps: 20e6 };
    let fell = Observed { change: Some(change), losses: outstanding(50_000.0), ..seen(60e6, Cause::Loss) };
    let ranking = rank(&fell);
    assert_eq!((ranking.limits[0].kind, ranking.healthy), (Kind::PathChanged, false), "{ranking:?}");
    assert_eq!(ranking.limits[0].gain_bps, Some(34e6), "{ranking:?}");
    let evidence = &ranking.limits[0].evidence[0];
    assert!(
        evidence.starts_with("at 6.2 s of the test the path's rate fell from 94 Mb/s to 20 Mb/s"),
        "{evidence}"
    );
}

#[test]
fn a_fair_share_is_not_a_slow_hop() {
    let share = |parallel| Observed { parallel, capacity: Some(capacity(32e6)), ..seen(31e6, Cause::Loss) };
    // Four of six shares.
    let fair = rank(&share(Some((4, 63e6))));
    assert_eq!((fair.limits[0].kind, fair.healthy), (Kind::CompetingTraffic, false), "{fair:?}");
    assert!(fair.limits[0].evidence[0].contains("about 2 other connections"), "{fair:?}");
    assert!((55e6..70e6).contains(&fair.limits[0].gain_bps.unwrap()), "{fair:?}");
    let slow = rank(&share(Some((4, 32e6))));
    assert_eq!(slow.limits[0].kind, Kind::SlowHop, "{slow:?}");
}

/// A path on which only the TCP test is repeated.
struct TcpOnly(FlowSummary);

impl Path for TcpOnly {
    type Error = Infallible;

    fn report_step(&mut self, _: &str) {}

    fn tcp(&mut self, _: &TcpPlan) -> Result<Option<TcpResult>, Infallible> {
        let (flow, receiver) = (self.0.clone(), Some(facts(&[])));
        Ok(Some(TcpResult { flow, receiver, ..TcpResult::default() }))
    }

    fn round_trips_and_mtu(&mut self) -> Result<(RoundTrips, Mtu), Infallible> {
        unreachable!()
    }

    fn round_trip(&mut self) -> Option<Time> {
        unreachable!()
    }

    fn route_mtu(&mut self) -> Option<u32> {
        unreachable!()
    }

    fn datagrams(&mut self, _: &DatagramPlan) -> Result<Option<Burst>, Infallible> {
        unreachable!()
    }

    fn parallel_goodput(&mut self, _: u32, _: &TcpPlan) -> Result<Option<f64>, Infallible> {
        unreachable!()
    }

    fn available(
        &mut self,
        _: BitRate,
        _: Option<u32>,
    ) -> Result<Option<AvailableBandwidthResult>, Infallible> {
        unreachable!()
    }
}

#[test]
fn a_fair_share_is_not_a_slow_hop_after_tuning() {
    let parallel = Some((4, 63e6));
    let before = Observed { parallel, capacity: Some(capacity(32e6)), ..seen(18e6, Cause::SendBuffer) };
    let options = Options {
        from: "h1".into(),
        to: "h2".into(),
        expected: before.expected.clone(),
        max_rate: BitRate(100_000_000),
        datagrams: true,
        datagram_headers: 28,
        probes: true,
        time: Time::from_secs(1),
        congestion: None,
    };
    let mut path = TcpOnly(seen(31e6, Cause::Loss).flow.unwrap());
    let Ok((after, ranking)) = repeat(&mut path, &options, &before, facts(&[]));
    assert_eq!(after.parallel, parallel, "as it was measured before");
    assert_eq!(ranking.limits[0].kind, Kind::CompetingTraffic, "{ranking:?}");
}

#[test]
fn ecn_marks_count_in_addition_to_losses() {
    let both = Observed {
        losses: outstanding(50_000.0),
        marked_segs: 40,
        datagrams: Datagrams { sent: 8000, lost: 40 },
        ..seen(9e6, Cause::Loss)
    };
    let kinds: Vec<Kind> = rank(&both).limits.iter().map(|limit| limit.kind).collect();
    assert!(kinds.contains(&Kind::Loss) && kinds.contains(&Kind::EcnMarks), "{kinds:?}");
}

#[test]
fn the_arrival_rate_of_a_burst_excludes_the_bucket() {
    // 500 packets a second through a queue; before, 100 at once from a policer's bucket.
    let row = |i: i64| FlowSample {
        time_us: i * 10_000,
        datagrams_received: Some(if i == 0 { 0 } else { 100 + i * 5 }),
        min_owd_us: Some(5_000),
        max_owd_us: Some(5_000 + 100 * i.min(50)),
        ..FlowSample::default()
    };
    let rows: Vec<FlowSample> = (0..100).map(row).collect();
    let arrived = Arrived::of(&rows, 1000).unwrap();
    assert!((arrived.bps / 4e6 - 1.0).abs() < 0.01, "{arrived:?}");
    assert_eq!(arrived.delays_us, Some((5_000, 10_000)));
    assert_eq!(Arrived::of(&rows[..3], 1000), None, "single batches");
}

#[test]
fn window_scaling_is_named_before_the_window() {
    let scaling_off = Some(facts(&[("net.ipv4.tcp_window_scaling", "0")]));
    let at_receiver = first(&Observed { receiver: scaling_off.clone(), ..seen(25e6, Cause::ReceiveWindow) });
    assert_eq!(
        (at_receiver.kind, at_receiver.host.as_deref(), at_receiver.measured),
        (Kind::WindowScaling, Some("h2"), true)
    );
    let at_sender = first(&Observed { sender: scaling_off, ..seen(25e6, Cause::ReceiveWindow) });
    assert_eq!((at_sender.kind, at_sender.host.as_deref()), (Kind::WindowScaling, Some("h1")));
}

#[test]
fn losses_are_classified_by_queue_and_datagrams() {
    let bdp = CAPACITY / 8.0 * 0.02;
    let lossy = Observed {
        losses: outstanding(0.15 * bdp),
        datagrams: Datagrams { sent: 8000, lost: 40 },
        ..seen(9e6, Cause::Loss)
    };
    assert_eq!(first(&lossy).kind, Kind::Loss);
    // Spurious retransmissions make TCP's loss rate several times that of datagrams.
    let flow = lossy.flow.clone().map(|flow| FlowSummary { retransmitted_segs: Some(250), ..flow });
    assert_eq!(first(&Observed { flow, ..lossy.clone() }).kind, Kind::Loss);
    let full = Observed { losses: outstanding(1.05 * bdp), ..seen(70e6, Cause::Loss) };
    assert_eq!(first(&full).kind, Kind::ShortQueue);
    let bursts = Observed { losses: outstanding(0.4 * bdp), ..seen(40e6, Cause::Loss) };
    assert_eq!(first(&bursts).kind, Kind::ShortQueue, "single datagrams are not lost");
    // Bursts of other traffic overflow a queue of 2 ms as a lossy link would.
    let tiny = Capacity { queue: Some(Time::from_millis(2)), ..capacity(CAPACITY) };
    let limit = first(&Observed { capacity: Some(tiny), ..lossy.clone() });
    assert_eq!(
        (limit.kind, limit.doubt.and_then(|doubt| doubt.instead)),
        (Kind::Loss, Some(Kind::ShortQueue))
    );
    let unknown = Observed { capacity: None, datagrams: Datagrams::default(), ..seen(40e6, Cause::Loss) };
    assert_eq!(first(&unknown).kind, Kind::Loss);
}

#[test]
fn a_hop_slower_than_expected_is_a_slow_hop() {
    let half = capacity(CAPACITY / 2.0);
    let slow = Observed { capacity: Some(half.clone()), ..seen(47e6, Cause::PathRate) };
    assert_eq!(first(&slow).kind, Kind::SlowHop);
    let without_expectation =
        Observed { capacity: Some(half), expected: None, ..seen(47e6, Cause::PathRate) };
    assert_eq!(first(&without_expectation).kind, Kind::PathRate);
}

#[test]
fn a_black_hole_is_named_before_other_limits() {
    let hole = Observed { mtu: Mtu { device: 1500, passes: Some(1400) }, ..seen(0.0, Cause::Loss) };
    let limit = first(&hole);
    assert_eq!((limit.kind, limit.allows_bps, limit.gain_bps), (Kind::MtuBlackHole, 0.0, Some(CAPACITY)));
    let unknown = Observed { mtu: Mtu { device: 1500, passes: None }, ..seen(94e6, Cause::PathRate) };
    assert_eq!(first(&unknown).kind, Kind::PathRate);
}

#[test]
fn a_receiver_without_cpu_is_distinguished_from_small_buffers() {
    for cause in [Cause::Application, Cause::ReceiveWindow] {
        let busy = Observed { receiver_busy: Some(0.99), ..seen(30e6, cause) };
        let limit = first(&busy);
        assert_eq!((limit.kind, limit.host.as_deref()), (Kind::ReceiverCpu, Some("h2")), "{cause:?}");
    }
    assert_eq!(first(&seen(30e6, Cause::Application)).kind, Kind::Application);
    let sender = Observed { sender_busy: Some(0.99), ..seen(30e6, Cause::HostCpu) };
    assert_eq!(first(&sender).kind, Kind::SenderCpu);
}

#[test]
fn losses_count_once_per_episode_with_data_in_flight() {
    let row = |ms: i64, retransmitted, unacked| FlowSample {
        time_us: ms * 1000,
        srtt_us: Some(20_000),
        snd_mss_bytes: Some(1000),
        unacked_segs: Some(unacked),
        total_retrans_segs: Some(retransmitted),
        ..FlowSample::default()
    };
    let rows = [
        row(0, 0, 100),
        row(10, 0, 200),
        row(20, 3, 150),
        // These losses belong to the same episode.
        row(30, 5, 90),
        row(40, 5, 80),
        row(100, 5, 120),
        row(110, 6, 100),
        row(200, 6, 300),
        row(210, 7, 150),
    ];
    let losses = Losses {
        episodes: 3,
        outstanding_bytes: 200_000.0,
        rtt_us: Some(20_000.0),
        longest_rtt_us: Some(20_000.0),
    };
    assert_eq!(Losses::of(&rows), Some(losses), "of 200, 120 and 300 segments");
    assert_eq!(Losses::of(&rows[..2]), None);
    assert_eq!(Losses::of(&[]), None);
}

proptest! {
    /// The ranking is ordered for arbitrary facts from the other end.
    #[test]
    fn arbitrary_facts_of_a_peer_cause_no_panic(rmem in "[-0-9 a-z]{0,40}", scaling in "[-0-9]{0,3}", got in 0.0f64..1e12, rtt in any::<u64>(), busy in any::<f64>()) {
        let peer = facts(&[("net.ipv4.tcp_rmem", &rmem), ("net.ipv4.tcp_window_scaling", &scaling)]);
        for cause in Cause::ALL {
            let observed = Observed {
                receiver: Some(peer.clone()),
                rtt: Time::from_nanos(rtt),
                receiver_busy: Some(busy),
                ..seen(got, cause)
            };
            let limits = rank(&observed).limits;
            prop_assert!(limits.windows(2).all(|pair| pair[0].allows_bps <= pair[1].allows_bps));
        }
    }
}

#[test]
fn clamped_segments_are_named_where_they_cost_much() {
    let clamped = |got: f64, cause, mss: u64| {
        let one = seen(got, cause);
        let flow = FlowSummary { mss_bytes: Some(mss), ..one.flow.clone().unwrap() };
        Observed { flow: Some(flow), ..one }
    };
    let find = |seen: &Observed| {
        let ranking = rank(seen);
        let limit = ranking.limits.iter().find(|limit| limit.kind == Kind::SmallMss).cloned();
        (ranking.healthy, limit)
    };
    // Headers take 7 % more; the path still counts as full.
    let (healthy, limit) = find(&clamped(86e6, Cause::PathRate, 524));
    assert!(healthy && !limit.unwrap().measured);
    // 88 of 154 bytes are payload.
    let (healthy, limit) = find(&clamped(55e6, Cause::PathRate, 88));
    assert!(!healthy && limit.unwrap().measured);
    let lossy = Observed {
        losses: outstanding(30_000.0),
        datagrams: Datagrams { sent: 8000, lost: 40 },
        ..clamped(8e6, Cause::Loss, 524)
    };
    assert!(find(&lossy).1.unwrap().measured, "Mathis' law is proportional to the segment size");
    assert_eq!(find(&clamped(94e6, Cause::PathRate, 1428)).1, None);
    let black_hole =
        Observed { mtu: Mtu { device: 9000, passes: Some(1500) }, ..clamped(9e6, Cause::Loss, 524) };
    assert_eq!(find(&black_hole).1, None, "the kernel's search for the MTU makes them smaller");
}

#[test]
fn a_cached_threshold_explains_a_slow_start() {
    let start = StartOfFlow { initial_window_segs: Some(10), ssthresh_segs: Some(12) };
    let limit = first(&Observed { start, ..seen(8e6, Cause::SlowStart) });
    assert_eq!((limit.kind, limit.host.as_deref()), (Kind::CachedSsthresh, Some("h1")));
    assert_eq!(first(&seen(8e6, Cause::SlowStart)).kind, Kind::SlowStart);
}

/// Bursts overflow a short queue, so that a probe finds hardly any available bandwidth, although no other
/// traffic uses the path.
#[test]
fn datagrams_without_loss_refute_an_unconfirmed_probe() {
    let unconfirmed = |lost| Observed {
        available: Some(AvailableBandwidthResult {
            available_bps: Some(Interval { low: 0.0, value: 6e6, high: 12e6 }),
            packet_bytes: 1500,
            validity: Validity { valid: false, reasons: vec!["queues overflow".into()] },
            varies_bps: None,
            fleets: 13,
            capacity: None,
        }),
        capacity: Some(Capacity { queue: Some(Time::from_millis(1)), ..capacity(CAPACITY) }),
        losses: Some(Losses {
            episodes: 50,
            outstanding_bytes: 30_000.0,
            rtt_us: Some(20_500.0),
            longest_rtt_us: Some(20_800.0),
        }),
        datagrams: Datagrams { sent: 4000, lost },
        ..seen(8e6, Cause::Loss)
    };
    assert_eq!(rank(&unconfirmed(0)).limits[0].kind, Kind::ShortQueue);
    assert!(!unconfirmed(0).is_shared() && unconfirmed(30).is_shared());
}
