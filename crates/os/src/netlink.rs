//! The transport of rtnetlink (rtnetlink(7)): requests with one reply, and dumps. Callers define the requests
//! and interpret the replies.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// An rtnetlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct RouteSocket(Socket);

impl RouteSocket {
    /// Opens a socket in this thread's network namespace.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(RouteSocket(socket))
    }

    /// Requests one object, such as a device by name; returns the kernel's message about it, or `None` if it
    /// sent none.
    ///
    /// # Errors
    /// The kernel's error, such as ENODEV.
    pub fn get(&self, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        self.send(message, 0)?;
        self.reply()
    }

    /// Requests a change, with `flags` such as `NLM_F_CREATE`, and waits for its acknowledgment.
    ///
    /// # Errors
    /// The kernel's error, such as EPERM.
    pub fn change(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_ACK | flags)?;
        self.reply().map(drop)
    }

    /// Requests all objects of a kind, and calls `handle` with each message of the reply.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dump(
        &self,
        message: RouteNetlinkMessage,
        mut handle: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.send(message, NLM_F_DUMP)?;
        loop {
            let (reply, _) = self.0.recv_from_full()?;
            let mut remaining = &reply[..];
            while !remaining.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(remaining)
                    .map_err(io::Error::other)?;
                let length =
                    (message.header.length as usize).next_multiple_of(4).clamp(4, remaining.len().max(4));
                remaining = remaining.get(length..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => handle(inner),
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.0.send(&bytes, 0).map(drop)
    }

    fn reply(&self) -> io::Result<Option<RouteNetlinkMessage>> {
        let (reply, _) = self.0.recv_from_full()?;
        let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).map_err(io::Error::other)?;
        match reply.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};

    use super::*;

    fn named(name: &str) -> RouteNetlinkMessage {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into())];
        RouteNetlinkMessage::GetLink(message)
    }

    #[test]
    fn the_loopback_device_is_found_by_request_and_in_a_dump() {
        let socket = RouteSocket::open().unwrap();
        let Some(RouteNetlinkMessage::NewLink(one)) = socket.get(named("lo")).unwrap() else { panic!() };
        let mut indices = Vec::new();
        let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
        socket
            .dump(all, |message| {
                if let RouteNetlinkMessage::NewLink(link) = message {
                    indices.push(link.header.index);
                }
            })
            .unwrap();
        assert!(indices.contains(&one.header.index), "{indices:?}");
        assert!(socket.get(named("no-such-device")).is_err());
    }
}
