//! Servers outside the mesh as ends of this point's tests: iperf3 servers, servers of TWAMP, STAMP and OWAMP,
//! and hosts without a service.
//!
//! Such a test has no peer that could agree, so it occupies a slot in this point's calendar only. The
//! reservation contains the server's name and address, so that it does not depend on a later change of the
//! configuration.

use std::{fmt, str::FromStr};

use reservation::{PointName, Spec, Test};

use super::{Kind, options};
use crate::address::host_and_port;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProtocol {
    /// None: only the path to the host can be traced.
    Host,
    /// Throughput tests.
    Iperf3,
    /// Latency tests, with a control connection.
    Twamp,
    /// Latency tests.
    Stamp,
    /// Latency tests, with a control connection and packets that are not returned.
    Owamp,
}

impl ServerProtocol {
    /// All protocols.
    pub(crate) const ALL: [ServerProtocol; 5] = [
        ServerProtocol::Host,
        ServerProtocol::Iperf3,
        ServerProtocol::Twamp,
        ServerProtocol::Stamp,
        ServerProtocol::Owamp,
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ServerProtocol::Host => "host",
            ServerProtocol::Iperf3 => "iperf3",
            ServerProtocol::Twamp => "twamp",
            ServerProtocol::Stamp => "stamp",
            ServerProtocol::Owamp => "owamp",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            ServerProtocol::Host => 0,
            ServerProtocol::Iperf3 => 5201,
            ServerProtocol::Twamp => stamp::ControlProtocol::Twamp.port(),
            ServerProtocol::Owamp => stamp::ControlProtocol::Owamp.port(),
            ServerProtocol::Stamp => stamp::PORT,
        }
    }

    /// Whether it serves tests of this kind. Applications transfer to the host whose throughput can be
    /// tested; the path to any host can be traced.
    pub(crate) fn serves(self, kind: Kind) -> bool {
        match self {
            _ if kind == Kind::Trace => true,
            ServerProtocol::Host => false,
            ServerProtocol::Iperf3 => matches!(kind, Kind::Throughput | Kind::Transfer),
            ServerProtocol::Twamp | ServerProtocol::Stamp | ServerProtocol::Owamp => kind == Kind::Latency,
        }
    }

    /// The protocol of the packets of a latency test.
    pub(crate) fn of_latency(self) -> stamp::Protocol {
        match self {
            ServerProtocol::Twamp => stamp::Protocol::Twamp,
            ServerProtocol::Owamp => stamp::Protocol::Owamp,
            ServerProtocol::Host | ServerProtocol::Iperf3 | ServerProtocol::Stamp => stamp::Protocol::Stamp,
        }
    }
}

/// A service of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerService {
    /// The server's name.
    pub name: String,
    /// The protocol.
    pub protocol: ServerProtocol,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl ServerService {
    /// A service at `HOST` or `HOST:PORT`; a host without a service has no port.
    ///
    /// # Errors
    /// If the address is not valid.
    pub(crate) fn new(name: &str, protocol: ServerProtocol, address: &str) -> Result<Self, String> {
        let is_bare = |host: &str| !host.is_empty() && !host.contains([' ', '[', ']', '/']);
        let bare_v6 = address.parse::<std::net::Ipv6Addr>().is_ok();
        let (host, port) = match host_and_port(address) {
            Some((host, port)) if !bare_v6 && protocol != ServerProtocol::Host => (host, port),
            _ if is_bare(address) && (bare_v6 || !address.contains(':')) => {
                (address, protocol.default_port())
            }
            _ if protocol == ServerProtocol::Host => {
                return Err(format!("{address:?} is not a host: a name or an IP address without a port"));
            }
            _ => return Err(format!("{address:?} is not an address; the form is HOST or HOST:PORT")),
        };
        Ok(ServerService { name: name.into(), protocol, host: host.into(), port })
    }
}

impl fmt::Display for ServerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.name, self.protocol.name(), self.port, self.host)
    }
}

impl FromStr for ServerService {
    type Err = String;

