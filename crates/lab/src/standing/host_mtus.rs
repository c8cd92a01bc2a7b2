//! The MTUs of the hosts' devices, which programs on hosts can change (`h1 ifconfig h1-eth0 mtu 9000`). A
//! link's end gets the MTU of the host's device, as with a veth pair in Mininet.
//!
//! The keeper polls the MTUs at least every 20 ms, and before each request, so that the request sees all
//! changes.

use os::DeviceControl;

use crate::{Error, error::Attempted, host::Host};

/// The devices, with their last known MTUs.
pub(crate) struct HostMtus(Vec<HostDevice>);

struct HostDevice {
    /// Opened in the host's network namespace.
    control: DeviceControl,
    device: String,
    mtu: u32,
}

impl HostMtus {
    pub(crate) fn of<'a>(hosts: impl Iterator<Item = &'a Host>) -> Result<Self, Error> {
        let mut devices = Vec::new();
        for host in hosts {
            for device in &host.devices {
                let what = || format!("read the MTU of {device}");
                let control = host.namespace.run(|| DeviceControl::open().attempted(what))?;
                let mtu = control.mtu(device).attempted(what)?;
                devices.push(HostDevice { control, device: device.clone(), mtu });
            }
        }
        Ok(HostMtus(devices))
    }

    /// The devices whose MTUs have changed since the last call, and the new MTUs. Skips removed devices.
    pub(crate) fn take_changes(&mut self) -> Vec<(String, u32)> {
        let mut changed = Vec::new();
        for host_device in &mut self.0 {
            match host_device.control.mtu(&host_device.device) {
                Ok(mtu) if mtu != host_device.mtu => {
                    host_device.mtu = mtu;
                    changed.push((host_device.device.clone(), mtu));
                }
                _ => {}
            }
        }
        changed
    }
}
