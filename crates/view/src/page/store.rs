//! The records that the page has open. It can open only those of one directory or object store.

use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use record::{RUN_PARTITION, Run, RunEntry, RunsLocation, TableName};
use schema::RunSummary;

use super::documents::PublishedRow;
use super::documents::{
    CausesHead, CurveHead, RunDetail, RunItem, RunList, SeriesHead, SeriesRequest, SweepDocument,
};
use super::layer::{Curve, Layer};
use super::marks::Events;
use super::measure::Measure;
use super::sweeps;
use super::topology::Topology;
use super::wire;

/// Maximum number of runs whose pyramids are cached.
const MAX_OPEN_RUNS: usize = 12;
/// Maximum number of columns of a chart.
const MAX_COLUMNS: usize = 8192;
/// Maximum number of subjects if a request names no subject.
const MAX_DEFAULT_SUBJECTS: usize = 16;
/// Maximum number of measures, subjects or runs in one request.
const MAX_NAMES: usize = 64;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// There is no such run.
    #[error("there is no run {0:?} here")]
    NoRun(String),
    /// The request is invalid.
    #[error("{0}")]
    Bad(String),
    /// The record cannot be read.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The records that the page can read.
pub(crate) struct Store {
    runs: RunsLocation,
    requested: Vec<String>,
    open: Mutex<Vec<(PathBuf, Arc<Mutex<OpenRun>>)>>,
}

struct OpenRun {
    flows: Layer,
    links: Layer,
    trace: Layer,
    events: Events,
}

impl OpenRun {
    fn new() -> Self {
        OpenRun {
            flows: Layer::new(TableName::Flows),
            links: Layer::new(TableName::Links),
            trace: Layer::new(TableName::Trace),
            events: Events::default(),
        }
    }
}

impl Store {
    pub(crate) fn new(runs: RunsLocation, requested: Vec<String>) -> Self {
        Store { runs, requested, open: Mutex::new(Vec::new()) }
    }

    pub(crate) fn list(&self) -> Result<RunList, Refusal> {
        Ok(RunList {
            runs_dir: self.runs.to_string(),
            requested: self.requested.clone(),
            runs: self.entries()?.iter().map(RunItem::of).collect(),
        })
    }

    pub(crate) fn sweeps(&self) -> Result<Vec<SweepDocument>, Refusal> {
        Ok(sweeps::sweeps(&self.entries()?))
    }

    pub(crate) fn published(&self) -> Result<Vec<PublishedRow>, Refusal> {
        Ok(sweeps::published(&self.entries()?))
    }

    /// All records. Those with files outside the runs directory have an error in place of a summary, and
    /// count as partial.
    fn entries(&self) -> Result<Vec<RunEntry>, Refusal> {
        let mut entries = self.runs.list()?;
        let root = self.root();
        for entry in entries.iter_mut().filter(|entry| reads_outside(root.as_deref(), &entry.path)) {
            entry.run = Err(record::Error::Outside { path: entry.path.clone() });
            entry.partial = true;
        }
        Ok(entries)
    }

    /// The runs with these keys, without their series.
    pub(crate) fn details(&self, keys: &[String]) -> Result<Vec<RunDetail>, Refusal> {
        if keys.len() > MAX_NAMES {
            return Err(Refusal::Bad(format!("{} runs at once are too many", keys.len())));
        }
        let mut details = keys.iter().map(|key| self.detail(key)).collect::<Result<Vec<_>, _>>()?;
        let summaries: Vec<&RunSummary> = details.iter().map(|detail| &detail.summary).collect();
        let scenarios: Vec<&str> = details.iter().map(|detail| detail.scenario.as_str()).collect();
        let labels = crate::label::labels_with_scenarios(&scenarios, &summaries);
        details.iter_mut().zip(labels).for_each(|(detail, label)| detail.label = label);
        Ok(details)
    }

