//! The client of a reverse connection.

use std::{fmt, net::Ipv6Addr};

/// A client that listens for a server's reverse connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReverseTarget {
    /// Its name or address.
    pub host: String,
    /// The port at which it listens.
    pub port: u16,
}

impl fmt::Display for ReverseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
