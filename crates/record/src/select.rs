//! Selects records from a list: those that `longfat ls` shows and that `longfat prune` removes.

use schema::EngineName;

use crate::RunEntry;

/// Which records of a list to retain; the default retains all.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only runs of this scenario.
    pub scenario: Option<String>,
    /// Only runs of this engine, as in `sim` or `kernel:6.1`.
    pub engine: Option<String>,
    /// Only runs that started at this instant or later, in the form of ids: `20261121T031500Z`.
    pub since: Option<String>,
    /// Not those that are auxiliary parts of larger measurements (`part_of` of the summary).
    pub hides_parts: bool,
    /// Only the newest of these.
    pub limit: Option<usize>,
}

impl RunFilter {
    /// The selected entries, in their order (newest last).
    pub fn apply(&self, mut entries: Vec<RunEntry>) -> Vec<RunEntry> {
        entries.retain(|entry| self.selects(entry));
        if let Some(limit) = self.limit {
            entries.drain(..entries.len().saturating_sub(limit));
        }
        entries
    }

    /// Whether an entry is selected, whatever the limit.
    pub fn selects(&self, entry: &RunEntry) -> bool {
        self.scenario.as_ref().is_none_or(|name| *name == entry.scenario)
            && self.engine.as_ref().is_none_or(|engine| is_of_engine(entry, engine))
            && !(self.hides_parts && is_part(entry))
            && self.since.as_ref().is_none_or(|since| started(entry) >= since.as_str())
    }
}

/// Whether a run is an auxiliary part of a larger measurement.
pub fn is_part(entry: &RunEntry) -> bool {
    entry.run.as_ref().is_ok_and(|run| run.run().part_of.is_some())
}

/// The records to remove of `entries` (newest last): all but the newest `keep`, and of those only the ones
/// that started before `older_than` (in the form of ids). Directories that are not records are ignored.
pub fn to_prune(mut entries: Vec<RunEntry>, keep: usize, older_than: Option<&str>) -> Vec<RunEntry> {
    entries.retain(|entry| entry.is_record);
    entries.truncate(entries.len().saturating_sub(keep));
    entries.retain(|entry| older_than.is_none_or(|instant| started(entry) < instant));
    entries
}

/// The second at which a run started, from its id. It is known for damaged records too.
fn started(entry: &RunEntry) -> &str {
    entry.id.split('-').next().unwrap_or_default()
}

/// Whether a run is of the engine called `name`; `kernel:6.1` selects guest kernels 6.1 and 6.1.x.
fn is_of_engine(entry: &RunEntry, name: &str) -> bool {
    let Ok(run) = &entry.run else { return false };
    let run = run.run();
    match name.split_once(':') {
        None => run.engine.name() == name,
        Some((engine, requested)) => {
            let version = run.kernel.as_deref().filter(|_| run.engine == EngineName::Kernel);
            let rest = version.and_then(|version| version.strip_prefix(requested));
            run.engine.name() == engine && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::RunEntry;

    #[test]
    fn auxiliary_runs_are_hidden_on_request() {
        let entry = |id: &str, part_of: Option<&str>| {
            let mut summary: schema::Summary = serde_json::from_str(crate::EXAMPLE_SUMMARY).unwrap();
            summary.runs[0].part_of = part_of.map(str::to_owned);
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("summary.json"), serde_json::to_string(&summary).unwrap())
                .unwrap();
            let run = crate::Run::open(dir.path());
            RunEntry {
                scenario: "test-far".into(),
                id: id.into(),
                path: PathBuf::new(),
                partial: false,
                is_record: true,
                run,
            }
        };
        let entries = || vec![entry("burst", Some("diagnosis")), entry("test", None)];
        let ids = |filter: RunFilter| filter.apply(entries()).into_iter().map(|e| e.id).collect::<Vec<_>>();
        assert_eq!(ids(RunFilter { hides_parts: true, ..RunFilter::default() }), ["test"]);
        assert_eq!(ids(RunFilter::default()), ["burst", "test"]);
    }
}
