//! What the driver of a device says and can be told, by ethtool's ioctl (linux/ethtool.h): each answer is a structure of 32-bit words.

use std::io;

use crate::{
    facts::{Coalescing, Device, Offloads, Pause, Reading, Rings},
    sys::Devices,
};

const GSET: u32 = 0x01;
const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const GRINGPARAM: u32 = 0x10;
const GPAUSEPARAM: u32 = 0x12;
const GRXCSUM: u32 = 0x14;
const GTXCSUM: u32 = 0x16;
const GTSO: u32 = 0x1e;
const GGSO: u32 = 0x23;
const GFLAGS: u32 = 0x25;
const GGRO: u32 = 0x2b;
/// ETH_FLAG_LRO.
const LRO: u32 = 1 << 15;
const SRINGPARAM: u32 = 0x11;
/// SPEED_UNKNOWN, in its two 16-bit halves.
const SPEED_UNKNOWN: u32 = u32::MAX;
const DUPLEX_FULL: u8 = 1;
/// A device of memory has the speed that its maker wrote there (10 Mb/s in drivers/net/tun.c, 10 Gb/s in veth.c).
const PRETENDERS: [&str; 2] = ["tun", "veth"];
/// struct ethtool_drvinfo has 196 bytes.
const DRVINFO_WORDS: usize = 49;
/// struct ethtool_cmd has 44 bytes.
const CMD_WORDS: usize = 11;
/// struct ethtool_coalesce has 92 bytes.
const COALESCE_WORDS: usize = 23;
/// struct ethtool_ringparam has 36 bytes.
const RINGPARAM_WORDS: usize = 9;

/// Fills in what the driver tells.
pub(crate) fn complete(device: &mut Device) {
    let devices = match Devices::open() {
        Ok(devices) => devices,
        Err(error) => {
            device.driver = Reading::unknown(error.to_string());
            return;
        }
    };
    let name = device.name.as_str();
    let driver = words::<DRVINFO_WORDS>(&devices, name, GDRVINFO).map(|words| text(&words[1..9]));
    device.driver = reading(driver);
    let pretends = device.driver.known().is_some_and(|driver| PRETENDERS.contains(&driver.as_str()));
    if pretends {
        let why = "the device is one of memory: the speed it names means nothing";
        (device.speed_mbps, device.full_duplex) = (Reading::unknown(why), Reading::unknown(why));
    } else {
        let link = words::<CMD_WORDS>(&devices, name, GSET);
        device.full_duplex = match &link {
            Ok(words) => Reading::Known(words[3].to_ne_bytes()[2] == DUPLEX_FULL),
            Err(_) => Reading::unknown(NO_ANSWER),
        };
        device.speed_mbps = match link.map(|words| speed(&words)) {
            Ok(Some(mbps)) => Reading::Known(mbps),
            Ok(None) => Reading::unknown("the device is not connected, or does not know"),
            Err(_) => Reading::unknown(NO_ANSWER),
        };
    }
    device.rings = reading(words::<RINGPARAM_WORDS>(&devices, name, GRINGPARAM).map(|words| Rings {
        rx_max: words[1],
        tx_max: words[4],
        rx: words[5],
        tx: words[8],
    }));
    device.coalescing = reading(words::<COALESCE_WORDS>(&devices, name, GCOALESCE).map(|words| Coalescing {
        rx_us: words[1],
        tx_us: words[5],
        adaptive_rx: words[10] != 0,
    }));
    device.pause = reading(words::<4>(&devices, name, GPAUSEPARAM).map(|words| Pause {
        autonegotiated: words[1] != 0,
        rx: words[2] != 0,
        tx: words[3] != 0,
    }));
    device.offloads = reading(offloads(&devices, name));
}

const NO_ANSWER: &str = "the driver does not tell";

