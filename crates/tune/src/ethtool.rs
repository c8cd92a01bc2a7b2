//! Reads and changes driver settings by ethtool's ioctl (linux/ethtool.h). Each reply is a structure of
//! 32-bit words.

use std::io;

use os::DeviceControl;

use crate::{
    facts::{Coalescing, Device, Offloads, Pause, Reading, Rings},
    sys::ethtool,
};

const GSET: u32 = 0x01;
const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const GRINGPARAM: u32 = 0x10;
const GPAUSEPARAM: u32 = 0x12;
const GRXCSUM: u32 = 0x14;
const GTXCSUM: u32 = 0x16;
const GTSO: u32 = 0x1e;
const STSO: u32 = 0x1f;
const GGSO: u32 = 0x23;
const GFLAGS: u32 = 0x25;
const GGRO: u32 = 0x2b;
/// ETH_FLAG_LRO.
const LRO: u32 = 1 << 15;
const SCOALESCE: u32 = 0x0f;
const SRINGPARAM: u32 = 0x11;
/// The features of TSO by their names in `ethtool -k`, without `tx-tcp-mangleid-segmentation`: that is off by
/// default, and ETHTOOL_STSO would turn it on too. The kernel turns it off while there is no TSO
/// (netdev_fix_features).
const TSO_FEATURES: [&str; 3] = ["tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp6-segmentation"];
/// SPEED_UNKNOWN, composed of two 16-bit halves.
const SPEED_UNKNOWN: u32 = u32::MAX;
const DUPLEX_HALF: u8 = 0;
const DUPLEX_FULL: u8 = 1;
/// Drivers of virtual devices, which report a constant speed (10 Mb/s in drivers/net/tun.c, 10 Gb/s in
/// veth.c).
const VIRTUAL_DRIVERS: [&str; 2] = ["tun", "veth"];
/// struct ethtool_drvinfo has 196 bytes.
const DRVINFO_WORDS: usize = 49;
/// struct ethtool_cmd has 44 bytes.
const CMD_WORDS: usize = 11;
/// struct ethtool_coalesce has 92 bytes.
const COALESCE_WORDS: usize = 23;
/// struct ethtool_ringparam has 36 bytes.
const RINGPARAM_WORDS: usize = 9;

/// Adds the facts that the driver provides.
pub(crate) fn add_driver_facts(device: &mut Device) {
    let devices = match DeviceControl::open() {
        Ok(devices) => devices,
        Err(error) => {
            device.driver = Reading::unknown(error.to_string());
            return;
        }
    };
    let name = device.name.as_str();
    let driver = get::<DRVINFO_WORDS>(&devices, name, GDRVINFO).map(|words| decode_text(&words[1..9]));
    device.driver = to_reading(driver);
    let is_virtual = device.driver.known().is_some_and(|driver| VIRTUAL_DRIVERS.contains(&driver.as_str()));
    if is_virtual {
        let why = "the device is virtual, and the speed that it reports is meaningless";
        (device.speed_mbps, device.full_duplex) = (Reading::unknown(why), Reading::unknown(why));
    } else {
        let link = get::<CMD_WORDS>(&devices, name, GSET);
        device.full_duplex = match &link {
            Ok(words) => full_duplex(words),
            Err(_) => Reading::unknown(NOT_SUPPORTED),
        };
        device.speed_mbps = match link.map(|words| speed_mbps(&words)) {
            Ok(Some(mbps)) => Reading::Known(mbps),
            Ok(None) => Reading::unknown("the link is down, or the driver does not know the speed"),
            Err(_) => Reading::unknown(NOT_SUPPORTED),
        };
    }
    device.rings = to_reading(get::<RINGPARAM_WORDS>(&devices, name, GRINGPARAM).map(|words| Rings {
        rx_max: words[1],
        tx_max: words[4],
        rx: words[5],
        tx: words[8],
    }));
    // A TAP device reports delays of zero and rejects other values.
    let coalescing = match is_virtual {
        true => Reading::unknown("the device is virtual and has no interrupts"),
        false => to_reading(get::<COALESCE_WORDS>(&devices, name, GCOALESCE).map(|words| Coalescing {
            rx_us: words[1],
            tx_us: words[5],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        })),
    };
    device.coalescing = coalescing;
    device.pause = to_reading(get::<4>(&devices, name, GPAUSEPARAM).map(|words| Pause {
        autonegotiated: words[1] != 0,
        rx: words[2] != 0,
        tx: words[3] != 0,
    }));
    device.offloads = to_reading(get_offloads(&devices, name));
}

