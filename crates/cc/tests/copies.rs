//! Users start from copies of built-in algorithms: these build with the headers that the program contains.

use cc::native::Library;
use cc::{Algorithm, ParameterValues, Source};
use tcp::{CongestionControl, Operation, TcpSock};

/// A copy of the algorithm's source, as a user's file in an empty folder.
fn copy_of(algorithm: &Algorithm) -> Source {
    Source::File {
        path: format!("/nowhere/{}.bpf.c", algorithm.name).into(),
        text: algorithm.text.to_owned(),
    }
}

#[test]
fn a_copy_of_every_algorithm_builds_and_has_the_same_parameters() {
    for algorithm in Algorithm::all() {
        let copy = copy_of(algorithm);
        let parameters = copy.parameters().unwrap_or_else(|e| panic!("a copy of {}: {e}", algorithm.name));
        assert_eq!(parameters, Source::BuiltIn(algorithm).parameters().unwrap(), "{}", algorithm.name);
        for parameter in parameters {
            assert!(!parameter.doc.is_empty(), "{} of {} has no comment", parameter.name, algorithm.name);
        }
    }
}

#[test]
fn a_copy_of_griddt_behaves_like_the_original() {
    let griddt = Algorithm::all().iter().find(|a| a.name == "griddt").unwrap();
    let cwnd_after_acks = |source: &Source| {
        let mut controller =
            Library::open(source, &ParameterValues::new()).unwrap().controller(None).unwrap();
        assert!(controller.has(Operation::CongAvoid));
        let mut sk = TcpSock { snd_cwnd: 100, snd_ssthresh: 150, ..TcpSock::default() };
        sk.set_is_cwnd_limited(true);
        controller.init(&mut sk);
        for _ in 0..500 {
            controller.cong_avoid(&mut sk, 0, 3);
        }
        (sk.snd_cwnd, sk.snd_cwnd_cnt)
    };
    assert_eq!(cwnd_after_acks(&copy_of(griddt)), cwnd_after_acks(&Source::BuiltIn(griddt)));
}
