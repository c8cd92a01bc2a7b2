//! Packets larger than the MTU of a link: what a router reports of them ("fragmentation needed", RFC 1191; "packet too big",
//! RFC 8201), and what the sender's host remembers for each destination (net/ipv4/route.c, net/ipv6/route.c).
//!
//! Departures:
//! 1. Below 552 bytes (`ip_rt_min_pmtu`) the kernel sends 552 over IPv4 and lets routers fragment it; here packets are made as small
//!    as the link's MTU.
//! 2. What one connection learns reaches the host's others with their own errors, or when they begin.

use std::collections::BTreeMap;

use net::PipeId;
use units::Time;

/// How long a host remembers a path's MTU (`ip_rt_mtu_expires`, `ip6_rt_mtu_expires`).
const EXPIRES_AFTER: Time = Time(600_000_000_000);
/// The smallest MTU that a host believes over IPv6 (RFC 8200 section 5).
const MIN_MTU_V6: u32 = 1280;
/// The smallest MTU that a link of IPv4 may have (RFC 791 section 3.2).
const MIN_MTU_V4: u32 = 68;
/// ICMP header, bytes.
const ICMP_HEADER: u32 = 8;
/// An error has no more bytes, quotation included (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4c).
const MAX_ERROR_V4: u32 = 576;
const MAX_ERROR_V6: u32 = 1280;

/// A packet that a router dropped, for it is larger than the link takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The direction of the link.
    pub(crate) pipe: PipeId,
    pub(crate) router: u32,
    /// First sequence number, if it was TCP's.
    pub(crate) seq: u32,
    /// IP bytes of a segment of it.
    pub(crate) bytes: u32,
}

/// A router's report on its way to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// Who the dropped packet was for, as packets have it.
    pub(crate) number: u32,
    /// The dropped packet's first sequence number, if it was TCP's.
    pub(crate) seq: u32,
    /// The MTU of the link that it did not fit.
    pub(crate) mtu: u32,
}

/// IP bytes of the error that quotes a packet of so many bytes.
pub(crate) fn error_bytes(ip_header: u32, quoted: u32) -> u32 {
    let max = if ip_header == 20 { MAX_ERROR_V4 } else { MAX_ERROR_V6 };
    max.min(ip_header + ICMP_HEADER + quoted)
}

/// Stations that packets to one number come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) ip_header: u32,
}

/// What hosts know of the paths from them, by number of the packets' receiver.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    ends: Vec<Ends>,
    /// By source and target: the MTU, and when it is forgotten.
    learned: BTreeMap<(u32, u32), (u32, Time)>,
}

impl PathMtus {
    pub(crate) fn new(ends: Vec<Ends>) -> Self {
        PathMtus { ends, learned: BTreeMap::new() }
    }

    pub(crate) fn ends(&self, number: u32) -> Option<Ends> {
        self.ends.get(number as usize).copied()
    }

    /// The host that sends to `number` hears of an MTU; gives what it takes the path's to be.
    pub(crate) fn learn(&mut self, number: u32, mtu: u32, now: Time) -> Option<u32> {
        let Ends { source, target, ip_header } = self.ends(number)?;
        let min = if ip_header == 20 { MIN_MTU_V4 } else { MIN_MTU_V6 };
        let known = self.get(number, now).unwrap_or(u32::MAX);
        let mtu = mtu.max(min).min(known);
        self.learned.insert((source, target), (mtu, Time(now.0 + EXPIRES_AFTER.0)));
        Some(mtu)
    }

    /// What the host that sends to `number` has learned of the path.
    pub(crate) fn get(&self, number: u32, now: Time) -> Option<u32> {
        let ends = self.ends(number)?;
        self.learned
            .get(&(ends.source, ends.target))
            .filter(|(_, expires)| now < *expires)
            .map(|(mtu, _)| *mtu)
    }

    /// When something is next forgotten.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.learned.values().map(|(_, expires)| *expires).min()
    }

    /// Forgets what has expired.
    pub(crate) fn expire(&mut self, now: Time) {
        self.learned.retain(|_, (_, expires)| now < *expires);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_remembers_the_least_for_ten_minutes() {
        let v4 = Ends { source: 0, target: 3, ip_header: 20 };
        let v6 = Ends { source: 5, target: 3, ip_header: 40 };
        let mut known = PathMtus::new(vec![v4, v4, v6]);
        assert_eq!(known.learn(0, 1400, Time(7)), Some(1400));
        assert_eq!(known.learn(1, 1450, Time(8)), Some(1400));
        assert_eq!(known.learn(2, 1000, Time(8)), Some(1280));
        assert_eq!((known.get(1, Time(9)), known.get(2, Time(9))), (Some(1400), Some(1280)));
        let later = known.next_expiry().unwrap();
        assert_eq!(later, Time(600_000_000_008));
        known.expire(later);
        assert_eq!((known.get(0, later), known.next_expiry()), (None, None));
    }

    #[test]
    fn an_error_quotes_what_fits() {
        assert_eq!((error_bytes(20, 1500), error_bytes(20, 100), error_bytes(40, 9000)), (576, 128, 1280));
    }
}
