//! The rtnetlink requests of the lab: devices, addresses, routes, counters.

use std::{io, net::IpAddr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State},
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType},
};
use os::netlink::RouteSocket;

/// Maximum header bytes of a super-packet beyond one packet's MTU.
const GSO_HEADER_BYTES: u32 = 120;

/// An rtnetlink socket in the thread's network namespace.
pub(crate) struct Netlink(RouteSocket);

/// Packets that a device dropped, including errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeviceDrops {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Configuration of a host's device.
pub(crate) struct DeviceSetup<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    /// Maximum size of a super-packet's IP packet.
    pub(crate) gso_bytes: Option<u32>,
    /// Maximum number of segments in a super-packet.
    pub(crate) gso_segs: Option<u32>,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        RouteSocket::open().map(Netlink)
    }

    /// Configures a device by name and returns its index. It stays down until [`Netlink::bring_up`].
    pub(crate) fn configure(&self, setup: &DeviceSetup<'_>) -> io::Result<u32> {
        let index = self.link(setup.name)?.header.index;
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::Mtu(setup.mtu), LinkAttribute::Address(setup.mac.to_vec())];
        if let Some(bytes) = setup.gso_bytes {
            // The kernel ignores a GSO size below one packet. Such a limit means one segment per packet,
            // which GsoMaxSegs sets.
            let segments = (bytes / setup.mtu.max(1)).max(1);
            message.attributes.push(LinkAttribute::GsoMaxSize(bytes.max(setup.mtu + GSO_HEADER_BYTES)));
            message
                .attributes
                .push(LinkAttribute::GsoMaxSegs(setup.gso_segs.unwrap_or(segments).min(segments)));
        } else if let Some(segments) = setup.gso_segs {
            message.attributes.push(LinkAttribute::GsoMaxSegs(segments));
        }
        self.0.change(RouteNetlinkMessage::SetLink(message), 0)?;
        Ok(index)
    }

    /// Sets the length of a device's transmit queue, in packets. The kernel rejects too large a length
    /// (ERANGE).
    pub(crate) fn set_queue_length(&self, index: u32, packets: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::TxQueueLen(packets)];
        self.0.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Brings the loopback device up.
    pub(crate) fn set_up_loopback(&self) -> io::Result<()> {
        self.bring_up(self.link("lo")?.header.index)
    }

    /// Creates a pair of devices, the second in the namespace with descriptor `peer_namespace`.
    pub(crate) fn add_veth(&self, name: &str, peer: &str, peer_namespace: i32) -> io::Result<()> {
        let mut other = LinkMessage::default();
        other.attributes = vec![LinkAttribute::IfName(peer.into()), LinkAttribute::NetNsFd(peer_namespace)];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
            ]),
        ];
        self.0.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds an address to a device; the kernel adds the route to its subnet.
    pub(crate) fn add_address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        // No duplicate address detection: it would delay the address by a second.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![AddressAttribute::Address(address), AddressAttribute::Local(address)];
        self.0.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route through the gateway `via`.
    pub(crate) fn add_route(&self, to: IpAddr, prefix: u8, via: IpAddr) -> io::Result<()> {
        let address = |address| match address {
            IpAddr::V4(v4) => RouteAddress::Inet(v4),
            IpAddr::V6(v6) => RouteAddress::Inet6(v6),
        };
        let mut message = RouteMessage::default();
        message.header.address_family =
            if via.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.destination_prefix_length = prefix;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        if prefix > 0 {
            message.attributes.push(RouteAttribute::Destination(address(to)));
        }
        message.attributes.push(RouteAttribute::Gateway(address(via)));
        self.0.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a permanent neighbour entry, so that the neighbour needs no address resolution.
    pub(crate) fn add_neighbour(&self, index: u32, address: IpAddr, mac: [u8; 6]) -> io::Result<()> {
        let (family, destination) = match address {
            IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
        };
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.0.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Packets that a device dropped since it was created.
    pub(crate) fn drops(&self, name: &str) -> io::Result<DeviceDrops> {
        let link = self.link(name)?;
        let stats = link.attributes.iter().find_map(|a| match a {
            LinkAttribute::Stats64(stats) => Some(stats),
            _ => None,
        });
        Ok(stats.map_or(DeviceDrops::default(), |s| DeviceDrops {
            received: s.rx_dropped + s.rx_errors,
            sent: s.tx_dropped + s.tx_errors,
        }))
    }

    /// Brings a device up.
    pub(crate) fn bring_up(&self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.0.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Whether the kernel has processed the event that a veth device has a carrier. Until then it discards
    /// the device's packets, and at that moment it resets settings.
    pub(crate) fn is_operational(&self, name: &str) -> io::Result<bool> {
        Ok(self.link(name)?.attributes.contains(&LinkAttribute::OperState(State::Up)))
    }

    /// A device by name.
    pub(crate) fn link(&self, name: &str) -> io::Result<LinkMessage> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into())];
        match self.0.get(RouteNetlinkMessage::GetLink(message))? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link),
            _ => Err(io::Error::other(format!("the kernel sent no reply about device {name}"))),
        }
    }
}
