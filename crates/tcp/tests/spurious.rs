//! Spurious timeouts, reordering, and losses of retransmissions.

use crate::pair;
use pair::{Pair, Path, reference};
use tcp::EndpointEvent;

const SECOND: u64 = 1_000_000_000;

fn events(pair: &mut Pair) -> Vec<EndpointEvent> {
    std::iter::from_fn(|| pair.sender.next_event()).collect()
}

/// A pair with a receive window of 512 KiB, so that no queue overflows.
fn pair(path: Path) -> Pair {
    let mut pair = Pair::new(reference(1500, 1_048_576), path, None);
    pair.sender.keep_events(true);
    pair
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut path = Path::new(20_000_000, 40_000_000, 1000);
    // From packet 100 on, the delay is half a second longer.
    path.delays = Box::new(|number| if number >= 100 { 500_000_000 } else { 0 });
    let mut pair = pair(path);
    pair.run(SECOND / 5);
    let before = pair.sender.info(pair.now);
    pair.run(2 * SECOND);
    let happened = events(&mut pair);
    assert!(
        happened.iter().any(|e| matches!(e, EndpointEvent::Rto { .. })),
        "the timeout was too long for this test"
    );
    assert!(happened.iter().any(|e| matches!(e, EndpointEvent::Undo { .. })), "{happened:?}");
    let after = pair.sender.info(pair.now);
    assert!(after.snd_cwnd_segs >= before.snd_cwnd_segs, "{before:?} {after:?}");
    assert_eq!(after.ca_state, 0);
}

#[test]
fn the_reordering_distance_is_measured() {
    let mut path = Path::new(50_000_000, 40_000_000, 1000);
    // Every twentieth packet arrives 5 ms late, and 20 others overtake it. A quarter of the round trip is 10
    // ms.
    path.delays = Box::new(|number| if number % 20 == 0 { 5_000_000 } else { 0 });
    let mut pair = pair(path);
    pair.run(2 * SECOND);
    let early = pair.sender.info(pair.now);
    assert!(early.reordering > 3, "{}", early.reordering);
    pair.run(10 * SECOND);
    let late = pair.sender.info(pair.now);
    assert_eq!(late.total_retrans_segs, early.total_retrans_segs, "nothing is lost here");
    assert_eq!(pair.dropped, 0);
}

#[test]
fn a_lost_retransmission_is_repaired_without_a_timeout() {
    let mut path = Path::new(20_000_000, 40_000_000, 1000);
    // Loses packets 300 to 302, and then every seventh of 340 to 419, among them retransmissions of the
    // three.
    let mut lost = 0;
    path.loses = Box::new(move |number| {
        let loses =
            (300..303).contains(&number) || lost == 3 && (340..420).contains(&number) && number % 7 == 0;
        lost += u32::from(loses && number < 303);
        loses
    });
    let mut pair = pair(path);
    pair.run(3 * SECOND);
    let info = pair.sender.info(pair.now);
    assert_eq!(u64::from(info.total_retrans_segs), pair.dropped, "each loss is repaired once");
    assert!(pair.dropped > 10 && info.total_rto == 0, "{} lost, {} timeouts", pair.dropped, info.total_rto);
}
