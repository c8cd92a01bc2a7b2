//! The difference of two hosts' clocks, from requests for the other's time (as in RFC 5905, section 8: the
//! exchange with the shortest round trip bounds the error best).

/// A clock compared with this host's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    /// The other clock's time minus this host's, ns.
    pub offset_ns: i64,
    /// Maximum error of the offset, ns: half of the round trip.
    pub error_ns: i64,
}

/// One exchange: when the request was sent and the reply arrived by this host's clock, and the time in the
/// reply, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub sent_ns: i64,
    pub server_ns: i64,
    pub received_ns: i64,
}

impl ClockOffset {
    /// The offset computed from several exchanges; `None` without any.
    pub(crate) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let best = exchanges.iter().min_by_key(|one| one.received_ns.saturating_sub(one.sent_ns))?;
        let middle = best.sent_ns / 2 + best.received_ns / 2;
        Some(ClockOffset {
            offset_ns: best.server_ns.saturating_sub(middle),
            error_ns: (best.received_ns.saturating_sub(best.sent_ns) / 2).max(0),
        })
    }

    /// A time of the other clock by this host's clock.
    pub(crate) fn to_here(self, server_ns: i64) -> i64 {
        server_ns.saturating_sub(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the delays of both directions are, the true offset is within the error.
        #[test]
        fn the_true_offset_is_within_the_error(
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            delays in prop::collection::vec((0i64..1_000_000_000, 0i64..1_000_000_000), 1..10),
        ) {
            let exchange = |(forward, backward): (i64, i64)| Exchange {
                sent_ns: 1_700_000_000_000_000_000,
                server_ns: 1_700_000_000_000_000_000 + forward + offset,
                received_ns: 1_700_000_000_000_000_000 + forward + backward,
            };
            let all: Vec<Exchange> = delays.into_iter().map(exchange).collect();
            let found = ClockOffset::of(&all).unwrap();
            prop_assert!((found.offset_ns - offset).abs() <= found.error_ns + 1, "{found:?}");
            prop_assert!((found.to_here(5 + offset) - 5).abs() <= found.error_ns + 1);
        }
    }
}
