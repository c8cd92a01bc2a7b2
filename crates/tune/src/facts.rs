//! What was read of a host: plain data, told in JSON and sent to the other end of a test. What could not be read says why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::KernelVersion;

/// A value, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading<T> {
    /// It was read.
    Known(T),
    /// It could not be.
    Unknown {
        /// The reason, in words.
        why: String,
    },
}

impl<T> Reading<T> {
    /// Without a value, and why.
    pub fn unknown(why: impl Into<String>) -> Self {
        Reading::Unknown { why: why.into() }
    }

    /// The value, where there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Unknown { .. } => None,
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading::unknown("not looked at")
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

/// One sysctl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Its text, blanks made one each.
    pub value: String,
    /// It cannot be changed from here: it belongs to the whole machine and this is a network namespace.
    #[serde(default)]
    pub read_only: bool,
}

/// All that was read of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// `uname -r`.
    pub kernel: String,
    /// Memory of the machine, bytes.
    pub memory_bytes: Reading<u64>,
    /// Processors in use.
    pub cpus: usize,
    /// This is a host of a lab: only its namespace is its own.
    pub lab_host: bool,
    /// By name, as `net.ipv4.tcp_rmem`.
    pub sysctls: BTreeMap<String, Reading<Setting>>,
    /// Network devices, the loopback device left out.
    pub devices: Vec<Device>,
    /// Routes that have metrics.
    pub routes: Reading<Vec<Route>>,
    /// Frequency governors, each once.
    pub governors: Reading<Vec<String>>,
    /// What the network's soft interrupts counted since the machine started.
    pub softnet: Reading<Softnet>,
    /// Whether this kernel has the queueing discipline `fq`.
    pub fq: Reading<bool>,
}

/// Sums of /proc/net/softnet_stat over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softnet {
    /// Packets taken in.
    pub processed: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// How often there was more to do than the budget allows.
    pub squeezed: u64,
}

/// What a device sent since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// Packets; super-packets count once.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets that it, or its root queueing discipline, dropped.
    pub dropped: u64,
}

impl Outgoing {
    /// About how many segments were dropped since `before`, of `mss` bytes each: a super-packet that is dropped holds several.
    pub fn segments_dropped_since(self, before: Self, mss: u64) -> u64 {
        let packets = self.packets.saturating_sub(before.packets).max(1) as f64;
        let in_each = self.bytes.saturating_sub(before.bytes) as f64 / packets / mss.max(1) as f64;
        let dropped = self.dropped.saturating_sub(before.dropped);
        (dropped as f64 * in_each.max(1.0)).round() as u64
    }
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// In service.
    pub up: bool,
    /// Bytes of IP.
    pub mtu: u32,
    /// Packets that its transmit queue holds.
    pub tx_queue_len: u32,
    /// Its root queueing discipline.
    pub qdisc: Option<String>,
    /// The driver's name.
    pub driver: Reading<String>,
    /// Mb/s.
    pub speed_mbps: Reading<u64>,
    /// Both ways at once.
    pub full_duplex: Reading<bool>,
    /// Descriptors.
    pub rings: Reading<Rings>,
    /// What it does for the kernel.
    pub offloads: Reading<Offloads>,
    /// When it interrupts.
    pub coalescing: Reading<Coalescing>,
    /// Ethernet flow control.
    pub pause: Reading<Pause>,
    /// The memory node that it is attached to.
    pub numa_node: Reading<i32>,
    /// Its interrupts and the processors that take each.
    pub interrupts: Reading<Vec<Interrupt>>,
}

/// Descriptors of a device, and the most it could have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rings {
    /// For packets received.
    pub rx: u32,
    /// The most.
    pub rx_max: u32,
    /// For packets to send.
    pub tx: u32,
    /// The most.
    pub tx_max: u32,
}

/// What a device or the kernel before it does in bulk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Offloads {
    /// Cuts super-packets into segments.
    pub tso: bool,
    /// The same, late in the kernel.
    pub gso: bool,
    /// Joins received segments.
    pub gro: bool,
    /// The same in the device, losing their bounds.
    pub lro: bool,
    /// Checks received sums.
    pub rx_checksum: bool,
    /// Computes sums of what is sent.
    pub tx_checksum: bool,
}

/// When a device interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Microseconds that a received packet may wait.
    pub rx_us: u32,
    /// Microseconds after a packet was sent.
    pub tx_us: u32,
    /// The driver chooses by load.
    pub adaptive_rx: bool,
}

/// Ethernet flow control (IEEE 802.3x).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// Stops when told to.
    pub rx: bool,
    /// Tells its peer to stop.
    pub tx: bool,
    /// Agreed on with the peer.
    pub autonegotiated: bool,
}

/// One interrupt line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number in /proc/irq.
    pub number: u32,
    /// The processors that may take it, as `0-3`.
    pub cpus: String,
}

/// A route with metrics (ip-route(8)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// As `10.0.0.0/8` or `default`.
    pub to: String,
    /// The device it goes through.
    pub device: Option<String>,
    /// Metrics by their names in ip-route(8), such as `window` and `initcwnd`.
    pub metrics: BTreeMap<String, u64>,
    /// Names of those that are locked: the kernel does not learn better ones.
    pub locked: Vec<String>,
}

impl HostFacts {
    /// A sysctl's text.
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        Some(self.sysctls.get(name)?.known()?.value.as_str())
    }

    /// A sysctl of one number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.sysctl(name)?.parse().ok()
    }

    /// A sysctl of three numbers: `tcp_rmem`, `tcp_wmem`, `tcp_mem`.
    pub fn triple(&self, name: &str) -> Option<[u64; 3]> {
        let numbers: Vec<u64> = self.sysctl(name)?.split_whitespace().flat_map(str::parse).collect();
        numbers.try_into().ok()
    }

    /// The kernel's version, where its name is understood.
    pub fn version(&self) -> Option<KernelVersion> {
        self.kernel.parse().ok()
    }

    /// A device by name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_says_why_in_json_and_back() {
        let device = Device { speed_mbps: Reading::Known(10_000), ..Device::default() };
        let json = serde_json::to_value(&device).unwrap();
        assert_eq!(json["speed_mbps"], 10_000);
        assert_eq!(json["rings"]["why"], "not looked at");
        assert_eq!(serde_json::from_value::<Device>(json).unwrap(), device);
    }

    #[test]
    fn facts_of_a_newer_longfat_are_read_as_far_as_they_are_known() {
        let facts: HostFacts = serde_json::from_str(r#"{"kernel":"9.9","new":[1]}"#).unwrap();
        assert_eq!((facts.version().unwrap().major, facts.sysctls.len()), (9, 0));
    }
}
