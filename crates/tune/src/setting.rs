//! Settings by name, as the journal has them: `net.ipv4.tcp_rmem` is a sysctl, `eth0 tso` one of a device. A device's name has no blank,
//! so the two cannot be confused.
//!
//! Of a device: `txqueuelen` (packets), `rx ring` and `tx ring` (descriptors), and ethtool's `tso`, `gso`, `gro`, `rx`, `tx` (`on` or `off`).

use std::io;

use crate::{
    ethtool::{self, Offload, Ring},
    roots::Roots,
    sys::Devices,
    sysctl,
};

/// A device's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfDevice {
    TxQueue,
    Ring(Ring),
    Offload(Offload),
}

/// The device and which setting of it; `None` of a sysctl, or where there is no such setting.
fn of_device(name: &str) -> Option<(&str, OfDevice)> {
    let (device, setting) = name.split_once(' ')?;
    // A name longer than the kernel's would be cut to another one's (IFNAMSIZ is 16, with a zero at the end).
    if device.is_empty() || device.len() > 15 || device.contains('/') {
        return None;
    }
    let setting = match setting {
        "txqueuelen" => OfDevice::TxQueue,
        "rx ring" => OfDevice::Ring(Ring::Rx),
        "tx ring" => OfDevice::Ring(Ring::Tx),
        feature => OfDevice::Offload(Offload::named(feature)?),
    };
    Some((device, setting))
}

/// A name that may be read and written: below `net`, without anything that leads out of it, or of a device.
pub(crate) fn is_known(name: &str) -> bool {
    let is_sysctl = name.starts_with("net.")
        && name.split('.').all(|part| !part.is_empty())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.');
    is_sysctl || of_device(name).is_some()
}

/// It belongs into a file of sysctl.d.
pub(crate) fn is_sysctl(name: &str) -> bool {
    !name.contains(' ')
}

/// A setting's value now.
pub(crate) fn read(roots: &Roots, name: &str) -> io::Result<String> {
    let Some((device, setting)) = of_device(name) else { return sysctl::read(&roots.proc_sys, name) };
    let devices = Devices::open()?;
    match setting {
        OfDevice::TxQueue => Ok(devices.tx_queue_len(device)?.to_string()),
        OfDevice::Ring(ring) => Ok(ethtool::ring(&devices, device, ring)?.to_string()),
        OfDevice::Offload(offload) => {
            Ok(if ethtool::offload(&devices, device, offload)? { "on" } else { "off" }.into())
        }
    }
}

/// Writes a setting.
pub(crate) fn write(roots: &Roots, name: &str, value: &str) -> io::Result<()> {
    let Some((device, setting)) = of_device(name) else { return sysctl::write(&roots.proc_sys, name, value) };
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, format!("{value:?} is no value of it"));
    let number = || value.parse::<u32>().map_err(|_| bad());
    let devices = Devices::open()?;
    match setting {
        OfDevice::TxQueue => devices.set_tx_queue_len(device, i32::try_from(number()?).map_err(|_| bad())?),
        OfDevice::Ring(ring) => ethtool::set_ring(&devices, device, ring, number()?),
        OfDevice::Offload(offload) => match value {
            "on" => ethtool::set_offload(&devices, device, offload, 1),
            "off" => ethtool::set_offload(&devices, device, offload, 0),
            _ => Err(bad()),
        },
    }
}

/// It is of a device that there is no longer: with it its settings went.
pub(crate) fn is_gone(name: &str, error: &io::Error) -> bool {
    of_device(name).is_some() && error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_network_are_known() {
        for good in ["net.ipv4.tcp_rmem", "net.core.rmem_max", "eth0 tso", "eth0.7 rx ring", "lo txqueuelen"]
        {
            assert!(is_known(good), "{good}");
        }
        for bad in [
            "kernel.core_pattern",
            "net...kernel",
            "net./../kernel",
            "net.",
            "",
            "net.ipv4/../../kernel",
            "eth0 ",
            " tso",
            "eth0 wol",
            "../eth0 tso",
            "a-name-of-16-let tso",
        ] {
            assert!(!is_known(bad), "{bad}");
        }
    }
}
