//! `summary.json` and the document that `longfat run --json` prints: `longfat.summary/1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    DiscardedRun, EngineName, FlowSummary, HostSummary, LinkSummary, PublishedResult, Quality, Reliability,
};

/// The value of the summary's `schema` field.
pub const SUMMARY_SCHEMA: &str = "longfat.summary/1";

/// One or several runs of one scenario, with the published figures.
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
    /// The runs, in their order of execution.
    pub runs: Vec<RunSummary>,
    /// The published figures and ours.
    #[serde(default)]
    pub published: Vec<PublishedResult>,
}

/// The machine that executed a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// `uname -r`.
    pub kernel: String,
    /// Processors online; 0 where unknown (in an imported test).
    pub cpus: u32,
}

impl HostInfo {
    /// As displayed: `Linux 6.18.0, 2 CPUs`.
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
    /// The engine that made it, or the program that it was imported from.
    pub engine: EngineName,
    /// The variant's name; `null` where the scenario has none.
    pub variant: Option<String>,
    /// The kernel that was simulated or booted as a guest, where it is not the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The origin of the hosts' sysctls that the scenario does not state: "this machine's", or "Linux 6.1's
    /// defaults"; several, separated by commas, where hosts differ. Absent for runs without a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sysctl_defaults: Option<String>,
    /// The scenario file as the user named it; absent for runs without one (tests between hosts, imports).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Fields that `--set` changed, and their values.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Swept fields and their values.
    #[serde(default)]
    pub sweep: BTreeMap<String, String>,
    /// The record's directory; absent where no record was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// The random generator's seed.
    pub seed: u64,
    /// Duration in the scenario's time, seconds.
    pub duration_s: f64,
    /// Wall-clock duration, seconds.
    pub wall_s: f64,
    /// When it began, RFC 3339.
    #[serde(default)]
    pub started: String,
    /// True where the run was cut short, so that figures are incomplete.
    #[serde(default)]
    pub partial: bool,
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// The directions of links that are not ideal.
    pub links: Vec<LinkSummary>,
    /// The work of simulated hosts whose packets cost time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSummary>,
    /// Jain's fairness index of the bulk transfers' goodputs; `null` without any.
    pub fairness_jain: Option<f64>,
    /// Whether the run's measurements are reliable, and why not.
    pub quality: Quality,
    /// The larger measurement of which this run is an auxiliary part: `diagnosis` for its bursts of
    /// datagrams. `longfat ls` lists these runs only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// Earlier attempts of this run, which were discarded because the machine had disturbed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<DiscardedRun>,
    /// How the path between real hosts compares with the scenario's links. Empty for other engines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathComparison>,
}

/// A quantity of the path between real hosts, compared with the scenario's links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathComparison {
    /// The flow that measured it.
    pub flow: String,
    /// The compared quantity.
    pub quantity: PathQuantity,
    /// The value by the scenario.
    pub expected: f64,
    /// The measured value.
    pub measured: f64,
    /// Whether the two are equal within the error of the measurement.
    pub is_as_expected: bool,
}

/// A quantity of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathQuantity {
    /// Smallest round-trip time, microseconds.
    Rtt,
    /// Goodput of the full path, bit/s.
    Rate,
    /// Share of retransmitted segments, 0 to 1.
    Loss,
}

impl RunSummary {
    /// A run at its beginning; `started` is RFC 3339.
    pub fn begun(engine: EngineName, started: String) -> RunSummary {
        RunSummary {
            id: String::new(),
            engine,
            variant: None,
            kernel: None,
            sysctl_defaults: None,
            file: None,
            set: BTreeMap::new(),
            sweep: BTreeMap::new(),
            record: None,
            repeat: 1,
            seed: 0,
            duration_s: 0.0,
            wall_s: 0.0,
            started,
            partial: false,
            flows: Vec::new(),
            links: Vec::new(),
            hosts: Vec::new(),
            fairness_jain: None,
            quality: Quality { reliability: Reliability::Reliable, ..Quality::default() },
            part_of: None,
            discarded: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The engine, with its version where it is a guest kernel, as in `kernel 6.1.192`.
    pub fn engine_label(&self) -> String {
        match &self.kernel {
            Some(version) if self.engine == EngineName::Kernel => format!("kernel {version}"),
            _ => self.engine.to_string(),
        }
    }
}
