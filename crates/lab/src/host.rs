//! A host: a network namespace with a device, an address and settings of its own.

use std::{fs, io, net::IpAddr};

use scenario::Host as HostSpec;

use crate::{
    Error,
    error::Attempted,
    namespace::Namespace,
    netlink::{DeviceDrops, Netlink},
    port::{Backend, Port, PortSetup},
};

/// A host of the lab.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) device: String,
    pub(crate) namespace: Namespace,
}

impl Host {
    /// Makes the host and its port.
    pub(crate) fn new(
        index: usize,
        spec: &HostSpec,
        backend: Backend,
        wires: &Namespace,
    ) -> Result<(Self, Port), Error> {
        let namespace = Namespace::new()?;
        let device = format!("{}-eth0", spec.name);
        namespace.run(|| {
            Netlink::open()
                .and_then(|n| n.set_up_loopback())
                .attempted(|| format!("set up the loopback device of {}", spec.name))?;
            if spec.address().is_ipv4() {
                // Router solicitations and the like would only be noise on the emulated links.
                let path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
                match fs::write(path, "1") {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(e).attempted(|| format!("write {path}"));
                    }
                    _ => {}
                }
            }
            // Before the device comes up, so that what a device inherits is already set.
            spec.sysctl.iter().try_for_each(|(name, value)| set_sysctl(&spec.name, name, value))
        })?;
        let setup = PortSetup {
            index,
            device: &device,
            mtu: spec.mtu,
            address: spec.address(),
            prefix: spec.cidr().prefix,
        };
        let port = Port::open(&setup, backend, &namespace, wires)?;
        Ok((Host { name: spec.name.clone(), address: spec.address(), device, namespace }, port))
    }

    /// What the host's device dropped so far.
    pub(crate) fn drops(&self) -> Result<DeviceDrops, Error> {
        self.namespace.run(|| {
            Netlink::open()
                .and_then(|n| n.drops(&self.device))
                .attempted(|| format!("read the counters of {}", self.device))
        })
    }
}

/// Sets a setting of this thread's network namespace and checks that it took.
fn set_sysctl(host: &str, name: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).map_err(|source| Error::Sysctl {
        host: host.into(),
        name: name.into(),
        value: value.into(),
        hint: match source.kind() {
            io::ErrorKind::NotFound => {
                "; the kernel has no such setting, or it belongs to the whole machine and not to a host"
            }
            io::ErrorKind::PermissionDenied => "; this setting belongs to the whole machine, not to a host",
            io::ErrorKind::InvalidInput => "; the kernel refuses the value",
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
