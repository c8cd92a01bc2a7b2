//! Tests of the receiver: `behaviour` as in Linux, `tuning` against reference runs, `properties` for random
//! input.

mod behaviour;
mod properties;
mod tuning;

use super::*;
use crate::{Flags, PacketMemory, Profile};

/// Bytes of a full segment with timestamps.
const MSS: u32 = 1448;

/// A receiver of the listening end after its handshake.
struct Rig {
    rx: Receiver,
    sk: TcpSock,
    now: u64,
    config: Config,
    /// ACKs sent so far.
    acks: Vec<AckFields>,
    /// The last announced right edge of the window.
    edge: u32,
}

impl Rig {
    fn new(config: Config) -> Rig {
        let mut sk = TcpSock::default();
        let mut rx = Receiver::new(&config, &mut sk);
        sk.advmss = config.advmss() - 12;
        sk.mss_cache = u32::from(sk.advmss);
        let first = InitialWindow::select(&config, u32::from(sk.advmss), true);
        (sk.rcv_nxt, sk.rcv_wnd, sk.rcv_ssthresh) = (1, first.rcv_wnd, first.rcv_wnd);
        sk.window_clamp = first.window_clamp;
        let agreed =
            NegotiatedOptions { window_scale: first.scale, sack: true, timestamps: true, ts_recent: 0 };
        rx.establish(&mut sk, 0, agreed);
        let edge = sk.rcv_nxt + sk.rcv_wnd;
        Rig { rx, sk, now: 0, config, acks: Vec::new(), edge }
    }

    /// A host of the reference runs, which used veth. The kernels had no wireless networks, and newer ones no
    /// tunnels.
    fn linux(minor: u8, max_rcvbuf: u32) -> Rig {
        let profile = Profile::Linux6 { kernel: (6, minor) };
        let packet_memory = PacketMemory::Veth;
        let rmem = [4096, 131_072, max_rcvbuf];
        let max_tcp_header = Some(if minor < 12 { 256 } else { 192 });
        Rig::new(Config {
            profile,
            rmem,
            packet_memory,
            max_tcp_header,
            ..Config::of_kernel(6, minor).unwrap()
        })
    }

    /// A segment of one or more full segments, as if it had been sent `rtt` after an ACK.
    fn segment(&self, seq: u32, len: u32) -> Segment {
        let flags = Flags::ACK;
        let tsecr = timestamp_ms(self.now).saturating_sub(20).max(1);
        Segment {
            seq,
            len,
            mss: MSS as u16,
            flags,
            tsval: timestamp_ms(self.now),
            tsecr,
            ..Segment::default()
        }
    }

    fn acknowledge(&mut self) -> AckFields {
        let fields = self.rx.ack_fields(&mut self.sk);
        self.rx.ack_sent(&mut self.sk);
        self.note(fields);
        fields
    }

    fn note(&mut self, fields: AckFields) {
        let window = u32::from(fields.window) << self.rx.window_scale;
        self.edge = fields.ack.wrapping_add(window);
        self.acks.push(fields);
    }

    /// Passes a segment to the receiver and sends the ACK if one is due; the application does not read.
    fn feed(&mut self, segment: Segment) -> Accepted {
        while self.rx.timer().is_some_and(|at| at <= self.now) {
            if self.rx.on_timer(&mut self.sk, self.now) == AckAction::Now {
                self.acknowledge();
            }
        }
        let accepted = self.rx.on_segment(&mut self.sk, self.now, &segment);
        if let Some(earlier) = &accepted.earlier {
            self.note(**earlier);
        }
        if accepted.ack == AckAction::Now {
            self.acknowledge();
        }
        accepted
    }

    /// Like [`Self::feed`], and the application reads everything.
    fn feed_and_read(&mut self, seq: u32, len: u32) -> Accepted {
        let accepted = self.feed(self.segment(seq, len));
        if self.rx.read(&mut self.sk, self.now, u64::MAX).1 == AckAction::Now {
            self.acknowledge();
        }
        accepted
    }

    /// Passes full segments at 100 Mb/s. Returns the number of ACKs.
    fn stream(&mut self, segs: u32) -> usize {
        let before = self.acks.len();
        for _ in 0..segs {
            self.now += 121_120;
            self.feed_and_read(self.sk.rcv_nxt, MSS);
        }
        self.acks.len() - before
    }
}
