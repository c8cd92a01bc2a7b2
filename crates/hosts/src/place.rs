//! Where the hosts of a scenario are.

use std::{collections::BTreeMap, net::IpAddr, str::FromStr};

/// The default port of `longfat serve` and iperf3.
const DEFAULT_PORT: u16 = 5201;

/// Where a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
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

/// The places of a scenario's hosts. Hosts without an entry are this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    at: BTreeMap<String, Place>,
    data: BTreeMap<String, IpAddr>,
}

impl Places {
    /// Places of hosts, by their names in the scenario.
    pub fn new(at: impl IntoIterator<Item = (String, Place)>) -> Self {
        Places { at: at.into_iter().collect(), data: BTreeMap::new() }
    }

    /// Adds the addresses of the interfaces that carry the data, where they differ from those of the servers.
    #[must_use]
    pub fn with_data_addresses(mut self, data: impl IntoIterator<Item = (String, IpAddr)>) -> Self {
        self.data.extend(data);
        self
    }

    /// Where a host is.
    pub fn of(&self, host: &str) -> &Place {
        self.at.get(host).unwrap_or(&Place::Here)
    }

    /// The address of a host's interface for data, if it differs from its server's.
    pub fn data_address(&self, host: &str) -> Option<IpAddr> {
        self.data.get(host).copied()
    }

    /// The names of all hosts that have an entry.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.at.keys().chain(self.data.keys()).map(String::as_str)
    }
}

impl FromStr for Place {
    type Err = String;

    /// `here`, `node2`, `node2:5201`, `192.0.2.1:5201`, `2001:db8::1` or `[2001:db8::1]:5201`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "here" {
            return Ok(Place::Here);
        }
        let at = |host: &str, port| Ok(Place::At(Address { host: host.into(), port }));
        if text.parse::<IpAddr>().is_ok() {
            return at(text, DEFAULT_PORT);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let is_valid = !host.is_empty() && (bracketed.is_some() || !host.contains([':', '[', ']', '/', ' ']));
        if !is_valid {
            return Err(format!("\"{text}\" is no address; write NAME, NAME:PORT, [IPV6]:PORT, or here"));
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
        let at = |host: &str, port| Ok(Place::At(Address { host: host.into(), port }));
        assert_eq!("here".parse(), Ok(Place::Here));
        assert_eq!("node2".parse(), at("node2", 5201));
        assert_eq!("node2:5301".parse(), at("node2", 5301));
        assert_eq!("192.0.2.1:80".parse(), at("192.0.2.1", 80));
        assert_eq!("2001:db8::1".parse(), at("2001:db8::1", 5201));
        assert_eq!("[2001:db8::1]:99".parse(), at("2001:db8::1", 99));
        for wrong in ["", ":5201", "node2:0", "node2:99999", "node2:port", "a/b", "[::1", "a b:1"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
