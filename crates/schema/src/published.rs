//! Published figures, and the figures of longfat's engines beside them.

use serde::{Deserialize, Serialize};

use crate::{EngineName, FigureBound};

/// A published figure, and ours: those of longfat's engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedResult {
    /// Its id in the list of published results.
    pub id: String,
    /// The measured quantity, as in `flows.bulk.goodput`.
    pub metric: String,
    /// The kind of the figure: printed in the source, computed from it, or measured by this project.
    #[serde(default)]
    pub kind: FigureKind,
    /// The source's statement in words, where it gives no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The variant it belongs to.
    #[serde(default)]
    pub variant: Option<String>,
    /// If the variant has today's kernel: the variant with the source's, whose figure belongs beside this
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The published figure, in `unit`; `null` where the source gives none.
    pub published: Option<f64>,
    /// If the published figure is a bound: whether figures above or below it agree.
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
    /// The figure of real hosts (the mean of their repeats).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<f64>,
    /// The figures of guest kernels in virtual time, oldest version first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelFigure>,
    /// The model's figure for the kernel of the publication, if that behaves differently from this machine's.
    #[serde(default)]
    pub model_published_kernel: Option<f64>,
    /// How ours compares: the worst verdict of the engines whose figure can be compared.
    pub verdict: PublishedVerdict,
    /// The verdict on the figure of each engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<EngineVerdict>,
    /// Why the figures of engines are unreliable, if some are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// How the source contradicts itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
    /// The documented cause of a miss: then it is not a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_miss: Option<String>,
    /// Why our figure differs, if known.
    pub why: Option<String>,
}

/// The kind of a source's figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// The source prints it, or states it in words.
    #[default]
    Published,
    /// Computed from the source's own formula or figures.
    Derived,
    /// Measured by this project: a figure for regression tests, not a reproduction.
    MeasuredByUs,
}

/// An engine's figure and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineVerdict {
    /// The engine.
    pub engine: EngineName,
    /// The Linux version, for guest kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Its figure, in the result's unit; `null` if the engine cannot compute it.
    pub figure: Option<f64>,
    /// How it compares.
    pub verdict: PublishedVerdict,
    /// Why the engine's figure does not apply, or the documented cause of its miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The experiment that shows the cause of the miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
}

/// How many figures of a published result an engine has, and why it has no others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineCoverage {
    /// The engine; all guest kernels together.
    pub engine: EngineName,
    /// Number of figures of the result.
    pub figures: usize,
    /// Number of figures that the engine computed or measured reliably.
    pub reliable: usize,
    /// Number of figures that the engine measured unreliably: neither within nor missed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreliable: usize,
    /// Why the engine has no others: each reason once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<UncoveredFigures>,
}

/// Figures that an engine does not have for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncoveredFigures {
    /// The reason, as in `needs Linux 2.4`.
    pub reason: String,
    /// Number of figures.
    pub figures: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl PublishedResult {
    /// The verdict on the figure of `engine`, of the guest kernel `kernel` for [`EngineName::Kernel`].
    pub fn judged(&self, engine: &EngineName, kernel: Option<&str>) -> Option<&EngineVerdict> {
        self.judged.iter().find(|one| one.engine == *engine && one.kernel.as_deref() == kernel)
    }
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
    /// Outside the tolerance, as expected on this machine (`why` has the reason): no failure.
    Differs,
    /// Outside the tolerance, where the source contradicts itself (`contradiction` states how): no failure.
    Contradicted,
    /// The source gives no figure to compare with.
    NoFigure,
    /// Outside the tolerance: a failure, unless `known_miss` has the cause.
    Missed,
    /// The machine was busy in each attempt, in a way that may have changed the figure: inconclusive, neither
    /// within nor missed.
    Unreliable,
    /// The measurement is invalid for another reason than a busy machine: inconclusive, neither within nor
    /// missed.
    Untrusted,
    /// Not run on this machine.
    NotRun,
    /// Of a single engine: it does not model what determines the figure.
    DoesNotApply,
}

impl PublishedVerdict {
    /// Whether it is of a figure of an unreliable measurement.
    pub fn is_inconclusive(self) -> bool {
        matches!(self, PublishedVerdict::Unreliable | PublishedVerdict::Untrusted)
    }

    /// All verdicts. If the engines' verdicts differ, the first one in this list is the verdict of the
    /// result. An unreliable figure, one outside the tolerance for a known reason, or one of an engine that
    /// does not apply, counts only if no other engine has a figure.
    const BY_WEIGHT: [PublishedVerdict; 9] = [
        PublishedVerdict::Missed,
        PublishedVerdict::Contradicted,
        PublishedVerdict::Within,
        PublishedVerdict::Unreliable,
        PublishedVerdict::Untrusted,
        PublishedVerdict::Differs,
        PublishedVerdict::NoFigure,
        PublishedVerdict::NotRun,
        PublishedVerdict::DoesNotApply,
    ];

    /// The worst verdict of those that apply; [`PublishedVerdict::NotRun`] if none does.
    pub fn worst(verdicts: impl IntoIterator<Item = PublishedVerdict>) -> PublishedVerdict {
        let weight = |one: &PublishedVerdict| Self::BY_WEIGHT.iter().position(|known| known == one);
        let applicable = verdicts.into_iter().filter(|one| *one != PublishedVerdict::DoesNotApply);
        applicable.min_by_key(weight).unwrap_or(PublishedVerdict::NotRun)
    }
}

#[cfg(test)]
mod tests {
    use super::PublishedVerdict::{Contradicted, Differs, DoesNotApply, Missed, NotRun, Unreliable, Within};
    use super::*;

    #[test]
    fn the_worst_verdict_that_applies_decides() {
        let worst = |all: &[PublishedVerdict]| PublishedVerdict::worst(all.iter().copied());
        assert_eq!(worst(&[Within, Missed]), Missed);
        assert_eq!(worst(&[Within, DoesNotApply]), Within);
        assert_eq!(worst(&[Differs, Within]), Within, "differs: another kernel than the published one");
        assert_eq!(worst(&[Contradicted, Within]), Contradicted);
        assert_eq!((worst(&[DoesNotApply]), worst(&[])), (NotRun, NotRun));
    }

    #[test]
    fn an_unreliable_figure_counts_as_neither_within_nor_missed() {
        let worst = |all: &[PublishedVerdict]| PublishedVerdict::worst(all.iter().copied());
        assert_eq!(worst(&[Within, Unreliable]), Within, "the other engine's verdict");
        assert_eq!(worst(&[Unreliable, Missed]), Missed);
        assert_eq!(worst(&[Unreliable, DoesNotApply]), Unreliable, "no engine has a reliable figure");
        assert!(Unreliable.is_inconclusive() && !Missed.is_inconclusive());
    }
}
