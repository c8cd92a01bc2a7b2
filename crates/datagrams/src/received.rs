//! What the receiver of numbered datagrams counts: losses, duplicates, reordering, delays and jitter.
//!
//! Sources: RFC 3550 section 6.4.1 (jitter), RFC 4737 section 3 (reordering), RFC 5481 section 4.2 (delay variation against
//! the smallest delay). Times are nanoseconds; the two ends may count them from different instants, and then one-way delays
//! have an offset, which their variation and the jitter have not.

use crate::seen::{Place, Seen};

/// A datagram that so many later ones overtake counts as lost, and as a duplicate when it comes all the same.
const WINDOW: usize = 1 << 20;

/// The counts so far.
#[derive(Debug, Clone)]
pub struct Received {
    seen: Seen,
    /// Datagrams received, duplicates left out.
    pub received: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// Of these, those that came after a later one (RFC 4737 section 3).
    pub reordered: u64,
    /// Those that came again.
    pub duplicated: u64,
    /// Interarrival jitter, ns (RFC 3550 section 6.4.1).
    pub jitter_ns: f64,
    /// Smallest and largest one-way delay, ns.
    pub owd_ns: Option<(i64, i64)>,
    /// When the last one came, ns.
    pub last_ns: Option<i64>,
    last_owd_ns: i64,
    /// Sum of all one-way delays, ns.
    owd_sum_ns: i128,
    /// That sum and the number of datagrams at the last look.
    looked: (i128, u64),
}

impl Default for Received {
    fn default() -> Self {
        Received {
            seen: Seen::new(WINDOW),
            received: 0,
            bytes: 0,
            reordered: 0,
            duplicated: 0,
            jitter_ns: 0.0,
            owd_ns: None,
            last_ns: None,
            last_owd_ns: 0,
            owd_sum_ns: 0,
            looked: (0, 0),
        }
    }
}

impl Received {
    /// Datagram `number` (the first is 0) of `payload` bytes has come whole.
    #[inline]
    pub fn take(&mut self, number: u64, payload: u32, sent_ns: i64, now_ns: i64) -> Place {
        let place = self.seen.take(number);
        match place {
            Place::Again => {
                self.duplicated += 1;
                return place;
            }
            Place::Late => self.reordered += 1,
            Place::Newest => {}
        }
        self.received += 1;
        self.bytes += u64::from(payload);
        // The sender's time is the peer's word: it must not overflow anything.
        let owd = now_ns.saturating_sub(sent_ns);
        if self.last_ns.is_some() {
            let difference = (owd as f64 - self.last_owd_ns as f64).abs();
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        (self.last_ns, self.last_owd_ns) = (Some(now_ns), owd);
        let (least, most) = self.owd_ns.unwrap_or((owd, owd));
        self.owd_ns = Some((least.min(owd), most.max(owd)));
        self.owd_sum_ns += i128::from(owd);
        place
    }

    /// One more than the newest number: datagrams received and lost together.
    pub fn expected(&self) -> u64 {
        self.seen.next()
    }

    /// Datagrams missing before the newest.
    pub fn lost(&self) -> u64 {
        self.expected() - self.received
    }

    /// Mean one-way delay of all datagrams, ns.
    pub fn mean_owd_ns(&self) -> Option<i64> {
        mean(self.owd_sum_ns, self.received)
    }

    /// Mean one-way delay of the datagrams since the last call, ns.
    pub fn take_mean_owd_ns(&mut self) -> Option<i64> {
        let (sum, count) = std::mem::replace(&mut self.looked, (self.owd_sum_ns, self.received));
        mean(self.owd_sum_ns - sum, self.received - count)
    }
}

fn mean(sum: i128, count: u64) -> Option<i64> {
    sum.checked_div(i128::from(count)).and_then(|mean| i64::try_from(mean).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_counts_what_happened() {
        let mut counts = Received::default();
        for (number, now) in [(0, 100), (2, 320), (1, 330), (1, 340), (5, 700)] {
            counts.take(number, 1000, number as i64 * 100, now);
        }
        assert_eq!((counts.received, counts.bytes), (4, 4000));
        assert_eq!((counts.expected(), counts.lost()), (6, 2));
        assert_eq!((counts.reordered, counts.duplicated), (1, 1));
        assert_eq!(counts.owd_ns, Some((100, 230)));
        assert_eq!(counts.take_mean_owd_ns(), Some((100 + 120 + 230 + 200) / 4));
        assert_eq!(counts.take_mean_owd_ns(), None);
        counts.take(6, 1000, 600, 900);
        assert_eq!((counts.take_mean_owd_ns(), counts.mean_owd_ns()), (Some(300), Some(190)));
        // 20, 110, 30 and 100 ns of difference.
        let expected = [20.0, 110.0, 30.0, 100.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
        assert!((counts.jitter_ns - expected).abs() < 1e-9, "{}", counts.jitter_ns);
    }

    proptest! {
        /// Whatever a peer writes into its datagrams, and however often, counts add up and nothing overflows.
        #[test]
        fn any_datagrams_add_up(
            all in prop::collection::vec((any::<u64>(), 0u32..65_508, any::<i64>(), 0i64..i64::MAX), 0..200),
            near in prop::collection::vec(0u64..300, 0..300),
        ) {
            let mut counts = Received::default();
            for number in &near {
                counts.take(*number, 1, 0, 0);
            }
            let mut distinct = near.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(counts.received, distinct.len() as u64);
            prop_assert_eq!(counts.duplicated, (near.len() - distinct.len()) as u64);
            prop_assert_eq!(counts.expected(), distinct.last().map_or(0, |last| last + 1));
            for (number, payload, sent, now) in &all {
                counts.take(number & (u64::MAX >> 1), *payload, *sent, *now);
            }
            prop_assert_eq!(counts.received + counts.duplicated, (near.len() + all.len()) as u64);
            prop_assert!(counts.lost() < u64::MAX / 2 && counts.jitter_ns.is_finite());
        }
    }
}
