//! What the receiver of a UDP flow counts: losses, duplicates, reordering, delays and jitter.

use std::collections::VecDeque;

use units::Time;

use crate::{
    fragments::Fragments,
    seen::{Place, Seen},
    udp::Datagram,
};

/// A datagram that so many later ones overtake counts as lost, and as a duplicate when it comes all the same.
const WINDOW: usize = 1 << 20;
/// So many datagrams may be incomplete at once.
const INCOMPLETE: usize = 64;

/// What the receiver counts.
#[derive(Debug)]
pub(crate) struct Receiver {
    seen: Seen,
    /// Numbers of datagrams of which a part has come, and how many fragments.
    incomplete: VecDeque<(u64, u16)>,
    /// Datagrams received, duplicates left out.
    pub(crate) received: u64,
    /// Their payload.
    pub(crate) bytes: u64,
    /// Of these, those that came after a later one (RFC 4737 section 3).
    pub(crate) reordered: u64,
    /// Those that came again.
    pub(crate) duplicated: u64,
    /// Interarrival jitter, ns (RFC 3550 section 6.4.1).
    pub(crate) jitter_ns: f64,
    /// Smallest and largest one-way delay.
    pub(crate) owd: Option<(Time, Time)>,
    /// When the last one came.
    pub(crate) last: Option<Time>,
    last_owd: Time,
    /// Of the datagrams since the last look: sum of the one-way delays in ns, and how many.
    since_look: (u64, u64),
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver {
            seen: Seen::new(WINDOW),
            incomplete: VecDeque::new(),
            received: 0,
            bytes: 0,
            reordered: 0,
            duplicated: 0,
            jitter_ns: 0.0,
            owd: None,
            last: None,
            last_owd: Time(0),
            since_look: (0, 0),
        }
    }
}

impl Receiver {
    /// A datagram or some of its fragments.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Time) {
        if !datagram.fragments.is_whole() && !self.completes(datagram) {
            return;
        }
        match self.seen.take(datagram.number) {
            Place::Again => {
                self.duplicated += 1;
                return;
            }
            Place::Late => self.reordered += 1,
            Place::Newest => {}
        }
        self.received += 1;
        self.bytes += u64::from(datagram.payload);
        let owd = Time(now.0 - datagram.sent.0);
        if self.last.is_some() {
            let difference = (owd.0 as f64 - self.last_owd.0 as f64).abs();
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        (self.last, self.last_owd) = (Some(now), owd);
        let (least, most) = self.owd.unwrap_or((owd, owd));
        self.owd = Some((least.min(owd), most.max(owd)));
        self.since_look = (self.since_look.0 + owd.0, self.since_look.1 + 1);
    }

    /// Datagrams missing before the newest.
    pub(crate) fn lost(&self) -> u64 {
        self.seen.next() - self.received
    }

    /// Mean one-way delay of the datagrams since the last call.
    pub(crate) fn take_mean_owd(&mut self) -> Option<Time> {
        let (sum, count) = std::mem::take(&mut self.since_look);
        sum.checked_div(count).map(Time)
    }

    /// Whether these fragments were the last that missed.
    fn completes(&mut self, datagram: &Datagram) -> bool {
        let Fragments { here, made, .. } = datagram.fragments;
        let Some(index) = self.incomplete.iter().position(|(number, _)| *number == datagram.number) else {
            if self.incomplete.len() == INCOMPLETE {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back((datagram.number, here));
            return false;
        };
        self.incomplete[index].1 += here;
        if self.incomplete[index].1 < made {
            return false;
        }
        self.incomplete.remove(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64, sent: u64, fragments: Fragments) -> Datagram {
        Datagram { number, sent: Time(sent), payload: 1000, fragments }
    }

    #[test]
    fn the_receiver_counts_what_happened() {
        let whole = Fragments::of(1008, 1500, 20);
        let mut receiver = Receiver::default();
        for (number, now) in [(0, 100), (2, 320), (1, 330), (1, 340), (5, 700)] {
            receiver.take(&datagram(number, number * 100, whole), Time(now));
        }
        assert_eq!((receiver.received, receiver.bytes), (4, 4000));
        assert_eq!((receiver.lost(), receiver.reordered, receiver.duplicated), (2, 1, 1));
        assert_eq!(receiver.owd, Some((Time(100), Time(230))));
        assert_eq!(receiver.take_mean_owd(), Some(Time((100 + 120 + 230 + 200) / 4)));
        assert_eq!(receiver.take_mean_owd(), None);
        // 20, 110 and 30 ns of difference.
        let expected = ((20.0f64 / 16.0) * 15.0 / 16.0 + 110.0 / 16.0) * 15.0 / 16.0 + 30.0 / 16.0;
        assert!((receiver.jitter_ns - expected).abs() < 1e-9, "{}", receiver.jitter_ns);
    }

    #[test]
    fn fragments_are_put_together() {
        let mut first = Fragments::of(4008, 1500, 20);
        let rest = first.split_off(1);
        let mut receiver = Receiver::default();
        receiver.take(&datagram(0, 0, first), Time(10));
        assert_eq!(receiver.received, 0);
        receiver.take(&datagram(0, 0, rest), Time(20));
        assert_eq!((receiver.received, receiver.lost()), (1, 0));
    }
}
