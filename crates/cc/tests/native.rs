//! Built-in algorithms natively: they load, are called, and share nothing.

use cc::native::Library;
use cc::{Algorithm, ParameterValues, Source};
use tcp::{CongestionControl, Operation, TcpSock};

#[test]
fn every_built_in_algorithm_loads_and_is_the_main_one_of_its_file() {
    for algorithm in Algorithm::all() {
        let library = Library::open(&Source::BuiltIn(algorithm), &ParameterValues::new()).unwrap();
        assert_eq!(library.main_name(), algorithm.name);
        let controller = library.controller(None).unwrap();
        assert!(controller.has(Operation::Ssthresh), "{}", algorithm.name);
        assert!(!algorithm.summary().is_empty());
    }
}

#[test]
fn reno_grows_by_one_per_window_and_halves() {
    let library = Library::open(&Source::built_in("reno").unwrap(), &ParameterValues::new()).unwrap();
    let mut reno = library.controller(None).unwrap();
    let mut sk = TcpSock { snd_cwnd: 10, snd_ssthresh: 12, max_packets_out: 10, ..TcpSock::default() };
    sk.set_is_cwnd_limited(true);
    reno.init(&mut sk);
    // Slow start up to the threshold, the remainder counts for congestion avoidance.
    reno.cong_avoid(&mut sk, 0, 5);
    assert_eq!((sk.snd_cwnd, sk.snd_cwnd_cnt), (12, 3));
    reno.cong_avoid(&mut sk, 0, 9);
    assert_eq!((sk.snd_cwnd, sk.snd_cwnd_cnt), (13, 0));
    assert_eq!(reno.ssthresh(&mut sk), 6);
}

/// The rounds of a griddt flow with the parameter a.
fn griddt(a: i64, rounds: u64) -> Vec<tcp::test_kit::Round> {
    let values = ParameterValues::from([("a".to_owned(), cc::ParameterValue::Integer(a))]);
    let library = Library::open(&Source::built_in("griddt").unwrap(), &values).unwrap();
    let path = tcp::test_kit::Path { loss: 0.0005, ..Default::default() };
    tcp::test_kit::Rounds::new(path, library.controller(None).unwrap()).run(rounds)
}

#[test]
fn parallel_libraries_with_different_parameters_do_not_interfere() {
    let alone: Vec<_> = [1, 7, 30].map(|a| griddt(a, 400)).into();
    assert_ne!(alone[0], alone[1]);
    let parallel: Vec<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| [1, 7, 30].map(|a| griddt(a, 400)).into_iter().collect::<Vec<_>>()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for one in parallel {
        assert!(one == alone, "a run among others differs from the same run alone");
    }
}

#[test]
fn calls_can_alternate_between_hundreds_of_open_libraries() {
    let source = Source::built_in("griddt").unwrap();
    let open = |a: i64| {
        let values = ParameterValues::from([("a".to_owned(), cc::ParameterValue::Integer(a))]);
        Library::open(&source, &values).unwrap().controller(None).unwrap()
    };
    let mut all: Vec<_> = (1..=200).map(|a| (a, open(a), TcpSock::default())).collect();
    for (_, controller, sk) in &mut all {
        controller.init(sk);
        (sk.snd_cwnd, sk.snd_ssthresh) = (100, 50);
        sk.set_is_cwnd_limited(true);
        sk.srtt_us = 8 * 10_000;
        sk.rtt_min.s[0].v = 10_000;
        sk.tcp_clock_cache = 1_000_000_000;
        sk.tcp_mstamp = 1_000_000;
    }
    for _ in 0..50 {
        for (_, controller, sk) in &mut all {
            controller.cong_avoid(sk, 0, 2);
        }
    }
    // 100 packets of a window of 100 are acknowledged: growth of a segments, slightly less because the window
    // grows.
    for (a, _, sk) in &all {
        let more = f64::from(sk.snd_cwnd - 100);
        let exact = (100.0f64 * 100.0 + 2.0 * 100.0 * *a as f64).sqrt() - 100.0;
        assert!(
            (more - exact).abs() <= 1.5 + exact * 0.03,
            "a = {a}: {more} segments more, {exact} expected"
        );
    }
}
