//! Reads single columns of a table by row group, without building rows, for readers of large records.
//!
//! Text columns are returned as a list of distinct texts and each row's index into it. As in `parquet_file`,
//! a panic of the `parquet` crate on a damaged file becomes an error.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;

use crate::Error;
use crate::error::Context;
use crate::parquet_file::{Failure, read_cells};

/// Number of rows that [`ColumnFile::numbers`] reads at a time.
const NUMBERS_BATCH_ROWS: usize = 128 * 1024;

/// Maximum number of rows returned for a column that has the same text in all rows: a damaged footer may
/// claim any number.
const MAX_ROWS_OF_ONE_TEXT: usize = 16 * 1024 * 1024;

/// A table of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableName {
    /// `flows.parquet`.
    Flows,
    /// `links.parquet`.
    Links,
    /// `events.parquet`.
    Events,
    /// `trace.parquet`.
    Trace,
}

impl TableName {
    /// The file's name without `.parquet`.
    pub fn stem(self) -> &'static str {
        match self {
            TableName::Flows => "flows",
            TableName::Links => "links",
            TableName::Events => "events",
            TableName::Trace => "trace",
        }
    }
}

/// A text column of a row group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// The distinct texts, in the order of their first appearance.
    pub names: Vec<String>,
    /// Each row's index into `names`; `None` if the row has no text.
    pub rows: Vec<Option<u32>>,
}

/// One Parquet file of a record, open for reading. Not to be shared between threads: each opens the file.
pub struct ColumnFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
}

impl ColumnFile {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// If the file cannot be opened or its footer is damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).context("read", path)?;
        let reader = guarded(path, || Ok(SerializedFileReader::new(file)?))?;
        Ok(ColumnFile { path: path.to_owned(), reader })
    }

    /// The number of row groups.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// An integer column of a row group, one cell per row; `None` if the file lacks the column.
    ///
    /// # Errors
    /// If the column does not contain integers, or the file is damaged.
    pub fn ints(&self, group: usize, column: &str) -> Result<Option<Vec<Option<i64>>>, Error> {
        self.column(group, column, |reader, _| match reader {
            ColumnReader::Int64ColumnReader(reader) => {
                let mut cells = Vec::new();
                read_cells::<Int64Type>(reader, |cell| {
                    cells.push(cell);
                    Ok(())
                })?;
                Ok(cells)
            }
            _ => Err(Failure::Content(format!("column {column} does not contain integers"))),
        })
    }

    /// An integer column of a row group as floating-point numbers, NaN where a row has no value. Faster than
    /// [`Self::ints`]. `None` if the file lacks the column.
    ///
    /// # Errors
    /// If the column does not contain integers, or the file is damaged.
    pub fn numbers(&self, group: usize, column: &str) -> Result<Option<Vec<f64>>, Error> {
        self.column(group, column, |reader, chunk| {
            let ColumnReader::Int64ColumnReader(mut reader) = reader else {
                return Err(Failure::Content(format!("column {column} does not contain integers")));
            };
            let is_optional = chunk.column_descr().max_def_level() > 0;
            let (mut numbers, mut levels, mut values) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                levels.clear();
                values.clear();
                let levels_out = is_optional.then_some(&mut levels);
                let (records, found, _) =
                    reader.read_records(NUMBERS_BATCH_ROWS, levels_out, None, &mut values)?;
                if records == 0 {
                    return Ok(numbers);
                }
                if found == records {
                    numbers.extend(values.iter().map(|value| *value as f64));
                    continue;
                }
                let mut values = values.iter();
                let mut cell = |level: &i16| if *level > 0 { values.next() } else { None };
                numbers
                    .extend(levels.iter().map(|level| cell(level).map_or(f64::NAN, |value| *value as f64)));
            }
        })
    }

    /// The first and last time of a group's rows, microseconds; `None` if its statistics lack them.
    pub fn span_us(&self, group: usize) -> Option<(i64, i64)> {
        let metadata = self.reader.metadata().row_groups().get(group)?;
        let time = metadata.columns().iter().find(|column| column.column_path().string() == "time_us")?;
        match time.statistics() {
            Some(Statistics::Int64(found)) => Some((*found.min_opt()?, *found.max_opt()?)),
            _ => None,
        }
    }

    /// The number of rows in a group, according to the footer.
    pub fn rows(&self, group: usize) -> u64 {
        let metadata = self.reader.metadata().row_groups().get(group);
        metadata.map_or(0, |group| u64::try_from(group.num_rows()).unwrap_or(0))
    }

    /// A text column of a row group; `None` if the file lacks the column.
    ///
    /// # Errors
    /// If the column does not contain text, or the file is damaged.
    pub fn texts(&self, group: usize, column: &str) -> Result<Option<Texts>, Error> {
        self.column(group, column, |reader, chunk| match reader {
            ColumnReader::ByteArrayColumnReader(reader) => match only_text(chunk) {
                Some(text) => {
                    let rows = usize::try_from(chunk.num_values()).unwrap_or(0).min(MAX_ROWS_OF_ONE_TEXT);
                    Ok(Texts { names: vec![text], rows: vec![Some(0); rows] })
                }
                None => read_texts(reader),
            },
            _ => Err(Failure::Content(format!("column {column} does not contain text"))),
        })
    }

    fn column<V>(
        &self,
        group: usize,
        name: &str,
        read: impl FnOnce(ColumnReader, &ColumnChunkMetaData) -> Result<V, Failure>,
    ) -> Result<Option<V>, Error> {
        guarded(&self.path, || {
            let group = self.reader.get_row_group(group)?;
            let stored = group.metadata().columns().iter().position(|c| c.column_path().string() == name);
            let Some(stored) = stored else { return Ok(None) };
            read(group.get_column_reader(stored)?, group.metadata().column(stored)).map(Some)
        })
    }
}

