//! Path MTU discovery by packets that may not be fragmented (as RFC 8899): finds the largest size with a
//! reply.
//!
//! Routers should report the MTU of the next link (RFC 792, RFC 4443); the next packet then has that size.
//! Packets without a reply are retried, and then count as too large. The search bisects between the largest
//! size with a reply and the smallest size without one. If larger packets are lost without an ICMP error, the
//! path has a black hole.

use serde::Serialize;

use crate::result::Validity;

/// A size that every path supports, bytes of IP: RFC 791 requires 68, but no link of the last decades has a
/// smaller MTU than this (BASE_PLPMTU of RFC 8899 section 5.1.2; for IPv6 it is 1280).
const BASE_BYTES: u32 = 576;
/// Number of packets without a reply after which a size counts as too large (RFC 8899 section 5.1.2,
/// MAX_PROBES).
const MAX_TRIES: u32 = 3;

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuOutcome {
    /// The host replied.
    Replied,
    /// A router, or this host, reported this MTU, bytes of IP; 0 if the error does not contain it.
    TooBig(u32),
    /// There was no reply in time.
    NoReply,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MtuResult {
    /// The path MTU, bytes of IP; `None` if the host never replied.
    pub mtu_bytes: Option<u32>,
    /// Whether larger packets are lost without an ICMP error: TCP over this path hangs unless it probes the
    /// MTU itself.
    pub black_hole: bool,
    /// MTUs that routers reported, in order.
    #[serde(rename = "told_bytes")]
    pub reported_bytes: Vec<u32>,
    /// Number of packets sent.
    pub packets: u32,
    /// Whether the result is reliable.
    pub validity: Validity,
}

/// The search: send a packet of the size that [`MtuSearch::next_size`] returns, and pass its outcome to
/// [`MtuSearch::add_outcome`], until there is no next size.
#[derive(Debug, Clone)]
pub struct MtuSearch {
    /// The first size, which should pass everywhere.
    base: u32,
    /// The largest size with a reply.
    low: u32,
    /// The smallest size that is too large.
    high: u32,
    size: u32,
    tries: u32,
    /// Sizes without a reply.
    unanswered: Vec<u32>,
    /// MTUs that routers reported.
    reported: Vec<u32>,
    packets: u32,
}

impl MtuSearch {
    /// Searches between 576 bytes of IP and `max`, the MTU of the first link.
    pub fn new(max: u32) -> Self {
        MtuSearch::between(BASE_BYTES, max.max(BASE_BYTES))
    }

    /// Searches between `base`, which should pass everywhere, and `max`, bytes of IP. If `max` is smaller,
    /// only `max` is tried.
    pub fn between(base: u32, max: u32) -> Self {
        let base = base.min(max);
        MtuSearch {
            base,
            low: 0,
            high: max + 1,
            size: base,
            tries: 0,
            unanswered: Vec::new(),
            reported: Vec::new(),
            packets: 0,
        }
    }

    /// Size of the next packet, bytes, IP header included; `None` when the search is complete.
    pub fn next_size(&self) -> Option<u32> {
        (self.low + 1 < self.high && self.size > 0).then_some(self.size)
    }

    /// Adds the outcome of the packet of [`MtuSearch::next_size`].
    pub fn add_outcome(&mut self, outcome: MtuOutcome) {
        self.packets += 1;
        match outcome {
            MtuOutcome::Replied => self.low = self.low.max(self.size),
            MtuOutcome::TooBig(fits) => {
                self.reported.push(fits);
                self.high = self.high.min(self.size);
                if fits > self.low && fits < self.size {
                    // If the reported MTU is correct, the next packet is the last.
                    self.size = fits;
                    self.tries = 0;
                    return;
                }
            }
            MtuOutcome::NoReply => {
                self.tries += 1;
                if self.tries < MAX_TRIES {
                    return;
                }
                self.unanswered.push(self.size);
                self.high = self.high.min(self.size);
            }
        }
        self.tries = 0;
        self.size = match self.low {
            // Not even the base size got a reply.
            0 => 0,
            // The maximum is tried first, because most paths support it.
            low if low == self.base
                && self.unanswered.is_empty()
                && self.reported.is_empty()
                && self.high > low + 1 =>
            {
                self.high - 1
            }
            // A reported size got a reply: check that one byte more is too large.
            low if self.reported.contains(&low) && self.high > low + 1 => low + 1,
            low => low + (self.high - low) / 2,
        };
    }

    /// The result so far.
    pub fn result(&self) -> MtuResult {
        let known = (self.low > 0).then_some(self.low);
        let black_hole = known.is_some() && !self.unanswered.is_empty();
        let mut warnings = Vec::new();
        if known.is_none() {
            warnings.push(format!("the host does not reply even to packets of {} bytes", self.base));
        }
        if self.reported.iter().any(|reported| known.is_some_and(|known| *reported > known)) {
            // A router before the link with the smallest MTU may report more; the last report must be
            // correct.
            let last = self.reported.last().copied().unwrap_or(0);
            if known.is_some_and(|known| last > known) {
                warnings.push(format!(
                    "the last router to reply reported an MTU of {last} bytes, but packets \
                    of this size do not pass"
                ));
            }
        }
        MtuResult {
            mtu_bytes: known,
            black_hole,
            reported_bytes: self.reported.clone(),
            packets: self.packets,
            validity: Validity::new(warnings, || match black_hole {
                true => format!("packets of {} bytes got a reply, and three larger ones did not", self.low),
                false => format!("packets of {} bytes got a reply", self.low),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(max: u32, path: impl Fn(u32) -> MtuOutcome) -> MtuResult {
        let mut search = MtuSearch::new(max);
        while let Some(size) = search.next_size() {
            search.add_outcome(path(size));
        }
        search.result()
    }

    proptest! {
        #[test]
        fn the_mtu_is_found_with_and_without_icmp_errors(mtu in 576u32..9000, has_icmp: bool) {
            let result = search(9000, |size| match size {
                _ if size <= mtu => MtuOutcome::Replied,
                _ if has_icmp => MtuOutcome::TooBig(mtu),
                _ => MtuOutcome::NoReply,
            });
            prop_assert_eq!(result.mtu_bytes, Some(mtu));
            prop_assert_eq!(result.black_hole, !has_icmp && mtu < 9000);
            prop_assert!(result.validity.valid);
            prop_assert!(result.packets <= 50, "{}", result.packets);
        }

        /// The search ends for arbitrary reports of routers.
        #[test]
        fn the_search_always_ends(outcomes in prop::collection::vec((0u8..3, any::<u32>()), 1..20)) {
            let mut search = MtuSearch::new(1500);
            let mut all = outcomes.iter().cycle();
            for _ in 0..5000 {
                if search.next_size().is_none() {
                    break;
                }
                search.add_outcome(match all.next().unwrap() {
                    (0, _) => MtuOutcome::Replied,
                    (1, fits) => MtuOutcome::TooBig(*fits),
                    _ => MtuOutcome::NoReply,
                });
            }
            prop_assert_eq!(search.next_size(), None);
        }
    }

    #[test]
    fn a_host_that_never_replies_has_no_path_mtu() {
        let result = search(1500, |_| MtuOutcome::NoReply);
        assert_eq!((result.mtu_bytes, result.packets, result.validity.valid), (None, 3, false));
    }
}
