//! Built-in algorithms natively: they load, are called, and share nothing.

use cc::native::Library;
use cc::{Algorithm, Source, Values};
use tcp::{CongestionControl, Operation, TcpSock};

#[test]
fn every_built_in_algorithm_loads_and_is_its_own_file_s_main_one() {
    for algorithm in Algorithm::all() {
        let library = Library::open(&Source::BuiltIn(algorithm), &Values::new()).unwrap();
        assert_eq!(library.main_name(), algorithm.name);
        let controller = library.controller(None).unwrap();
        assert!(controller.has(Operation::Ssthresh), "{}", algorithm.name);
        assert!(!algorithm.summary().is_empty());
    }
}

#[test]
fn reno_grows_by_one_a_window_and_halves() {
    let library = Library::open(&Source::built_in("reno").unwrap(), &Values::new()).unwrap();
    let mut reno = library.controller(None).unwrap();
    let mut sk = TcpSock { snd_cwnd: 10, snd_ssthresh: 12, max_packets_out: 10, ..TcpSock::default() };
    sk.set_is_cwnd_limited(true);
    reno.init(&mut sk);
    // Slow start up to the threshold, the rest counts as avoidance.
    reno.cong_avoid(&mut sk, 0, 5);
    assert_eq!((sk.snd_cwnd, sk.snd_cwnd_cnt), (12, 3));
    reno.cong_avoid(&mut sk, 0, 9);
    assert_eq!((sk.snd_cwnd, sk.snd_cwnd_cnt), (13, 0));
    assert_eq!(reno.ssthresh(&mut sk), 6);
}
