//! Networks: an address and a prefix length.

use std::{fmt, net::IpAddr, str::FromStr};

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// Not an address.
    #[error("{0:?} is not an IP address with a prefix length, as in 192.0.2.0/24")]
    Address(String),
    /// Not a prefix length.
    #[error("{0:?} is not a prefix length from 0 to 32 (IPv4) or 128 (IPv6)")]
    Length(String),
    /// Bits are set after the prefix: probably a mistake.
    #[error("{text} has bits after its prefix; the network is {network}")]
    HostBits {
        /// The text.
        text: String,
        /// The network that contains it.
        network: Net,
    },
}

/// A network. IPv4 addresses mapped to IPv6 are IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net {
    is_v4: bool,
    bits: u128,
    /// Prefix length.
    pub length: u8,
}

fn canonical(address: IpAddr) -> (bool, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => (true, u128::from(u32::from(address)) << 96),
        IpAddr::V6(address) => (false, u128::from(address)),
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl Net {
    /// Whether the network contains this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (is_v4, bits) = canonical(address);
        is_v4 == self.is_v4 && bits & mask(self.length) == self.bits
    }

    /// Whether one of the two networks is part of the other.
    pub fn overlaps(&self, other: &Net) -> bool {
        let common = mask(self.length.min(other.length));
        self.is_v4 == other.is_v4 && self.bits & common == other.bits & common
    }
}

impl FromStr for Net {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let (address, length) =
            text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| NetError::Address(text.into()))?;
        let is_mapped = address.is_ipv6() && address.to_canonical().is_ipv4();
        let (is_v4, bits) = canonical(address);
        let longest = if is_v4 { 32 } else { 128 };
        let length = match length {
            None => longest,
            Some(length) => {
                let parsed: u8 = length.parse().map_err(|_| NetError::Length(length.into()))?;
                // ::ffff:192.0.2.0/120 is 192.0.2.0/24.
                let parsed = if is_mapped && parsed >= 96 { parsed - 96 } else { parsed };
                if parsed > longest {
                    return Err(NetError::Length(length.into()));
                }
                parsed
            }
        };
        let network = Net { is_v4, bits: bits & mask(length), length };
        if network.bits != bits {
            return Err(NetError::HostBits { text: text.into(), network });
        }
        Ok(network)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = if self.is_v4 {
            IpAddr::V4(((self.bits >> 96) as u32).into())
        } else {
            IpAddr::V6(self.bits.into())
        };
        write!(out, "{address}/{}", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Net {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let has = |text: &str, address: &str| net(text).contains(address.parse().unwrap());
        assert!(has("192.0.2.0/23", "192.0.3.255") && !has("192.0.2.0/23", "192.0.4.0"));
        assert!(has("2001:468::/40", "2001:468:ff::1") && !has("2001:468::/40", "2001:469::"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "::1"));
        assert!(has("192.0.2.1", "::ffff:192.0.2.1"), "mapped");
        assert!(has("::ffff:192.0.2.0/120", "192.0.2.9"));
    }

    #[test]
    fn networks_overlap_if_one_is_part_of_the_other() {
        let overlap = |a: &str, b: &str| net(a).overlaps(&net(b)) && net(b).overlaps(&net(a));
        assert!(overlap("192.0.2.0/24", "192.0.0.0/16") && overlap("0.0.0.0/0", "10.0.0.1"));
        assert!(!overlap("192.0.2.0/24", "192.0.3.0/24") && !overlap("0.0.0.0/0", "::/0"));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Net>().unwrap_err().to_string();
        assert_eq!(error("10.1.2.3/8"), "10.1.2.3/8 has bits after its prefix; the network is 10.0.0.0/8");
        assert!(error("10.0.0.0/33").contains("prefix length"));
        assert!(error("ten/8").contains("not an IP address"));
        for text in ["", "/", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0.0/8/8"] {
            assert!(text.parse::<Net>().is_err(), "{text}");
        }
    }

    #[test]
    fn printed_networks_parse_to_the_same() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1/128", "198.51.100.7/32"] {
            assert_eq!(net(text).to_string(), text);
        }
    }
}
