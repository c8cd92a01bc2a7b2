//! The window of an XCP sender: what is out, what the feedback makes of it, round-trip times and losses; see `xcp.rs`.

use std::collections::VecDeque;

use net::XcpHeader;
use units::Time;

use crate::xcp::XcpAck;

/// So many later acknowledgements show a loss (RFC 9002 section 6.1.1).
const LATER_ACKS: u64 = 3;
/// The least timeout, that of Linux (TCP_RTO_MIN, include/net/tcp.h), and the first (RFC 6298 section 2.1).
const LEAST_RTO: Time = Time(200_000_000);
const FIRST_RTO: Time = Time(1_000_000_000);
const MOST_RTO: Time = Time(60_000_000_000);
/// The largest window that TCP can offer (RFC 7323 section 2.3), bytes.
const MOST_CWND: f64 = (1u64 << 30) as f64;
/// Packets of the first window.
const FIRST_PACKETS: f64 = 2.0;

/// A packet that is out.
#[derive(Debug, Clone, Copy)]
struct Out {
    at: Time,
    part: u32,
    acked: bool,
}

/// What an acknowledgement told.
#[derive(Debug, PartialEq)]
pub(crate) struct Acked {
    /// The part that has come.
    pub(crate) part: u32,
    /// Parts that are now known to be lost, in order.
    pub(crate) lost: Vec<u32>,
    /// Whether the window was halved for it.
    pub(crate) reduced: bool,
}

/// The sender's state.
#[derive(Debug)]
pub(crate) struct Window {
    /// IP bytes of a full packet (s).
    packet: f64,
    cwnd: f64,
    ssthresh: f64,
    /// By number, from `first` on.
    out: VecDeque<Out>,
    first: u64,
    inflight: u32,
    newest_acked: u64,
    /// Losses of packets with a smaller number have been paid for.
    paid_until: u64,
    srtt: Option<Time>,
    rttvar: Time,
    pub(crate) min_rtt: Option<Time>,
    backoff: u32,
    heard: Time,
}

impl Window {
    pub(crate) fn new(packet: u32) -> Self {
        let packet = f64::from(packet);
        Window {
            packet,
            cwnd: FIRST_PACKETS * packet,
            ssthresh: f64::INFINITY,
            out: VecDeque::new(),
            first: 0,
            inflight: 0,
            newest_acked: 0,
            paid_until: 0,
            srtt: None,
            rttvar: Time(0),
            min_rtt: None,
            backoff: 0,
            heard: Time(0),
        }
    }

    /// Whether one more packet may go.
    pub(crate) fn has_room(&self) -> bool {
        self.inflight == 0 || f64::from(self.inflight + 1) * self.packet <= self.cwnd
    }

    /// A packet goes; gives its number.
    pub(crate) fn sent(&mut self, now: Time, part: u32) -> u64 {
        if self.inflight == 0 {
            self.heard = now;
        }
        self.inflight += 1;
        self.out.push_back(Out { at: now, part, acked: false });
        self.first + self.out.len() as u64 - 1
    }

    /// What a packet says now.
    pub(crate) fn header(&self) -> XcpHeader {
        XcpHeader { cwnd_bytes: self.cwnd, rtt: self.srtt.unwrap_or_default(), feedback_bytes: f64::INFINITY }
    }

    /// An acknowledgement; none where the packet's fate was known.
    pub(crate) fn acked(&mut self, now: Time, ack: &XcpAck) -> Option<Acked> {
        let index = ack.number.checked_sub(self.first)? as usize;
        let out = self.out.get_mut(index).filter(|out| !out.acked)?;
        out.acked = true;
        let Out { at, part, .. } = *out;
        self.inflight -= 1;
        self.backoff = 0;
        self.heard = now;
        self.newest_acked = self.newest_acked.max(ack.number);
        self.measure(Time(now.0 - at.0));
        self.grow(ack);
        let lost = self.lost();
        let reduced = lost.last().is_some_and(|(number, _)| *number >= self.paid_until);
        if reduced {
            self.pay((self.cwnd / 2.0).max(self.packet));
            self.ssthresh = self.cwnd;
        }
        Some(Acked { part, lost: lost.into_iter().map(|(_, part)| part).collect(), reduced })
    }

    /// When nothing heard means that all is lost.
    pub(crate) fn timeout(&self) -> Option<Time> {
        (self.inflight > 0).then(|| Time(self.heard.0.saturating_add(self.rto().0)))
    }

    /// All that is out, if the timeout has come.
    pub(crate) fn timed_out(&mut self, now: Time) -> Vec<u32> {
        if self.timeout().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.ssthresh = (self.cwnd / 2.0).max(2.0 * self.packet);
        let lost = self.out.iter().filter(|out| !out.acked).map(|out| out.part).collect();
        self.first += self.out.len() as u64;
        self.out.clear();
        self.inflight = 0;
        self.backoff += 1;
        self.pay(self.packet);
        lost
    }

    /// The timeout with its back-off.
    pub(crate) fn rto(&self) -> Time {
        let once = match self.srtt {
            Some(srtt) => Time((srtt.0 + 4 * self.rttvar.0).max(LEAST_RTO.0)),
            None => FIRST_RTO,
        };
        Time((once.0 << self.backoff.min(10)).min(MOST_RTO.0))
    }

