//! `--require-reliable`, and the exit codes of published figures.

use schema::{PublishedResult, PublishedVerdict, RunSummary};

use crate::exit::Exit;

/// An error with its own exit code if a run is unreliable and `is_required`.
pub fn require<'a>(is_required: bool, runs: impl IntoIterator<Item = &'a RunSummary>) -> anyhow::Result<()> {
    if !is_required {
        return Ok(());
    }
    let unreliable = runs.into_iter().filter(|run| !run.quality.is_reliable());
    let reasons: Vec<String> = unreliable
        .map(|run| {
            let variant = run.variant.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("{}{variant}: {}", run.engine_label(), run.quality.reasons().join("; "))
        })
        .collect();
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(Exit::Unreliable(format!("unreliable measurement: {}", reasons.join("; "))).into()),
    }
}

/// An error if a published figure was missed for no documented reason. Unreliable figures count as neither
/// met nor missed.
pub fn require_published<'a>(figures: impl IntoIterator<Item = &'a PublishedResult>) -> anyhow::Result<()> {
    let missed: Vec<String> = figures
        .into_iter()
        .filter(|figure| figure.verdict == PublishedVerdict::Missed && figure.known_miss.is_none())
        .map(|figure| format!("{} ({})", figure.id, figure.metric))
        .collect();
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Exit::Missed(format!("published figures missed: {}", missed.join(", "))).into()),
    }
}
