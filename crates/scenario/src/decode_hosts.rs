//! From a tree to hosts.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    error::Problems,
    name::{Named, check_name, check_sysctl},
    read::{Keys, Reader},
    tree::{Entry, Node, Table, Value},
    types::{Cidr, Host, Interface, Nic},
};

const HOST: Keys = Keys {
    what: "a host",
    known: &["address", "mtu", "sysctl"],
    later: &["clock_offset", "tx_queue", "tso", "gso", "gro", "nic"],
};
const DEFAULT_MTU: u64 = 1500;
/// The least MTU of IPv4 (RFC 791), and the most that a TAP device takes (65,535 less its Ethernet header).
const MTU: std::ops::RangeInclusive<u64> = 68..=65521;
/// Longest value of a sysctl: what the kernel reads at once.
const SYSCTL_VALUE_MAX: usize = 4096;

/// The hosts of a normalised tree.
pub(crate) fn decode_hosts(root: &Table, problems: &mut Problems) -> Vec<Host> {
    let Some(node) = root.get("hosts") else { return Vec::new() };
    let Some(table) = node.table() else {
        problems.add(node.span, format!("\"hosts\" is a table of hosts, not {}", node.kind()));
        return Vec::new();
    };
    table.0.iter().filter_map(|entry| decode_host(entry, problems)).collect()
}

fn decode_host(entry: &Entry, problems: &mut Problems) -> Option<Host> {
    check_name(Named::Host, &entry.key, entry.key_span, problems);
    let mut reader = Reader::new(&entry.node, &HOST, problems)?;
    let mtu = reader.integer("mtu", MTU, " bytes").unwrap_or(DEFAULT_MTU) as u32;
    let sysctl = reader.node("sysctl").map(|node| decode_sysctl(node, reader.problems()));
    let text = reader.required_text("address", "\"10.0.0.1/8\"")?;
    match parse_address(&text) {
        Ok((address, prefix)) => Some(Host {
            name: entry.key.clone(),
            interfaces: vec![Interface { addresses: vec![Cidr { address, prefix }] }],
            mtu,
            sysctl: sysctl.unwrap_or_default(),
            routes: Vec::new(),
            nic: Nic::default(),
            start: None,
            stop: None,
        }),
        Err(message) => {
            reader.note("address", format!("address: {message}"), "write for example \"10.0.0.1/8\"");
            None
        }
    }
}

fn decode_sysctl(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Some(table) = node.table() else {
        problems.add(node.span, format!("\"sysctl\" is a table, not {}", node.kind()));
        return settings;
    };
    for entry in &table.0 {
        check_sysctl(&entry.key, entry.key_span, problems);
        let value = match &entry.node.value {
            Value::Text(s) => s.clone(),
            Value::Integer(i) => i.to_string(),
            _ => {
                let message =
                    format!("a sysctl's value is a string or an integer, not {}", entry.node.kind());
                problems.add(entry.node.span, message);
                continue;
            }
        };
        if value.len() > SYSCTL_VALUE_MAX || value.chars().any(|c| c.is_control() && c != '\t') {
            let help = format!("write one line of at most {SYSCTL_VALUE_MAX} bytes");
            problems.add_help(entry.node.span, format!("this cannot be the value of {}", entry.key), help);
        }
        settings.insert(entry.key.clone(), value);
    }
    settings
}

/// `host/prefix`: an address that a host can have, and its prefix.
fn parse_address(text: &str) -> Result<(IpAddr, u8), String> {
    let Some((address, prefix)) = text.split_once('/') else {
        return Err(format!("\"{text}\" has no prefix length"));
    };
    let address: IpAddr = address.parse().map_err(|_| format!("\"{address}\" is no IP address"))?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix
        .parse()
        .ok()
        .filter(|p| (1..=bits).contains(p))
        .ok_or_else(|| format!("\"{prefix}\" is no prefix length from 1 to {bits}"))?;
    match why_unusable(address, prefix) {
        Some(why) => Err(format!("{address}/{prefix} is {why}, not a host's address")),
        None => Ok((address, prefix)),
    }
}

fn why_unusable(address: IpAddr, prefix: u8) -> Option<&'static str> {
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
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4 address in disguise"),
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
            ("10.0.0/8", "no IP address"),
            ("h1/8", "no IP address"),
            ("10.0.0.1/33", "1 to 32"),
            ("10.0.0.1/0", "1 to 32"),
            ("10.0.0.1/", "1 to 32"),
            ("10.0.0.0/8", "network"),
            ("10.255.255.255/8", "broadcast"),
            ("127.0.0.1/8", "loopback"),
            ("224.0.0.1/8", "multicast"),
            ("0.0.0.0/8", "unspecified"),
            ("fe80::1/64", "link-local"),
            ("::ffff:10.0.0.1/96", "disguise"),
            ("fd00::1/129", "1 to 128"),
        ] {
            let message = parse_address(bad).unwrap_err();
            assert!(message.contains(why), "{bad}: {message}");
        }
    }
}
