//! The window of an XCP sender: outstanding packets, feedback, round-trip times and losses; see `xcp.rs`.

use std::collections::VecDeque;

use net::XcpHeader;
use units::{Instant, Time};

use crate::packet::XcpAck;

/// Number of later acknowledgements that indicate a loss (kPacketThreshold, RFC 9002 section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Smallest retransmission timeout: that of Linux (TCP_RTO_MIN, include/net/tcp.h).
const MIN_RTO: Time = Time::from_millis(200);
/// Timeout before the first round-trip time is measured (RFC 6298 section 2.1).
const INITIAL_RTO: Time = Time::from_secs(1);
/// Largest timeout (RFC 6298 section 2.5 allows 60 s and more).
const MAX_RTO: Time = Time::from_secs(60);
/// The largest window that TCP can offer (RFC 7323 section 2.3), bytes.
const MAX_CWND: f64 = (1u64 << 30) as f64;
/// Packets of the first window.
const INITIAL_WINDOW_PACKETS: f64 = 2.0;

/// A packet in the current range of numbers.
#[derive(Debug, Clone, Copy)]
struct SentPacket {
    sent: Instant,
    part: u32,
    is_acked: bool,
}

/// The effect of an acknowledgement.
#[derive(Debug, PartialEq)]
pub(crate) struct AckResult {
    /// The acknowledged part.
    pub(crate) part: u32,
    /// Parts that are now considered lost, in order.
    pub(crate) lost: Vec<u32>,
    /// True if the window was halved for them.
    pub(crate) reduced: bool,
}

/// The sender's state.
#[derive(Debug)]
pub(crate) struct Window {
    /// IP bytes of a full packet (the paper's s).
    packet: f64,
    cwnd: f64,
    ssthresh: f64,
    /// Packets from number `first` on.
    sent_packets: VecDeque<SentPacket>,
    first: u64,
    inflight: u32,
    newest_acked: u64,
    /// Losses of packets with smaller numbers have already reduced the window.
    recovery_end: u64,
    srtt: Option<Time>,
    rttvar: Time,
    pub(crate) min_rtt: Option<Time>,
    backoff: u32,
    /// When the latest acknowledgement arrived, or a packet was sent while none was outstanding.
    last_progress: Instant,
}

impl Window {
    pub(crate) fn new(packet: u32) -> Self {
        let packet = f64::from(packet);
        Window {
            packet,
            cwnd: INITIAL_WINDOW_PACKETS * packet,
            ssthresh: f64::INFINITY,
            sent_packets: VecDeque::new(),
            first: 0,
            inflight: 0,
            newest_acked: 0,
            recovery_end: 0,
            srtt: None,
            rttvar: Time::ZERO,
            min_rtt: None,
            backoff: 0,
            last_progress: Instant::ZERO,
        }
    }

    /// True if the window allows one more packet.
    pub(crate) fn has_space(&self) -> bool {
        self.inflight == 0 || f64::from(self.inflight + 1) * self.packet <= self.cwnd
    }

    /// A packet is sent. Returns its number.
    pub(crate) fn on_sent(&mut self, now: Instant, part: u32) -> u64 {
        if self.inflight == 0 {
            self.last_progress = now;
        }
        self.inflight += 1;
        self.sent_packets.push_back(SentPacket { sent: now, part, is_acked: false });
        self.first + self.sent_packets.len() as u64 - 1
    }

    /// The XCP header of a packet sent now.
    pub(crate) fn header(&self) -> XcpHeader {
        XcpHeader { cwnd_bytes: self.cwnd, rtt: self.srtt.unwrap_or_default(), feedback_bytes: f64::INFINITY }
    }

