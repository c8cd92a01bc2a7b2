//! Where frames leave and enter a host's kernel: a TAP device, or one end of a veth pair behind a
//! packet socket where TAP devices may not be made.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use scenario::{Cidr, Nic};

use crate::{
    Error,
    error::Attempted,
    frame::mac,
    namespace::Namespace,
    netlink::{DeviceSetup, Netlink},
    sys,
};

/// The device queue of a TAP device, in super-packets; the default of 500 drops outside our count.
const QUEUE_LEN: u32 = 65_536;
/// MTU of the other end of a veth pair: the host's own may change.
const WIRE_MTU: u32 = 65_535;
/// Receive buffer asked for on packet sockets; the machine may grant less.
const PACKET_BUFFER: i32 = 64 << 20;

/// How ports are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// TAP devices.
    Tap,
    /// veth pairs and packet sockets.
    Packet,
}

impl std::str::FromStr for Backend {
    type Err = String;

    /// `tap` or `packet`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tap" => Ok(Backend::Tap),
            "packet" => Ok(Backend::Packet),
            other => Err(format!("there are no ports called {other:?}; there are tap and packet")),
        }
    }
}

impl Backend {
    /// As it is written: `tap` or `packet`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Tap => "tap",
            Backend::Packet => "packet",
        }
    }

    /// TAP where /dev/net/tun opens, else packet sockets.
    pub fn for_this_machine() -> Self {
        match File::options().read(true).write(true).open("/dev/net/tun") {
            Ok(_) => Backend::Tap,
            Err(_) => Backend::Packet,
        }
    }
}

/// A host's port.
#[derive(Debug)]
pub(crate) struct Port {
    file: File,
    backend: Backend,
    /// Most segments that the host takes at once.
    pub(crate) gro: Option<u32>,
    /// The host's kernel sees its transmit queue fill: packets are taken no faster than the link sends them.
    pub(crate) has_tx_queue: bool,
}

/// What a port's device needs to know.
pub(crate) struct PortSetup<'a> {
    /// The number that the device's Ethernet address tells.
    pub(crate) station: usize,
    pub(crate) device: &'a str,
    pub(crate) mtu: u32,
    pub(crate) addresses: &'a [Cidr],
    pub(crate) nic: &'a Nic,
}

impl Port {
    /// Makes the port of a host in its namespace. `wires` holds the other ends of veth pairs.
    pub(crate) fn open(
        setup: &PortSetup<'_>,
        backend: Backend,
        host: &Namespace,
        wires: &Namespace,
    ) -> Result<Self, Error> {
        let device = setup.device;
        let wire = format!("wire{}", setup.station);
        let tap = host.run(|| {
            let what = || format!("set up device {device}");
            let netlink = Netlink::open().attempted(what)?;
            let tap = match backend {
                Backend::Tap => {
                    Some(sys::open_tap(device).attempted(|| format!("make TAP device {device}"))?)
                }
                Backend::Packet => {
                    netlink
                        .add_veth(device, &wire, wires.raw_fd())
                        .attempted(|| format!("make veth device {device}"))?;
                    None
                }
            };
            let index = netlink
                .set_up(&DeviceSetup {
                    name: device,
                    mac: mac(setup.station),
                    mtu: setup.mtu,
                    queue_len: setup.nic.tx_queue.unwrap_or(QUEUE_LEN),
                    gso_bytes: setup.nic.gso.map(|bytes| bytes.0.min(65_536) as u32),
                })
                .attempted(what)?;
            for cidr in setup.addresses {
                netlink
                    .add_address(index, cidr.address, cidr.prefix)
                    .attempted(|| format!("give {device} the address {cidr}"))?;
            }
            Ok(tap)
        })?;
        let file = match tap {
            Some(file) => file,
            None => wires.run(|| open_wire(&wire, setup))?,
        };
        Ok(Port { file, backend, gro: setup.nic.gro, has_tx_queue: setup.nic.tx_queue.is_some() })
    }

    /// A port onto any file, for tests of what is written.
    #[cfg(test)]
    pub(crate) fn onto(file: File) -> Self {
        Port { file, backend: Backend::Tap, gro: None, has_tx_queue: false }
    }

    /// The descriptor to poll.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads one frame; `None` where there is none. An error of [`is_gone`] is for ever.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            // The host took its device down for a moment.
            Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes one frame; false where the host did not take it.
    pub(crate) fn write(&self, frame: &[u8]) -> bool {
        matches!((&self.file).write(frame), Ok(len) if len == frame.len())
    }

    /// Frames that were lost between the host and us since the last call, beyond the device's own counters.
    pub(crate) fn drops(&self) -> u64 {
        match self.backend {
            Backend::Tap => 0,
            Backend::Packet => sys::packet_drops(&self.file).unwrap_or(0),
        }
    }
}

/// True for the error of reading a device that its host removed (`ip link del`; tun.c: no device is attached any more).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

fn open_wire(wire: &str, setup: &PortSetup<'_>) -> Result<File, Error> {
    let what = || format!("set up the other end of {}", setup.device);
    // Ours is only a wire: without this the kernel would announce itself on it.
    let quiet = format!("/proc/sys/net/ipv6/conf/{wire}/disable_ipv6");
    if std::path::Path::new(&quiet).exists() {
        std::fs::write(&quiet, "1").attempted(what)?;
    }
    let netlink = Netlink::open().attempted(what)?;
    let mut wire_mac = mac(setup.station);
    wire_mac[3] = b'w';
    let index = netlink
        .set_up(&DeviceSetup {
            name: wire,
            mac: wire_mac,
            mtu: WIRE_MTU,
            queue_len: QUEUE_LEN,
            gso_bytes: None,
        })
        .attempted(what)?;
    sys::open_packet(index, PACKET_BUFFER).attempted(|| format!("open a packet socket on {wire}"))
}
