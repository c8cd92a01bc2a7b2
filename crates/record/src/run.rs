//! An opened record. The summary is read when it is opened, the series on request.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use schema::{Event, FlowSample, LinkSample, RunSummary, SUMMARY_SCHEMA, Summary, TraceRow};

use crate::Error;
use crate::columns::TableName;
use crate::error::Context;
use crate::parquet_file::decode;
use crate::table::Table;
use crate::writer::partial_id;

/// A run's record on disk, complete or partial.
#[derive(Debug, Clone)]
pub struct Run {
    /// The record's directory.
    pub path: PathBuf,
    /// True where the run was cut short: its series end early and its summary may lack figures.
    pub partial: bool,
    /// The summary, which has exactly one run.
    pub summary: Summary,
}

impl Run {
    /// Opens the record in directory `path`.
    ///
    /// # Errors
    /// If its summary cannot be read, is of another schema, or has not exactly one run.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.join("summary.json");
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
        Ok(Run { path: path.to_owned(), partial: is_partial, summary })
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

    /// The scenario file as it was run.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn scenario_toml(&self) -> Result<String, Error> {
        let path = self.path.join("scenario.toml");
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

    /// The rows of `trace.parquet`; none where nothing was traced.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn trace(&self) -> Result<Vec<TraceRow>, Error> {
        let whole = self.path.join("trace.parquet");
        if whole.exists() || self.partial { self.rows() } else { Ok(Vec::new()) }
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

    /// The final file where it exists, else the parts.
    fn files_of(&self, table: &str) -> Result<Vec<PathBuf>, Error> {
        let whole = self.path.join(format!("{table}.parquet"));
        if whole.exists() || !self.partial { Ok(vec![whole]) } else { self.parts(table) }
    }

    /// The part files of a table, in the order in which they were written.
    fn parts(&self, table: &str) -> Result<Vec<PathBuf>, Error> {
        let prefix = format!("{table}.part-");
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).context("read", &self.path)? {
            let name = entry.context("read", &self.path)?.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".parquet"));
            if let Some(number) = number.and_then(|n| n.parse::<u32>().ok()) {
                parts.push((number, self.path.join(name)));
            }
        }
        parts.sort();
        Ok(parts.into_iter().map(|(_, path)| path).collect())
    }
}

fn read_table<T: Table>(path: &Path) -> Result<Vec<T>, Error> {
    let file = File::open(path).context("read", path)?;
    decode(file).map_err(|reason| Error::Parquet { path: path.to_owned(), reason })
}

/// The last component of a path, also of one like `runs/lab8/x/`.
pub(crate) fn directory_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}
