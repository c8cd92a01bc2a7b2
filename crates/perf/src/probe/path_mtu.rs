//! The path MTU of a probe session, and sockets whose packets are never fragmented.
//!
//! A router's word is tried, not believed, and silence counts as too large (RFC 8899), so a black hole is found too. Only the way there
//! counts: the server reports what arrived.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::AtomicBool,
};

use probe::{MtuAnswer, MtuOutcome, MtuSearch, Train};
use socket2::Socket;
use units::Time;

use super::{Error, client::Session};
use crate::{Error as SystemError, error::Attempted, sys, told};

/// The first size, which should pass everywhere: RFC 1122 section 3.3.3, RFC 8200 section 5.
const BASE: (u32, u32) = (576, 1280);
/// Packets of one size at a time, so that chance losses seldom count, and what is between them, ns.
const PACKETS: u64 = 2;
const GAP_NS: u64 = 1_000_000;

/// Packets of this socket are never fragmented, neither here nor on the way, and are not held back by what earlier ones met
/// (ip(7), IP_PMTUDISC_PROBE).
pub(crate) fn forbid_fragments(socket: &Socket, v4: bool) -> Result<(), SystemError> {
    let (level, name, value) = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    sys::set_option(socket, level, name, value).attempted(|| "cannot forbid fragments".into())
}

/// The MTU of the route of a connected socket as the kernel knows it, bytes of IP.
pub(crate) fn mtu_of(socket: &Socket, peer: SocketAddr) -> Result<u32, SystemError> {
    let (level, name) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = sys::option(socket, level, name)
        .attempted(|| format!("cannot read the MTU of the route to {peer}"))?;
    Ok(u32::try_from(mtu).unwrap_or(1500))
}

/// The MTU of the route to an address as the kernel knows it: the device's, or less where a router said so.
pub fn route_mtu(to: IpAddr) -> Result<u32, Error> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("cannot make a UDP socket to {to}");
    let socket = UdpSocket::bind(any).attempted(what)?;
    // Nothing is sent: any port will do.
    let peer = SocketAddr::new(to, 9);
    socket.connect(peer).attempted(what)?;
    Ok(mtu_of(&socket.into(), peer)?)
}

impl Session {
    /// Finds the path MTU, at most `most` bytes of IP.
    pub(super) fn discover_mtu(&mut self, most: u32, stop: &AtomicBool) -> Result<MtuAnswer, Error> {
        let v4 = self.peer().is_ipv4();
        forbid_fragments(&self.socket, v4)?;
        let what = || "cannot ask for what becomes of packets".to_string();
        told::tell_errors(&self.socket, v4, true).attempted(what)?;
        let mut search = MtuSearch::between(if v4 { BASE.0 } else { BASE.1 }, most);
        while let Some(bytes) = search.next() {
            let train = Train { bytes, at_ns: (0..PACKETS).map(|number| number * GAP_NS).collect() };
            let number = self.trains;
            let flown = self.send(&train, Time::ZERO, stop)?;
            let arrived = self.report(number, flown, bytes, stop)?.received().next().is_some();
            let too_big = self.heard_too_big()?;
            search.take(match (arrived, too_big) {
                (true, _) => MtuOutcome::Answered,
                (false, Some(fits)) => MtuOutcome::TooBig(fits),
                (false, None) => MtuOutcome::Silent,
            });
        }
        told::tell_errors(&self.socket, v4, false).attempted(what)?;
        Ok(search.answer())
    }

    /// The smallest size that a router said fits since this was last asked.
    fn heard_too_big(&self) -> Result<Option<u32>, Error> {
        let mut fits: Option<u32> = None;
        let mut buffer = [0; 64];
        loop {
            match told::receive_told(&self.socket, &mut buffer, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
                Ok(told) => {
                    let too_big = told.error.filter(|error| error.errno as i32 == libc::EMSGSIZE);
                    fits = too_big.map(|error| fits.map_or(error.info, |fits| fits.min(error.info))).or(fits);
                }
                Err(e) if told::is_passing(&e) => return Ok(fits),
                Err(e) => return Err(e).attempted(|| "cannot read what became of a packet".into())?,
            }
        }
    }
}
