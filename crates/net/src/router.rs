//! Routers: their interfaces and routing tables, and the interface by which packets cross them.
//!
//! Differences from real routers:
//! 1. The topology determines all tables: no routing protocol, no ARP or neighbour discovery by routers. An
//!    address that the topology gives to no station is unreachable, even if a host has configured it.
//! 2. Without a static route a packet takes the shortest path (fewest links) to the interface that has the
//!    address, not to its network. Static routes apply by longest prefix; a directly connected network takes
//!    precedence over a static route of the same or a shorter prefix.

use std::{net::IpAddr, sync::Arc};

use crate::{Cidr, Destination, Packet};

/// The next hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The outgoing interface.
    pub interface: u32,
    /// The next station on that interface's link.
    pub station: u32,
}

/// Why an address is unreachable (RFC 1812 section 4.3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to its network.
    Net,
    /// A connected network contains the address, but no station has it.
    Host,
}

/// An interface of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterInterface {
    /// Its station.
    pub station: u32,
    /// Its addresses with their networks.
    pub addresses: Vec<Cidr>,
    /// The link's current MTU in bytes of IP; `None` for no limit.
    pub mtu: Option<u32>,
}

/// The view that an arriving packet has of a router.
#[derive(Debug, Clone)]
pub struct Router {
    /// Its interfaces, in the order of the links.
    pub interfaces: Vec<RouterInterface>,
    pub(crate) table: RoutingTable,
}

impl Router {
    /// Whether `address` belongs to one of the router's interfaces.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.address == address)
    }

    /// The next hop towards `address`, which is not one of the router's.
    ///
    /// # Errors
    /// The address is unreachable.
    pub fn lookup(&self, address: IpAddr) -> Result<NextHop, Unreachable> {
        self.table.lookup(address).ok_or_else(|| {
            let is_connected = self.table.networks.iter().any(|n| n.contains(address));
            if is_connected { Unreachable::Host } else { Unreachable::Net }
        })
    }

    /// The next hop towards a station; `None` if it is unreachable or one of the router's.
    pub fn next_hop_to(&self, station: u32) -> Option<NextHop> {
        if self.has_station(station) {
            return None;
        }
        self.table.next_hop_to(station)
    }

    /// The number of stations in the network.
    pub fn stations(&self) -> u32 {
        self.table.addresses.of_station.len() as u32
    }

    fn has_station(&self, station: u32) -> bool {
        self.interfaces.iter().any(|i| i.station == station)
    }
}

/// The addresses of all stations.
#[derive(Debug, Default)]
pub(crate) struct StationAddresses {
    /// The addresses of each station.
    pub(crate) of_station: Vec<Vec<Cidr>>,
    /// The station that has each address, ascending by address; without link-local addresses.
    pub(crate) owners: Vec<(IpAddr, u32)>,
}

/// The routes of a host or router.
#[derive(Debug, Clone)]
pub(crate) struct RoutingTable {
    /// Static routes, longest prefix first.
    pub(crate) routes: Vec<(Cidr, NextHop)>,
    /// Directly connected networks, which take precedence over static routes that are not more specific.
    pub(crate) networks: Vec<Cidr>,
    /// The first hop of the shortest path to each station.
    pub(crate) next_hops: Vec<Option<NextHop>>,
    pub(crate) addresses: Arc<StationAddresses>,
}

impl RoutingTable {
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        self.static_route(address).or_else(|| {
            let owners = &self.addresses.owners;
            let found = owners.binary_search_by_key(&address, |o| o.0).ok()?;
            self.next_hops[owners[found].1 as usize]
        })
    }

    /// The next hop towards a station: by the static route to its first address, if there is one.
    pub(crate) fn next_hop_to(&self, station: u32) -> Option<NextHop> {
        let addresses = self.addresses.of_station.get(station as usize)?;
        let routed = addresses.first().and_then(|first| self.static_route(first.address));
        routed.or(self.next_hops[station as usize])
    }

    fn static_route(&self, address: IpAddr) -> Option<NextHop> {
        let (to, next_hop) = self.routes.iter().find(|(to, _)| to.contains(address))?;
        let is_connected = self.networks.iter().any(|n| n.prefix >= to.prefix && n.contains(address));
        (!is_connected).then_some(*next_hop)
    }
}

/// A packet that can cross routers.
pub trait RoutablePacket: Packet {
    /// Forwards, replies to or drops the packet at a router; appends the actions to `out`. The router
    /// consumes a packet for which there is no action.
    ///
    /// By default a packet has no address and no time to live: the router forwards it to the station it was
    /// sent to, and consumes packets to itself and broadcasts.
    fn process_at_router(self, router: &Router, arrival: RouterArrival, out: &mut Vec<RouterAction<Self>>) {
        match arrival.to {
            Destination::Station(to) if !router.has_station(to) => {
                out.push(match router.next_hop_to(to) {
                    Some(hop) => {
                        RouterAction::Send { interface: hop.interface, to: arrival.to, packet: self }
                    }
                    None => RouterAction::Drop(self),
                });
            }
            _ => {}
        }
    }

    /// Predicts the next hop that [`RoutablePacket::process_at_router`] will choose; `None` if that is
    /// unknown. Called only for packets of several segments, to decide whether the first may leave a router
    /// before the last has arrived.
    fn next_hop_at(&self, router: &Router, to: Destination) -> Option<NextHop> {
        match to {
            Destination::Station(to) => router.next_hop_to(to),
            Destination::All => None,
        }
    }
}

/// How a packet arrived at a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterArrival {
    /// The incoming interface.
    pub interface: u32,
    /// The destination that the sender gave.
    pub to: Destination,
}

/// The action of a router on a packet that arrived.
#[derive(Debug)]
pub enum RouterAction<P> {
    /// Sends a packet, the same or another one.
    Send {
        /// The outgoing interface.
        interface: u32,
        /// The destination.
        to: Destination,
        /// The packet.
        packet: P,
    },
    /// Drops the packet: no route, time to live exceeded, or malformed.
    Drop(P),
    /// Drops the packet because it is larger than the MTU of this interface's link.
    DropTooBig(u32, P),
}

impl<P> RouterAction<P> {
    /// Converts the packet.
    pub fn map<Q>(self, convert: impl FnOnce(P) -> Q) -> RouterAction<Q> {
        match self {
            RouterAction::Send { interface, to, packet } => {
                RouterAction::Send { interface, to, packet: convert(packet) }
            }
            RouterAction::Drop(packet) => RouterAction::Drop(convert(packet)),
            RouterAction::DropTooBig(interface, packet) => {
                RouterAction::DropTooBig(interface, convert(packet))
            }
        }
    }
}
