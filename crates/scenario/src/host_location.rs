//! The address of a scenario's host in runs between real hosts.

use std::{fmt, net::IpAddr, str::FromStr};

/// The default port of `longfat serve` and iperf3.
const DEFAULT_PORT: u16 = 5201;
/// The text for this machine.
const HERE: &str = "here";

/// The address of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostLocation {
    /// This machine.
    Here,
    /// A server.
    At(Address),
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name or address of the host.
    pub host: String,
    /// The server's port.
    pub port: u16,
}

impl fmt::Display for HostLocation {
    /// As [`HostLocation::from_str`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostLocation::Here => f.write_str(HERE),
            // An IPv6 address, perhaps with its zone.
            HostLocation::At(Address { host, port }) if host.contains(':') => write!(f, "[{host}]:{port}"),
            HostLocation::At(Address { host, port }) => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for HostLocation {
    type Err = String;

    /// `here`, `node2`, `node2:5201`, `192.0.2.1:5201`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:5201`
    /// or `[fe80::1%eth0]:5201`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == HERE {
            return Ok(HostLocation::Here);
        }
        let at = |host: &str, port| Ok(HostLocation::At(Address { host: host.into(), port }));
        if text.parse::<IpAddr>().is_ok() {
            return at(text, DEFAULT_PORT);
        }
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an address in brackets.
            _ if text.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let is_valid = !host.is_empty()
            && !host.contains(['[', ']', '/', ' '])
            && (bracketed.is_some() || !host.contains(':'));
        if !is_valid {
            return Err(format!("\"{text}\" is not an address; write NAME, NAME:PORT, [IPV6]:PORT, or here"));
        }
        match port.map(str::parse::<u16>) {
            None => at(host, DEFAULT_PORT),
            Some(Ok(port)) if port > 0 => at(host, port),
            Some(_) => Err(format!("\"{text}\": a port is a number from 1 to 65535")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_names_or_literals_with_an_optional_port() {
        let at = |host: &str, port| Ok(HostLocation::At(Address { host: host.into(), port }));
        assert_eq!("here".parse(), Ok(HostLocation::Here));
        assert_eq!("node2".parse(), at("node2", 5201));
        assert_eq!("node2:5301".parse(), at("node2", 5301));
        assert_eq!("192.0.2.1:80".parse(), at("192.0.2.1", 80));
        assert_eq!("2001:db8::1".parse(), at("2001:db8::1", 5201));
        assert_eq!("[2001:db8::1]".parse(), at("2001:db8::1", 5201));
        assert_eq!("[2001:db8::1]:99".parse(), at("2001:db8::1", 99));
        assert_eq!("[fe80::1%eth0]:99".parse(), at("fe80::1%eth0", 99));
        for text in ["here", "node2:5301", "192.0.2.1:80", "[2001:db8::1]:99", "[fe80::1%eth0]:99"] {
            assert_eq!(text.parse::<HostLocation>().unwrap().to_string(), text);
        }
        for wrong in
            ["", ":5201", "node2:0", "node2:99999", "node2:port", "a/b", "[::1", "::1]", "a b:1", "[a/b]"]
        {
            assert!(wrong.parse::<HostLocation>().is_err(), "{wrong}");
        }
    }
}
