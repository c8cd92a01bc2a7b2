//! `summary.json` and the document that `longfat run --json` prints: `longfat.summary/1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Cause;

/// The value of the summary's `schema` field.
pub const SUMMARY_SCHEMA: &str = "longfat.summary/1";

/// One or several runs of one scenario, beside the published figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Always [`SUMMARY_SCHEMA`].
    pub schema: String,
    /// The scenario's name (its file's stem).
    pub scenario: String,
    /// The scenario's title.
    #[serde(default)]
    pub title: String,
    /// The machine.
    pub host: HostInfo,
    /// The runs, in the order they were made.
    pub runs: Vec<RunSummary>,
    /// The published figures beside ours.
    #[serde(default)]
    pub published: Vec<PublishedResult>,
}

/// The machine a run was made on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// `uname -r`.
    pub kernel: String,
    /// Processors online; 0 where that is not known (of an imported test).
    pub cpus: u32,
}

impl HostInfo {
    /// For people: `Linux 6.18.0, 2 CPUs`.
    pub fn label(&self) -> String {
        match self.cpus {
            0 => format!("Linux {}", self.kernel),
            cpus => format!("Linux {}, {cpus} CPUs", self.kernel),
        }
    }
}

/// One run: one engine, one variant, one repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The record's directory name.
    pub id: String,
    /// `lab`, `sim` or `model`; `iperf3` of an imported test.
    pub engine: String,
    /// The variant's name; `null` where the scenario has none.
    pub variant: Option<String>,
    /// The kernel that was simulated, where it is not the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Swept fields and their values.
    #[serde(default)]
    pub sweep: BTreeMap<String, String>,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// The random generator's seed.
    pub seed: u64,
    /// Duration in the scenario's time.
    pub duration_s: f64,
    /// Duration on the wall's clock.
    pub wall_s: f64,
    /// When it began, RFC 3339.
    #[serde(default)]
    pub started: String,
    /// True where the run was cut short and this is what could be kept.
    #[serde(default)]
    pub partial: bool,
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// The directions of links that are not ideal.
    pub links: Vec<LinkSummary>,
    /// Jain's fairness index of the TCP and XCP flows' goodputs; `null` without any.
    pub fairness_jain: Option<f64>,
    /// Whether the run's measurements are reliable, and why not.
    pub quality: Quality,
    /// Earlier tries of this run that the machine had disturbed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<DiscardedRun>,
}

impl RunSummary {
    /// The engine, with its version where it is a guest kernel, as in `kernel 6.1.192`.
    pub fn engine_label(&self) -> String {
        match &self.kernel {
            Some(version) if self.engine == "kernel" => format!("kernel {version}"),
            _ => self.engine.clone(),
        }
    }
}

