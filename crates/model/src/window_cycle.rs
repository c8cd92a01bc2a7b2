//! The steady goodput of a flow that its windows limit: the cycle of writer, window and bottleneck, packet by
//! packet.
//!
//! A send buffer does not keep a constant amount in flight. The kernel wakes a blocked writer when a third of
//! the buffer is free (`sk_stream_min_wspace`, include/net/sock.h), and the writer fills it at once. The
//! burst queues before the slowest link, so its last byte returns one burst later than the round-trip time.
//! If the buffer's data is one short burst in a long round trip, its last third arrives without a further
//! wake-up, and only two thirds are in flight on average; if it is spread over the round trip, nearly all of
//! it is. A receive window below the buffer shortens the bursts but not the wait for a third. No single share
//! describes all cases, so [`windows_bps`] follows the cycle.
//!
//! Differences from the kernel:
//!
//! 1. All super-packets have one size, that of the pacing rate of the whole window after slow start.
//! 2. ACKs return per super-packet. The congestion window never limits.

use std::collections::VecDeque;

use units::Time;

use crate::super_packet_segs;

/// `SKB_TRUESIZE(MAX_TCP_HEADER)`: memory of a packet in the send buffer in addition to its data, bytes.
const PACKET_OVERHEAD: f64 = 896.0;
/// The cycle is followed for this many round trips; the second half counts.
const ROUND_TRIPS: f64 = 60.0;
/// Maximum number of packets in the simulated cycle: with a larger buffer each represents several.
const MAX_PACKETS: f64 = 2000.0;
/// With fewer packets in the buffer the bursts depend on single segments, and the cycle is not followed.
const MIN_PACKETS: f64 = 10.0;

/// A flow that its windows limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Windows {
    /// Memory of the send buffer, bytes.
    pub send_buffer: f64,
    /// The receive window, bytes.
    pub receive_window: f64,
    /// Payload that the slowest link carries, bytes/s; infinite if no link has a rate.
    pub rate: f64,
    /// Round-trip time without queues.
    pub rtt: Time,
    /// Payload of a segment, bytes.
    pub mss: u32,
}

/// Goodput in bit/s. `None` if the send buffer holds only few super-packets, the window less than two
/// segments, or the link is so slow that it sends at most one packet in the time that is followed: the buffer
/// keeps it busy then.
pub(crate) fn windows_bps(windows: &Windows) -> Option<f64> {
    let (rtt, mss) = (windows.rtt.as_secs_f64(), f64::from(windows.mss.max(1)));
    if rtt <= 0.0 {
        return None;
    }
    let packet = super_packet(windows, rtt, mss);
    if windows.send_buffer < MIN_PACKETS * packet || windows.receive_window < 2.0 * mss {
        return None;
    }
    // The packets of a large buffer are joined; their overhead remains that of the real ones.
    let joined = (windows.send_buffer / MAX_PACKETS / packet).ceil().max(1.0);
    let window_segs = windows.receive_window.min(windows.send_buffer) / mss;
    let segment = mss * (window_segs / MAX_PACKETS).ceil().max(1.0);
    Cycle::new(windows, packet * joined, PACKET_OVERHEAD * joined, segment).goodput_bps(rtt)
}

/// The pacing rate in windows per round trip: the congestion window grows to twice the data in flight
/// (`tcp_is_cwnd_limited`), and after slow start the kernel paces 1.2 congestion windows per round trip
/// (`tcp_pacing_ca_ratio`).
const PACED_WINDOWS: f64 = 2.0 * 1.2;

/// Payload of a super-packet, bytes.
fn super_packet(windows: &Windows, rtt: f64, mss: f64) -> f64 {
    let pacing = PACED_WINDOWS * windows.send_buffer.min(windows.receive_window) / rtt;
    super_packet_segs(pacing, windows.rtt, windows.mss) * mss
}

/// A packet in the send buffer.
#[derive(Debug, Clone, Copy)]
struct Packet {
    payload: f64,
    overhead: f64,
    /// When its ACK arrives, if it was sent.
    acked_at: f64,
}

/// Sender, link and receiver.
struct Cycle<'a> {
    windows: &'a Windows,
    packet: Packet,
    /// The unit of a packet that the receive window cuts.
    segment: f64,
    unsent: VecDeque<Packet>,
    sent: VecDeque<Packet>,
    in_flight: f64,
    /// Memory of the packets that are not acknowledged.
    memory: f64,
    now: f64,
    link_free_at: f64,
}

impl<'a> Cycle<'a> {
    fn new(windows: &'a Windows, payload: f64, overhead: f64, segment: f64) -> Self {
        Cycle {
            windows,
            packet: Packet { payload, overhead, acked_at: 0.0 },
            segment,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            in_flight: 0.0,
            memory: 0.0,
            now: 0.0,
            link_free_at: 0.0,
        }
    }