    fn detail(&self, key: &str) -> Result<RunDetail, Refusal> {
        let run = self.find(key)?;
        let open = self.opened(&run.path);
        let mut open = lock(&open);
        open.flows.update(&run, &[], false)?;
        open.links.update(&run, &[], false)?;
        open.trace.update(&run, &[], false)?;
        let scenario_toml = fs::read_to_string(run.file("scenario.toml")?).ok();
        let summary = run.run().clone();
        Ok(RunDetail {
            key: key.to_owned(),
            label: String::new(),
            scenario: run.summary.scenario.clone(),
            title: run.summary.title.clone(),
            host: run.summary.host.clone(),
            partial: run.partial,
            age_s: age_s(&run.path),
            end_s: end_s(&open, &summary),
            rows: open.flows.rows,
            flows: open.flows.subjects.clone(),
            links: open.links.subjects.clone(),
            traced: open.trace.subjects.clone(),
            topology: Topology::of(&summary, &scenario_toml.unwrap_or_default()),
            summary,
            published: run.summary.published.clone(),
        })
    }

    /// The requested curves, in the encoding of [`wire`].
    pub(crate) fn series(&self, request: &SeriesRequest) -> Result<Vec<u8>, Refusal> {
        let span = span_us(request)?;
        let columns = request.columns.clamp(1, MAX_COLUMNS);
        let measures = parse(TableName::Flows, &request.measures)?;
        let link_measures = parse(TableName::Links, &request.link_measures)?;
        let trace = parse(TableName::Trace, &request.trace)?;
        let run = self.find(&request.run)?;
        let open = self.opened(&run.path);
        let mut open = lock(&open);
        let OpenRun { flows, links, trace: traced, events } = &mut *open;
        let mut curves: Vec<(&str, Curve)> = Vec::new();
        let mut causes = Vec::new();
        if !measures.is_empty() || request.causes {
            flows.update(&run, &measures, request.causes)?;
            let wanted = wanted(&flows.subjects, &request.flows);
            curves.extend(flows.curves(&measures, &wanted, span, columns)?.into_iter().map(|c| ("flow", c)));
            if request.causes {
                let known = wanted.iter().filter_map(|s| Some((*s, flows.cause_intervals(*s)?)));
                causes.extend(known.map(|(subject, intervals)| {
                    (flows.subjects[subject].clone(), intervals.shares(span.0, span.1, columns))
                }));
            }
        }
        if !link_measures.is_empty() {
            links.update(&run, &link_measures, false)?;
            let wanted = wanted(&links.subjects, &request.links);
            curves.extend(
                links.curves(&link_measures, &wanted, span, columns)?.into_iter().map(|c| ("link", c)),
            );
        }
        if !trace.is_empty() {
            traced.update(&run, &trace, false)?;
            let wanted = wanted(&traced.subjects, &request.flows);
            curves.extend(traced.curves(&trace, &wanted, span, columns)?.into_iter().map(|c| ("trace", c)));
        }
        let mut marks = Vec::new();
        if request.events {
            events.update(&run)?;
            marks = events.marks(span, columns);
        }
        let head = SeriesHead {
            end_s: end_s(&open, run.run()),
            curves: curves
                .iter()
                .map(|(of, curve)| CurveHead {
                    of: (*of).to_owned(),
                    subject: curve.subject.clone(),
                    measure: curve.measure.clone(),
                    points: curve.points.len(),
                    means: curve.means.as_ref().map_or(0, Vec::len),
                })
                .collect(),
            causes: causes
                .iter()
                .map(|(subject, shares)| CausesHead {
                    subject: subject.clone(),
                    columns,
                    bytes: shares.len(),
                })
                .collect(),
            marks,
        };
        let curves: Vec<Curve> = curves.into_iter().map(|(_, curve)| curve).collect();
        let causes: Vec<Vec<u8>> = causes.into_iter().map(|(_, shares)| shares).collect();
        wire::encode(&head, &curves, &causes).map_err(|e| Refusal::Bad(e.to_string()))
    }

    /// The record that a key names. It is refused if it [`reads_outside`] the runs directory.
    fn find(&self, key: &str) -> Result<Run, Refusal> {
        let none = || Refusal::NoRun(key.to_owned());
        let (scenario, id) = key.split_once('/').ok_or_else(none)?;
        if !is_name(scenario) || !is_name(id) {
            return Err(none());
        }
        let dir = self.runs.readable().join(scenario);
        let paths =
            [dir.join(id), dir.join(format!("{RUN_PARTITION}{id}")), dir.join(format!(".{id}.partial"))];
        let existing = || paths.iter().find(|path| path.is_dir());
        let path = match existing() {
            Some(path) => path,
            // A page that has been open for long may request runs that the cache of an object store does not
            // have yet.
            None => self.runs.refresh().map(|()| existing())?.ok_or_else(none)?,
        };
        match reads_outside(self.root().as_deref(), path) {
            true => Err(none()),
            false => Ok(self.runs.open(path)?),
        }
    }

