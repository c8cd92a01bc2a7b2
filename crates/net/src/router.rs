//! What a router knows: its interfaces, and for every address the next station.
//!
//! Departures from routers as they are:
//! 1. Tables are made once, from the plan: no routing protocol, no ARP or neighbour discovery by routers.
//!    An address that no station was given is unreachable, also where a host gave it to itself.
//! 2. Without a static route a packet goes the shortest way (fewest links) to the interface that has the
//!    address, not to its network. Static routes go by the longest prefix; a network of its own interfaces
//!    with a prefix that is as long goes first.

use std::{net::IpAddr, sync::Arc};

use crate::{Cidr, Destination};

/// The next step of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The interface to send by.
    pub interface: u32,
    /// The station to send to, on the link of that interface.
    pub station: u32,
}

/// Why there is no way (RFC 1812 section 4.3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// No route leads there.
    Net,
    /// The address would be of a network here, but nobody has it.
    Host,
}

/// An interface of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterInterface {
    /// Its station.
    pub station: u32,
    /// Its addresses and their networks.
    pub addresses: Vec<Cidr>,
    /// Largest packet in bytes of IP that its link takes now; `None` takes every packet.
    pub mtu: Option<u32>,
}

/// What a packet sees of the router that it arrives at.
#[derive(Debug, Clone)]
pub struct Router {
    /// Its interfaces, in the links' order.
    pub interfaces: Vec<RouterInterface>,
    pub(crate) table: Table,
}

impl Router {
    /// Whether `address` is one of its own.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.address == address)
    }

    /// The next step towards `address`, which is not its own.
    ///
    /// # Errors
    /// Where there is none.
    pub fn lookup(&self, address: IpAddr) -> Result<Way, Unreachable> {
        self.table.lookup(address).ok_or_else(|| {
            let is_connected = self.table.networks.iter().any(|n| n.contains(address));
            if is_connected { Unreachable::Host } else { Unreachable::Net }
        })
    }

    /// The next step towards a station; `None` also for the router's own.
    pub fn toward(&self, station: u32) -> Option<Way> {
        if self.interfaces.iter().any(|i| i.station == station) {
            return None;
        }
        self.table.toward(station)
    }

    /// How many stations the network has.
    pub fn stations(&self) -> u32 {
        self.table.addresses.of_station.len() as u32
    }
}

/// The addresses of all stations.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Each station's.
    pub(crate) of_station: Vec<Vec<Cidr>>,
    /// Whose each address is, ascending by address; without those that are of use only on their link.
    pub(crate) owners: Vec<(IpAddr, u32)>,
}

/// The routes of a host or router.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Static routes, the longest prefixes first.
    pub(crate) routes: Vec<(Cidr, Way)>,
    /// The networks of its own interfaces, which go before static routes that say less.
    pub(crate) networks: Vec<Cidr>,
    /// The shortest way to each station.
    pub(crate) ways: Vec<Option<Way>>,
    pub(crate) addresses: Arc<Addresses>,
}

impl Table {
    fn lookup(&self, address: IpAddr) -> Option<Way> {
        self.static_way(address).or_else(|| {
            let owners = &self.addresses.owners;
            let found = owners.binary_search_by_key(&address, |o| o.0).ok()?;
            self.ways[owners[found].1 as usize]
        })
    }

    /// The next step towards a station, by the route to its first address if it has one.
    pub(crate) fn toward(&self, station: u32) -> Option<Way> {
        let addresses = self.addresses.of_station.get(station as usize)?;
        let routed = addresses.first().and_then(|first| self.static_way(first.address));
        routed.or(self.ways[station as usize])
    }

    fn static_way(&self, address: IpAddr) -> Option<Way> {
        let (to, way) = self.routes.iter().find(|(to, _)| to.contains(address))?;
        let is_connected = self.networks.iter().any(|n| n.prefix >= to.prefix && n.contains(address));
        (!is_connected).then_some(*way)
    }
}

/// How a packet came to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Through which interface.
    pub interface: u32,
    /// Where its sender wants it to go.
    pub to: Destination,
}

/// What a router does with a packet that arrived. A packet that is not among these was taken in by the router.
#[derive(Debug)]
pub enum Emission<P> {
    /// Sends a packet, the same or another one.
    Send {
        /// The interface to send by.
        interface: u32,
        /// Where to.
        to: Destination,
        /// The packet.
        packet: P,
    },
    /// Drops it: there is no way, or no life left in it, or it cannot be understood.
    Refuse(P),
    /// Drops it because it is larger than the MTU of this interface's link.
    TooBig(u32, P),
}

impl<P> Emission<P> {
    /// The same with another packet in it.
    pub fn map<Q>(self, of: impl FnOnce(P) -> Q) -> Emission<Q> {
        match self {
            Emission::Send { interface, to, packet } => Emission::Send { interface, to, packet: of(packet) },
            Emission::Refuse(packet) => Emission::Refuse(of(packet)),
            Emission::TooBig(interface, packet) => Emission::TooBig(interface, of(packet)),
        }
    }
}
