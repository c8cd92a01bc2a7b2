//! An opened record. The summary is read when it is opened, the series on request.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schema::{Event, FlowSample, LinkSample, RunSummary, SUMMARY_SCHEMA, Summary, TraceRow};

use crate::columns::TableName;
use crate::error::Context;
use crate::layout::{SCENARIO, SUMMARY, directory_name, partial_id};
use crate::parquet_file::decode;
use crate::table::Table;
use crate::{Error, RunStore};

/// A run's record, complete or partial.
#[derive(Debug, Clone)]
pub struct Run {
    /// The record's directory. That of a record in an object store has the files that have been fetched; see
    /// [`Run::file`].
    pub path: PathBuf,
    /// Whether the run ended early: then its series end early and its summary may lack figures.
    pub partial: bool,
    /// The summary, which has exactly one run.
    pub summary: Summary,
    /// The object store that has the record; `None` if `path` has all of it.
    pub store: Option<Arc<dyn RunStore>>,
}

impl Run {
    /// Opens the record in directory `path`.
    ///
    /// # Errors
    /// If its summary cannot be read, is of another schema, or does not have exactly one run.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.join(SUMMARY);
        let text = fs::read_to_string(&file).context("read", &file)?;
        let fail = |reason: String| Error::Summary { path: file.clone(), reason };
        let mut summary: Summary = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
        if summary.schema != SUMMARY_SCHEMA {
            return Err(fail(format!("its schema is \"{}\", not \"{SUMMARY_SCHEMA}\"", summary.schema)));
        }
        let [run] = summary.runs.as_slice() else {
            return Err(fail(format!("the summary has {} runs; a record has one", summary.runs.len())));
        };
        let is_partial = run.partial || directory_name(path).is_some_and(|name| partial_id(&name).is_some());
        // The record may have been moved or copied since it was written.
        summary.runs[0].record = Some(path.display().to_string());
        Ok(Run { path: path.to_owned(), partial: is_partial, summary, store: None })
    }

    /// The same record, whose files are in `store`.
    pub(crate) fn in_store(mut self, store: Arc<dyn RunStore>) -> Self {
        self.summary.runs[0].record = Some(store.url_of(&self.path));
        self.store = Some(store);
        self
    }

    /// The run in the summary.
    pub fn run(&self) -> &RunSummary {
        // `open` ensures that there is one.
        &self.summary.runs[0]
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.run().id
    }

    /// The location of the record: its directory, or its address in an object store.
    pub fn location(&self) -> String {
        self.run().record.clone().unwrap_or_else(|| self.path.display().to_string())
    }

    /// The path of one of the record's files, which is fetched first if it is in an object store. If the
    /// record does not have this file, there is none at the path.
    ///
    /// # Errors
    /// If the file cannot be fetched.
    pub fn file(&self, name: &str) -> Result<PathBuf, Error> {
        if let Some(store) = &self.store {
            store.fetch(&self.path, name)?;
        }
        Ok(self.path.join(name))
    }

    /// Fetches all files of a record in an object store: [`Run::path`] is then a copy of it.
    ///
    /// # Errors
    /// If a file cannot be fetched.
    pub fn fetch(&self) -> Result<(), Error> {
        if self.store.is_some() {
            self.file_names()?.iter().try_for_each(|name| self.file(name).map(drop))?;
        }
        Ok(())
    }

    /// The names of the record's files.
    fn file_names(&self) -> Result<Vec<String>, Error> {
        if let Some(store) = &self.store {
            return store.file_names(&self.path);
        }
        let entries = fs::read_dir(&self.path).context("read", &self.path)?;
        entries
            .map(|entry| Ok(entry.context("read", &self.path)?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// The scenario file as it was run.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn scenario_toml(&self) -> Result<String, Error> {
        let path = self.file(SCENARIO)?;
        fs::read_to_string(&path).context("read", &path)
    }

    /// The rows of `flows.parquet`.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn flows(&self) -> Result<Vec<FlowSample>, Error> {
        self.rows()
    }

    /// The rows of `links.parquet`.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn links(&self) -> Result<Vec<LinkSample>, Error> {
        self.rows()
    }

    /// The rows of `events.parquet`.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        self.rows()
    }

    /// The rows of `trace.parquet`; none if nothing was traced.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn trace(&self) -> Result<Vec<TraceRow>, Error> {
        if self.partial || self.file("trace.parquet")?.exists() { self.rows() } else { Ok(Vec::new()) }
    }

    /// The rows of all files of a table.
    fn rows<T: Table>(&self) -> Result<Vec<T>, Error> {
        let mut rows = Vec::new();
        for file in self.files_of(T::NAME)? {
            let mut more = read_table(&file)?;
            match rows.is_empty() {
                true => rows = more,
                false => rows.append(&mut more),
            }
        }
        Ok(rows)
    }

    /// The Parquet files of a table in order: one of a finished record, the parts written so far of others;
    /// none for the trace where nothing was traced.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn files(&self, table: TableName) -> Result<Vec<PathBuf>, Error> {
        let mut files = self.files_of(table.stem())?;
        if table == TableName::Trace && !self.partial {
            files.retain(|file| file.exists());
        }
        Ok(files)
    }

    /// The final file where it exists, else the parts in the order in which they were written.
    fn files_of(&self, table: &str) -> Result<Vec<PathBuf>, Error> {
        let whole = format!("{table}.parquet");
        if !self.partial {
            return Ok(vec![self.file(&whole)?]);
        }
        let names = self.file_names()?;
        if names.contains(&whole) {
            return Ok(vec![self.file(&whole)?]);
        }
        let prefix = format!("{table}.part-");
        let number = |name: &String| -> Option<u32> {
            name.strip_prefix(&prefix)?.strip_suffix(".parquet")?.parse().ok()
        };
        let mut parts: Vec<(u32, &String)> =
            names.iter().filter_map(|name| Some((number(name)?, name))).collect();
        parts.sort();
        parts.into_iter().map(|(_, name)| self.file(name)).collect()
    }
}

fn read_table<T: Table>(path: &Path) -> Result<Vec<T>, Error> {
    let file = File::open(path).context("read", path)?;
    decode(file).map_err(|reason| Error::Parquet { path: path.to_owned(), reason })
}