/// One flow of a run. Figures that an engine does not know are `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// The flow's name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// `tcp`, `ping`, `udp` or `xcp`.
    pub kind: String,
    /// Congestion control; `null` for other kinds than TCP.
    pub cc: Option<String>,
    /// The parameters that the scenario sets, as written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cc_set: BTreeMap<String, Setting>,
    /// What the kernel calls it: another name where the program registered it for this run.
    #[serde(default)]
    pub cc_kernel_name: Option<String>,
    /// Where it came from: `kernel`, `longfat`, `longfat cc load` (somebody loaded it before the run), or the C file as the
    /// scenario names it.
    #[serde(default)]
    pub cc_from: Option<String>,
    /// Application bytes received over the flow's time, as a rate.
    pub goodput_bps: Option<f64>,
    /// The same without the first part, until throughput settled.
    pub steady_goodput_bps: Option<f64>,
    /// When throughput settled, since the run's start.
    #[serde(default)]
    pub steady_from_s: Option<f64>,
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
    /// Largest round-trip time.
    pub max_rtt_us: Option<f64>,
    /// Of a ping flow: the first echo's round-trip time (it carries address resolution).
    #[serde(default)]
    pub first_rtt_us: Option<f64>,
    /// Of a ping flow: for how long the measurement stalled while the first echo was under way, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_rtt_stalled_us: Option<f64>,
    /// The same of the echo with the largest round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rtt_stalled_us: Option<f64>,
    /// Of a ping flow: echo requests sent.
    #[serde(default)]
    pub pings_sent: Option<u64>,
    /// Of a ping flow: echo requests not answered.
    #[serde(default)]
    pub pings_lost: Option<u64>,
    /// Of a udp flow: datagrams sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_sent: Option<u64>,
    /// Of a udp flow: datagrams missing before the newest received. Those under way at the end are not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_lost: Option<u64>,
    /// Of a udp flow: datagrams that came after a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_reordered: Option<u64>,
    /// Of a udp flow: datagrams that came again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams_duplicated: Option<u64>,
    /// Of a udp flow: lost datagrams over lost and received ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_share: Option<f64>,
    /// Of a udp flow: smallest one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_owd_us: Option<f64>,
    /// Of a udp flow: mean one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_owd_us: Option<f64>,
    /// Of a udp flow: largest one-way delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_owd_us: Option<f64>,
    /// Of a udp flow: interarrival jitter at the end (RFC 3550 section 6.4.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<f64>,
    /// From the first retransmission until the window was what it had been, seconds; `null` where it never was.
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
    /// The window that bound in the steady part (the smaller of the peer's window and what was in flight).
    #[serde(default)]
    pub binding_window_bytes: Option<u64>,
    /// Receive window over receive buffer at the end: what this kernel makes of a buffer.
    #[serde(default)]
    pub window_share: Option<f64>,
    /// Goodput that the slowest link of the path allows at this MTU and overhead; `null` on an ideal path.
    pub wire_limit_bps: Option<f64>,
    /// Share of the flow's time limited by each cause.
    pub limited: Limited,
    /// The same after slow start.
    #[serde(default)]
    pub limited_steady: Limited,
    /// The cause with the largest share after slow start; `null` where unknown.
    pub verdict: Option<Cause>,
    /// A second limit that binds too: to remove the first alone gains little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_also: Option<Cause>,
    /// The verdict's evidence, one sentence each.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// The exact setting that would remove the limit, where the limit is a setting.
    #[serde(default)]
    pub remedy: Option<String>,
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a point.
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
    /// Whether it has a congestion window, and shares a path fairly or not.
    pub fn has_window(&self) -> bool {
        matches!(self.kind.as_str(), "tcp" | "xcp")
    }

    /// Goodput in the steady part, bit/s; over the flow's whole time where throughput never settled; `None` where neither is known.
    pub fn steady_or_overall_goodput_bps(&self) -> Option<f64> {
        self.steady_goodput_bps.or(self.goodput_bps)
    }

    /// The congestion control for people: its name and the parameters set, as in `griddt a=7`.
    pub fn cc_label(&self) -> Option<String> {
        let mut label = self.cc.clone()?;
        for (name, value) in &self.cc_set {
            label.push_str(&format!(" {name}={value}"));
        }
        Some(label)
    }
}

/// Share of time (0 to 1) limited by each cause; the sum is 1 where anything is known, else 0.
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

    /// The share of `cause`, to be changed.
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

    /// The cause with the largest share; `None` where nothing is known.
    pub fn largest(&self) -> Option<Cause> {
        Cause::ALL
            .into_iter()
            .filter(|c| self.share(*c) > 0.0)
            .max_by(|a, b| self.share(*a).total_cmp(&self.share(*b)))
    }
}

/// One direction of a link that is not ideal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// The link's name, as in `s1-s2`.
    pub name: String,
    /// `forward` or `backward`.
    pub direction: String,
    /// The configured rate; `null` where unlimited.
    #[serde(default)]
    pub rate_bps: Option<f64>,
    /// Bits sent over what the rate allows in the run; `null` where unlimited.
    pub utilization: Option<f64>,
    /// Packets (segments) that left the queue.
    pub sent_packets: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets lost by the link's loss model.
    pub dropped_loss: u64,
    /// Most bytes ever in the queue.
    pub max_queue_bytes: u64,
    /// Time average of the bytes in the queue.
    pub mean_queue_bytes: f64,
    /// Packets that the queue's discipline dropped by its own decision.
    #[serde(default)]
    pub dropped_aqm: u64,
    /// Packets larger than the link's MTU.
    #[serde(default)]
    pub dropped_mtu: u64,
    /// Packets offered while the link was down.
    #[serde(default)]
    pub dropped_down: u64,
    /// Packets that the queue marked: congestion experienced.
    #[serde(default)]
    pub marked: u64,
    /// Packets delivered once more.
    #[serde(default)]
    pub duplicated: u64,
    /// Packets with a bit flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets sent past others.
    #[serde(default)]
    pub reordered: u64,
}

