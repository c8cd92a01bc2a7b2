//! Arbitrary frames of a host: routers never panic, their replies are well formed, and no packet larger than
//! the MTU passes.

use crate::chain;
use chain::{H0, chain, echo, read, send, udp_v4, udp_v6};
use net::{DropCause, PipeSpec};
use proptest::prelude::*;

/// Valid frames of all kinds: an ARP request, echo requests, fragments, extension headers and options.
fn frames() -> Vec<Vec<u8>> {
    let mut arp = udp_v4(b"", |_| {})[..12].to_vec();
    arp.extend([
        8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0x6c, 0x66, 0x6e, 0, 0, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ]);
    let mut extended = udp_v6(&[7; 64], |_| {});
    // Hop-by-hop options, then a fragment header, then UDP.
    extended[20] = 0;
    extended[54..70].copy_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 1, 2, 3, 4]);
    vec![
        udp_v4(&[7; 1000], |_| {}),
        udp_v4(&[7; 300], |h| h.options = [0x94, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 1].into()),
        udp_v4(&[7; 300], |h| {
            h.more_fragments = true;
            h.fragment_offset = 8000.try_into().unwrap();
        }),
        udp_v4(&[7; 20], |h| h.destination = [10, 0, 0, 2]),
        udp_v6(&[7; 1000], |_| {}),
        udp_v6(&[7; 1000], |h| h.hop_limit = 1),
        echo("10.0.1.2", &[7; 500]),
        echo("fd00::2", &[7; 500]),
        arp,
        extended,
    ]
}

/// Corrects the IPv4 header checksum, so that routers process packets with other errors.
fn correct_checksum(frame: &mut [u8]) {
    let end = 14 + usize::from(frame.get(14).map_or(0, |b| b & 15)) * 4;
    if end >= 34 && frame.len() >= end && frame[12..14] == [8, 0] {
        frame[24..26].fill(0);
        let sum: u32 = frame[14..end].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

fn check(mut frame: Vec<u8>, mtu: u32) -> Result<(), TestCaseError> {
    correct_checksum(&mut frame);
    if frame.len() < 14 {
        return Ok(());
    }
    let log = send(&mut chain(PipeSpec { mtu: Some(mtu), ..PipeSpec::default() }), H0, frame.clone());
    for (link, passed) in &log.passed {
        prop_assert!(*link != 2 || passed.len() - 14 <= mtu as usize, "{} B at MTU {}", passed.len(), mtu);
    }
    for (_, _, delivered) in log.delivered.iter().filter(|d| d.0 == H0) {
        prop_assert!(delivered.len() <= frame.len().max(1280 + 14));
        let is_ip = [[8, 0], [0x86, 0xdd]].iter().any(|kind| delivered[12..14] == *kind);
        let is_from_router =
            if delivered[12] == 8 { delivered[26..29] == [10, 0, 0] && delivered[29] == 2 } else { true };
        if is_ip && is_from_router {
            read(delivered);
        }
    }
    let too_big = log.dropped.iter().filter(|cause| **cause == DropCause::Mtu).count();
    prop_assert!(too_big <= 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn routers_survive_damaged_packets(
        which in 0usize..10, flips in proptest::collection::vec((0usize..90, any::<u8>()), 0..6),
        cut in 0usize..1100, mtu in 1u32..1600,
    ) {
        let mut frame = frames().swap_remove(which);
        for (at, value) in flips {
            // The destination MAC address stays, because a router ignores other frames.
            if let Some(byte) = frame.get_mut(12 + at) {
                *byte = value;
            }
        }
        let kept = frame.len().saturating_sub(cut.saturating_sub(200));
        frame.truncate(kept);
        check(frame, mtu)?;
    }

    #[test]
    fn routers_survive_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0usize..4, version in 0u8..16, mtu in 1u32..400) {
        let mut frame = udp_v4(b"", |_| {})[..12].to_vec();
        frame.extend([[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0]][kind]);
        frame.extend(bytes);
        if frame.len() > 38 {
            frame[14] = [0x40 | version, 0x60][usize::from(kind == 2)];
            // An existing destination.
            match kind {
                0 => frame[30..34].copy_from_slice(&[10, 0, version % 5, 2]),
                _ => frame[18..20].copy_from_slice(&[0, 0]),
            }
        }
        check(frame, mtu)?;
    }
}