    /// An acknowledgement arrives. `None` if its packet was already acknowledged or considered lost.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &XcpAck) -> Option<AckResult> {
        let index = ack.number.checked_sub(self.first)? as usize;
        let packet = self.sent_packets.get_mut(index).filter(|packet| !packet.is_acked)?;
        packet.is_acked = true;
        let SentPacket { sent, part, .. } = *packet;
        self.inflight -= 1;
        self.backoff = 0;
        self.last_progress = now;
        self.newest_acked = self.newest_acked.max(ack.number);
        self.update_rtt(now.since(sent));
        self.grow(ack);
        let lost = self.remove_acked_and_lost();
        let reduced = lost.last().is_some_and(|(number, _)| *number >= self.recovery_end);
        if reduced {
            self.reduce((self.cwnd / 2.0).max(self.packet));
            self.ssthresh = self.cwnd;
        }
        Some(AckResult { part, lost: lost.into_iter().map(|(_, part)| part).collect(), reduced })
    }

    /// When all outstanding packets are considered lost unless an acknowledgement arrives; `None` without
    /// any.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        (self.inflight > 0).then(|| self.last_progress + self.rto())
    }

    /// Takes all outstanding parts as lost, if the timeout has expired.
    pub(crate) fn take_timed_out(&mut self, now: Instant) -> Vec<u32> {
        if self.timeout().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.ssthresh = (self.cwnd / 2.0).max(2.0 * self.packet);
        let lost =
            self.sent_packets.iter().filter(|packet| !packet.is_acked).map(|packet| packet.part).collect();
        self.first += self.sent_packets.len() as u64;
        self.sent_packets.clear();
        self.inflight = 0;
        self.backoff += 1;
        self.reduce(self.packet);
        lost
    }

    /// The retransmission timeout with its exponential back-off.
    pub(crate) fn rto(&self) -> Time {
        let base = match self.srtt {
            Some(srtt) => (srtt + self.rttvar * 4).max(MIN_RTO),
            None => INITIAL_RTO,
        };
        (base * (1 << self.backoff.min(10))).min(MAX_RTO)
    }

    /// Smoothed round-trip time and its variation, once measured.
    pub(crate) fn rtt(&self) -> Option<(Time, Time)> {
        self.srtt.map(|srtt| (srtt, self.rttvar))
    }

    /// The window in whole packets.
    pub(crate) fn cwnd_packets(&self) -> i64 {
        (self.cwnd / self.packet) as i64
    }

    /// ssthresh in whole packets, once there was a loss.
    pub(crate) fn ssthresh_packets(&self) -> Option<i64> {
        self.ssthresh.is_finite().then_some((self.ssthresh / self.packet) as i64)
    }

    /// Number of outstanding packets.
    pub(crate) fn inflight(&self) -> u32 {
        self.inflight
    }

    fn grow(&mut self, ack: &XcpAck) {
        let grown = if ack.feedback_bytes.is_finite() {
            self.cwnd + ack.feedback_bytes
        } else if ack.number < self.recovery_end {
            self.cwnd
        } else if self.cwnd < self.ssthresh {
            self.cwnd + self.packet
        } else {
            self.cwnd + self.packet * self.packet / self.cwnd
        };
        self.cwnd = grown.clamp(self.packet, MAX_CWND);
    }

    /// Updates the round-trip time estimates (RFC 6298 section 2).
    fn update_rtt(&mut self, rtt: Time) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let Some(srtt) = self.srtt else {
            (self.srtt, self.rttvar) = (Some(rtt), rtt / 2);
            return;
        };
        self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
        self.srtt = Some((srtt * 7 + rtt) / 8);
    }

    /// Removes acknowledged and lost packets from the front. Returns the lost ones' numbers and parts.
    fn remove_acked_and_lost(&mut self) -> Vec<(u64, u32)> {
        let mut lost = Vec::new();
        while let Some(packet) = self.sent_packets.front() {
            if !packet.is_acked {
                if self.first + PACKET_THRESHOLD > self.newest_acked {
                    break;
                }
                lost.push((self.first, packet.part));
                self.inflight -= 1;
            }
            self.sent_packets.pop_front();
            self.first += 1;
        }
        lost
    }

    /// Sets the window after a loss. Losses among the packets sent so far do not reduce it again.
    fn reduce(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.recovery_end = self.first + self.sent_packets.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u64, feedback_bytes: f64) -> XcpAck {
        XcpAck { number, feedback_bytes }
    }

    /// A full window of `packets` packets of 1000 bytes, all sent at time 0.
    fn full(packets: u32) -> Window {
        let mut window = Window::new(1000);
        window.cwnd = f64::from(packets) * 1000.0;
        for part in 0..packets {
            assert!(window.has_space());
            assert_eq!(window.on_sent(Instant::ZERO, part), u64::from(part));
        }
        assert!(!window.has_space());
        window
    }

    #[test]
    fn feedback_sets_the_window() {
        let mut window = full(10);
        assert_eq!(window.header().rtt, Time::ZERO, "not measured yet");
        window.on_ack(Instant::from_millis(50), &ack(0, 2_500.0)).unwrap();
        assert_eq!((window.cwnd, window.header().rtt), (12_500.0, Time::from_millis(50)));
        window.on_ack(Instant::from_millis(50), &ack(1, -1e9)).unwrap();
        assert_eq!(window.cwnd, 1_000.0, "at least one packet");
        assert_eq!(window.on_ack(Instant::from_millis(50), &ack(1, 5.0)), None, "already acknowledged");
    }

    #[test]
    fn without_feedback_the_window_grows_as_in_tcp() {
        let mut window = full(10);
        window.on_ack(Instant::from_nanos(1), &ack(0, f64::INFINITY)).unwrap();
        assert_eq!(window.cwnd, 11_000.0);
        window.ssthresh = 5_000.0;
        window.on_ack(Instant::from_nanos(1), &ack(1, f64::INFINITY)).unwrap();
        assert!((window.cwnd - 11_090.909).abs() < 0.001, "{}", window.cwnd);
    }

    #[test]
    fn losses_of_one_window_halve_it_once() {
        let mut window = full(10);
        for number in [1, 2] {
            assert!(window.on_ack(Instant::from_nanos(1), &ack(number, 0.0)).unwrap().lost.is_empty());
        }
        let result = window.on_ack(Instant::from_nanos(1), &ack(3, 0.0)).unwrap();
        assert_eq!(result, AckResult { part: 3, lost: vec![0], reduced: true });
        assert_eq!((window.cwnd, window.inflight), (5_000.0, 6));
        let result = window.on_ack(Instant::from_nanos(2), &ack(9, 0.0)).unwrap();
        assert_eq!(result, AckResult { part: 9, lost: vec![4, 5, 6], reduced: false });
        assert_eq!((window.cwnd, window.inflight), (5_000.0, 2));
    }

    #[test]
    fn a_timeout_loses_all_outstanding_packets() {
        let mut window = full(4);
        assert!(window.take_timed_out(Instant::from_nanos(999_999_999)).is_empty());
        assert_eq!(window.take_timed_out(Instant::from_secs(1)), [0, 1, 2, 3]);
        assert_eq!((window.cwnd, window.timeout()), (1_000.0, None));
        assert_eq!(window.on_sent(Instant::from_secs(1), 0), 4);
        assert_eq!(window.timeout(), Some(Instant::from_secs(3)), "doubled");
    }
}
