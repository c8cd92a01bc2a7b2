//! A ping flow: echo requests at an interval, their replies, and losses at the end.

use scenario::PingSpec;
use units::{Instant, Time};

use crate::{
    fragments::{Fragments, Reassembly},
    packet::Echo,
};

/// Bytes of an ICMP header.
const ICMP_HEADER: u32 = 8;

/// The requesting host's state.
#[derive(Debug)]
pub(crate) struct Ping {
    spec: PingSpec,
    start: Instant,
    timeout: Time,
    /// When each request was sent; `None` once its reply has arrived.
    sent: Vec<Option<Instant>>,
    /// Requests without a reply.
    unanswered: usize,
    /// When the latest request was sent.
    last: Instant,
    /// IP payload bytes of a request.
    payload: u32,
    ip_header: u32,
    echo: Echo,
    /// Reassembly of requests at the receiver, and of replies at the sender.
    pub(crate) reassembly: [Reassembly; 2],
    /// Arrival and round-trip time of replies since the last sample.
    pub(crate) replies: Vec<(Instant, Time)>,
}

impl Ping {
    pub(crate) fn new(spec: &PingSpec, start: Instant, timeout: Time, mtu: u32, ip_header: u32) -> Self {
        let payload = ICMP_HEADER + u32::try_from(spec.payload.0).unwrap_or(u32::MAX).min(65_507);
        let fragments = Fragments::new(payload, mtu, ip_header);
        let echo = Echo { sequence: 0, is_reply: false, fragments };
        Ping {
            spec: spec.clone(),
            start,
            timeout,
            sent: Vec::new(),
            unanswered: 0,
            last: start,
            payload,
            ip_header,
            echo,
            reassembly: Default::default(),
            replies: Vec::new(),
        }
    }

    /// The path MTU has changed.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.echo.fragments = Fragments::new(self.payload, mtu, self.ip_header);
    }

    /// When to call [`Ping::send`] or [`Ping::is_done`] next.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.all_sent() {
            return Some(if self.unanswered == 0 { self.last } else { self.last.later_by(self.timeout) });
        }
        Some(self.start.later_by(self.spec.interval * self.sent.len() as u64))
    }

    /// Takes the request that is due now.
    pub(crate) fn send(&mut self, now: Instant) -> Option<Echo> {
        if self.all_sent() || self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.sent.push(Some(now));
        self.unanswered += 1;
        self.last = now;
        Some(Echo { sequence: self.sent.len() as u32, ..self.echo })
    }

    /// A reply has arrived.
    pub(crate) fn on_reply(&mut self, now: Instant, echo: &Echo) {
        let request = self.sent.get_mut(echo.sequence.wrapping_sub(1) as usize);
        if let Some(sent) = request.and_then(Option::take) {
            self.unanswered -= 1;
            self.replies.push((now, now.since(sent)));
        }
    }

    /// True once all requests are sent and each has its reply or has timed out.
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        self.all_sent() && (self.unanswered == 0 || now >= self.last.later_by(self.timeout))
    }

    /// The numbers of requests that have timed out. A request that could still receive its reply does not
    /// count as lost.
    pub(crate) fn lost(&self, now: Instant) -> impl Iterator<Item = u32> {
        let late = move |sent: &Instant| now.saturating_since(*sent) >= self.timeout;
        self.sent.iter().zip(1..).filter(move |(sent, _)| sent.as_ref().is_some_and(late)).map(|(_, n)| n)
    }

    fn all_sent(&self) -> bool {
        self.spec.count.is_some_and(|count| self.sent.len() as u64 >= u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use units::{Bytes, Time};

    use super::*;

    #[test]
    fn requests_are_sent_at_the_interval_and_lost_after_the_timeout() {
        let spec = PingSpec { interval: Time::from_nanos(100), count: Some(2), payload: Bytes(56) };
        let mut ping = Ping::new(&spec, Instant::from_nanos(1_000), Time::from_nanos(500), 1500, 20);
        assert_eq!(ping.next(), Some(Instant::from_nanos(1_000)));
        let first = ping.send(Instant::from_nanos(1_000)).unwrap();
        assert_eq!((first.sequence, first.fragments.last_bytes, first.fragments.count), (1, 64, 1));
        assert_eq!(ping.send(Instant::from_nanos(1_050)), None);
        ping.send(Instant::from_nanos(1_100)).unwrap();
        ping.on_reply(Instant::from_nanos(1_120), &first);
        assert_eq!(ping.replies, [(Instant::from_nanos(1_120), Time::from_nanos(120))]);
        assert!(!ping.is_done(Instant::from_nanos(1_200)));
        assert_eq!(ping.next(), Some(Instant::from_nanos(1_600)));
        assert!(ping.is_done(Instant::from_nanos(1_600)));
        assert_eq!(ping.lost(Instant::from_nanos(1_599)).count(), 0);
        assert_eq!(ping.lost(Instant::from_nanos(1_600)).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_large_echo_is_fragmented() {
        let spec = PingSpec { payload: Bytes(4_000), ..PingSpec::default() };
        let echo =
            Ping::new(&spec, Instant::ZERO, Time::from_nanos(1), 1500, 20).send(Instant::ZERO).unwrap();
        assert_eq!(echo.fragments, Fragments::new(4_008, 1500, 20));
    }
}
