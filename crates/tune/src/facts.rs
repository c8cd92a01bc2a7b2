//! The facts of a host: plain data, written as JSON and sent to the other end of a test. A value that could
//! not be read has the reason instead.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::{BitRate, KernelVersion};

/// Pages of all x86 and most ARM machines, bytes.
const DEFAULT_PAGE_BYTES: u64 = 4096;

/// A value, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading<T> {
    /// The value that was read.
    Known(T),
    /// It could not be read.
    Unknown {
        /// The reason, in words.
        why: String,
    },
}

impl<T> Reading<T> {
    /// An unknown value with its reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Reading::Unknown { why: why.into() }
    }

    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Unknown { .. } => None,
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading::unknown("not read")
    }
}

impl<T> From<std::io::Result<T>> for Reading<T> {
    fn from(result: std::io::Result<T>) -> Self {
        match result {
            Ok(value) => Reading::Known(value),
            Err(error) => Reading::unknown(error.to_string()),
        }
    }
}

/// The value of a sysctl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SysctlValue {
    /// Its text, with single spaces between values.
    pub value: String,
    /// Whether it cannot be changed from this network namespace, because it belongs to the whole machine.
    #[serde(default)]
    pub read_only: bool,
}

/// All facts of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// `uname -r`.
    pub kernel: String,
    /// Memory of the machine, bytes.
    pub memory_bytes: Reading<u64>,
    /// Size of a page, bytes: the unit of `tcp_mem`.
    pub page_bytes: Reading<u64>,
    /// Number of processors available to this process.
    pub cpus: usize,
    /// Whether this is a host of a lab, which shares everything but its network namespace with the machine.
    pub lab_host: bool,
    /// Sysctls by name, as in `net.ipv4.tcp_rmem`.
    pub sysctls: BTreeMap<String, Reading<SysctlValue>>,
    /// Network devices without the loopback device.
    pub devices: Vec<Device>,
    /// Routes that have metrics.
    pub routes: Reading<Vec<Route>>,
    /// Frequency governors in use, without duplicates.
    pub governors: Reading<Vec<String>>,
    /// Counters of the network's soft interrupts since the machine started.
    pub softnet: Reading<Softnet>,
    /// Whether this kernel has the queueing discipline `fq`.
    pub fq: Reading<bool>,
}

/// Sums of /proc/net/softnet_stat over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softnet {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// Times that a soft interrupt ran out of its budget (time_squeeze).
    pub squeezed: u64,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Whether it is administratively up (IFF_UP).
    pub up: bool,
    /// MTU, bytes of IP.
    pub mtu: u32,
    /// Length of its transmit queue, packets.
    pub tx_queue_len: u32,
    /// Its root queueing discipline.
    pub qdisc: Option<String>,
    /// Name of the driver.
    pub driver: Reading<String>,
    /// Link speed, Mb/s.
    pub speed_mbps: Reading<u64>,
    /// Whether the link is full duplex.
    pub full_duplex: Reading<bool>,
    /// Sizes of its descriptor rings.
    pub rings: Reading<Rings>,
    /// Offloads that are on.
    pub offloads: Reading<Offloads>,
    /// Interrupt coalescing.
    pub coalescing: Reading<Coalescing>,
    /// Ethernet flow control.
    pub pause: Reading<Pause>,
    /// The NUMA node to which it is attached.
    pub numa_node: Reading<i32>,
    /// Its interrupts, with the processors that may handle each.
    pub interrupts: Reading<Vec<Interrupt>>,
}

/// Sizes of a device's descriptor rings, and their maxima.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rings {
    /// Receive descriptors.
    pub rx: u32,
    /// Maximum of receive descriptors.
    pub rx_max: u32,
    /// Transmit descriptors.
    pub tx: u32,
    /// Maximum of transmit descriptors.
    pub tx_max: u32,
}

