//! The window and the buffer over a whole slow start, against Linux 6.1 in virtual time (1 Gb/s, 20 ms, one
//! cubic flow, `tcp_rmem` limited to 1 and to 16 MiB), and the behaviour of 6.18.

use std::collections::VecDeque;

use super::*;

/// A sender in slow start without loss, over a delay and a link of 1 Gb/s; ACKs return at once.
struct SlowStart {
    rig: Rig,
    mss: u32,
    delay_ns: u64,
    cwnd: u32,
    max_cwnd: u32,
    max_out: u32,
    snd_nxt: u32,
    snd_una: u32,
    edge: u32,
    link_free: u64,
    flying: VecDeque<(u64, u32, u32)>,
    seen: usize,
}

impl SlowStart {
    fn new(rig: Rig, max_cwnd: u32) -> SlowStart {
        SlowStart::over(rig, max_cwnd, 20_000_000)
    }

    fn over(rig: Rig, max_cwnd: u32, delay_ns: u64) -> SlowStart {
        let edge = rig.edge;
        let mut sender = SlowStart {
            mss: u32::from(rig.sk.advmss),
            delay_ns,
            rig,
            cwnd: 10,
            max_cwnd,
            max_out: 0,
            snd_nxt: 1,
            snd_una: 1,
            edge,
            link_free: 0,
            flying: VecDeque::new(),
            seen: 0,
        };
        sender.rig.now = 1_000_000_000;
        sender.send();
        // The handshake's last ACK arrives just before the first packet.
        sender.rig.rx.read_rate.restart(1, 1_000_000_000 + delay_ns);
        sender
    }

    fn send(&mut self) {
        let (now, mss) = (self.rig.now, self.mss);
        let packet_ns = u64::from(mss + 66) * 8;
        while (self.snd_nxt - self.snd_una) / mss < self.cwnd && self.snd_nxt + mss <= self.edge {
            self.link_free = self.link_free.max(now + self.delay_ns) + packet_ns;
            self.flying.push_back((self.link_free, self.snd_nxt, timestamp_ms(now)));
            self.snd_nxt += mss;
        }
        self.max_out = self.max_out.max((self.snd_nxt - self.snd_una) / mss);
    }

    /// The next packet arrives.
    fn step(&mut self) {
        let (at, seq, sent_ms) = self.flying.pop_front().expect("a stalled sender");
        self.rig.now = at;
        let segment = Segment { tsecr: sent_ms, mss: self.mss as u16, ..self.rig.segment(seq, self.mss) };
        self.rig.feed(segment);
        if self.rig.rx.read(&mut self.rig.sk, at, u64::MAX).1 == AckAction::Now {
            self.rig.acknowledge();
        }
        while let Some(ack) = self.rig.acks.get(self.seen) {
            self.seen += 1;
            // The window grows while at least half of it is in use (`tcp_is_cwnd_limited`).
            if self.cwnd < 2 * self.max_out {
                self.cwnd = (self.cwnd + (ack.ack - self.snd_una) / self.mss).min(self.max_cwnd);
            }
            self.snd_una = ack.ack;
            self.edge = ack.ack + (u32::from(ack.window) << self.rig.rx.window_scale);
            self.send();
        }
    }

    /// Runs until `bytes` have been received. Returns the bytes read, `rcvbuf`, `rcv_space` and
    /// `rcv_ssthresh`.
    fn at(&mut self, bytes: u64) -> (u64, i32, u32, u32) {
        while self.rig.sk.bytes_received < bytes {
            self.step();
        }
        let sk = &self.rig.sk;
        (sk.bytes_received, sk.sk_rcvbuf, self.rig.rx.rcv_space(), sk.rcv_ssthresh)
    }
}

