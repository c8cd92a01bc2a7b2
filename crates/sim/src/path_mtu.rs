//! Path MTU discovery ("fragmentation needed", RFC 1191; "packet too big", RFC 8201): the path MTU that each
//! host caches for each destination (net/ipv4/route.c, net/ipv6/route.c).
//!
//! Differences from the kernel:
//! 1. If the link's MTU is below 552 bytes (`ip_rt_min_pmtu`), the kernel sends 552 bytes over IPv4 and lets
//!    routers fragment them; here packets become as small as the link's MTU.
//! 2. If another connection of its host discovers an MTU, a running connection does not apply it until it
//!    receives an error itself; a new one applies it when it starts.

use std::collections::BTreeMap;

use units::{Instant, Time};

/// Lifetime of a cached path MTU (`ip_rt_mtu_expires`, `ip6_rt_mtu_expires`).
const EXPIRES_AFTER: Time = Time::from_secs(600);
/// The smallest path MTU that a host accepts over IPv6 (RFC 8200 section 5).
const MIN_MTU_V6: u32 = 1280;
/// The smallest MTU that a link of IPv4 may have (RFC 791 section 3.2).
const MIN_MTU_V4: u32 = 68;
/// ICMP header, bytes.
const ICMP_HEADER: u32 = 8;
/// Largest ICMP error with its quotation, bytes (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4c).
const MAX_ERROR_V4: u32 = 576;
const MAX_ERROR_V6: u32 = 1280;

/// IP bytes of an ICMP error that quotes a packet of `quoted` bytes.
pub(crate) fn icmp_error_bytes(ip_header: u32, quoted: u32) -> u32 {
    let max = if ip_header == 20 { MAX_ERROR_V4 } else { MAX_ERROR_V6 };
    max.min(ip_header + ICMP_HEADER + quoted)
}

/// The stations that packets to one endpoint come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) ip_header: u32,
}

/// The path MTUs that hosts have cached, by destination endpoint.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// By endpoint.
    paths: Vec<Path>,
    /// By source and target: the MTU and when it expires.
    cached: BTreeMap<(u32, u32), (u32, Instant)>,
}

impl PathMtus {
    pub(crate) fn new(paths: Vec<Path>) -> Self {
        PathMtus { paths, cached: BTreeMap::new() }
    }

    /// The path of packets to endpoint `number`.
    pub(crate) fn path(&self, number: u32) -> Option<Path> {
        self.paths.get(number as usize).copied()
    }

    /// The host that sends to endpoint `number` received an ICMP error with this MTU. Returns the new path
    /// MTU.
    pub(crate) fn update(&mut self, number: u32, mtu: u32, now: Instant) -> Option<u32> {
        let Path { source, target, ip_header } = self.path(number)?;
        let min = if ip_header == 20 { MIN_MTU_V4 } else { MIN_MTU_V6 };
        let cached = self.get(number, now).unwrap_or(u32::MAX);
        let mtu = mtu.max(min).min(cached);
        self.cached.insert((source, target), (mtu, now.later_by(EXPIRES_AFTER)));
        Some(mtu)
    }

    /// The path MTU that the host that sends to endpoint `number` has cached.
    pub(crate) fn get(&self, number: u32, now: Instant) -> Option<u32> {
        let path = self.path(number)?;
        self.cached
            .get(&(path.source, path.target))
            .filter(|(_, expires)| now < *expires)
            .map(|(mtu, _)| *mtu)
    }

    /// When the next entry expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.cached.values().map(|(_, expires)| *expires).min()
    }

    /// Removes expired entries.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.cached.retain(|_, (_, expires)| now < *expires);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_caches_the_smallest_mtu_for_ten_minutes() {
        let v4 = Path { source: 0, target: 3, ip_header: 20 };
        let v6 = Path { source: 5, target: 3, ip_header: 40 };
        let mut cache = PathMtus::new(vec![v4, v4, v6]);
        assert_eq!(cache.update(0, 1400, Instant::from_nanos(7)), Some(1400));
        assert_eq!(cache.update(1, 1450, Instant::from_nanos(8)), Some(1400));
        assert_eq!(cache.update(2, 1000, Instant::from_nanos(8)), Some(1280));
        assert_eq!(
            (cache.get(1, Instant::from_nanos(9)), cache.get(2, Instant::from_nanos(9))),
            (Some(1400), Some(1280))
        );
        let later = cache.next_expiry().unwrap();
        assert_eq!(later, Instant::from_nanos(600_000_000_008));
        cache.expire(later);
        assert_eq!((cache.get(0, later), cache.next_expiry()), (None, None));
    }

    #[test]
    fn an_icmp_error_is_limited_in_size() {
        assert_eq!(
            (icmp_error_bytes(20, 1500), icmp_error_bytes(20, 100), icmp_error_bytes(40, 9000)),
            (576, 128, 1280)
        );
    }
}
