//! The MTUs of the hosts' own devices, which programs there change (`h1 ifconfig h1-eth0 mtu 9000`): a link's end is as
//! large as the device at it, as of a veth pair in Mininet.
//!
//! They are looked at, not waited for: before each answer to a client, so that a change is felt by whatever is run
//! next, and between clients.

use std::{net::UdpSocket, os::fd::AsFd};

use super::isolate::device_mtu;
use crate::{Error, error::Attempted, host::Host};

/// The devices that are watched.
pub(crate) struct HostMtus(Vec<Watched>);

struct Watched {
    /// Of the host's network namespace; nothing is sent by it.
    socket: UdpSocket,
    device: String,
    mtu: u32,
}

impl HostMtus {
    pub(crate) fn of<'a>(hosts: impl Iterator<Item = &'a Host>) -> Result<Self, Error> {
        let mut watched = Vec::new();
        for host in hosts {
            for device in &host.devices {
                let what = || format!("read the MTU of {device}");
                let socket = host.namespace.run(|| UdpSocket::bind("0.0.0.0:0").attempted(what))?;
                let mtu = device_mtu(socket.as_fd(), device).attempted(what)?;
                watched.push(Watched { socket, device: device.clone(), mtu });
            }
        }
        Ok(HostMtus(watched))
    }

    /// The devices whose MTU is another than when last asked, and their MTUs. A device that has gone has none.
    pub(crate) fn changed(&mut self) -> Vec<(String, u32)> {
        let mut changed = Vec::new();
        for watched in &mut self.0 {
            match device_mtu(watched.socket.as_fd(), &watched.device) {
                Ok(mtu) if mtu != watched.mtu => {
                    watched.mtu = mtu;
                    changed.push((watched.device.clone(), mtu));
                }
                _ => {}
            }
        }
        changed
    }
}
