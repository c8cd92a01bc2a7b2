//! A ping flow: echo requests at an interval, replies as they come, losses at the end.

use scenario::Ping as Spec;
use units::Time;

use crate::{
    fragments::{Fragments, Reassembly},
    packet::Echo,
};

/// Bytes of an ICMP header.
const ICMP_HEADER: u32 = 8;

/// The asking host's side.
#[derive(Debug)]
pub(crate) struct Ping {
    spec: Spec,
    start: Time,
    patience: Time,
    /// When each request was sent, while it is open.
    sent: Vec<Option<Time>>,
    open: usize,
    last: Time,
    /// IP payload of a request.
    payload: u32,
    ip_header: u32,
    echo: Echo,
    /// Requests, and replies, that have come in part.
    pub(crate) reassembly: [Reassembly; 2],
    /// Replies that have not been told yet: when they came and after how long.
    pub(crate) replies: Vec<(Time, Time)>,
}

impl Ping {
    pub(crate) fn new(spec: &Spec, start: Time, patience: Time, mtu: u32, ip_header: u32) -> Self {
        let payload = ICMP_HEADER + u32::try_from(spec.payload.0).unwrap_or(u32::MAX).min(65_507);
        let fragments = Fragments::of(payload, mtu, ip_header);
        let echo = Echo { sequence: 0, reply: false, fragments };
        Ping {
            spec: spec.clone(),
            start,
            patience,
            sent: Vec::new(),
            open: 0,
            last: start,
            payload,
            ip_header,
            echo,
            reassembly: Default::default(),
            replies: Vec::new(),
        }
    }

    /// The path's MTU is another one.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.echo.fragments = Fragments::of(self.payload, mtu, self.ip_header);
    }

    /// When there is something to do.
    pub(crate) fn next(&self) -> Option<Time> {
        if self.all_sent() {
            return Some(if self.open == 0 { self.last } else { Time(self.last.0 + self.patience.0) });
        }
        Some(Time(self.start.0 + self.sent.len() as u64 * self.spec.interval.0))
    }

    /// The request that is due now.
    pub(crate) fn send(&mut self, now: Time) -> Option<Echo> {
        if self.all_sent() || self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.sent.push(Some(now));
        self.open += 1;
        self.last = now;
        Some(Echo { sequence: self.sent.len() as u32, ..self.echo })
    }

    /// A reply came.
    pub(crate) fn take(&mut self, now: Time, echo: &Echo) {
        let open = self.sent.get_mut(echo.sequence.wrapping_sub(1) as usize);
        if let Some(asked) = open.and_then(Option::take) {
            self.open -= 1;
            self.replies.push((now, Time(now.0 - asked.0)));
        }
    }

    /// Whether all was sent, and answered or given up.
    pub(crate) fn is_done(&self, now: Time) -> bool {
        self.all_sent() && (self.open == 0 || now.0 >= self.last.0 + self.patience.0)
    }

    /// The requests that were not answered in time. What could still be answered at the end is no loss.
    pub(crate) fn lost(&self, now: Time) -> impl Iterator<Item = u32> {
        let late = move |asked: &Time| now.0.saturating_sub(asked.0) > self.patience.0;
        self.sent.iter().zip(1..).filter(move |(asked, _)| asked.as_ref().is_some_and(late)).map(|(_, n)| n)
    }

    fn all_sent(&self) -> bool {
        self.spec.count.is_some_and(|count| self.sent.len() as u64 >= u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    #[test]
    fn requests_are_sent_at_the_interval_and_lost_after_the_patience() {
        let spec = Spec { interval: Time(100), count: Some(2), payload: Bytes(56) };
        let mut ping = Ping::new(&spec, Time(1_000), Time(500), 1500, 20);
        assert_eq!(ping.next(), Some(Time(1_000)));
        let first = ping.send(Time(1_000)).unwrap();
        assert_eq!((first.sequence, first.fragments.last_bytes, first.fragments.here), (1, 64, 1));
        assert_eq!(ping.send(Time(1_050)), None);
        ping.send(Time(1_100)).unwrap();
        ping.take(Time(1_120), &first);
        assert_eq!(ping.replies, [(Time(1_120), Time(120))]);
        assert!(!ping.is_done(Time(1_200)));
        assert_eq!(ping.next(), Some(Time(1_600)));
        assert!(ping.is_done(Time(1_600)));
        assert_eq!(ping.lost(Time(1_601)).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_large_echo_goes_in_fragments() {
        let spec = Spec { payload: Bytes(4_000), ..Spec::default() };
        let echo = Ping::new(&spec, Time(0), Time(1), 1500, 20).send(Time(0)).unwrap();
        assert_eq!(echo.fragments, Fragments::of(4_008, 1500, 20));
    }
}