    /// Reads what [`Display`](fmt::Display) has written into a reservation.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a server");
        let mut words = text.splitn(4, ' ');
        let mut next = || words.next().ok_or_else(wrong);
        let (name, protocol, port, host) = (next()?, next()?, next()?, next()?);
        let protocol =
            ServerProtocol::ALL.into_iter().find(|known| known.name() == protocol).ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        Ok(ServerService { name: name.into(), protocol, host: host.into(), port })
    }
}

/// The other end of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OtherEnd {
    /// A point of the mesh.
    Point(PointName),
    /// A server outside the mesh.
    Server(ServerService),
}

impl OtherEnd {
    /// The server of this name in the configuration of the point `own`, as the other end of a test that
    /// `lead` leads; `None` if the configuration has no such server.
    pub fn of_server(
        servers: &[ServerService],
        own: &PointName,
        lead: &PointName,
        name: &str,
        kind: Kind,
    ) -> Result<Option<OtherEnd>, String> {
        let mut services = servers.iter().filter(|service| service.name == name).peekable();
        if services.peek().is_none() {
            return Ok(None);
        }
        if lead != own {
            return Err(format!("{name} is a server in the configuration of {own}, which must send"));
        }
        if let Some(service) = services.find(|service| service.protocol.serves(kind)) {
            return Ok(Some(OtherEnd::Server(service.clone())));
        }
        let protocols = ServerProtocol::ALL.into_iter().filter(|protocol| protocol.serves(kind));
        let protocols: Vec<&str> = protocols.map(ServerProtocol::name).collect();
        let needed = match protocols.is_empty() {
            true => "the other end must be a point of the mesh".into(),
            false => format!("agent.toml must name its {}", protocols.join(" or ")),
        };
        Err(format!("the server {name} has no service for a test of the kind {kind}: {needed}"))
    }

    /// As a reservation has it: the peer, or the server as the parameters of a test contain it.
    pub fn into_parts(self) -> (Option<PointName>, String) {
        match self {
            OtherEnd::Point(name) => (Some(name), String::new()),
            OtherEnd::Server(service) => (None, service.to_string()),
        }
    }
}

/// The server at the other end of a test, if that is not a point of the mesh.
pub(crate) fn server_of(test: &Test) -> Result<Option<ServerService>, String> {
    let (_, server) = options::split(&test.parameters)?;
    if server.is_empty() { Ok(None) } else { server.parse().map(Some) }
}

/// The name of a test's other end.
pub(crate) fn other_name(spec: &Spec) -> String {
    let server = || server_of(&spec.test).ok().flatten().map(|server| server.name);
    spec.peer.as_ref().map(|peer| peer.0.clone()).or_else(server).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_they_were_written() {
        for (protocol, address, host, port) in [
            (ServerProtocol::Iperf3, "iperf.example", "iperf.example", 5201),
            (ServerProtocol::Iperf3, "192.0.2.7:5300", "192.0.2.7", 5300),
            (ServerProtocol::Twamp, "[2001:db8::1]:8620", "2001:db8::1", 8620),
            (ServerProtocol::Stamp, "2001:db8::1", "2001:db8::1", 862),
            (ServerProtocol::Owamp, "ps.example", "ps.example", 861),
            (ServerProtocol::Host, "www.example", "www.example", 0),
            (ServerProtocol::Host, "2001:db8::1", "2001:db8::1", 0),
        ] {
            let service = ServerService::new("far", protocol, address).unwrap();
            assert_eq!((service.host.as_str(), service.port), (host, port));
            assert_eq!(service.to_string().parse(), Ok(service));
        }
        for wrong in ["", "a b", "host:port", "http://x/"] {
            assert!(ServerService::new("far", ServerProtocol::Iperf3, wrong).is_err(), "{wrong}");
        }
        assert!(ServerService::new("far", ServerProtocol::Host, "www.example:80").is_err());
        assert!("far iperf3 5201".parse::<ServerService>().is_err());
        assert!("far bwctl 4823 host".parse::<ServerService>().is_err());
    }
}
