//! The summary of one flow of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cause, FlowKind, ReceiverVerdict, StreamSummary};

/// One flow of a run. Figures that an engine does not provide are `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// The flow's name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Its traffic.
    pub kind: FlowKind,
    /// Congestion control; `null` for flows other than TCP.
    pub cc: Option<String>,
    /// The congestion control's parameters that the scenario sets, as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cc_set: BTreeMap<String, Setting>,
    /// The congestion control's name in the kernel; another one where the program registered it for this run.
    #[serde(default)]
    pub cc_kernel_name: Option<String>,
    /// The congestion control's origin: `kernel`, `longfat`, `longfat cc load` (it was loaded before the
    /// run), or the C file as the scenario names it.
    #[serde(default)]
    pub cc_from: Option<String>,
    /// Goodput: application bytes received over the flow's duration.
    pub goodput_bps: Option<f64>,
    /// Goodput after throughput became steady.
    pub steady_goodput_bps: Option<f64>,
    /// When throughput became steady, seconds since the run's start.
    #[serde(default)]
    pub steady_from_s: Option<f64>,
    /// Goodput in parts of the run that the scenario's published figures name (`between`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartGoodput>,
    /// Application bytes received.
    pub bytes: Option<u64>,
    /// Segments retransmitted.
    pub retransmitted_segs: Option<u64>,
    /// Segments with payload sent, retransmissions included.
    pub sent_segs: Option<u64>,
    /// Smallest round-trip time.
    pub min_rtt_us: Option<f64>,
    /// Mean round-trip time.
    pub mean_rtt_us: Option<f64>,
    /// Median round-trip time.
    #[serde(default)]
    pub median_rtt_us: Option<f64>,
    /// The round-trip time that 99 % of the samples did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_rtt_us: Option<f64>,
    /// Largest round-trip time.
    pub max_rtt_us: Option<f64>,
    /// Ping flows: the first echo's round-trip time (which includes address resolution).
    #[serde(default)]
    pub first_rtt_us: Option<f64>,
    /// Ping flows: standard deviation of the round-trip times, as ping's `mdev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mdev_rtt_us: Option<f64>,
    /// Ping flows: how long the measurement stalled while the first echo was in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_rtt_stalled_us: Option<f64>,
    /// Ping flows: how long the measurement stalled while the echo with the largest round-trip time was in
    /// flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rtt_stalled_us: Option<f64>,
    /// Ping flows: echo requests sent.
    #[serde(default)]
    pub pings_sent: Option<u64>,
    /// Ping flows: echo requests without a reply.
    #[serde(default)]
    pub pings_lost: Option<u64>,
    /// UDP flows: datagrams sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_sent: Option<u64>,
    /// UDP flows: datagrams missing before the newest received. Datagrams in flight at the end do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_lost: Option<u64>,
    /// UDP flows: datagrams that arrived after a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_reordered: Option<u64>,
    /// UDP flows: duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_duplicated: Option<u64>,
    /// Real-time streams: what could be played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSummary>,
    /// UDP flows: lost datagrams as a share of lost and received ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_share: Option<f64>,
    /// UDP flows: smallest one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_owd_us: Option<f64>,
    /// UDP flows: mean one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_owd_us: Option<f64>,
    /// UDP flows: largest one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_owd_us: Option<f64>,
    /// UDP flows: interarrival jitter at the end (RFC 3550 section 6.4.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<f64>,
    /// Seconds from the first retransmission until the window had its earlier size; `null` where it did not
    /// recover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Largest congestion window, payload bytes.
    pub max_cwnd_bytes: Option<u64>,
    /// Mean over time of the congestion window, payload bytes.
    #[serde(default)]
    pub mean_cwnd_bytes: Option<u64>,
    /// Maximum segment size, payload bytes.
    pub mss_bytes: Option<u64>,
    /// Largest window that the receiver advertised.
    pub max_rcv_wnd_bytes: Option<u64>,
    /// Size of the sender's buffer (SO_SNDBUF: what the kernel charges against) at the end. Only where a
    /// kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf_bytes: Option<u64>,
    /// Size of the receiver's buffer (SO_RCVBUF) at the end. Only where a kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcvbuf_bytes: Option<u64>,
    /// The limiting window in the steady part: the smaller of the peer's window and the data in flight,
    /// payload bytes.
    #[serde(default)]
    pub binding_window_bytes: Option<u64>,
    /// Receive window as a share of the receive buffer at the end.
    #[serde(default)]
    pub window_share: Option<f64>,
    /// Goodput that the slowest link of the path allows at this MTU and overhead; `null` on an ideal path.
    pub wire_limit_bps: Option<f64>,
    /// Share of the flow's samples limited by each cause.
    pub limited: Limited,
    /// Share of the flow's samples limited by each cause after throughput became steady.
    #[serde(default)]
    pub limited_steady: Limited,
    /// The cause with the largest share in the steady part; `null` where unknown.
    pub verdict: Option<Cause>,
    /// The verdict of the receiving end alone, where the sender was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_verdict: Option<ReceiverVerdict>,
    /// A second limit that applies too: removing only the first gains little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_also: Option<Cause>,
    /// The verdict's evidence, one sentence each.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The change that removes the limit, in words, with the exact setting where the limit is a setting.
    #[serde(default)]
    pub remedy: Option<String>,
    /// Commands that apply those settings, one per host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
}

