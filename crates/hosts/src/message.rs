//! The JSON messages between the program that runs a scenario (the client) and a `longfat serve`.

use std::{collections::BTreeMap, net::IpAddr};

use iperf3::wire::Samples;
use serde::{Deserialize, Serialize};
use units::{BitRate, Bytes};

/// The prefix of the cookie, which includes the version of these messages.
pub(crate) const COOKIE_PREFIX: &str = "longfat-hosts-1-";

/// A message of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Describe the host and these settings: [`Reply::Host`]. Settings have the names of
    /// [`tune::read_setting`]. `nic` stands for the device with the data address, or, if there is none, with
    /// the address of the session's connection.
    Inspect {
        settings: Vec<String>,
        #[serde(default)]
        data_address: Option<IpAddr>,
    },
    /// Read the clock: [`Reply::Clock`].
    Clock,
    /// Change settings until this session ends: [`Reply::Changed`] or [`Reply::Refused`].
    Change { purpose: String, settings: Vec<(String, String)> },
    /// Restore the changed settings: [`Reply::Restored`] or [`Reply::Refused`].
    Restore,
    /// Send a flow: [`Reply::Started`], [`Reply::Rows`], ... and [`Reply::Done`] with this number.
    Run { number: u32, flow: FlowRequest },
    /// End all flows of this session.
    Stop,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    Host(HostDescription),
    /// ns since 1970.
    Clock {
        realtime_ns: i64,
    },
    Changed,
    /// Settings that another program has changed meanwhile, with the values that it set.
    Restored {
        changed_since: Vec<(String, String)>,
    },
    /// The request is not permitted or failed.
    Refused {
        reason: String,
    },
    Note {
        number: u32,
        text: String,
    },
    /// The flow's data begins, ns since 1970 by the server's clock.
    Started {
        number: u32,
        realtime_ns: i64,
    },
    /// Samples of the sending end.
    Rows {
        number: u32,
        samples: Samples,
    },
    Done {
        number: u32,
        end: Box<FlowEnd>,
    },
}

/// A host as its server describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostDescription {
    /// Version of longfat.
    pub version: String,
    /// Its own name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// The requested settings that it has and discloses, and their values; `nic` is replaced by the name of
    /// the device.
    pub settings: BTreeMap<String, String>,
    /// Whether it changes settings on request (`serve --allow-tune`).
    pub allows_tune: bool,
    /// Whether it sends flows to other hosts than the client (it has a token).
    pub sends_to_others: bool,
    /// The device with the data address, or else with the session's address.
    #[serde(default)]
    pub device: Option<String>,
}

/// A flow to be sent, or received with `reverse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowRequest {
    /// Its name in the scenario.
    pub name: String,
    /// Name or address of the other end.
    pub to: String,
    /// Port of the server there.
    pub port: u16,
    /// The other end's session to which the flow belongs: the cookie.
    pub session: Option<String>,
    /// The other end sends.
    pub reverse: bool,
    /// The local address.
    pub bind: Option<IpAddr>,
    /// Maximum duration, microseconds.
    pub duration_us: u64,
    /// Interval of samples, microseconds.
    pub sample_us: u64,
    /// The traffic.
    pub traffic: Traffic,
}

/// The traffic of a flow. `None`: the default of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Traffic {
    Tcp {
        congestion_control: Option<String>,
        size: Option<Bytes>,
        mss: Option<u32>,
        send_buffer: Option<Bytes>,
        receive_buffer: Option<Bytes>,
        pacing: Option<BitRate>,
        write_rate: Option<BitRate>,
        write_size: Option<Bytes>,
    },
    Udp {
        rate: BitRate,
        payload: Option<Bytes>,
        size: Option<Bytes>,
    },
    Ping {
        interval_us: u64,
        count: Option<u32>,
        payload: Bytes,
        timeout_us: u64,
    },
}

/// The result of a flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowEnd {
    /// When its data began, ns since 1970 by the clock of the end that sends this; `None` if it never did.
    pub started_ns: Option<i64>,
    /// Duration of the data, microseconds.
    pub duration_us: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The sender's congestion control.
    pub congestion_control: Option<String>,
    /// Samples of both ends.
    pub samples: Samples,
    /// Lost echoes: the time, in microseconds since the start, and the number of each.
    pub lost_echoes: Vec<(i64, i64)>,
    /// Shares of the time that the sender and the receiver ran or waited for a processor, 0 to 1.
    pub busy: [Option<f64>; 2],
    /// Why it failed.
    pub error: Option<String>,
}
