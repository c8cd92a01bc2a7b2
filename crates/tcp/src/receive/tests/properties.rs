//! Properties for any input: bytes are delivered in order and once, SACK blocks are correct, the window's
//! right edge never moves to the left, and memory remains within the buffer.

use proptest::prelude::*;

use super::*;

/// One event.
#[derive(Debug, Clone)]
enum Step {
    /// A segment arrives; its offset from `rcv_nxt`, bytes, and its length.
    Segment { offset: i32, len: u32 },
    /// The application reads.
    Read(u64),
    /// Time passes, us.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (-4000..30_000i32, 1..6000u32).prop_map(|(offset, len)| Step::Segment { offset, len }),
        3 => (0..12i32, 1..5u32).prop_map(|(i, n)| Step::Segment { offset: i * 1448, len: n * 1448 }),
        3 => (1..4u32).prop_map(|n| Step::Segment { offset: 0, len: n * 1448 }),
        2 => (1..20_000u64).prop_map(Step::Read),
        1 => (1..60_000u64).prop_map(Step::Wait),
    ]
}

/// 6000 bytes of data in two pages and a head, bytes of memory.
const LARGEST_PACKET: i64 = 2 * 4096 + 896;

/// Checks after each step.
fn check(rig: &Rig, edge: u32) {
    let ahead = rig.edge.wrapping_sub(edge) as i32;
    assert!(ahead >= 0, "the right edge moved to the left by {}", -ahead);
    let over = i64::from(rig.rx.rmem_alloc()) - i64::from(rig.sk.sk_rcvbuf);
    assert!(over <= LARGEST_PACKET, "{over} bytes over the buffer");
}

/// Checks that the data of reported blocks was received, and that data beyond `ack` is in the queue.
fn check_blocks(rig: &Rig, fields: &AckFields, received: &[bool], base: u32) {
    let Some(sack) = fields.sack else { return };
    for (i, &(start, end)) in sack.as_slice().iter().enumerate() {
        let range = (start - base) as usize..(end - base) as usize;
        assert!(
            start < end && range.clone().all(|byte| received[byte]),
            "block {start}-{end} was never received"
        );
        let duplicate = i == 0 && start < fields.ack;
        assert!(duplicate || start > fields.ack, "block {start}-{end} at {}", fields.ack);
        assert!(duplicate || rig.rx.reorder.covers(start, end), "block {start}-{end} is not in the queue");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_input_is_delivered_in_order(
        steps in prop::collection::vec(step(), 1..400),
        rcvbuf in prop_oneof![Just(None), (2_000..60_000u32).prop_map(Some)],
        minor in prop_oneof![Just(1u8), Just(18)],
        sack in any::<bool>(),
        wraps in any::<bool>(),
        scaled in any::<bool>(),
    ) {
        let profile = Profile::Linux6 { kernel: (6, minor) };
        let mut rig = Rig::new(Config { profile, rcvbuf, rmem: [4096, 131_072, 300_000], ..Config::default() });
        let base = if wraps { u32::MAX - 50_000 } else { 1 };
        (rig.sk.rcv_nxt, rig.rx.sack) = (base, sack);
        let window_scale = if scaled { rig.rx.window_scale } else { 0 };
        if !scaled {
            rig.sk.window_clamp = rig.sk.window_clamp.min(65_535);
        }
        let agreed = NegotiatedOptions { window_scale, sack, timestamps: true, ts_recent: 0 };
        rig.rx.establish(&mut rig.sk, 0, agreed);
        rig.edge = base.wrapping_add(rig.sk.rcv_wnd);
        let mut received = vec![false; 400 * 6000 + 40_000];
        let (mut delivered, mut edge, mut seen, mut checked) = (0u64, rig.edge, 0, 0);
        for step in steps {
            match step {
                Step::Segment { offset, len } => {
                    let seq = rig.sk.rcv_nxt.wrapping_add(offset as u32);
                    let at = i64::from(seq.wrapping_sub(base) as i32);
                    if at < 0 {
                        continue;
                    }
                    received[at as usize..at as usize + len as usize].fill(true);
                    let before = rig.sk.rcv_nxt;
                    let accepted = rig.feed(rig.segment(seq, len));
                    delivered += u64::from(accepted.in_order);
                    prop_assert_eq!(rig.sk.rcv_nxt.wrapping_sub(before), accepted.in_order);
                    // The right edge may move to the left if memory ran out (6.6 and newer).
                    if accepted.dropped {
                        edge = rig.edge;
                    }
                    check(&rig, edge);
                }
                Step::Read(most) => {
                    let readable = rig.rx.readable(&rig.sk);
                    let (read, action) = rig.rx.read(&mut rig.sk, rig.now, most);
                    prop_assert_eq!(read, readable.min(most));
                    if action == AckAction::Now {
                        rig.acknowledge();
                    }
                }
                Step::Wait(us) => {
                    rig.now += us * 1000;
                    while rig.rx.timer().is_some_and(|at| at <= rig.now) {
                        if rig.rx.on_timer(&mut rig.sk, rig.now) == AckAction::Now {
                            rig.acknowledge();
                        }
                    }
                }
            }
            edge = if (rig.edge.wrapping_sub(edge) as i32) < 0 { edge } else { rig.edge };
            let reached = rig.sk.rcv_nxt.wrapping_sub(base) as usize;
            prop_assert!(received[checked..reached].iter().all(|&byte| byte), "bytes that never arrived");
            checked = reached;
            prop_assert_eq!(delivered, reached as u64);
            prop_assert_eq!(rig.sk.bytes_received, reached as u64);
            while seen < rig.acks.len() {
                let fields = rig.acks[seen];
                seen += 1;
                if seen == rig.acks.len() && !wraps {
                    check_blocks(&rig, &fields, &received, base);
                }
            }
        }
        prop_assert!(rig.rx.sack || rig.acks.iter().all(|ack| ack.sack.is_none()));
        let left = rig.rx.readable(&rig.sk);
        prop_assert_eq!(rig.rx.read(&mut rig.sk, rig.now, u64::MAX).0, left);
        if !rig.rx.has_holes() {
            prop_assert_eq!(rig.rx.rmem_alloc(), 0, "all memory is released");
        }
    }
}