#[test]
fn linux_6_1_grows_the_buffer_as_observed() {
    let mut run = SlowStart::new(Rig::linux(1, 16 << 20), 10_000);
    for row in [
        (1_448, 131_072, 14_480, 64_088),
        (15_928, 131_400, 15_928, 64_088),
        (44_888, 429_240, 28_960, 64_336),
        (102_808, 840_960, 57_920, 180_176),
        (218_648, 1_541_760, 115_840, 411_856),
        (450_328, 2_943_360, 231_680, 769_516),
    ] {
        assert_eq!(run.at(row.0), row);
    }
    // From here on the result depends on which segments have PSH.
    let close = |is: f64, observed: f64| assert!((is / observed - 1.0).abs() < 0.02, "{is} {observed}");
    for row in [
        (913_688, 5_746_560, 463_360, 1_470_316),
        (1_840_408, 11_352_960, 926_720, 2_871_916),
        (2_995_912, 11_352_960, 926_720, 5_182_924),
        (3_693_848, 16_777_216, 1_853_440, 5_675_116),
    ] {
        let (_, rcvbuf, rcv_space, rcv_ssthresh) = run.at(row.0);
        close(f64::from(rcvbuf), f64::from(row.1));
        close(f64::from(rcv_space), f64::from(row.2));
        close(f64::from(rcv_ssthresh), f64::from(row.3));
    }
    run.at(40_000_000);
    assert_eq!(
        run.rig.sk.rcv_ssthresh, 8_387_244,
        "half of tcp_rmem's maximum, minus half a packet's memory"
    );
}

/// Scenario 42 of docs/fidelity-kernels.md in a guest with Linux 6.1.192, whose `MAX_TCP_HEADER` is 320
/// bytes: the bytes read in round trips, and the buffer after each.
#[test]
fn before_6_6_the_buffer_is_a_multiple_of_a_segments_memory() {
    let profile = Profile::Linux6 { kernel: (6, 1) };
    let mut rig = Rig::new(Config { mtu: 9000, profile, ..Config::default() });
    assert_eq!(rig.rx.rcv_space(), 56_588);
    for (copied, rcvbuf) in [(62_636, 644_688), (71_584, 734_228), (125_272, 1_969_880), (196_856, 2_292_224)]
    {
        rig.rx.grow_buffer(&mut rig.sk, copied);
        assert_eq!(rig.sk.sk_rcvbuf, rcvbuf);
    }
}

#[test]
fn linux_6_1_limits_the_window_to_half_of_the_buffer() {
    let mut run = SlowStart::new(Rig::linux(1, 1 << 20), 725);
    for row in [
        (102_808, 840_960, 57_920, 180_176),
        (218_648, 1_048_576, 115_840, 411_856),
        (450_328, 1_048_576, 231_680, 522_924),
        (913_688, 1_048_576, 463_360, 522_924),
    ] {
        assert_eq!(run.at(row.0), row);
    }
    let start = (run.rig.now, run.rig.sk.bytes_received);
    let acks = run.rig.acks.len();
    let (bytes, ..) = run.at(50_000_000);
    let mbps = (bytes - start.1) as f64 * 8e3 / (run.rig.now - start.0) as f64;
    assert!((mbps / 205.2 - 1.0).abs() < 0.02, "{mbps} Mb/s; the reference run has 205.2");
    let ratio = (run.rig.acks.len() - acks) as f64 * f64::from(MSS) / (bytes - start.1) as f64;
    assert!((0.5..0.53).contains(&ratio), "{ratio} ACKs per segment; the reference run has 0.514");
    assert!(run.rig.sk.snd_una == 0 && run.rx_window().abs_diff(523_264) < 2 * MSS);
}

impl SlowStart {
    fn rx_window(&self) -> u32 {
        self.rig.sk.rcv_wnd
    }
}

#[test]
fn newer_kernels_measure_the_share_on_the_first_packets() {
    let mut run = SlowStart::new(Rig::linux(18, 16 << 20), 10_000);
    run.at(60_000_000);
    // 1448 bytes in 2280: 162 / 256.
    assert_eq!(run.rig.rx.share, window_share::WindowShare::Learnt(162));
    let share = f64::from(run.rig.sk.rcv_ssthresh) / f64::from(1 << 24);
    assert!((share / 0.633 - 1.0).abs() < 0.01 && run.rig.sk.sk_rcvbuf == 1 << 24, "{share}");

    let over_tap = Config { packet_memory: PacketMemory::Tap, ..run.rig.config };
    let mut tap = Rig::new(over_tap);
    tap.feed(tap.segment(1, 2 * MSS));
    let share = tap.rx.share.window(1 << 24) as f64 / f64::from(1 << 24);
    assert!((share / 0.7926 - 1.0).abs() < 0.005, "{share}; Linux 6.18 offered 13297152 of 16777216 bytes");
}