fn reading<T>(result: io::Result<T>) -> Reading<T> {
    match result {
        Ok(value) => Reading::Known(value),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Reading::unknown(NO_ANSWER),
        Err(error) => Reading::unknown(error.to_string()),
    }
}

fn words<const N: usize>(devices: &Devices, device: &str, command: u32) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    words[0] = command;
    devices.ask(device, &mut words)?;
    Ok(words)
}

fn offloads(devices: &Devices, device: &str) -> io::Result<Offloads> {
    let value = |command| Ok::<u32, io::Error>(words::<2>(devices, device, command)?[1]);
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
    /// Its place in struct ethtool_ringparam: cmd, four largest, then rx, rx mini, rx jumbo, tx.
    fn place(self) -> usize {
        match self {
            Ring::Rx => 5,
            Ring::Tx => 8,
        }
    }
}

/// Descriptors of a ring.
pub(crate) fn ring(devices: &Devices, device: &str, ring: Ring) -> io::Result<u32> {
    Ok(words::<RINGPARAM_WORDS>(devices, device, GRINGPARAM)?[ring.place()])
}

/// Sets the descriptors of a ring; the others stay.
pub(crate) fn set_ring(devices: &Devices, device: &str, ring: Ring, descriptors: u32) -> io::Result<()> {
    let mut words = words::<RINGPARAM_WORDS>(devices, device, GRINGPARAM)?;
    (words[0], words[ring.place()]) = (SRINGPARAM, descriptors);
    devices.ask(device, &mut words)
}

/// An offload that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offload {
    get: u32,
    set: u32,
}

impl Offload {
    /// By ethtool's short name.
    pub(crate) fn named(name: &str) -> Option<Offload> {
        let (get, set) = match name {
            "rx" => (GRXCSUM, 0x15),
            "tx" => (GTXCSUM, 0x17),
            "tso" => (GTSO, 0x1f),
            "gso" => (GGSO, 0x24),
            "gro" => (GGRO, 0x2c),
            _ => return None,
        };
        Some(Offload { get, set })
    }
}

/// Whether an offload is on.
pub(crate) fn offload(devices: &Devices, device: &str, offload: Offload) -> io::Result<bool> {
    Ok(words::<2>(devices, device, offload.get)?[1] != 0)
}

/// Switches an offload: 1 is on.
pub(crate) fn set_offload(devices: &Devices, device: &str, offload: Offload, on: u32) -> io::Result<()> {
    devices.ask(device, &mut [offload.set, on])
}

/// Mb/s of struct ethtool_cmd: 16 bits in its fourth word, and 16 more in its eighth.
fn speed(words: &[u32; CMD_WORDS]) -> Option<u64> {
    let half = |word: u32, at: usize| {
        let bytes = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
    };
    // cmd, supported, advertising; speed (16), duplex, port; phy_address, transceiver, autoneg, mdio_support; maxtxpkt; maxrxpkt;
    // speed_hi (16), ...
    let mbps = half(words[7], 0) << 16 | half(words[3], 0);
    // What says "unknown" in the lower half alone comes from old drivers.
    (mbps != SPEED_UNKNOWN && mbps != 0 && mbps != 0xffff).then_some(u64::from(mbps))
}

fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_has_two_halves() {
        let mut words = [0; CMD_WORDS];
        let gigabit = 1000u16.to_ne_bytes();
        words[3] = u32::from_ne_bytes([gigabit[0], gigabit[1], 1, 0]);
        assert_eq!(speed(&words), Some(1000));
        // 100 Gb/s is 0x186a0.
        let low = 0x86a0u16.to_ne_bytes();
        words[3] = u32::from_ne_bytes([low[0], low[1], 1, 0]);
        let high = 1u16.to_ne_bytes();
        words[7] = u32::from_ne_bytes([high[0], high[1], 0, 0]);
        assert_eq!(speed(&words), Some(100_000));
        (words[3], words[7]) = (u32::MAX, u32::MAX);
        assert_eq!(speed(&words), None);
    }
}