    /// Smoothed round-trip time and its variation, once known.
    pub(crate) fn rtt(&self) -> Option<(Time, Time)> {
        self.srtt.map(|srtt| (srtt, self.rttvar))
    }

    /// The window in whole packets.
    pub(crate) fn cwnd_packets(&self) -> i64 {
        (self.cwnd / self.packet) as i64
    }

    /// The threshold in whole packets, once there was a loss.
    pub(crate) fn ssthresh_packets(&self) -> Option<i64> {
        self.ssthresh.is_finite().then_some((self.ssthresh / self.packet) as i64)
    }

    /// Packets out and not acknowledged.
    pub(crate) fn inflight(&self) -> u32 {
        self.inflight
    }

    fn grow(&mut self, ack: &XcpAck) {
        let grown = if ack.feedback_bytes.is_finite() {
            self.cwnd + ack.feedback_bytes
        } else if ack.number < self.paid_until {
            self.cwnd
        } else if self.cwnd < self.ssthresh {
            self.cwnd + self.packet
        } else {
            self.cwnd + self.packet * self.packet / self.cwnd
        };
        self.cwnd = grown.clamp(self.packet, MOST_CWND);
    }

    /// RFC 6298 section 2.
    fn measure(&mut self, rtt: Time) {
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        let Some(srtt) = self.srtt else {
            (self.srtt, self.rttvar) = (Some(rtt), Time(rtt.0 / 2));
            return;
        };
        self.rttvar = Time((3 * self.rttvar.0 + srtt.0.abs_diff(rtt.0)) / 4);
        self.srtt = Some(Time((7 * srtt.0 + rtt.0) / 8));
    }

    /// Takes away what is acknowledged or lost, and gives the lost ones' numbers and parts.
    fn lost(&mut self) -> Vec<(u64, u32)> {
        let mut lost = Vec::new();
        while let Some(out) = self.out.front() {
            if !out.acked {
                if self.first + LATER_ACKS > self.newest_acked {
                    break;
                }
                lost.push((self.first, out.part));
                self.inflight -= 1;
            }
            self.out.pop_front();
            self.first += 1;
        }
        lost
    }

    /// The window for a loss: once for all that is out.
    fn pay(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.paid_until = self.first + self.out.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u64, feedback_bytes: f64) -> XcpAck {
        XcpAck { number, feedback_bytes }
    }

    /// A window of so many packets of 1000 bytes, all out since 0.
    fn full(packets: u32) -> Window {
        let mut window = Window::new(1000);
        window.cwnd = f64::from(packets) * 1000.0;
        for part in 0..packets {
            assert!(window.has_room());
            assert_eq!(window.sent(Time(0), part), u64::from(part));
        }
        assert!(!window.has_room());
        window
    }

    #[test]
    fn the_routers_word_sets_the_window() {
        let mut window = full(10);
        assert_eq!(window.header().rtt, Time(0), "not known yet");
        window.acked(Time(50_000_000), &ack(0, 2_500.0)).unwrap();
        assert_eq!((window.cwnd, window.header().rtt), (12_500.0, Time(50_000_000)));
        window.acked(Time(50_000_000), &ack(1, -1e9)).unwrap();
        assert_eq!(window.cwnd, 1_000.0, "never less than a packet");
        assert_eq!(window.acked(Time(50_000_000), &ack(1, 5.0)), None, "heard before");
    }

    #[test]
    fn without_a_word_it_grows_as_tcp() {
        let mut window = full(10);
        window.acked(Time(1), &ack(0, f64::INFINITY)).unwrap();
        assert_eq!(window.cwnd, 11_000.0);
        window.ssthresh = 5_000.0;
        window.acked(Time(1), &ack(1, f64::INFINITY)).unwrap();
        assert!((window.cwnd - 11_090.909).abs() < 0.001, "{}", window.cwnd);
    }

    #[test]
    fn losses_of_one_window_halve_it_once() {
        let mut window = full(10);
        for number in [1, 2] {
            assert!(window.acked(Time(1), &ack(number, 0.0)).unwrap().lost.is_empty());
        }
        let told = window.acked(Time(1), &ack(3, 0.0)).unwrap();
        assert_eq!(told, Acked { part: 3, lost: vec![0], reduced: true });
        assert_eq!((window.cwnd, window.inflight), (5_000.0, 6));
        let told = window.acked(Time(2), &ack(9, 0.0)).unwrap();
        assert_eq!(told, Acked { part: 9, lost: vec![4, 5, 6], reduced: false });
        assert_eq!((window.cwnd, window.inflight), (5_000.0, 2));
    }

    #[test]
    fn silence_loses_all() {
        let mut window = full(4);
        assert!(window.timed_out(Time(999_999_999)).is_empty());
        assert_eq!(window.timed_out(Time(1_000_000_000)), [0, 1, 2, 3]);
        assert_eq!((window.cwnd, window.timeout()), (1_000.0, None));
        assert_eq!(window.sent(Time(1_000_000_000), 0), 4);
        assert_eq!(window.timeout(), Some(Time(3_000_000_000)), "doubled");
    }
}