#[test]
fn a_buffer_set_by_the_application_is_not_tuned() {
    let mut rig = Rig::new(Config { rcvbuf: Some(100_000), ..Config::default() });
    assert_eq!(rig.sk.sk_rcvbuf, 200_000);
    rig.stream(3000);
    assert_eq!(rig.sk.sk_rcvbuf, 200_000);
    let asked_too_much = Rig::new(Config { rcvbuf: Some(1 << 30), ..Config::default() });
    assert_eq!(asked_too_much.sk.sk_rcvbuf, 2 * 212_992);
}

#[test]
fn the_initial_receive_window_is_about_64_kb_for_any_mss() {
    let rig = Rig::linux(1, 6_291_456);
    assert_eq!((rig.sk.rcv_wnd, rig.sk.rcv_ssthresh), (65_160, 64_088));
    let jumbo = Rig::new(Config { mtu: 9000, ..rig.config });
    // Seven packets of 8948 bytes.
    assert_eq!(jumbo.sk.rcv_wnd, 7 * 8948);
    let small = InitialWindow::select(&Config { initrwnd: Some(4), ..jumbo.config.clone() }, 1460, true);
    assert_eq!((small.rcv_wnd, small.scale), (4 * 1460, 7));
    assert_eq!(InitialWindow::select(&jumbo.config, 1460, false).window_clamp, 65_535);
}

/// Observed in guests (`tcp_rmem` with a middle value of 6 MiB) before the first data: `rcv_wnd` and
/// `rcv_ssthresh`, and `rcv_space` on Linux 6.1.192 and 6.12.117.
#[test]
fn since_6_10_a_large_buffer_has_a_large_initial_window() {
    for (minor, rcv_wnd, rcv_ssthresh, space) in
        [(1, 65_535, 65_535, 65_535), (12, 3_140_748, 3_136_780, 89_480)]
    {
        let profile = Profile::Linux6 { kernel: (6, minor) };
        let rmem = [4096, 6_291_456, 6_291_456];
        let rig = Rig::new(Config { mtu: 9000, profile, rmem, ..Config::default() });
        let is = (rig.sk.rcv_wnd, rig.sk.rcv_ssthresh, rig.rx.rcv_space());
        assert_eq!(is, (rcv_wnd, rcv_ssthresh, space), "6.{minor}");
    }
}

/// The first super-packets of scenario 42 of docs/fidelity-kernels.md in guests with Linux 6.12.117 and
/// 7.2.13: the time since the handshake's ACK, us; the echoed timestamp; segments; then `rcv_ssthresh`,
/// `rcvbuf`, `rcv_space` and the round-trip time, us.
#[test]
fn the_buffer_of_a_jumbo_flow_grows_as_in_guests() {
    for (kernel, rcvbuf, last) in [((6, 12), 389_765, 134_339), ((7, 2), 181_890, 134_179)] {
        let profile = Profile::Linux6 { kernel };
        let packet_memory = PacketMemory::Tap;
        let mut rig = Rig::new(Config { mtu: 9000, profile, packet_memory, ..Config::default() });
        rig.rx.read_rate.restart(1, 100_000_000);
        // The SYN-ACK left 23 ms before the handshake's ACK arrived; the second timestamp is that of the
        // first ACK of data.
        for (at_us, tsecr, segs, observed) in [
            (14_000, 77, 2, (91_699, 131_072, 56_588, 37_000)),
            (27_900, 77, 2, (91_699, 131_072, 56_588, 37_000)),
            (34_800, 77, 1, (98_547, 131_072, 56_588, 37_000)),
            (48_700, 77, 2, (98_547, rcvbuf, 62_636, 37_000)),
            (63_000, 114, 2, (last, rcvbuf, 62_636, 38_500)),
        ] {
            rig.now = 100_000_000 + at_us * 1000;
            let segment = Segment { tsecr, mss: 8948, ..rig.segment(rig.sk.rcv_nxt, segs * 8948) };
            rig.feed(segment);
            if rig.rx.read(&mut rig.sk, rig.now, u64::MAX).1 == AckAction::Now {
                rig.acknowledge();
            }
            let sk = &rig.sk;
            let is = (sk.rcv_ssthresh, sk.sk_rcvbuf, rig.rx.rcv_space(), sk.rcv_rtt_est.rtt_us >> 3);
            assert_eq!(is, observed, "{kernel:?}, at {at_us} us");
        }
    }
}

