//! The packets that a sender makes from an application's writes, and their PSH flags.

use crate::pair::{Reno, reference};
use tcp::{Config, Endpoint, Flags, PacketMemory, Segment, SynOptions, TcpState};

const MSS: u32 = 1448;

/// A sender whose application always writes 64 KiB, and the peer's ACKs.
struct Writer {
    sender: Endpoint,
    begin: u32,
    /// Bytes of the current write that TCP has not accepted yet.
    write: u64,
}

impl Writer {
    /// A connection whose SYN was sent and whose SYN-ACK arrived at these times, us.
    fn connect(config: Config, syn_us: u64, syn_ack_us: u64) -> Writer {
        let mut sender = Endpoint::connect(config, Box::new(Reno), syn_us * 1000);
        let syn = sender.transmit(syn_us * 1000).expect("a SYN");
        let options = SynOptions { mss: 1460, window_scale: Some(10), sack_ok: true, timestamps: true };
        let syn_ack = Segment {
            ack: syn.seq.wrapping_add(1),
            window: 65_160,
            flags: Flags::SYN.with(Flags::ACK),
            tsval: 1,
            tsecr: syn.tsval,
            syn: Some(Box::new(options)),
            ..Segment::default()
        };
        sender.on_segment(syn_ack_us * 1000, syn_ack);
        assert_eq!(sender.state(), TcpState::Established);
        Writer { sender, begin: syn.seq.wrapping_add(1), write: 0 }
    }

    /// Writes as much as there is space for, and returns the segments that leave: first segment, number of
    /// segments, PSH.
    fn sent(&mut self, now_us: u64) -> Vec<(u32, u32, bool)> {
        let now = now_us * 1000;
        while self.sender.can_write() {
            if self.write == 0 {
                self.write = 64 << 10;
            }
            self.write -= self.sender.write(now, self.write);
        }
        let all = std::iter::from_fn(|| self.sender.transmit(now));
        let begin = self.begin;
        let data = all.filter(|segment| segment.len > 0);
        data.map(|s| (s.seq.wrapping_sub(begin) / MSS, s.segs(), s.flags.has(Flags::PSH))).collect()
    }

    /// An ACK for `segs` segments arrives with a window in bytes, and a SACK block of segments.
    fn acked(
        &mut self,
        now_us: u64,
        segs: u32,
        window: u32,
        sacked: Option<(u32, u32)>,
    ) -> Vec<(u32, u32, bool)> {
        let begin = self.begin;
        let at = |segs: u32| begin.wrapping_add(segs * MSS);
        let sack = sacked.map(|(from, to)| {
            let mut blocks = tcp::SackBlocks::default();
            blocks.push(at(from), at(to));
            Box::new(blocks)
        });
        let ack = Segment {
            seq: 1,
            ack: at(segs),
            window: (window >> 10) as u16,
            flags: Flags::ACK,
            tsval: (now_us / 1000) as u32,
            sack,
            ..Segment::default()
        };
        self.sender.on_segment(now_us * 1000, ack);
        self.sent(now_us)
    }
}

/// The hosts of guest kernels: no wireless networks and no tunnels, so short headers (`MAX_TCP_HEADER`).
fn guest() -> Config {
    Config { packet_memory: PacketMemory::Tap, max_tcp_header: Some(192), ..reference(1500, 64_000_000) }
}

/// Captured at the sender in a guest with Linux 6.1.192: scenario 38 of docs/fidelity.md up to its first
/// loss.
#[test]
fn packets_of_a_write_are_those_of_linux_6_1() {
    let mut writer = Writer::connect(guest(), 0, 7047);
    // The SYN waited for ARP, so the first round trip is twice as long.
    let pairs: Vec<_> = (0..5).map(|pair| (2 * pair, 2, true)).collect();
    assert_eq!(writer.sent(7047), pairs);
    let captured = [
        (10_704, 2, 64_512, vec![(10, 3, true), (13, 1, false)]),
        (10_837, 4, 64_512, vec![(14, 4, true)]),
        (10_970, 6, 64_512, vec![(18, 4, true)]),
        (11_103, 8, 64_512, vec![(22, 4, true)]),
        (11_236, 10, 64_512, vec![(26, 4, true)]),
        // The first packet of the write was sent in parts while the write continued, and filled up each time:
        // it ends with segment 31 and not with segment 21.
        (14_423, 13, 61_440, vec![(30, 2, true), (32, 4, true)]),
        (14_490, 14, 67_584, vec![(36, 2, true)]),
        (14_756, 18, 78_848, vec![(38, 8, true)]),
        (15_022, 22, 91_136, vec![]),
        (15_221, 25, 96_256, vec![(46, 12, true)]),
    ];
    for (at, acked, window, sent) in captured {
        assert_eq!(writer.acked(at, acked, window, None), sent, "at {at} us");
    }
}

#[test]
fn the_last_segment_of_a_super_packet_keeps_psh() {
    let mut writer = Writer::connect(guest(), 0, 20_000);
    assert_eq!(writer.sent(20_000)[0], (0, 2, true));
    // All later segments arrive: the first is retransmitted alone, then the second.
    let first = writer.acked(40_000, 0, 64_512, Some((2, 10)));
    assert!(first.contains(&(0, 2, true)), "{first:?}");
    let mut writer = Writer::connect(guest(), 0, 20_000);
    writer.sent(20_000);
    let second = writer.acked(40_000, 1, 64_512, Some((2, 10)));
    assert!(second.contains(&(1, 1, true)), "{second:?}");
}
