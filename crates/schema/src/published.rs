//! Published figures beside ours.

use serde::{Deserialize, Serialize};

use crate::FigureBound;

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
    /// Where the published figure is a bound: which side agrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<FigureBound>,
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
    /// The model's figure for the kernel that the published figure holds for, where it differs from this
    /// one's.
    #[serde(default)]
    pub model_published_kernel: Option<f64>,
    /// How ours compares.
    pub verdict: PublishedVerdict,
    /// Why our figure is unreliable, where the verdict is that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// How the source contradicts itself, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
    /// The documented cause of a miss: then it is no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_miss: Option<String>,
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
    /// Outside it, as expected on this machine (`why` has the reason): no failure.
    Differs,
    /// Outside it, where the source contradicts itself (`contradiction` says how): no failure.
    Contradicted,
    /// The source gives no figure to compare with.
    NoFigure,
    /// Outside it: a failure, unless `known_miss` has the cause.
    Missed,
    /// The machine was busy in each try, in a way that can have changed the figure: inconclusive, and no
    /// failure.
    Unreliable,
    /// The measurement is invalid for another reason than a busy machine: inconclusive, and no failure.
    Untrusted,
    /// Not run here.
    NotRun,
}
