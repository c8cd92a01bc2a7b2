//! The path's MTU by packets that may not be fragmented (as RFC 8899): the largest that gets an answer.
//!
//! Routers should say what fits (RFC 792, RFC 4443), and then the next packet has that size. Where nothing comes back, packets
//! are tried again, and then count as too large: between the sizes that are answered and those that are not the search
//! halves. Sizes that vanish without a word are a black hole.

use serde::Serialize;

use crate::answer::Validity;

/// What every path takes: RFC 791 says 68 bytes, but no link of the last decades takes less than these (RFC 8899 section 5.1.2
/// calls it BASE_PLPMTU for IPv6: 1280).
const BASE: u32 = 576;
/// How often a size is tried before silence counts (RFC 8899 section 5.1.2, MAX_PROBES).
const TRIES: u32 = 3;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuOutcome {
    /// The host answered it.
    Answered,
    /// A router, or this host, says that only so many bytes of IP fit; 0 where it does not say how many.
    TooBig(u32),
    /// Nothing came back in time.
    Silent,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MtuAnswer {
    /// Bytes of IP; `None` where the host answers nothing.
    pub mtu_bytes: Option<u32>,
    /// Larger packets vanish without a word: TCP over this path hangs unless it probes itself.
    pub black_hole: bool,
    /// What routers said, from the first on.
    pub told_bytes: Vec<u32>,
    /// Packets sent.
    pub packets: u32,
    /// Whether to believe it.
    pub validity: Validity,
}

/// The search: ask [`MtuSearch::next`] for a size, send it, and tell [`MtuSearch::take`].
#[derive(Debug, Clone)]
pub struct MtuSearch {
    /// The first size.
    base: u32,
    /// The largest that was answered.
    low: u32,
    /// The smallest that is too large.
    high: u32,
    size: u32,
    tries: u32,
    /// Sizes that nobody answered.
    silent: Vec<u32>,
    told: Vec<u32>,
    packets: u32,
}

impl MtuSearch {
    /// Between 576 bytes of IP and what the first link takes.
    pub fn new(most: u32) -> Self {
        MtuSearch::between(BASE, most.max(BASE))
    }

    /// Between `base`, which should pass everywhere, and `most`, bytes of IP; where `most` is smaller it alone is tried.
    pub fn between(base: u32, most: u32) -> Self {
        let base = base.min(most);
        MtuSearch {
            base,
            low: 0,
            high: most + 1,
            size: base,
            tries: 0,
            silent: Vec::new(),
            told: Vec::new(),
            packets: 0,
        }
    }

    /// Bytes of the next packet, IP header included; `None` when all is known.
    pub fn next(&self) -> Option<u32> {
        (self.low + 1 < self.high && self.size > 0).then_some(self.size)
    }

    /// What became of it.
    pub fn take(&mut self, outcome: MtuOutcome) {
        self.packets += 1;
        match outcome {
            MtuOutcome::Answered => self.low = self.low.max(self.size),
            MtuOutcome::TooBig(fits) => {
                self.told.push(fits);
                self.high = self.high.min(self.size);
                if fits > self.low && fits < self.size {
                    // It should be true: then the next packet is the last.
                    self.size = fits;
                    self.tries = 0;
                    return;
                }
            }
            MtuOutcome::Silent => {
                self.tries += 1;
                if self.tries < TRIES {
                    return;
                }
                self.silent.push(self.size);
                self.high = self.high.min(self.size);
            }
        }
        self.tries = 0;
        self.size = match self.low {
            // Not even the base: nobody is there.
            0 => 0,
            // The largest first: most paths take it.
            low if low == self.base
                && self.silent.is_empty()
                && self.told.is_empty()
                && self.high > low + 1 =>
            {
                self.high - 1
            }
            // What a router said was answered: is one byte more too large?
            low if self.told.contains(&low) && self.high > low + 1 => low + 1,
            low => low + (self.high - low) / 2,
        };
    }

    /// What is known.
    pub fn answer(&self) -> MtuAnswer {
        let known = (self.low > 0).then_some(self.low);
        let black_hole = known.is_some() && !self.silent.is_empty();
        let mut doubts = Vec::new();
        if known.is_none() {
            doubts.push(format!("the host answers not even packets of {} bytes", self.base));
        }
        if self.told.iter().any(|told| known.is_some_and(|known| *told > known)) {
            // A router before the narrowest says more: nothing wrong with that, unless the last word is.
            let last = self.told.last().copied().unwrap_or(0);
            if known.is_some_and(|known| last > known) {
                doubts.push(format!("the last router to answer says {last} bytes fit, and they do not"));
            }
        }
        MtuAnswer {
            mtu_bytes: known,
            black_hole,
            told_bytes: self.told.clone(),
            packets: self.packets,
            validity: Validity::of(doubts, || match black_hole {
                true => format!("{} bytes were answered, and larger ones three times not", self.low),
                false => format!("{} bytes were answered", self.low),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(most: u32, path: impl Fn(u32) -> MtuOutcome) -> MtuAnswer {
        let mut search = MtuSearch::new(most);
        while let Some(size) = search.next() {
            search.take(path(size));
        }
        search.answer()
    }

    proptest! {
        #[test]
        fn it_is_found_whether_routers_speak_or_not(mtu in 576u32..9000, speaks: bool) {
            let answer = search(9000, |size| match size {
                _ if size <= mtu => MtuOutcome::Answered,
                _ if speaks => MtuOutcome::TooBig(mtu),
                _ => MtuOutcome::Silent,
            });
            prop_assert_eq!(answer.mtu_bytes, Some(mtu));
            prop_assert_eq!(answer.black_hole, !speaks && mtu < 9000);
            prop_assert!(answer.validity.valid);
            prop_assert!(answer.packets <= 50, "{}", answer.packets);
        }

        /// Whatever routers say, the search ends.
        #[test]
        fn any_answers_end(outcomes in prop::collection::vec((0u8..3, any::<u32>()), 1..20)) {
            let mut search = MtuSearch::new(1500);
            let mut all = outcomes.iter().cycle();
            for _ in 0..5000 {
                if search.next().is_none() {
                    break;
                }
                search.take(match all.next().unwrap() {
                    (0, _) => MtuOutcome::Answered,
                    (1, fits) => MtuOutcome::TooBig(*fits),
                    _ => MtuOutcome::Silent,
                });
            }
            prop_assert_eq!(search.next(), None);
        }
    }

    #[test]
    fn nobody_is_there() {
        let answer = search(1500, |_| MtuOutcome::Silent);
        assert_eq!((answer.mtu_bytes, answer.packets, answer.validity.valid), (None, 3, false));
    }
}