impl LinkSummary {
    /// What else happened to packets, for people: `12 marked, 3 too large`; empty where nothing did.
    pub fn remarks(&self) -> String {
        let counts = [
            (self.dropped_aqm, "dropped by the discipline"),
            (self.marked, "marked"),
            (self.dropped_mtu, "too large"),
            (self.dropped_down, "while down"),
            (self.duplicated, "duplicated"),
            (self.corrupted, "corrupted"),
            (self.reordered, "reordered"),
        ];
        let told = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Whether the measurements of a run are reliable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// False where the measurement is unreliable; `faults` say why.
    pub ok: bool,
    /// True where the machine disturbed the run (it was busy or stalled): the same run may be reliable another time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// Median of how late the emulator delivered packets; `null` for engines in virtual time.
    #[serde(default)]
    pub emulator_late_p50_us: Option<f64>,
    /// 99th percentile of it.
    pub emulator_late_p99_us: Option<f64>,
    /// The maximum; never less than the longest stall.
    #[serde(default)]
    pub emulator_late_max_us: Option<f64>,
    /// The emulator's stalls: how many, the longest, and all together. Absent for engines in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<u64>,
    /// The longest stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_max_us: Option<f64>,
    /// All stalls together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_total_us: Option<f64>,
    /// The smallest share of idle processor time in any second (the emulator's waiting counts as idle).
    pub cpu_idle_min: Option<f64>,
    /// Share of all processors that other programs used during the run. Absent for engines in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_programs_cpu: Option<f64>,
    /// Packets dropped by devices, outside the emulated network's count.
    #[serde(default)]
    pub outside_drops: u64,
    /// Why the measurement is unreliable, one sentence each; empty where `ok`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What a reader must know: the faults first, then warnings.
    pub notes: Vec<String>,
}

/// A machine is busy where other programs use more than this share of its processors.
pub const BUSY_SHARE: f64 = 0.1;

impl Quality {
    /// True where other programs used the processors too.
    pub fn is_busy(&self) -> bool {
        self.other_programs_cpu.is_some_and(|share| share > BUSY_SHARE)
    }

    /// Adds a reason why the measurement is unreliable, before the others.
    pub fn add_fault(&mut self, fault: String) {
        self.ok = false;
        self.notes.insert(0, fault.clone());
        self.faults.insert(0, fault);
    }

    /// Why the measurement is unreliable. Records made by earlier versions have their reasons among the notes.
    pub fn reasons(&self) -> &[String] {
        if !self.ok && self.faults.is_empty() { &self.notes } else { &self.faults }
    }

    /// What else a reader must know.
    pub fn warnings(&self) -> &[String] {
        self.notes.get(self.reasons().len()..).unwrap_or_default()
    }
}

/// A run that was repeated because the machine had disturbed it. Its record is not kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscardedRun {
    /// When it began, RFC 3339.
    pub started: String,
    /// Why its measurement was unreliable.
    pub faults: Vec<String>,
}

/// A published figure beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedResult {
    /// Its id in the list of published results.
    pub id: String,
    /// What was measured, as in `flows.bulk.goodput`.
    pub metric: String,
    /// The variant it belongs to.
    #[serde(default)]
    pub variant: Option<String>,
    /// The published figure, in `unit`; `null` where the source gives none.
    pub published: Option<f64>,
    /// Where it is a bound: `below` or `above`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// `bit/s`, `s`, `B` or `1`.
    pub unit: String,
    /// Relative tolerance within which ours agrees.
    pub tolerance: f64,
    /// The model's figure.
    pub model: Option<f64>,
    /// The simulator's figure.
    pub sim: Option<f64>,
    /// The lab's figure (the mean of its repeats).
    pub lab: Option<f64>,
    /// The figures of guest kernels in virtual time, oldest version first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelFigure>,
    /// The model's figure for the kernel that the published figure holds for, where it differs from this one's.
    #[serde(default)]
    pub model_published_kernel: Option<f64>,
    /// How ours compares.
    pub verdict: PublishedVerdict,
    /// Why our figure is unreliable, where the verdict is that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Where the source contradicts itself: how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
    /// Why it differs, where that is known.
    pub why: Option<String>,
}

/// A published result's figure in a guest kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelFigure {
    /// The guest's Linux version, as in `6.1.192`.
    pub kernel: String,
    /// The mean over its repeats, in the result's unit.
    pub figure: f64,
    /// How it compares.
    pub verdict: PublishedVerdict,
}

/// How our figure compares with a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishedVerdict {
    /// Within the tolerance.
    Within,
    /// Outside it, and expected to be on this machine (`why` says so): no failure.
    Differs,
    /// Outside it, where the source contradicts itself (`contradiction` says how): no failure.
    Contradicted,
    /// The source gives no figure to compare with.
    NoFigure,
    /// Outside it: a failure.
    Missed,
    /// The machine was busy and disturbed the run in a way that can have changed the figure, in each of its tries: no
    /// proof either way, and no failure.
    Unreliable,
    /// The measurement is invalid for another reason than a busy machine: no proof either way, and no failure.
    Untrusted,
    /// Not run here.
    NotRun,
}
