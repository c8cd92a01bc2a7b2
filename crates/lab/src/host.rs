//! A host: a network namespace with devices, addresses, routes and settings.

use std::{fs, io, net::IpAddr};

use os::TxCounters;
use scenario::Host as HostSpec;

use crate::{
    Error,
    error::Attempted,
    frame::mac,
    namespace::Namespace,
    netlink::Netlink,
    port::{Backend, Port, PortSetup, silence_ipv6},
};

/// Advice where /proc/sys cannot be written.
const READ_ONLY_SETTINGS: &str = "; /proc/sys is read-only, as in most containers: start the container with --privileged, or run the scenario with --engine sim";

/// A host of the lab.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) devices: Vec<String>,
    pub(crate) namespace: Namespace,
    /// The scenario sets its transmit queue, so drops there are part of the experiment.
    has_tx_queue: bool,
}

/// Packets dropped by the devices of hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostDrops {
    /// Packets dropped outside the emulated network, so not part of the experiment.
    pub(crate) outside: u64,
    /// Packets dropped at transmit queues that the scenario sets.
    pub(crate) tx_queue: u64,
}

impl std::iter::Sum for HostDrops {
    fn sum<I: Iterator<Item = HostDrops>>(drops: I) -> HostDrops {
        drops.fold(HostDrops::default(), |a, b| HostDrops {
            outside: a.outside + b.outside,
            tx_queue: a.tx_queue + b.tx_queue,
        })
    }
}

impl Host {
    /// Creates the host and its ports, one for each of its `links`. Their station numbers start at `station`.
    pub(crate) fn new(
        station: usize,
        links: usize,
        spec: &HostSpec,
        backend: Backend,
        wires: &Namespace,
    ) -> Result<(Self, Vec<Port>), Error> {
        let namespace = Namespace::new()?;
        let all = spec.interfaces.iter().flat_map(|i| &i.addresses);
        let has_ipv6 =
            all.clone().any(|a| a.address.is_ipv6()) || spec.routes.iter().any(|r| r.via.is_ipv6());
        namespace.run(|| {
            Netlink::open()
                .and_then(|n| n.set_up_loopback())
                .attempted(|| format!("bring up the loopback device of {}", spec.name))?;
            if !has_ipv6 {
                silence_ipv6("default");
            }
            // Before a device comes up, so that settings which devices inherit are already in place.
            spec.sysctl.iter().try_for_each(|(name, value)| set_sysctl(&spec.name, name, value))
        })?;
        let (mut ports, mut devices) = (Vec::new(), Vec::new());
        for link in 0..links {
            let device = format!("{}-eth{link}", spec.name);
            let addresses = spec.interfaces.get(link).map_or(&[][..], |i| &i.addresses);
            let setup = PortSetup {
                station: station + link,
                device: &device,
                mtu: spec.mtu,
                addresses,
                nic: &spec.nic,
            };
            ports.push(Port::open(&setup, backend, &namespace, wires)?);
            devices.push(device);
        }
        namespace.run(|| {
            let netlink = Netlink::open().attempted(|| format!("set up the routes of {}", spec.name))?;
            spec.routes.iter().try_for_each(|route| {
                netlink
                    .add_route(route.to.address, route.to.prefix, route.via)
                    .attempted(|| format!("add to {} the route to {} via {}", spec.name, route.to, route.via))
            })
        })?;
        let (name, address) = (spec.name.clone(), spec.address());
        let has_tx_queue = spec.nic.tx_queue.is_some() && backend == Backend::Tap;
        Ok((Host { name, address, devices, namespace, has_tx_queue }, ports))
    }

    /// Makes all `stations` in the networks of the host's devices known to it.
    pub(crate) fn fix_neighbours(&self, spec: &HostSpec, stations: &[(IpAddr, usize)]) -> Result<(), Error> {
        self.namespace.run(|| {
            let what = || format!("set the neighbours of {}", spec.name);
            let netlink = Netlink::open().attempted(what)?;
            for (device, interface) in self.devices.iter().zip(&spec.interfaces) {
                let index = netlink.link(device).attempted(what)?.header.index;
                let own = |address: &IpAddr| interface.addresses.iter().any(|cidr| cidr.address == *address);
                for (address, station) in stations {
                    let is_near = interface.addresses.iter().any(|cidr| cidr.contains(*address));
                    if is_near && !own(address) {
                        netlink.add_neighbour(index, *address, mac(*station)).attempted(what)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Packets dropped by the host's devices so far.
    pub(crate) fn drops(&self) -> Result<HostDrops, Error> {
        self.namespace.run(|| {
            let netlink = Netlink::open().attempted(|| format!("read the counters of {}", self.name))?;
            let drops = self.devices.iter().map(|device| {
                let drops = netlink.drops(device).attempted(|| format!("read the counters of {device}"))?;
                Ok(match self.has_tx_queue {
                    true => HostDrops { outside: drops.received, tx_queue: drops.sent },
                    false => HostDrops { outside: drops.received + drops.sent, tx_queue: 0 },
                })
            });
            drops.sum()
        })
    }

    /// The transmit counters of the host's devices so far, those of their queueing disciplines included.
    pub(crate) fn transmitted(&self) -> Result<TxCounters, Error> {
        self.namespace.run(|| {
            let read = |device: &String| {
                let link = Netlink::open().and_then(|netlink| netlink.link(device));
                link.and_then(|link| TxCounters::read(link.header.index))
                    .attempted(|| format!("read the counters of {device}"))
            };
            self.devices
                .iter()
                .map(read)
                .try_fold(TxCounters::default(), |all, one: Result<_, Error>| Ok(all + one?))
        })
    }
}

/// The default congestion control of a namespace, of which the kernel checks the value (net/ipv4/tcp_cong.c,
/// `tcp_set_default_congestion_control`): ENOENT if it has none of that name, EPERM if it is restricted.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const NO_SUCH_CONGESTION_CONTROL: &str = "; the kernel has no congestion control of this name (net.ipv4.tcp_available_congestion_control lists those it has)";
const RESTRICTED_CONGESTION_CONTROL: &str = "; this congestion control is restricted: a network namespace may have it as its \
    default only if net.ipv4.tcp_allowed_congestion_control of the machine contains it. Add it there, or set `cc` of the flows";

/// Sets a sysctl of this thread's network namespace and verifies it by reading it back.
fn set_sysctl(host: &str, name: &str, value: &str) -> Result<(), Error> {
    tracing::debug!(host, name, value, "setting a sysctl");
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).map_err(|source| Error::Sysctl {
        host: host.into(),
        name: name.into(),
        value: value.into(),
        hint: match source.kind() {
            io::ErrorKind::NotFound if name == CONGESTION_CONTROL => NO_SUCH_CONGESTION_CONTROL,
            io::ErrorKind::NotFound => {
                "; the kernel has no such sysctl, or it is global and not per network namespace"
            }
            io::ErrorKind::PermissionDenied if name == CONGESTION_CONTROL => RESTRICTED_CONGESTION_CONTROL,
            io::ErrorKind::PermissionDenied => "; this sysctl is global, not per network namespace",
            io::ErrorKind::InvalidInput => "; the kernel rejects the value",
            io::ErrorKind::ReadOnlyFilesystem => READ_ONLY_SETTINGS,
            _ => "",
        },
        source,
    })?;
    let got = fs::read_to_string(&path).attempted(|| format!("read {path}"))?;
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    if same(&got, value) {
        return Ok(());
    }
    Err(Error::SysctlRefused {
        host: host.into(),
        name: name.into(),
        value: value.into(),
        got: got.trim().into(),
    })
}
