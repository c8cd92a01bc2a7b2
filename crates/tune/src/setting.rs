//! Settings by their names in the journal: `net.ipv4.tcp_rmem` is a sysctl, `eth0 tso` a device setting.
//! Device names have no space, so that the two cannot be confused.
//!
//! Device settings: `txqueuelen` (packets), `rx ring` and `tx ring` (descriptors), and ethtool's features
//! `rx-usecs` and `tx-usecs` (interrupt coalescing, microseconds), `tso`, `gso`, `gro`, `rx`, `tx` (`on` or
//! `off`).

use std::{fs, io, os::unix::fs::PermissionsExt};

use os::DeviceControl;

use crate::{
    ethtool::{self, InterruptDelay, Offload, Ring},
    host_paths::HostPaths,
    sysctl,
};

/// A setting of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceSetting {
    TxQueue,
    Ring(Ring),
    InterruptDelay(InterruptDelay),
    Offload(Offload),
}

/// Splits a name into the device and its setting; `None` for sysctls and unknown settings.
fn parse_device_setting(name: &str) -> Option<(&str, DeviceSetting)> {
    let (device, setting) = name.split_once(' ')?;
    // The kernel would truncate a longer name to that of another device (IFNAMSIZ is 16, with the terminating
    // zero).
    if device.is_empty() || device.len() > 15 || device.contains('/') {
        return None;
    }
    let setting = match setting {
        "txqueuelen" => DeviceSetting::TxQueue,
        "rx ring" => DeviceSetting::Ring(Ring::Rx),
        "tx ring" => DeviceSetting::Ring(Ring::Tx),
        other => match InterruptDelay::from_name(other) {
            Some(delay) => DeviceSetting::InterruptDelay(delay),
            None => DeviceSetting::Offload(Offload::from_name(other)?),
        },
    };
    Some((device, setting))
}

/// Whether the setting may be read and written: a sysctl below `net` (without components that lead out of
/// it), or of a device.
pub(crate) fn is_permitted(name: &str) -> bool {
    let is_sysctl = name.starts_with("net.")
        && name.split('.').all(|part| !part.is_empty())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.');
    is_sysctl || parse_device_setting(name).is_some()
}

/// Whether the setting is a sysctl, which belongs in a file of sysctl.d.
pub(crate) fn is_sysctl(name: &str) -> bool {
    !name.contains(' ')
}

/// Whether only root may read the setting: a key, as `net.ipv4.tcp_fastopen_key`.
pub(crate) fn is_secret(paths: &HostPaths, name: &str) -> bool {
    const OTHERS_READ: u32 = 0o004;
    let mode = || fs::metadata(sysctl::path(&paths.proc_sys, name)).map(|file| file.permissions().mode());
    is_sysctl(name) && mode().is_ok_and(|mode| mode & OTHERS_READ == 0)
}

/// Reads a setting's present value.
pub(crate) fn read(paths: &HostPaths, name: &str) -> io::Result<String> {
    let Some((device, setting)) = parse_device_setting(name) else {
        return sysctl::read(&paths.proc_sys, name);
    };
    let devices = DeviceControl::open()?;
    match setting {
        DeviceSetting::TxQueue => Ok(devices.tx_queue_len(device)?.to_string()),
        DeviceSetting::Ring(ring) => Ok(ethtool::ring(&devices, device, ring)?.to_string()),
        DeviceSetting::InterruptDelay(delay) => {
            Ok(ethtool::interrupt_delay(&devices, device, delay)?.to_string())
        }
        DeviceSetting::Offload(offload) => {
            Ok(if ethtool::offload(&devices, device, offload)? { "on" } else { "off" }.into())
        }
    }
}

/// Writes a setting.
pub(crate) fn write(paths: &HostPaths, name: &str, value: &str) -> io::Result<()> {
    let Some((device, setting)) = parse_device_setting(name) else {
        return sysctl::write(&paths.proc_sys, name, value);
    };
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{value:?} is not a valid value"));
    let number = || value.parse::<u32>().map_err(|_| invalid());
    let devices = DeviceControl::open()?;
    match setting {
        DeviceSetting::TxQueue => {
            devices.set_tx_queue_len(device, i32::try_from(number()?).map_err(|_| invalid())?)
        }
        DeviceSetting::Ring(ring) => ethtool::set_ring(&devices, device, ring, number()?),
        DeviceSetting::InterruptDelay(delay) => {
            ethtool::set_interrupt_delay(&devices, device, delay, number()?)
        }
        DeviceSetting::Offload(offload) => match value {
            "on" => ethtool::set_offload(&devices, device, offload, true),
            "off" => ethtool::set_offload(&devices, device, offload, false),
            _ => Err(invalid()),
        },
    }
}

/// Whether the host no longer has the setting, so that there is nothing to restore: its device was removed,
/// or replaced by one without this setting; or the running kernel has no such sysctl.
pub(crate) fn is_gone(paths: &HostPaths, name: &str, error: &io::Error) -> bool {
    match parse_device_setting(name) {
        Some(_) => matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)),
        // A sysctl is not missing if /proc is not mounted.
        None => error.kind() == io::ErrorKind::NotFound && paths.proc_sys.join("net").exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_only_root_may_read_is_secret() {
        let directory = tempfile::tempdir().unwrap();
        let paths = HostPaths {
            proc_sys: directory.path().into(),
            sysctl_file: None,
            state_dir: "unused".into(),
            journal_name: "unused".into(),
        };
        fs::create_dir(directory.path().join("net")).unwrap();
        for (name, mode, is_secret) in [("open", 0o644, false), ("group", 0o640, true), ("key", 0o600, true)]
        {
            let path = directory.path().join("net").join(name);
            fs::write(&path, "1").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(self::is_secret(&paths, &format!("net.{name}")), is_secret, "{name}");
        }
        assert!(!is_secret(&paths, "eth0 tso") && !is_secret(&paths, "net.missing"));
    }

    #[test]
    fn only_network_settings_are_permitted() {
        for permitted in [
            "net.ipv4.tcp_rmem",
            "net.core.rmem_max",
            "eth0 tso",
            "eth0.7 rx ring",
            "eth0 rx-usecs",
            "lo txqueuelen",
        ] {
            assert!(is_permitted(permitted), "{permitted}");
        }
        for forbidden in [
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
            assert!(!is_permitted(forbidden), "{forbidden}");
        }
    }
}
