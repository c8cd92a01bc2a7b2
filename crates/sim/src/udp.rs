//! A UDP flow: datagrams at exact times, and what their receiver counts.

use std::collections::VecDeque;

use scenario::{BurstLengths, Bursts, Udp};
use units::{BitRate, Time};

use crate::{
    addresses::Route,
    draws::Draws,
    fragments::Fragments,
    packet::{Body, SimPacket},
    seen::{Place, Seen},
    wire::Wire,
};

/// Bytes of a UDP header (RFC 768).
const UDP_HEADER: u32 = 8;
/// A datagram that so many later ones overtake counts as lost.
const WINDOW: usize = 1 << 20;
/// So many datagrams may be incomplete at once.
const INCOMPLETE: usize = 64;

/// What a datagram carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) number: u64,
    pub(crate) sent: Time,
    pub(crate) payload: u32,
    pub(crate) fragments: Fragments,
}

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) source: Source,
    pub(crate) receiver: Receiver,
    patience: Time,
    there: Route,
    /// The receiver's number as packets have it.
    to: u32,
    ip_header: u32,
    mtu: u32,
}

/// What a stream is made of.
pub(crate) struct Plan<'a> {
    pub(crate) udp: &'a Udp,
    pub(crate) there: Route,
    pub(crate) ip_header: u32,
    /// MTU of the sender's host.
    pub(crate) mtu: u32,
    /// The receiver's number as packets have it.
    pub(crate) to: u32,
    /// How long a datagram may be under way when all are sent.
    pub(crate) patience: Time,
    pub(crate) seed: u64,
}

impl Stream {
    pub(crate) fn new(plan: &Plan<'_>, now: Time) -> Self {
        let Plan { udp, there, ip_header, mtu, to, patience, seed } = *plan;
        Stream {
            source: Source::new(udp, mtu - ip_header - UDP_HEADER, Draws::new(seed, to), now),
            receiver: Receiver::default(),
            patience,
            there,
            to,
            ip_header,
            mtu,
        }
    }

    /// Sends what is due; gives when something is due again.
    pub(crate) fn send(&mut self, now: Time, wire: &mut Wire) -> Option<Time> {
        while let Some(at) = self.source.next().filter(|at| *at <= now) {
            let (number, payload) = self.source.take();
            let fragments = Fragments::of(payload + UDP_HEADER, self.mtu, self.ip_header);
            let body = Body::Datagram(Datagram { number, sent: at, payload, fragments });
            wire.send(&self.there, now, SimPacket { to: self.to, header: self.ip_header, body });
        }
        self.source.next()
    }

    /// When all was sent and has come, or will not come any more: when the last datagram came.
    pub(crate) fn finished(&self, now: Time) -> Option<Time> {
        let source = &self.source;
        if source.next().is_some() {
            return None;
        }
        let all_here = self.receiver.received == source.sent;
        let given_up = now.0 >= source.last.0.saturating_add(self.patience.0);
        (all_here || given_up).then_some(self.receiver.last.unwrap_or(source.last))
    }
}

/// When datagrams are sent: the n-th when n datagrams' time has passed in bursts.
#[derive(Debug)]
pub(crate) struct Source {
    rate: BitRate,
    payload: u32,
    /// Payload still to be sent; `u64::MAX` is without end.
    left: u64,
    /// Datagrams sent.
    pub(crate) sent: u64,
    /// Payload sent.
    pub(crate) sent_bytes: u64,
    /// When the last datagram was due.
    last: Time,
    next: Time,
    burst: Burst,
}

/// The present burst.
#[derive(Debug)]
struct Burst {
    start: Time,
    /// Time spent in bursts before, ns.
    before_ns: u64,
    length_ns: u64,
    bursts: Option<Bursts>,
    draws: Draws,
}

