//! What is advised: one item a setting, with its reason, what it costs and where that comes from.

use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes, Time};

/// What the host is to be good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Of the path's slowest link.
    pub rate: BitRate,
    /// Round trip of the path.
    pub rtt: Time,
    /// TCP connections that share the rate.
    pub streams: u32,
    /// The device that leads there; all devices without it.
    pub device: Option<String>,
    /// What is larger than advised may be made smaller.
    pub lower: bool,
}

/// What an item is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// A sysctl.
    Sysctl {
        /// Its name.
        name: String,
    },
    /// Descriptors of a device: `rx` or `tx`.
    Ring {
        /// The device.
        device: String,
        /// Which.
        ring: &'static str,
    },
    /// An offload of a device, by ethtool's short name.
    Offload {
        /// The device.
        device: String,
        /// Such as `tso`.
        feature: &'static str,
    },
    /// A device's root queueing discipline.
    Qdisc {
        /// The device.
        device: String,
    },
    /// A device's transmit queue, packets.
    TxQueue {
        /// The device.
        device: String,
    },
    /// A device's MTU.
    Mtu {
        /// The device.
        device: String,
    },
    /// Ethernet flow control.
    Pause {
        /// The device.
        device: String,
    },
    /// Speed and duplex.
    Link {
        /// The device.
        device: String,
    },
    /// On which processors a device's interrupts are taken.
    Interrupts {
        /// The device.
        device: String,
    },
    /// Frequency scaling.
    Governor,
    /// A metric of a route.
    Route {
        /// Where to.
        to: String,
        /// Which.
        metric: String,
    },
}

impl Target {
    /// As people are told.
    pub fn name(&self) -> String {
        match self {
            Target::Sysctl { name } => name.clone(),
            Target::Ring { device, ring } => format!("{device} {ring} ring"),
            Target::Offload { device, feature } => format!("{device} {feature}"),
            Target::Qdisc { device } => format!("{device} qdisc"),
            Target::TxQueue { device } => format!("{device} txqueuelen"),
            Target::Mtu { device } => format!("{device} mtu"),
            Target::Pause { device } => format!("{device} pause"),
            Target::Link { device } => format!("{device} link"),
            Target::Interrupts { device } => format!("{device} interrupts"),
            Target::Governor => "cpu governor".into(),
            Target::Route { to, metric } => format!("route {to} {metric}"),
        }
    }
}

/// How a setting stands to what is advised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It is so.
    Fine,
    /// It is larger or better already, and stays.
    Better,
    /// It is to be changed; `tune --apply` does it where it is a sysctl, or of a device that was named.
    Change,
    /// It would be changed, but not from here.
    Elsewhere {
        /// Why not.
        why: String,
    },
    /// It could not be read.
    Unknown {
        /// Why not.
        why: String,
    },
    /// Worth a look: nobody but its owner can say.
    Look,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// Which.
    #[serde(flatten)]
    pub target: Target,
    /// What it is.
    pub now: Option<String>,
    /// What it should be.
    pub advised: String,
    /// How these stand to each other.
    #[serde(flatten)]
    pub state: State,
    /// Why.
    pub reason: String,
    /// Memory that it may take, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Where the advice comes from.
    pub source: &'static str,
}

/// All that is advised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The bandwidth-delay product, bytes.
    pub bdp_bytes: u64,
    /// The largest socket buffer of one connection, bytes.
    pub buffer_bytes: u64,
    /// What all connections' buffers together may take at most, bytes.
    pub memory_bytes: u64,
    /// In the order in which they matter.
    pub items: Vec<Item>,
}

impl Advice {
    /// The sysctls that are to be changed: name, value now, value advised.
    pub fn changes(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.items.iter().filter(|item| item.state == State::Change).filter_map(|item| match &item.target {
            Target::Sysctl { name } => {
                Some((name.as_str(), item.now.as_deref().unwrap_or_default(), item.advised.as_str()))
            }
            _ => None,
        })
    }

    /// What is to be changed of devices and can be: name, value advised.
    pub fn device_changes(&self) -> impl Iterator<Item = (String, &str)> {
        self.items.iter().filter(|item| item.state == State::Change).filter_map(|item| match item.target {
            Target::Ring { .. } | Target::Offload { .. } | Target::TxQueue { .. } => {
                Some((item.target.name(), item.advised.as_str()))
            }
            _ => None,
        })
    }

    /// Everything that is to be changed.
    pub fn to_change(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.state == State::Change)
    }
}

/// Why nothing can be advised: no value would work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// RFC 7323's window scale ends at 14.
    #[error(
        "one connection would need a window of {needed}, and TCP has none above 1 GiB (RFC 7323); with --streams {streams} or more it works"
    )]
    Window {
        /// The window.
        needed: Bytes,
        /// How many streams it takes.
        streams: u32,
    },
    /// The buffers do not fit.
    #[error(
        "the buffers of {streams} connections could take {needed}, and this host has {memory}; half of that is what buffers should ever take"
    )]
    Memory {
        /// Of all buffers.
        needed: Bytes,
        /// The host's.
        memory: Bytes,
        /// How many connections.
        streams: u32,
    },
}