/// A command that removes a limit on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The host to run it on.
    pub host: String,
    /// The command, to be copied as it is.
    pub command: String,
    /// Why this value.
    pub reason: String,
}

/// A command and the hosts that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixCommand<'a> {
    /// The hosts, as in `h2 and h1`.
    pub hosts: String,
    /// The command.
    pub command: &'a str,
    /// Why these values, each reason once.
    pub reasons: String,
}

impl FixCommand<'_> {
    /// The commands of some fixes, each once with all its hosts, in the order of the first.
    pub fn of(fixes: &[Fix]) -> Vec<FixCommand<'_>> {
        let mut commands: Vec<&str> = Vec::new();
        for fix in fixes.iter().filter(|fix| !fix.command.is_empty()) {
            if !commands.contains(&fix.command.as_str()) {
                commands.push(&fix.command);
            }
        }
        let command_text = |command| {
            let same: Vec<&Fix> = fixes.iter().filter(|fix| fix.command == command).collect();
            let mut reasons: Vec<&str> = same.iter().map(|fix| fix.reason.as_str()).collect();
            reasons.dedup();
            let hosts = same.iter().map(|fix| fix.host.as_str()).collect::<Vec<_>>().join(" and ");
            FixCommand { hosts, command, reasons: reasons.join("; ") }
        };
        commands.into_iter().map(command_text).collect()
    }
}

/// The value of a congestion control's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Decimal(f64),
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Setting::Boolean(yes) => write!(f, "{yes}"),
            Setting::Integer(number) => write!(f, "{number}"),
            Setting::Decimal(number) => write!(f, "{number}"),
        }
    }
}

impl FlowSummary {
    /// Whether the flow is a bulk transfer: it sends as fast as the path allows, so that fairness applies to
    /// it.
    pub fn is_bulk_transfer(&self) -> bool {
        matches!(
            self.kind,
            FlowKind::Tcp | FlowKind::Xcp | FlowKind::Udt | FlowKind::Tsunami | FlowKind::Quic
        )
    }

    /// Goodput in the steady part, bit/s; over the flow's whole duration where throughput never became
    /// steady; `None` where neither is known.
    pub fn steady_or_overall_goodput_bps(&self) -> Option<f64> {
        self.steady_goodput_bps.or(self.goodput_bps)
    }

    /// The congestion control as displayed: its name and the parameters set, as in `griddt a=7`.
    pub fn cc_label(&self) -> Option<String> {
        let mut label = self.cc.clone()?;
        for (name, value) in &self.cc_set {
            label.push_str(&format!(" {name}={value}"));
        }
        Some(label)
    }
}

/// Share of samples (0 to 1) limited by each cause; the sum is 1 where anything is known, else 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Limited {
    pub receive_window: f64,
    pub send_buffer: f64,
    pub path_rate: f64,
    pub loss: f64,
    #[serde(default)]
    pub ecn_marks: f64,
    #[serde(default)]
    pub local_queue: f64,
    pub slow_start: f64,
    pub application: f64,
    pub pacing: f64,
    pub host_cpu: f64,
}

impl Limited {
    /// The share of `cause`.
    pub fn share(&self, cause: Cause) -> f64 {
        let mut copy = *self;
        *copy.share_mut(cause)
    }

    /// The share of `cause`, mutable.
    pub fn share_mut(&mut self, cause: Cause) -> &mut f64 {
        match cause {
            Cause::ReceiveWindow => &mut self.receive_window,
            Cause::SendBuffer => &mut self.send_buffer,
            Cause::PathRate => &mut self.path_rate,
            Cause::Loss => &mut self.loss,
            Cause::EcnMarks => &mut self.ecn_marks,
            Cause::LocalQueue => &mut self.local_queue,
            Cause::SlowStart => &mut self.slow_start,
            Cause::Application => &mut self.application,
            Cause::Pacing => &mut self.pacing,
            Cause::HostCpu => &mut self.host_cpu,
        }
    }

    /// The mean share of each cause; zero without any.
    pub fn mean(all: &[Limited]) -> Limited {
        let mut mean = Limited::default();
        for cause in Cause::ALL {
            let sum: f64 = all.iter().map(|one| one.share(cause)).sum();
            *mean.share_mut(cause) = sum / all.len().max(1) as f64;
        }
        mean
    }

    /// The cause with the largest share; `None` where nothing is known.
    pub fn largest(&self) -> Option<Cause> {
        Cause::ALL
            .into_iter()
            .filter(|c| self.share(*c) > 0.0)
            .max_by(|a, b| self.share(*a).total_cmp(&self.share(*b)))
    }
}

/// Goodput in a part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartGoodput {
    /// Start of the part, seconds since the run's start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Application bytes received in it, over its length.
    pub goodput_bps: f64,
}
