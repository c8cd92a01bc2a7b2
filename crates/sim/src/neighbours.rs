//! Address resolution: the first packet of a station to a neighbour waits for a question and its answer.
//!
//! Without it the first round trip of a run would be one too short. Departures from RFC 826 and RFC 4861:
//! 1. The question goes to the neighbour alone, not to all.
//! 2. Entries never grow old.
//! 3. A question that stays without an answer is asked again each second, for ever (Linux gives up after three).
//! 4. Any number of packets waits (Linux: about 100 of 1500 bytes).

use units::Time;

use crate::parcel::Parcel;

/// When an unanswered question is asked again (`retrans_time`, net/ipv4/arp.c).
const AGAIN: Time = Time(1_000_000_000);
/// IP bytes of a question, as a link counts them: an ARP packet has 28 behind its Ethernet header.
pub(crate) const QUESTION_BYTES: u32 = 28;

/// Which stations know which neighbours.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// For each station, in order.
    known: Vec<Vec<u32>>,
    asked: Vec<Question>,
}

/// A question under way.
#[derive(Debug)]
struct Question {
    asker: u32,
    asked: u32,
    again: Time,
    /// With the stations that they are meant for.
    waiting: Vec<(u32, Parcel)>,
}

impl Neighbours {
    /// Nobody of so many stations knows anybody.
    pub(crate) fn new(stations: usize) -> Self {
        Neighbours { known: vec![Vec::new(); stations], asked: Vec::new() }
    }

    /// Whether packets may leave at once.
    #[inline]
    pub(crate) fn knows(&self, station: u32, neighbour: u32) -> bool {
        self.known[station as usize].binary_search(&neighbour).is_ok()
    }

    /// Keeps a packet until its neighbour is known. True where the question must be asked now.
    pub(crate) fn keep(
        &mut self,
        (station, neighbour): (u32, u32),
        now: Time,
        to: u32,
        packet: Parcel,
    ) -> bool {
        let known = self.asked.iter_mut().find(|q| (q.asker, q.asked) == (station, neighbour));
        if let Some(question) = known {
            question.waiting.push((to, packet));
            return false;
        }
        let again = Time(now.0 + AGAIN.0);
        self.asked.push(Question { asker: station, asked: neighbour, again, waiting: vec![(to, packet)] });
        true
    }

    /// A station has heard of a neighbour; gives the packets that waited for it.
    pub(crate) fn learn(&mut self, station: u32, neighbour: u32) -> Vec<(u32, Parcel)> {
        let known = &mut self.known[station as usize];
        if let Err(place) = known.binary_search(&neighbour) {
            known.insert(place, neighbour);
        }
        match self.asked.iter().position(|q| (q.asker, q.asked) == (station, neighbour)) {
            Some(index) => self.asked.remove(index).waiting,
            None => Vec::new(),
        }
    }

    /// When a question is to be asked again; later than anything that happens, if none is open.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        if self.asked.is_empty() {
            return Time(u64::MAX);
        }
        self.asked.iter().map(|q| q.again).fold(Time(u64::MAX), Time::min)
    }

    /// A question that is due again: who asks whom.
    pub(crate) fn due(&mut self, now: Time) -> Option<(u32, u32)> {
        let question = self.asked.iter_mut().find(|q| q.again <= now)?;
        question.again = Time(now.0 + AGAIN.0);
        Some((question.asker, question.asked))
    }
}
