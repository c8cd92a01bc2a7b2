//! Advice: one recommendation for each setting, with its reason, memory cost and source.

use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes, Time};

/// The path for which the host is to be tuned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Rate of the path's slowest link.
    pub rate: BitRate,
    /// Round-trip time of the path.
    pub rtt: Time,
    /// Number of TCP connections that share the rate.
    pub streams: u32,
    /// The device through which packets leave; `None` for all devices.
    pub device: Option<String>,
    /// Whether values that are larger than advised may be lowered.
    pub lower: bool,
}

/// The setting that a recommendation is about.
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
        /// `rx` or `tx`.
        ring: &'static str,
    },
    /// An offload of a device, by ethtool's short name.
    Offload {
        /// The device.
        device: String,
        /// Such as `tso`.
        feature: &'static str,
    },
    /// Interrupt coalescing of a device: time from a packet to its interrupt, microseconds.
    Coalescing {
        /// The device.
        device: String,
        /// `rx-usecs` or `tx-usecs`, as in ethtool(8).
        setting: &'static str,
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
    /// Processors that handle a device's interrupts.
    Interrupts {
        /// The device.
        device: String,
    },
    /// Frequency scaling.
    Governor,
    /// A metric of a route.
    Route {
        /// Destination prefix, or `default`.
        to: String,
        /// Name of the metric in ip-route(8).
        metric: String,
    },
}

impl Target {
    /// The name in tables and messages.
    pub fn name(&self) -> String {
        match self {
            Target::Sysctl { name } => name.clone(),
            Target::Ring { device, ring } => format!("{device} {ring} ring"),
            Target::Offload { device, feature } => format!("{device} {feature}"),
            Target::Coalescing { device, setting } => format!("{device} {setting}"),
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

/// How a setting compares with the recommendation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RecommendationStatus {
    /// The setting has the recommended value.
    #[serde(rename = "fine")]
    Satisfied,
    /// The present value is already larger or better, and is not changed.
    #[serde(rename = "better")]
    Exceeded,
    /// The setting should be changed. `tune --apply` changes sysctls, and settings of a device that was
    /// named.
    Change,
    /// The setting should be changed, but cannot be changed from this network namespace.
    #[serde(rename = "elsewhere")]
    NotChangeable {
        /// The reason.
        why: String,
    },
    /// The setting could not be read.
    Unknown {
        /// The reason.
        why: String,
    },
    /// The machine's administrator has to decide.
    #[serde(rename = "look")]
    ManualReview,
}

/// A recommendation for one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// The setting.
    #[serde(flatten)]
    pub target: Target,
    /// The present value, if known.
    pub now: Option<String>,
    /// The recommended value.
    pub advised: String,
    /// How the two compare.
    #[serde(flatten)]
    pub status: RecommendationStatus,
    /// Why the value is recommended.
    pub reason: String,
    /// Memory that the setting may cost, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Source of the recommendation.
    pub source: &'static str,
}

/// All recommendations for one goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The bandwidth-delay product, bytes.
    pub bdp_bytes: u64,
    /// The largest socket buffer of one connection, bytes.
    pub buffer_bytes: u64,
    /// Maximum memory of all connections' buffers together, bytes.
    pub memory_bytes: u64,
    /// Ordered by importance.
    pub items: Vec<Recommendation>,
}

impl Advice {
    /// The sysctls that should be changed: name, present value, recommended value.
    pub fn changes(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.items.iter().filter(|item| item.status == RecommendationStatus::Change).filter_map(|item| {
            match &item.target {
                Target::Sysctl { name } => {
                    Some((name.as_str(), item.now.as_deref().unwrap_or_default(), item.advised.as_str()))
                }
                _ => None,
            }
        })
    }

    /// The device settings that should be changed and that [`apply`](crate::apply) can change: name,
    /// recommended value.
    pub fn device_changes(&self) -> impl Iterator<Item = (String, &str)> {
        self.items.iter().filter(|item| item.status == RecommendationStatus::Change).filter_map(|item| {
            match item.target {
                Target::Ring { .. }
                | Target::Offload { .. }
                | Target::Coalescing { .. }
                | Target::TxQueue { .. } => Some((item.target.name(), item.advised.as_str())),
                _ => None,
            }
        })
    }

    /// All settings that should be changed.
    pub fn to_change(&self) -> impl Iterator<Item = &Recommendation> {
        self.items.iter().filter(|item| item.status == RecommendationStatus::Change)
    }
}

/// Why there is no advice: no value of the settings would reach the goal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InfeasibleGoal {
    /// A connection's window would exceed the maximum, because RFC 7323 limits the window scale to 14.
    #[error(
        "one connection would need a window of {needed}, but TCP's maximum is 1 GiB (RFC 7323); use \
        --streams {streams} or more"
    )]
    Window {
        /// The required window.
        needed: Bytes,
        /// The number of streams that would be enough.
        streams: u32,
    },
    /// The buffers would not fit into memory.
    #[error(
        "the buffers of {streams} connections could use {needed}, but this host has {memory} of memory, of \
        which buffers should use at most half"
    )]
    Memory {
        /// Size of all buffers.
        needed: Bytes,
        /// The host's memory.
        memory: Bytes,
        /// Number of connections.
        streams: u32,
    },
}
