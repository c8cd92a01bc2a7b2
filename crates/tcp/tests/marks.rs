//! ECN (RFC 3168) from end to end.

use crate::pair;
use pair::{Pair, Path, chance, reference};
use tcp::{CaState, Config, EndpointEvent};

const SECOND: u64 = 1_000_000_000;

fn marking(ecn: u8, marks: impl FnMut(u64) -> bool + 'static) -> Pair {
    let mut path = Path::new(100_000_000, 20_000_000, 1000);
    path.marks = Box::new(marks);
    let mut pair = Pair::new(Config { ecn, ..reference(1500, 6_000_000) }, path, None);
    pair.sender.keep_events(true);
    pair
}

#[test]
fn a_mark_halves_the_window_once_and_nothing_is_lost() {
    let mut pair = marking(1, |number| (800..810).contains(&number));
    pair.run(2 * SECOND);
    let info = pair.sender.info(pair.now);
    assert_eq!((pair.dropped, info.total_retrans_segs, info.total_rto), (0, 0, 0));
    let mut reductions = 0;
    while let Some(event) = pair.sender.next_event() {
        reductions += u32::from(matches!(event, EndpointEvent::CaState { state: CaState::Cwr, .. }));
    }
    assert_eq!(reductions, 1, "ten marks in one window");
    let ssthresh = info.snd_ssthresh_segs.unwrap();
    assert!((150..500).contains(&ssthresh), "{ssthresh}");
}

#[test]
fn marks_replace_losses() {
    let run = |ecn| {
        let mut pair = marking(ecn, |number| number == 500 || chance(7 << 40, number, 300));
        pair.run(60 * SECOND);
        (pair.sender.info(pair.now), pair.dropped)
    };
    let (marked, none_dropped) = run(1);
    let (lost, dropped) = run(0);
    assert_eq!((none_dropped, marked.total_retrans_segs), (0, 0));
    assert!(marked.delivered_ce_segs > 20, "{marked:?}");
    assert!(dropped > 20 && u64::from(lost.total_retrans_segs) == dropped);
    let ratio = marked.bytes_acked as f64 / lost.bytes_acked as f64;
    assert!((0.8..1.3).contains(&ratio), "{ratio}: Reno reacts to both equally");
}

#[test]
fn an_end_that_only_accepts_ecn_does_not_request_it() {
    let mut pair = marking(2, |_| true);
    pair.run(SECOND / 2);
    assert!(pair.dropped > 0, "packets are not ECN-capable");
}