#[test]
fn newer_kernels_grow_the_buffer_for_out_of_order_data() {
    let grown = |minor| {
        let mut rig = Rig::linux(minor, 16 << 20);
        rig.now = 1_000_000_000;
        rig.stream(2000);
        // As after a less steep slow start.
        rig.sk.sk_rcvbuf = 1_000_000;
        let (before, hole) = (rig.sk.sk_rcvbuf, rig.sk.rcv_nxt);
        for i in 1..300 {
            rig.now += 121_120;
            rig.feed_and_read(hole + i * MSS, MSS);
        }
        (before, rig.sk.sk_rcvbuf)
    };
    let (before, after) = grown(1);
    assert_eq!(before, after);
    let (before, after) = grown(18);
    assert!(after > before + 300 * MSS as i32, "{before} {after}");
}

/// `tcp_rcvbuf_low_rtt` (ecfea98b7d0d).
#[test]
fn the_buffer_grows_more_slowly_on_short_paths_since_6_19() {
    let grown = |minor, rtt_us: u32| {
        let mut rig = Rig::linux(minor, 64 << 20);
        rig.sk.rcv_rtt_est.rtt_us = rtt_us << 3;
        rig.rx.read_rate.space = 1_000_000;
        rig.rx.grow_buffer(&mut rig.sk, 2_000_000);
        f64::from(rig.sk.sk_rcvbuf)
    };
    assert_eq!(grown(19, 2000), grown(18, 2000));
    // The window is 2 x 2 MB. For the growth of the rate twice as much is added: 12 MB. Since 6.19, only a
    // tenth of it is added at 0.1 ms: 4.4 MB.
    let ratio = grown(18, 100) / grown(19, 100);
    assert!((ratio / (12.0 / 4.4) - 1.0).abs() < 0.01, "{ratio}");
}

/// Linux 6.18 does not count unread data as read by the application in a round trip.
#[test]
fn the_buffer_of_a_slow_reader_does_not_grow() {
    let rcvbuf = |minor| {
        let mut rig = Rig::linux(minor, 16 << 20);
        rig.now = 1_000_000_000;
        for i in 0..4000u32 {
            rig.now += 121_120;
            if rig.edge - rig.sk.rcv_nxt >= MSS {
                rig.feed(rig.segment(rig.sk.rcv_nxt, MSS));
            }
            if i % 160 == 0 && rig.rx.read(&mut rig.sk, rig.now, 40_000).1 == AckAction::Now {
                rig.acknowledge();
            }
        }
        assert!(rig.rx.rmem_alloc() as i32 <= rig.sk.sk_rcvbuf + 2 * 1448);
        rig.sk.sk_rcvbuf
    };
    assert_eq!(rcvbuf(18), 131_072);
    assert!(rcvbuf(1) > 131_072);
}

/// 1 Gb/s, 117 ms, MTU 9000: packets in flight at the end of each round trip. One packet that the kernel
/// sends early, by the last part of a super-packet, amounts to 6 % at the end.
#[test]
fn the_initial_receive_window_limits_jumbo_flows_for_three_round_trips() {
    let profile = Profile::Linux6 { kernel: (6, 1) };
    let rmem = [4096, 131_072, 125_608_864];
    let rig = Rig::new(Config { mtu: 9000, profile, rmem, ..Config::default() });
    let mut run = SlowStart::over(rig, 10_000, 117_000_000);
    for observed in [7, 7, 18, 37, 74, 148, 296, 592u32] {
        let round = run.rig.now;
        while run
            .flying
            .front()
            .is_some_and(|next| next.0 < round + 100_000_000 || next.0 < run.rig.now + 50_000_000)
        {
            run.step();
        }
        let flying = run.flying.len() as u32;
        assert!(flying.abs_diff(observed) <= 2.max(observed * 7 / 100), "{flying}, observed {observed}");
        run.step();
    }
}
