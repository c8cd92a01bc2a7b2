//! Parses addresses and networks: `10.0.0.1/8`, `fd00::/64`, `default`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::types::Cidr;

/// Parses `host/prefix`: an address that a host can have, and its prefix.
pub(crate) fn parse_address(text: &str) -> Result<Cidr, String> {
    let (address, prefix) = split(text)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if prefix == 0 {
        return Err(format!("\"0\" is not a prefix length from 1 to {bits}"));
    }
    match why_unusable(address, prefix) {
        Some(why) => Err(format!("{address}/{prefix} is {why}, not a host's address")),
        None => Ok(Cidr { address, prefix }),
    }
}

/// Parses `network/prefix`, or `default` for all addresses of the IP version of `via`.
pub(crate) fn parse_network(text: &str, via: IpAddr) -> Result<Cidr, String> {
    if text.trim() == "default" {
        return Ok(default_route(via));
    }
    let (address, prefix) = split(text)?;
    let network = Cidr { address, prefix };
    match network.first() {
        first if first == address => Ok(network),
        first => Err(format!("{network} has bits set after its prefix; the network is {first}/{prefix}")),
    }
}

/// Parses the address of a next hop, without a prefix.
pub(crate) fn parse_via(text: &str) -> Result<IpAddr, String> {
    text.trim().parse().map_err(|_| match text.split_once('/') {
        Some((address, _)) => format!("\"{text}\" is a network; write only the address: \"{address}\""),
        None => format!("\"{text}\" is not an IP address"),
    })
}

/// The default route of the IP version of `via`.
pub(crate) fn default_route(via: IpAddr) -> Cidr {
    let address = match via {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Cidr { address, prefix: 0 }
}

fn split(text: &str) -> Result<(IpAddr, u8), String> {
    let Some((address, prefix)) = text.split_once('/') else {
        return Err(format!("\"{text}\" has no prefix length"));
    };
    let address: IpAddr = address.parse().map_err(|_| format!("\"{address}\" is not an IP address"))?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let digits = prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix = prefix
        .parse()
        .ok()
        .filter(|p| digits && *p <= bits)
        .ok_or_else(|| format!("\"{prefix}\" is not a prefix length from 1 to {bits}"))?;
    Ok((address, prefix))
}

/// Why a host cannot have this address in a network with this prefix; `None` if it can.
pub(crate) fn why_unusable(address: IpAddr, prefix: u8) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("the loopback address");
    }
    if address.is_multicast() {
        return Some("a multicast address");
    }
    if address.is_unspecified() {
        return Some("the unspecified address");
    }
    match address {
        IpAddr::V4(v4) => {
            let host = u32::from(v4) & u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            match host {
                _ if prefix >= 31 => None,
                0 => Some("the network itself"),
                h if h == u32::MAX >> prefix => Some("the broadcast address"),
                _ => None,
            }
        }
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("a link-local address, which needs a zone"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4-mapped address"),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["10.0.0.1/8", "10.0.0.0/31", "192.168.1.1/32", "fd00::1/64", "2001:db8::/64"] {
            assert!(parse_address(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("10.0.0.1", "no prefix"),
            ("10.0.0/8", "not an IP address"),
            ("h1/8", "not an IP address"),
            ("10.0.0.1/33", "1 to 32"),
            ("10.0.0.1/0", "1 to 32"),
            ("10.0.0.1/", "1 to 32"),
            ("10.0.0.1/+8", "1 to 32"),
            ("10.0.0.0/8", "network"),
            ("10.255.255.255/8", "broadcast"),
            ("127.0.0.1/8", "loopback"),
            ("224.0.0.1/8", "multicast"),
            ("0.0.0.0/8", "unspecified"),
            ("fe80::1/64", "link-local"),
            ("::ffff:10.0.0.1/96", "IPv4-mapped"),
            ("fd00::1/129", "1 to 128"),
        ] {
            let message = parse_address(bad).unwrap_err();
            assert!(message.contains(why), "{bad}: {message}");
        }
    }

    #[test]
    fn networks() {
        let via = "10.0.0.1".parse().unwrap();
        for good in ["10.2.0.0/16", "0.0.0.0/0", "fd00::/64", "::/0", "10.0.0.1/32"] {
            assert_eq!(parse_network(good, via).unwrap().to_string(), good);
        }
        assert_eq!(parse_network("default", via).unwrap().to_string(), "0.0.0.0/0");
        assert_eq!(parse_network("default", "fd00::1".parse().unwrap()).unwrap().to_string(), "::/0");
        let message = parse_network("10.2.0.1/16", via).unwrap_err();
        assert!(message.contains("the network is 10.2.0.0/16"), "{message}");
        assert!(parse_via("10.0.0.1/8").unwrap_err().contains("only the address"));
    }

    #[test]
    fn last_addresses_and_overlaps() {
        let net = |text: &str| parse_network(text, "10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(net("10.2.0.0/16").last().to_string(), "10.2.255.255");
        assert_eq!(net("fd00::/126").last().to_string(), "fd00::3");
        assert_eq!(net("0.0.0.0/0").last().to_string(), "255.255.255.255");
        assert!(
            net("10.0.0.0/8").overlaps(&net("10.2.0.0/16"))
                && net("10.2.0.0/16").overlaps(&net("10.0.0.0/8"))
        );
        assert!(
            !net("10.1.0.0/16").overlaps(&net("10.2.0.0/16")) && !net("::/0").overlaps(&net("0.0.0.0/0"))
        );
    }
}