    /// The runs directory with all symbolic links followed; `None` if it cannot be resolved.
    fn root(&self) -> Option<PathBuf> {
        self.runs.readable().canonicalize().ok()
    }

    /// The run's cached series. The least recently used run is evicted.
    fn opened(&self, path: &Path) -> Arc<Mutex<OpenRun>> {
        let mut open = lock(&self.open);
        let known = open.iter().position(|(known, _)| known == path);
        let entry = match known {
            Some(at) => open.remove(at),
            None => (path.to_owned(), Arc::new(Mutex::new(OpenRun::new()))),
        };
        let run = Arc::clone(&entry.1);
        open.push(entry);
        if open.len() > MAX_OPEN_RUNS {
            open.remove(0);
        }
        run
    }
}

/// Whether a record's directory, or a file in it, is outside `root` once all symbolic links are followed. The
/// runs directory itself may be a link, and links between records are followed too: only places outside it
/// are not served, because readers of the page may have fewer permissions than the user who serves it.
fn reads_outside(root: Option<&Path>, record: &Path) -> bool {
    // Only links are resolved: other files of a run in progress may be renamed meanwhile.
    let is_link = |file: &DirEntry| file.file_type().is_ok_and(|kind| kind.is_symlink());
    leads_outside(root, record)
        || match fs::read_dir(record) {
            Ok(files) => files.flatten().any(|file| is_link(&file) && leads_outside(root, &file.path())),
            // A run in progress has just been renamed. Any other directory that cannot be read may have
            // links.
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
}

/// Whether a path is outside `root` once its symbolic links are followed. A path that cannot be resolved
/// cannot be read either.
fn leads_outside(root: Option<&Path>, path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| root.is_none_or(|root| !path.starts_with(root)))
}

/// Whether a text is a single component of a path, and not hidden.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\\', '\0'])
}

fn parse(table: TableName, names: &[String]) -> Result<Vec<Measure>, Refusal> {
    if names.len() > MAX_NAMES {
        return Err(Refusal::Bad(format!("{} measures at once are too many", names.len())));
    }
    let mut measures: Vec<Measure> = Vec::new();
    for name in names {
        if measures.iter().all(|known| known.name != *name) {
            measures.push(Measure::parse(table, name).map_err(|e| Refusal::Bad(e.to_string()))?);
        }
    }
    Ok(measures)
}

/// The indexes of the named subjects, or of the first [`MAX_DEFAULT_SUBJECTS`].
fn wanted(subjects: &[String], names: &[String]) -> Vec<usize> {
    if names.is_empty() {
        return (0..subjects.len().min(MAX_DEFAULT_SUBJECTS)).collect();
    }
    (0..subjects.len()).filter(|at| names.contains(&subjects[*at])).take(MAX_NAMES).collect()
}

fn span_us(request: &SeriesRequest) -> Result<(i64, i64), Refusal> {
    let (from, to) = (request.from_s * 1e6, request.to_s * 1e6);
    if !(from.is_finite() && to.is_finite() && from < to && from.abs() < 1e17 && to.abs() < 1e17) {
        return Err(Refusal::Bad(format!(
            "the span from {} s to {} s is empty",
            request.from_s, request.to_s
        )));
    }
    Ok((from.floor() as i64, to.ceil() as i64))
}

fn end_s(open: &OpenRun, summary: &RunSummary) -> f64 {
    (open.flows.end_us.max(open.links.end_us) as f64 / 1e6).max(summary.duration_s)
}

fn age_s(dir: &Path) -> f64 {
    let written = dir.join("summary.json").metadata().and_then(|m| m.modified());
    written.ok().and_then(|at| SystemTime::now().duration_since(at).ok()).map_or(0.0, |age| age.as_secs_f64())
}

/// Locks a mutex even if it is poisoned, because its data is only a cache.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