impl Source {
    fn new(udp: &Udp, most: u32, draws: Draws, start: Time) -> Self {
        let payload = udp.packet.map_or(most, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
        let mut burst = Burst { start, before_ns: 0, length_ns: u64::MAX, bursts: udp.bursts, draws };
        burst.length_ns = burst.bursts.map_or(u64::MAX, |bursts| burst.length(bursts.on, bursts.lengths).0);
        let mut source = Source {
            rate: udp.rate,
            payload: payload.max(1),
            left: udp.size.map_or(u64::MAX, |size| size.0),
            sent: 0,
            sent_bytes: 0,
            last: start,
            next: start,
            burst,
        };
        source.next = source.burst.at(0);
        source
    }

    /// When the next datagram is due; none where all are sent.
    fn next(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }

    /// The next datagram's number and payload.
    fn take(&mut self) -> (u64, u32) {
        let payload = u64::from(self.payload).min(self.left);
        let number = self.sent;
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.sent_bytes += payload;
        self.last = self.next;
        let bits = u128::from(self.sent) * u128::from(self.payload) * 8;
        let passed = bits * 1_000_000_000 / u128::from(self.rate.0.max(1));
        self.next = self.burst.at(u64::try_from(passed).unwrap_or(u64::MAX));
        (number, payload as u32)
    }
}

impl Burst {
    /// The instant at which so much time has been spent in bursts.
    fn at(&mut self, spent_ns: u64) -> Time {
        while let Some(bursts) = self.bursts
            && spent_ns - self.before_ns >= self.length_ns
            && self.start < Time(u64::MAX / 2)
        {
            let pause = self.length(bursts.off, bursts.lengths);
            self.before_ns += self.length_ns;
            self.start = Time(self.start.0.saturating_add(self.length_ns).saturating_add(pause.0));
            self.length_ns = self.length(bursts.on, bursts.lengths).0;
        }
        Time(self.start.0.saturating_add(spent_ns - self.before_ns))
    }

    fn length(&mut self, said: Time, lengths: BurstLengths) -> Time {
        match lengths {
            BurstLengths::Fixed => said,
            BurstLengths::Exponential => self.draws.exponential(said),
        }
    }
}

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
    last: Option<Time>,
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
    use units::Bytes;

    use super::*;

    fn times(udp: &Udp, count: usize) -> Vec<u64> {
        let mut source = Source::new(udp, 1472, Draws::new(1, 1), Time(1_000));
        let mut times = Vec::new();
        while let Some(at) = source.next().filter(|_| times.len() < count) {
            times.push(at.0);
            source.take();
        }
        times
    }

    #[test]
    fn spaces_are_exact_and_errors_never_add_up() {
        // 1000 bytes at 3 Mb/s: 2,666,666.67 ns.
        let udp = Udp { rate: BitRate(3_000_000), packet: Some(Bytes(1000)), ..Udp::default() };
        assert_eq!(times(&udp, 4), [1_000, 2_667_666, 5_334_333, 8_001_000]);
        let sized = Udp { size: Some(Bytes(2_500)), ..udp };
        assert_eq!(times(&sized, 9).len(), 3);
    }

    #[test]
    fn bursts_alternate_with_pauses() {
        let fixed = Bursts { on: Time(2_000_000), off: Time(10_000_000), lengths: BurstLengths::Fixed };
        let udp = Udp {
            rate: BitRate(8_000_000),
            packet: Some(Bytes(1000)),
            bursts: Some(fixed),
            ..Udp::default()
        };
        assert_eq!(times(&udp, 5), [1_000, 1_001_000, 12_001_000, 13_001_000, 24_001_000]);
        let random = Bursts { lengths: BurstLengths::Exponential, ..fixed };
        let all = times(&Udp { bursts: Some(random), ..udp }, 60_000);
        assert!(all.is_sorted());
        let mean_rate = 60_000.0 / ((all[all.len() - 1] - all[0]) as f64 * 1e-9);
        // A sixth of 1000 datagrams a second.
        assert!((mean_rate / 166.7 - 1.0).abs() < 0.03, "{mean_rate}");
    }

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
