//! Packets of another implementation of STAMP, captured on the loopback interface: stamp-suite 1.0.0
//! (<https://github.com/asmie/stamp-suite>), sender and reflector, session 770, the second packet of a test;
//! authenticated ones with a key of the bytes 0x40 to 0x5f. `docs/probe.md` describes how both were tested
//! with longfat.

use stamp::{
    Key,
    wire::{ErrorEstimate, Reply, Request},
};

const REQUEST: &str =
    "00000001eeacdcb4c50b890a0001030200000000000000000000000000000000000000000000000000000000";
const REPLY: &str =
    "00000001eeacdcb5ce79f10c00010302eeacdcb5ce75014900000001eeacdcb4c50b890a0001000040000000";
const SEALED_REQUEST: &str = "00000001000000000000000000000000eeacdcb5d6a336a6000103020000000000000000000000000000000000000000\
     000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     48045ee91f92cc6ce3d1847e0a43d825";
const SEALED_REPLY: &str = "00000001000000000000000000000000eeacdcb6d858dfa60001030200000000eeacdcb6d84606630000000000000000\
     00000001000000000000000000000000eeacdcb5d6a336a6000100000000000040000000000000000000000000000000\
     77d5cbea12ef0a46701ec592318329df";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn key() -> Key {
    Key::new((0x40..0x60).collect::<Vec<u8>>())
}

/// The error estimate of all four: NTP's format, not synchronized, a multiplier of 1.
const ERROR: ErrorEstimate = ErrorEstimate(1);
const SESSION: u16 = 770;

#[test]
fn unauthenticated_packets_round_trip() {
    let request = Request { sequence: 1, stamp: 0xeeac_dcb4_c50b_890a, error: ERROR, session: SESSION };
    assert_eq!(Request::from_bytes(&bytes(REQUEST), None), Some(request));
    assert_eq!(request.to_bytes(None), bytes(REQUEST));
    let reply = Reply {
        sequence: 1,
        stamp: 0xeeac_dcb5_ce79_f10c,
        error: ERROR,
        session: SESSION,
        received: 0xeeac_dcb5_ce75_0149,
        request: (1, request.stamp, ERROR),
        ttl: 64,
    };
    assert_eq!(Reply::from_bytes(&bytes(REPLY), None), Some(reply));
    assert_eq!(reply.to_bytes(None), bytes(REPLY));
}

#[test]
fn authenticated_packets_round_trip() {
    let key = key();
    let request = Request { sequence: 1, stamp: 0xeeac_dcb5_d6a3_36a6, error: ERROR, session: SESSION };
    assert_eq!(Request::from_bytes(&bytes(SEALED_REQUEST), Some(&key)), Some(request));
    assert_eq!(request.to_bytes(Some(&key)), bytes(SEALED_REQUEST));
    let reply = Reply {
        sequence: 1,
        stamp: 0xeeac_dcb6_d858_dfa6,
        error: ERROR,
        session: SESSION,
        received: 0xeeac_dcb6_d846_0663,
        request: (1, request.stamp, ERROR),
        ttl: 64,
    };
    assert_eq!(Reply::from_bytes(&bytes(SEALED_REPLY), Some(&key)), Some(reply));
    assert_eq!(reply.to_bytes(Some(&key)), bytes(SEALED_REPLY));
}

#[test]
fn a_changed_bit_of_an_authenticated_packet_is_detected() {
    let key = key();
    let (request, reply) = (bytes(SEALED_REQUEST), bytes(SEALED_REPLY));
    for bit in 0..request.len() * 8 {
        let changed = |of: &[u8]| {
            let mut changed = of.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            changed
        };
        assert_eq!(Request::from_bytes(&changed(&request), Some(&key)), None, "bit {bit} of a request");
        assert_eq!(Reply::from_bytes(&changed(&reply), Some(&key)), None, "bit {bit} of a reply");
    }
    let other = Key::new(*b"another key");
    assert_eq!(Request::from_bytes(&request, Some(&other)), None);
    assert_eq!(Reply::from_bytes(&reply, Some(&other)), None);
}