const NOT_SUPPORTED: &str = "the driver does not report it";

fn to_reading<T>(result: io::Result<T>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Known(value),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Reading::unknown(NOT_SUPPORTED),
        Err(error) => Reading::unknown(error.to_string()),
    }
}

fn get<const N: usize>(devices: &DeviceControl, device: &str, command: u32) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    words[0] = command;
    ethtool(devices, device, &mut words)?;
    Ok(words)
}

fn get_offloads(devices: &DeviceControl, device: &str) -> io::Result<Offloads> {
    let value = |command| Ok::<u32, io::Error>(get::<2>(devices, device, command)?[1]);
    Ok(Offloads {
        tso: value(GTSO)? != 0,
        gso: value(GGSO)? != 0,
        gro: value(GGRO)? != 0,
        lro: value(GFLAGS)? & LRO != 0,
        rx_checksum: value(GRXCSUM)? != 0,
        tx_checksum: value(GTXCSUM)? != 0,
    })
}

/// A device's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    Rx,
    Tx,
}

impl Ring {
    /// Index in struct ethtool_ringparam: cmd, four maxima, then rx, rx mini, rx jumbo, tx.
    fn word_index(self) -> usize {
        match self {
            Ring::Rx => 5,
            Ring::Tx => 8,
        }
    }
}

/// Number of descriptors of a ring.
pub(crate) fn ring(devices: &DeviceControl, device: &str, ring: Ring) -> io::Result<u32> {
    Ok(get::<RINGPARAM_WORDS>(devices, device, GRINGPARAM)?[ring.word_index()])
}

/// Sets the number of descriptors of a ring; the other rings are unchanged.
pub(crate) fn set_ring(
    devices: &DeviceControl,
    device: &str,
    ring: Ring,
    descriptors: u32,
) -> io::Result<()> {
    let mut words = get::<RINGPARAM_WORDS>(devices, device, GRINGPARAM)?;
    (words[0], words[ring.word_index()]) = (SRINGPARAM, descriptors);
    ethtool(devices, device, &mut words)
}

/// The direction of packets whose interrupts are delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptDelay {
    Rx,
    Tx,
}

impl InterruptDelay {
    /// The direction with this name of ethtool(8).
    pub(crate) fn from_name(name: &str) -> Option<InterruptDelay> {
        match name {
            "rx-usecs" => Some(InterruptDelay::Rx),
            "tx-usecs" => Some(InterruptDelay::Tx),
            _ => None,
        }
    }

    /// Index in struct ethtool_coalesce: cmd, rx usecs, rx frames, the same two during an interrupt, then tx.
    fn word_index(self) -> usize {
        match self {
            InterruptDelay::Rx => 1,
            InterruptDelay::Tx => 5,
        }
    }

    /// The request that sets this delay and keeps the other values of `present`.
    fn request(self, present: [u32; COALESCE_WORDS], us: u32) -> [u32; COALESCE_WORDS] {
        let mut words = present;
        (words[0], words[self.word_index()]) = (SCOALESCE, us);
        words
    }
}

/// Time from a packet to its interrupt, microseconds.
pub(crate) fn interrupt_delay(devices: &DeviceControl, device: &str, of: InterruptDelay) -> io::Result<u32> {
    Ok(get::<COALESCE_WORDS>(devices, device, GCOALESCE)?[of.word_index()])
}

/// Sets the time from a packet to its interrupt, microseconds; other settings of coalescing are unchanged.
pub(crate) fn set_interrupt_delay(
    devices: &DeviceControl,
    device: &str,
    of: InterruptDelay,
    us: u32,
) -> io::Result<()> {
    let mut words = of.request(get::<COALESCE_WORDS>(devices, device, GCOALESCE)?, us);
    ethtool(devices, device, &mut words)
}

/// The ethtool commands that read and switch an offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offload {
    get: u32,
    set: u32,
}

impl Offload {
    /// The offload with this short name of ethtool(8).
    pub(crate) fn from_name(name: &str) -> Option<Offload> {
        let (get, set) = match name {
            "rx" => (GRXCSUM, 0x15),
            "tx" => (GTXCSUM, 0x17),
            "tso" => (GTSO, STSO),
            "gso" => (GGSO, 0x24),
            "gro" => (GGRO, 0x2c),
            _ => return None,
        };
        Some(Offload { get, set })
    }
}

