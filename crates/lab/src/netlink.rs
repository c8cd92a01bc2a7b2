//! The rtnetlink requests of the lab: devices, addresses, counters.

use std::{io, net::IpAddr};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Headers that a super-packet has beside its first packet's MTU.
const GSO_HEADER_ROOM: u32 = 120;

/// A connection to the kernel of the thread's network namespace.
pub(crate) struct Netlink(Socket);

/// What a device counted outside the emulated network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeviceDrops {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// How a host's device is set up.
pub(crate) struct DeviceSetup<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    /// Largest super-packet, in bytes of IP.
    pub(crate) gso_bytes: Option<u32>,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink(socket))
    }

    /// Configures a device by name and returns its index. It stays down until [`Netlink::bring_up`].
    pub(crate) fn configure(&self, setup: &DeviceSetup<'_>) -> io::Result<u32> {
        let index = self.link(setup.name)?.header.index;
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::Mtu(setup.mtu), LinkAttribute::Address(setup.mac.to_vec())];
        if let Some(bytes) = setup.gso_bytes {
            // A limit below one packet is none at all to the kernel; one segment at a time is what is meant.
            let segments = (bytes / setup.mtu.max(1)).max(1);
            message.attributes.push(LinkAttribute::GsoMaxSize(bytes.max(setup.mtu + GSO_HEADER_ROOM)));
            message.attributes.push(LinkAttribute::GsoMaxSegs(segments));
        }
        self.ask(RouteNetlinkMessage::SetLink(message), 0)?;
        Ok(index)
    }

    /// Sets the length of a device's transmit queue, in packets. Kernels limit it (ERANGE).
    pub(crate) fn set_queue_length(&self, index: u32, packets: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::TxQueueLen(packets)];
        self.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Takes the loopback device into service.
    pub(crate) fn set_up_loopback(&self) -> io::Result<()> {
        self.bring_up(self.link("lo")?.header.index)
    }

    /// Makes a pair of devices, the second in the namespace that `peer_namespace` describes.
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
        self.ask(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Gives a device an address, and with it the route to its subnet.
    pub(crate) fn add_address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        // No duplicate address detection: it would hold the address back for a second.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![AddressAttribute::Address(address), AddressAttribute::Local(address)];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Adds a route by way of a router.
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
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// What a device dropped since it was made.
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

    /// Takes a device into service.
    pub(crate) fn bring_up(&self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// A device by name.
    pub(crate) fn link(&self, name: &str) -> io::Result<LinkMessage> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into())];
        match self.ask(RouteNetlinkMessage::GetLink(message), 0)? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link),
            _ => Err(io::Error::other(format!("the kernel gave no answer about device {name}"))),
        }
    }

    /// Sends one request; returns the kernel's message, or nothing where it only acknowledged.
    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        let wants_answer = matches!(message, RouteNetlinkMessage::GetLink(_));
        header.flags = NLM_F_REQUEST | flags | if wants_answer { 0 } else { NLM_F_ACK };
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }
}