    /// `None` if no two packets arrive in the second half of the time.
    fn goodput_bps(mut self, rtt: f64) -> Option<f64> {
        let end = ROUND_TRIPS * rtt;
        let (mut counted, mut counted_since) = (0.0, None);
        self.write();
        self.send(rtt);
        while let Some(packet) = self.sent.pop_front() {
            self.now = packet.acked_at;
            self.in_flight -= packet.payload;
            self.memory -= packet.payload + packet.overhead;
            if counted_since.is_some() {
                counted += packet.payload;
            } else if self.now > end / 2.0 {
                counted_since = Some(self.now);
            }
            if self.now > end {
                break;
            }
            if self.memory <= self.windows.send_buffer * 2.0 / 3.0 {
                self.write();
            }
            self.send(rtt);
        }
        let seconds = self.now - counted_since.unwrap_or(self.now);
        (seconds > 0.0).then(|| counted * 8.0 / seconds)
    }

    /// The writer fills the buffer.
    fn write(&mut self) {
        while self.memory < self.windows.send_buffer {
            self.memory += self.packet.payload + self.packet.overhead;
            self.unsent.push_back(self.packet);
        }
    }

    /// Sends the data that the receive window permits, in whole segments.
    fn send(&mut self, rtt: f64) {
        while let Some(mut packet) = self.unsent.pop_front() {
            let space = self.windows.receive_window - self.in_flight;
            let sendable = if space < packet.payload {
                (space / self.segment).floor() * self.segment
            } else {
                packet.payload
            };
            if sendable <= 0.0 {
                return self.unsent.push_front(packet);
            }
            if sendable < packet.payload {
                self.unsent.push_front(Packet { payload: packet.payload - sendable, ..packet });
                packet = Packet { payload: sendable, overhead: 0.0, ..packet };
            }
            self.link_free_at = self.now.max(self.link_free_at) + packet.payload / self.windows.rate;
            self.in_flight += packet.payload;
            self.sent.push_back(Packet { acked_at: self.link_free_at + rtt, ..packet });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bps(send_buffer: f64, receive_window: f64, rate_bps: f64, rtt_ms: u64) -> f64 {
        // Ethernet, IP and TCP headers.
        let rate = rate_bps / 8.0 * 1448.0 / 1514.0;
        let windows =
            Windows { send_buffer, receive_window, rate, rtt: Time::from_millis(rtt_ms), mss: 1448 };
        windows_bps(&windows).unwrap()
    }

    /// Goodputs of Linux 6.18 in the lab: Lab 8 at 10 Gb/s, and at 500 Mb/s.
    #[test]
    fn agrees_with_measurements() {
        let measured = [(16_777_216.0, 13_297_152.0, 10e9, 4.42e9), (838_860.0, 665_000.0, 500e6, 235e6)];
        for (send, receive, rate, goodput) in measured {
            let law = bps(send, receive, rate, 20);
            assert!((law / goodput - 1.0).abs() < 0.025, "{send}: {law}");
        }
    }

    /// Steady goodputs of the simulator, whose writer and buffers are those of Linux 6.18. The receive window
    /// does not limit.
    #[test]
    fn agrees_with_simulated_connections() {
        let simulated = [
            (500e6, 20, 750_000.0, 225.2e6),
            (500e6, 100, 3_750_000.0, 203.1e6),
            (1e9, 20, 1_500_000.0, 407.9e6),
            (1e9, 100, 7_500_000.0, 396.6e6),
            (10e9, 5, 1_875_000.0, 2209.5e6),
            (10e9, 5, 3_750_000.0, 4059.2e6),
            (10e9, 20, 3_750_000.0, 1039.4e6),
            (10e9, 20, 15_000_000.0, 3958.6e6),
            (10e9, 100, 18_750_000.0, 989.8e6),
        ];
        for (rate, rtt_ms, buffer, goodput) in simulated {
            let law = bps(buffer, f64::INFINITY, rate, rtt_ms);
            assert!((law / goodput - 1.0).abs() < 0.03, "{rate} {rtt_ms} {buffer}: {law}");
        }
    }

    #[test]
    fn a_small_window_alone_is_one_window_per_round_trip() {
        let law = bps(50e6, 1_448_000.0, 10e9, 20);
        assert!((law / (1_448_000.0 * 8.0 / 0.02) - 1.0).abs() < 0.02, "{law}");
        // A large buffer fills the path.
        let full = bps(50e6, f64::INFINITY, 1e9, 20);
        assert!((full / (1e9 * 1448.0 / 1514.0) - 1.0).abs() < 0.01, "{full}");
    }

    #[test]
    fn buffers_of_any_size_take_bounded_time() {
        for buffer in [1e3, 1e5, 1e7, 1e9, 1e12] {
            let windows = Windows {
                send_buffer: buffer,
                receive_window: f64::INFINITY,
                rate: f64::INFINITY,
                rtt: Time::from_millis(20),
                mss: 1448,
            };
            assert!(windows_bps(&windows).is_none_or(|bps| bps.is_finite()), "{buffer}");
        }
        let none = Windows { send_buffer: 1e7, receive_window: 1e7, rate: 1e9, rtt: Time::ZERO, mss: 1448 };
        assert_eq!(windows_bps(&none), None);
    }

    /// At 10 Mb/s a super-packet of 64 KiB takes 52 ms, and the cycle of a path of 0.2 ms is followed for 12
    /// ms.
    #[test]
    fn a_slow_link_of_a_short_path_is_not_followed() {
        let rtt = Time::from_micros(200);
        let windows = Windows { send_buffer: 4_194_304.0, receive_window: 26e6, rate: 1.2e6, rtt, mss: 1448 };
        assert_eq!(windows_bps(&windows), None);
    }
}