/// Whether an offload is on.
pub(crate) fn offload(devices: &DeviceControl, device: &str, offload: Offload) -> io::Result<bool> {
    Ok(get::<2>(devices, device, offload.get)?[1] != 0)
}

/// Switches an offload on or off.
pub(crate) fn set_offload(
    devices: &DeviceControl,
    device: &str,
    offload: Offload,
    is_on: bool,
) -> io::Result<()> {
    if offload.set != STSO {
        return ethtool(devices, device, &mut [offload.set, u32::from(is_on)]);
    }
    devices.set_features(device, &TSO_FEATURES, is_on)?;
    // The kernel ignores features that the device does not have.
    match (get::<2>(devices, device, offload.get)?[1] != 0) == is_on {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// Duplex in struct ethtool_cmd, the third byte of its fourth word. A bridge has a speed, but no duplex
/// (DUPLEX_UNKNOWN, net/bridge/br_device.c), as have virtual devices of which a hypervisor states only the
/// speed.
fn full_duplex(words: &[u32; CMD_WORDS]) -> Reading<bool> {
    match words[3].to_ne_bytes()[2] {
        DUPLEX_FULL => Reading::Known(true),
        DUPLEX_HALF => Reading::Known(false),
        _ => Reading::unknown(NOT_SUPPORTED),
    }
}

/// Speed in struct ethtool_cmd, Mb/s: 16 bits in its fourth word, and 16 more in its eighth.
fn speed_mbps(words: &[u32; CMD_WORDS]) -> Option<u64> {
    let half = |word: u32, offset: usize| {
        let bytes = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([bytes[offset], bytes[offset + 1]]))
    };
    // cmd, supported, advertising; speed (16), duplex, port; phy_address, transceiver, autoneg, mdio_support;
    // maxtxpkt; maxrxpkt; speed_hi (16), ...
    let mbps = half(words[7], 0) << 16 | half(words[3], 0);
    // Old drivers set only the lower half to "unknown".
    (mbps != SPEED_UNKNOWN && mbps != 0 && mbps != 0xffff).then_some(u64::from(mbps))
}

fn decode_text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of linux/ethtool.h's struct ethtool_coalesce, by position.
    #[test]
    fn setting_a_delay_keeps_the_other_coalescing_settings() {
        let mut present: [u32; COALESCE_WORDS] = std::array::from_fn(|index| index as u32);
        present[0] = GCOALESCE;
        for (delay, index) in [(InterruptDelay::Rx, 1), (InterruptDelay::Tx, 5)] {
            let request = delay.request(present, 777);
            for (at, word) in request.iter().enumerate() {
                let expected = match at {
                    0 => SCOALESCE,
                    at if at == index => 777,
                    at => at as u32,
                };
                assert_eq!(*word, expected, "{delay:?} {at}");
            }
        }
        assert_eq!(InterruptDelay::from_name("rx-usecs"), Some(InterruptDelay::Rx));
        assert_eq!(InterruptDelay::from_name("rx-frames"), None);
    }

    #[test]
    fn an_unknown_duplex_is_not_half_duplex() {
        let reading = |duplex: u8| {
            let mut words = [0; CMD_WORDS];
            words[3] = u32::from_ne_bytes([0x10, 0x27, duplex, 0]);
            full_duplex(&words)
        };
        assert_eq!([reading(0), reading(1)], [Reading::Known(false), Reading::Known(true)]);
        // DUPLEX_UNKNOWN.
        assert_eq!(reading(0xff).known(), None);
    }

    #[test]
    fn the_speed_is_composed_of_two_halves() {
        let mut words = [0; CMD_WORDS];
        let gigabit = 1000u16.to_ne_bytes();
        words[3] = u32::from_ne_bytes([gigabit[0], gigabit[1], 1, 0]);
        assert_eq!(speed_mbps(&words), Some(1000));
        // 100 Gb/s is 0x186a0.
        let low = 0x86a0u16.to_ne_bytes();
        words[3] = u32::from_ne_bytes([low[0], low[1], 1, 0]);
        let high = 1u16.to_ne_bytes();
        words[7] = u32::from_ne_bytes([high[0], high[1], 0, 0]);
        assert_eq!(speed_mbps(&words), Some(100_000));
        (words[3], words[7]) = (u32::MAX, u32::MAX);
        assert_eq!(speed_mbps(&words), None);
    }
}
