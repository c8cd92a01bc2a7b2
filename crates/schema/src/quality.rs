//! Whether the measurements of a run are reliable, and why not.

use serde::{Deserialize, Serialize};

/// Whether the measurements of a run are reliable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredReliability", into = "StoredReliability")]
pub enum Reliability {
    /// The measurements are reliable.
    Reliable,
    /// Unreliable: the machine was busy or stalled. The same run may be reliable another time.
    Disturbed,
    /// Unreliable for another reason than a busy machine.
    #[default]
    Invalid,
}

/// [`Reliability`] as two members of the summary's `quality`.
#[derive(Serialize, Deserialize)]
struct StoredReliability {
    ok: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    disturbed: bool,
}

impl From<StoredReliability> for Reliability {
    fn from(stored: StoredReliability) -> Self {
        match (stored.ok, stored.disturbed) {
            (true, _) => Reliability::Reliable,
            (false, true) => Reliability::Disturbed,
            (false, false) => Reliability::Invalid,
        }
    }
}

impl From<Reliability> for StoredReliability {
    fn from(reliability: Reliability) -> Self {
        StoredReliability {
            ok: reliability == Reliability::Reliable,
            disturbed: reliability == Reliability::Disturbed,
        }
    }
}

/// How good the measurements of a run are, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Stored as `ok` and `disturbed`.
    #[serde(flatten)]
    pub reliability: Reliability,
    /// Median lateness of the emulator's deliveries; `null` for engines in virtual time.
    #[serde(default)]
    pub emulator_late_p50_us: Option<f64>,
    /// 99th percentile of the lateness.
    pub emulator_late_p99_us: Option<f64>,
    /// Maximum lateness; at least the longest stall.
    #[serde(default)]
    pub emulator_late_max_us: Option<f64>,
    /// Number of stalls of the emulator. Absent for engines in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<u64>,
    /// Duration of the longest stall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_max_us: Option<f64>,
    /// Total duration of all stalls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_total_us: Option<f64>,
    /// The smallest share of idle processor time in any second (the emulator's waiting counts as idle).
    pub cpu_idle_min: Option<f64>,
    /// Share of the processors' time that other programs used during the run. Absent for engines in virtual
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_programs_cpu: Option<f64>,
    /// Packets dropped by devices, outside the emulated network's count.
    #[serde(default)]
    pub outside_drops: u64,
    /// Why the measurement is unreliable, one sentence each; empty where it is reliable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The faults, then the warnings.
    pub notes: Vec<String>,
}

/// A machine is busy where other programs use more than this share of its processors' time.
pub const BUSY_SHARE: f64 = 0.1;

impl Quality {
    /// True where other programs used more than [`BUSY_SHARE`] of the processors' time.
    pub fn is_busy(&self) -> bool {
        self.other_programs_cpu.is_some_and(|share| share > BUSY_SHARE)
    }

    /// True where the measurements are reliable.
    pub fn is_reliable(&self) -> bool {
        self.reliability == Reliability::Reliable
    }

    /// True where the machine disturbed the run, so that its measurements are unreliable.
    pub fn is_disturbed(&self) -> bool {
        self.reliability == Reliability::Disturbed
    }

    /// Adds a reason why the measurement is unreliable, before the others. A disturbed run stays a disturbed
    /// one.
    pub fn add_fault(&mut self, fault: String) {
        if self.is_reliable() {
            self.reliability = Reliability::Invalid;
        }
        self.notes.insert(0, fault.clone());
        self.faults.insert(0, fault);
    }

    /// Adds a fault with which the machine disturbed the run.
    pub fn add_disturbance(&mut self, fault: String) {
        self.add_fault(fault);
        self.reliability = Reliability::Disturbed;
    }

    /// Why the measurement is unreliable. Records of earlier versions have the reasons among the notes.
    pub fn reasons(&self) -> &[String] {
        if !self.is_reliable() && self.faults.is_empty() { &self.notes } else { &self.faults }
    }

    /// The notes that are not reasons.
    pub fn warnings(&self) -> &[String] {
        self.notes.get(self.reasons().len()..).unwrap_or_default()
    }
}

/// A run that was repeated because the machine had disturbed it. Its record is deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscardedRun {
    /// When it began, RFC 3339.
    pub started: String,
    /// Why its measurement was unreliable.
    pub faults: Vec<String>,
}
