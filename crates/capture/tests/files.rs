//! Captures in every format, byte order, resolution and link type must yield the same packets.

use crate::common;
use capture::{Dissector, Packets};
use common::{MS, START_NS, Tcp, block, ethernet, pcap};
use proptest::prelude::*;

const SECTION: u32 = 0x0a0d_0d0a;

fn ip() -> Vec<u8> {
    Tcp::client(1, 1, 100).ip()
}

/// Reads a file with one packet: its time since [`START_NS`] in microseconds, and the payload of its flow.
fn read_single(file: &[u8]) -> (i64, u64) {
    let mut packets = Packets::new(file).unwrap();
    let mut dissector = Dissector::new(1000);
    let mut time = 0;
    for packet in packets.by_ref() {
        time = (packet.time_ns as i64 - START_NS as i64) / 1000;
        dissector.add(&packet);
    }
    assert!(!packets.is_truncated());
    let flows = dissector.finish().flows;
    assert_eq!(flows.len(), 1, "{flows:?}");
    (time, flows[0].bytes)
}

/// A pcap file with one packet of this link type at 5 ms.
fn single_packet_pcap(magic: u32, word: fn(u32) -> [u8; 4], unit: u64, link: u32, packet: &[u8]) -> Vec<u8> {
    let time_ns = START_NS + 5 * MS;
    let stamp = [time_ns / 1_000_000_000, time_ns % 1_000_000_000 / unit];
    let len = packet.len() as u64;
    let words = [u64::from(magic), 0x0004_0002, 0, 0, 65_535, link.into(), stamp[0], stamp[1], len, len];
    let mut file: Vec<u8> = words.iter().flat_map(|w| word(*w as u32)).collect();
    file.extend(packet);
    file
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    let frame = ethernet(&ip());
    for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
        assert_eq!(read_single(&single_packet_pcap(magic, u32::to_le_bytes, unit, 1, &frame)), (5000, 100));
        assert_eq!(read_single(&single_packet_pcap(magic, u32::to_be_bytes, unit, 1, &frame)), (5000, 100));
    }
}

#[test]
fn every_link_type() {
    let tagged = |tags: &[u8]| [&[2; 12][..], tags, &[0x08, 0x00], &ip()].concat();
    let packets = [
        (0, [&[2, 0, 0, 0][..], &ip()].concat()),
        (1, tagged(&[0x81, 0, 0, 5])),
        (1, tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])),
        (101, ip()),
        (113, [&[0; 14][..], &[0x08, 0x00], &ip()].concat()),
        (276, [&[0x08, 0x00][..], &[0; 18], &ip()].concat()),
        (276, [&[0x81, 0x00][..], &[0; 18], &[0, 5, 0x08, 0x00], &ip()].concat()),
        (228, ip()),
    ];
    for (link, packet) in packets {
        assert_eq!(
            read_single(&single_packet_pcap(0xa1b2_c3d4, u32::to_le_bytes, 1000, link, &packet)).1,
            100,
            "link type {link}"
        );
    }
}

#[test]
fn ipv6_with_extension_headers() {
    let v4 = ip();
    let tcp = &v4[20..];
    let extension = [6, 0, 1, 4, 0, 0, 0, 0];
    let len = (tcp.len() + extension.len()) as u16;
    let mut v6 = vec![0x60, 0, 0, 0];
    v6.extend(len.to_be_bytes());
    // Hop-by-hop options come next.
    v6.extend([0, 64]);
    v6.extend([1; 16]);
    v6.extend([2; 16]);
    v6.extend(extension);
    v6.extend(tcp);
    assert_eq!(read_single(&single_packet_pcap(0xa1b2_c3d4, u32::to_le_bytes, 1000, 101, &v6)).1, 100);
}

/// A pcapng file with one packet at 5 ms. `resolution` is the value of if_tsresol, `per_s` the same in units
/// per second.
fn pcapng(word: fn(u32) -> [u8; 4], resolution: u8, per_s: u128) -> Vec<u8> {
    let half = |n: u16| if word(1)[0] == 1 { n.to_le_bytes() } else { n.to_be_bytes() };
    let stamp = (u128::from(START_NS + 5 * MS) * per_s / 1_000_000_000) as u64;
    let frame = ethernet(&ip());
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let option = [&half(9)[..], &half(1), &[resolution, 0, 0, 0], &half(0), &half(0)].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &option].concat();
    let words = [0, (stamp >> 32) as u32, stamp as u32, frame.len() as u32, frame.len() as u32];
    let packet: Vec<u8> = words.into_iter().flat_map(word).chain(frame).collect();
    let blocks = [(SECTION, section), (1, interface), (5, vec![0; 8]), (6, packet)];
    blocks.into_iter().flat_map(|(kind, content)| block(kind, content, word)).collect()
}

#[test]
fn pcapng_in_both_byte_orders_and_any_resolution() {
    for word in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
        for (resolution, per_s) in [(6, 1_000_000), (9, 1_000_000_000), (0x80 | 30, 1 << 30)] {
            let (time, bytes) = read_single(&pcapng(word, resolution, per_s));
            assert!((4999..=5000).contains(&time) && bytes == 100, "{resolution}: {time}");
        }
    }
    // A second section may have the other byte order.
    let two = [pcapng(u32::to_le_bytes, 6, 1_000_000), pcapng(u32::to_be_bytes, 6, 1_000_000)].concat();
    assert_eq!(Packets::new(&two).unwrap().count(), 2);
}

#[test]
fn a_truncated_file_yields_its_whole_packets() {
    let frames: Vec<_> = (0..10).map(|n| (n, ethernet(&ip()))).collect();
    let whole = pcap(&frames, 65_535);
    for cut in 1..whole.len() - 24 {
        let mut packets = Packets::new(&whole[..whole.len() - cut]).unwrap();
        let read = packets.by_ref().count();
        let remaining = (whole.len() - cut - 24) % (whole.len() - 24).div_euclid(10);
        assert_eq!(read, 9 - (cut - 1) / ((whole.len() - 24) / 10));
        assert_eq!(packets.is_truncated(), remaining > 0);
    }
    assert!(Packets::new(&whole[..10]).is_err() && Packets::new(b"GIF89a").is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        capture::fuzz(&bytes);
    }

    #[test]
    fn a_file_with_changed_bytes_does_not_panic(
        big: bool, changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let word = if big { u32::to_be_bytes } else { u32::to_le_bytes };
        for mut file in [pcapng(word, 9, 1_000_000_000), pcap(&[(0, ethernet(&ip())), (9, ethernet(&ip()))], 70)] {
            for (index, byte) in &changes {
                let index = index.index(file.len());
                file[index] = *byte;
            }
            capture::fuzz(&file);
        }
    }
}