/// The text of all rows, if the statistics show that all rows have the same text.
fn only_text(chunk: &ColumnChunkMetaData) -> Option<String> {
    let Some(Statistics::ByteArray(found)) = chunk.statistics() else { return None };
    let is_exact = found.min_is_exact() && found.max_is_exact() && found.null_count_opt() == Some(0);
    let (low, high) = (found.min_opt()?, found.max_opt()?);
    (is_exact && low == high).then(|| low.as_utf8().ok().map(str::to_owned)).flatten()
}

/// Reads a text column and numbers its distinct texts.
fn read_texts(reader: parquet::column::reader::ColumnReaderImpl<ByteArrayType>) -> Result<Texts, Failure> {
    let mut texts = Texts::default();
    let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut last: Option<(Vec<u8>, u32)> = None;
    read_cells::<ByteArrayType>(reader, |cell| {
        let Some(value) = cell else {
            texts.rows.push(None);
            return Ok(());
        };
        let bytes = value.data();
        if let Some((_, number)) = last.as_ref().filter(|(text, _)| text == bytes) {
            texts.rows.push(Some(*number));
            return Ok(());
        }
        let number = match known.get(bytes) {
            Some(number) => *number,
            None => {
                let number = texts.names.len() as u32;
                texts.names.push(value.as_utf8()?.to_owned());
                known.insert(bytes.to_vec(), number);
                number
            }
        };
        texts.rows.push(Some(number));
        last = Some((bytes.to_vec(), number));
        Ok(())
    })?;
    Ok(texts)
}

/// Runs `read`, and converts its failure or panic to an error that names the file.
fn guarded<V>(path: &Path, read: impl FnOnce() -> Result<V, Failure>) -> Result<V, Error> {
    let reason = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure.reason(),
        Err(_) => "the Parquet file is damaged".to_owned(),
    };
    Err(Error::Parquet { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schema::FlowSample;
    use std::io::Write;

    fn rows() -> Vec<FlowSample> {
        let row = |i: i64| FlowSample {
            time_us: i * 10_000,
            flow: if i % 2 == 0 { "a".into() } else { "b".into() },
            srtt_us: (i % 3 != 0).then_some(20_000 + i),
            ..FlowSample::default()
        };
        (0..200).map(row).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_files_cause_errors_or_fewer_rows(
            cut in 0.0..1.0f64,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        ) {
            let mut bytes = crate::parquet_file::encode(&rows(), &Default::default()).unwrap();
            for (index, mask) in &flips {
                let at = index.index(bytes.len());
                bytes[at] ^= mask;
            }
            if flips.is_empty() {
                bytes.truncate((bytes.len() as f64 * cut) as usize);
            }
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let Ok(open) = ColumnFile::open(file.path()) else { return Ok(()) };
            prop_assert!(!flips.is_empty(), "a truncated file has no footer");
            for group in 0..open.groups().min(4) {
                let cells = [open.numbers(group, "srtt_us").map(|c| c.map_or(0, |c| c.len())),
                    open.ints(group, "time_us").map(|c| c.map_or(0, |c| c.len())),
                    open.texts(group, "flow").map(|c| c.map_or(0, |c| c.rows.len()))];
                prop_assert!(cells.into_iter().flatten().all(|count| count <= MAX_ROWS_OF_ONE_TEXT));
                let _ = (open.span_us(group), open.rows(group));
            }
        }
    }
}
