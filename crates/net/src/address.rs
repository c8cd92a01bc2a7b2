//! An IP address with its network prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and its prefix length, as in `10.0.0.1/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

impl Cidr {
    /// Whether `address` belongs to this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |bits: u128, width: u32| {
            // A prefix of 0 bits shifts by the whole width: no bits remain that could differ.
            bits.checked_shr(width.saturating_sub(u32::from(self.prefix))).unwrap_or(0) != 0
        };
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => !differs(u128::from(u32::from(a) ^ u32::from(b)), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => !differs(u128::from(a) ^ u128::from(b), 128),
            _ => false,
        }
    }

    /// The first address of the network: all host bits zero.
    pub fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => {
                Ipv4Addr::from(u32::from(a) & !u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0)).into()
            }
            IpAddr::V6(a) => {
                Ipv6Addr::from(u128::from(a) & !u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0)).into()
            }
        }
    }

    /// The last address of the network: all host bits one.
    pub fn last(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => {
                Ipv4Addr::from(u32::from(a) | u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0)).into()
            }
            IpAddr::V6(a) => {
                Ipv6Addr::from(u128::from(a) | u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0)).into()
            }
        }
    }

    /// Whether the two networks have an address in common.
    pub fn overlaps(&self, other: &Cidr) -> bool {
        self.contains(other.first()) || other.contains(self.first())
    }

    /// Whether `address` is this network's broadcast address (RFC 922 section 7). Networks of one or two
    /// addresses have none (RFC 3021).
    pub fn is_broadcast(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) if self.prefix < 31 => {
                self.contains(address) && u32::from(v4).trailing_ones() >= 32 - u32::from(self.prefix)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Whether `address` is link-local (RFC 3927, RFC 4291 section 2.5.6).
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(address: &str, prefix: u8) -> Cidr {
        Cidr { address: address.parse().unwrap(), prefix }
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (network, inside, outside) in [
            (cidr("10.1.2.3", 24), "10.1.2.255", "10.1.3.0"),
            (cidr("10.1.2.3", 32), "10.1.2.3", "10.1.2.2"),
            (cidr("0.0.0.0", 0), "255.255.255.255", "::1"),
            (cidr("fd00::1", 64), "fd00::ffff:1", "fd00:0:0:1::1"),
            (cidr("::", 0), "ffff::", "1.2.3.4"),
        ] {
            assert!(network.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }

    #[test]
    fn the_last_address_of_a_network_is_its_broadcast() {
        let is = |network: Cidr, address: &str| network.is_broadcast(address.parse().unwrap());
        assert!(is(cidr("10.1.2.3", 24), "10.1.2.255"));
        assert!(is(cidr("10.1.2.3", 8), "10.255.255.255"));
        assert!(is(cidr("10.1.2.1", 30), "10.1.2.3"));
        assert!(!is(cidr("10.1.2.3", 8), "10.1.2.255"));
        assert!(!is(cidr("10.1.2.2", 31), "10.1.2.3"));
        assert!(!is(cidr("10.1.2.3", 32), "10.1.2.3"));
        assert!(!is(cidr("fd00::1", 64), "fd00::ffff:ffff:ffff:ffff"));
    }
}