/// Offloads of a device, and of the kernel for that device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Offloads {
    /// The device splits super-packets into segments.
    pub tso: bool,
    /// The kernel splits super-packets just before the driver.
    pub gso: bool,
    /// The kernel merges received segments.
    pub gro: bool,
    /// The device merges received segments, and loses their boundaries.
    pub lro: bool,
    /// The device verifies checksums of received packets.
    pub rx_checksum: bool,
    /// The device computes checksums of sent packets.
    pub tx_checksum: bool,
}

/// Interrupt coalescing of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Maximum delay of the interrupt after a packet was received, us.
    pub rx_us: u32,
    /// Maximum delay of the interrupt after a packet was sent, us.
    pub tx_us: u32,
    /// Whether the driver adapts the receive delay to the load.
    pub adaptive_rx: bool,
    /// Whether the driver adapts the transmit delay to the load.
    #[serde(default)]
    pub adaptive_tx: bool,
}

/// Ethernet flow control (IEEE 802.3x).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether the device pauses when it receives a pause frame.
    pub rx: bool,
    /// Whether the device sends pause frames.
    pub tx: bool,
    /// Whether flow control is negotiated with the peer.
    pub autonegotiated: bool,
}

/// One interrupt line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Number in /proc/irq.
    pub number: u32,
    /// The processors that may handle it, as in `0-3`.
    pub cpus: String,
}

/// A route with metrics (ip-route(8)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Destination, as in `10.0.0.0/8` or `default`.
    pub to: String,
    /// Name of the outgoing device.
    pub device: Option<String>,
    /// Metrics by their names in ip-route(8), such as `window` and `initcwnd`.
    pub metrics: BTreeMap<String, u64>,
    /// Names of the locked metrics, which the kernel does not replace by measured values.
    pub locked: Vec<String>,
}

impl Device {
    /// Speed of the link, if the device reports it.
    pub fn speed(&self) -> Option<BitRate> {
        self.speed_mbps.known().map(|mbps| BitRate(mbps.saturating_mul(1_000_000)))
    }
}

impl HostFacts {
    /// The text of a sysctl, if known.
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        Some(self.sysctls.get(name)?.known()?.value.as_str())
    }

    /// The value of a sysctl with one number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.sysctl(name)?.parse().ok()
    }

    /// The values of a sysctl with three numbers: `tcp_rmem`, `tcp_wmem`, `tcp_mem`.
    pub fn triple(&self, name: &str) -> Option<[u64; 3]> {
        let numbers: Vec<u64> = self.sysctl(name)?.split_whitespace().flat_map(str::parse).collect();
        numbers.try_into().ok()
    }

    /// Size of a page; that of most machines if the fact is unknown or not a valid size.
    pub fn page_bytes_or_default(&self) -> u64 {
        let known = self.page_bytes.known().copied();
        known.filter(|bytes| bytes.is_power_of_two()).unwrap_or(DEFAULT_PAGE_BYTES)
    }

    /// The kernel's version; `None` if its name cannot be parsed.
    pub fn version(&self) -> Option<KernelVersion> {
        self.kernel.parse().ok()
    }

    /// The facts without the counters of received packets, for a check: those are not settings, and they stay
    /// after the advice about them was followed.
    pub fn without_counters(self) -> HostFacts {
        HostFacts { softnet: Reading::unknown("not compared"), ..self }
    }

    /// The device with this name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_round_trip_through_json_with_their_reason() {
        let device = Device { speed_mbps: Reading::Known(10_000), ..Device::default() };
        let json = serde_json::to_value(&device).unwrap();
        assert_eq!(json["speed_mbps"], 10_000);
        assert_eq!(device.speed(), Some(BitRate(10_000_000_000)));
        assert_eq!(Device::default().speed(), None);
        assert_eq!(json["rings"]["why"], "not read");
        assert_eq!(serde_json::from_value::<Device>(json).unwrap(), device);
    }

    #[test]
    fn unknown_fields_of_a_newer_longfat_are_ignored() {
        let facts: HostFacts = serde_json::from_str(r#"{"kernel":"9.9","new":[1]}"#).unwrap();
        assert_eq!((facts.version().unwrap().major, facts.sysctls.len()), (9, 0));
    }
}
