//! A host: a network namespace with devices, addresses, routes and settings.

use std::net::IpAddr;

use os::TxCounters;
use scenario::Host as HostSpec;

use crate::{
    Error,
    error::Attempted,
    frame::mac,
    namespace::Namespace,
    netlink::Netlink,
    port::{Backend, Port, PortSetup, silence_ipv6},
    sysctl::{device_of, set_sysctls},
};

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
        let devices: Vec<String> = (0..links).map(|link| format!("{}-eth{link}", spec.name)).collect();
        let sysctls = spec.sysctl.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let is_of_own_device = |(name, _): &(&str, &str)| {
            device_of(name).is_some_and(|device| devices.iter().any(|own| own == device))
        };
        let (of_devices, of_host): (Vec<_>, Vec<_>) = sysctls.partition(is_of_own_device);
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
            // Set before any device exists, so that devices inherit the settings.
            set_sysctls(&spec.name, &of_host)
        })?;
        let mut ports = Vec::new();
        for (link, device) in devices.iter().enumerate() {
            let addresses = spec.interfaces.get(link).map_or(&[][..], |i| &i.addresses);
            let of_device = of_devices.iter().filter(|(name, _)| device_of(name) == Some(device));
            let sysctls: Vec<(&str, &str)> = of_device.copied().collect();
            let setup = PortSetup {
                station: station + link,
                device,
                mtu: spec.mtu,
                addresses,
                nic: &spec.nic,
                host: &spec.name,
                sysctls: &sysctls,
            };
            ports.push(Port::open(&setup, backend, &namespace, wires)?);
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

    /// Adds a neighbour entry for each of the `stations` in the networks of the host's devices.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use scenario::ScenarioFile;

    use super::*;

    /// A device that comes up loses its MTU of IPv6; `default` is inherited by devices that are created
    /// later.
    const SCENARIO: &str = r#"
duration = "1s"
hosts.h1.address = "fd00::1/64"
hosts.h2.address = "fd00::2/64"
links = [{ ends = ["h1", "h2"], both = { delay = "1ms" } }]
flows = [{ name = "f", from = "h1", to = "h2" }]
[hosts.h1.sysctl]
"net.ipv4.conf.default.arp_filter" = "1"
"net.ipv4.conf.h1-eth0.rp_filter" = "2"
"net.ipv4.neigh.h1-eth0.base_reachable_time_ms" = "20000"
"net.ipv6.conf.h1-eth0.accept_dad" = "0"
"net.ipv6.conf.h1-eth0.mtu" = "1400"
"#;

    #[test]
    fn sysctls_of_a_hosts_devices_are_set() {
        let scenario = ScenarioFile::parse("s.toml", SCENARIO).unwrap().resolve(None, &[]).unwrap();
        let Ok(wires) = Namespace::new() else {
            testing::skip(testing::Missing::Privilege, "only root may create network namespaces in a thread");
            return;
        };
        for backend in [Backend::for_this_machine(), Backend::Packet] {
            let (host, _ports) = Host::new(0, 1, &scenario.hosts[0], backend, &wires).unwrap();
            let read = |path: &str| fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap_or_default();
            let values = host.namespace.run(|| {
                let paths = [
                    "ipv4/conf/h1-eth0/arp_filter",
                    "ipv4/conf/h1-eth0/rp_filter",
                    "ipv4/neigh/h1-eth0/base_reachable_time_ms",
                    "ipv6/conf/h1-eth0/accept_dad",
                    "ipv6/conf/h1-eth0/mtu",
                ];
                Ok(paths.map(|path| read(path).trim().to_string()))
            });
            assert_eq!(values.unwrap(), ["1", "2", "20000", "0", "1400"], "{backend:?}");
        }
        let mut other = scenario.hosts[0].clone();
        other.sysctl = [("net.ipv4.conf.h2-eth0.rp_filter".into(), "2".into())].into();
        let error = Host::new(0, 1, &other, Backend::Packet, &wires).unwrap_err();
        assert!(matches!(error, Error::Sysctl { .. }), "the device of another host: {error}");
    }
}
