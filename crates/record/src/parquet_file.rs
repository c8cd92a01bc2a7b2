//! Encodes rows as a Parquet file and decodes them from an open file.
//!
//! Files are snappy-compressed. Integers are delta-encoded INT64, text is dictionary-encoded UTF-8
//! BYTE_ARRAY. Columns are read by name: an optional column that the file lacks stays absent, and one that
//! this program does not know is skipped, so records of older and newer versions can be read. The `parquet`
//! crate may panic on a damaged file; [`decode`] catches that and returns an error.

use std::fs::File;
use std::io::Write;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use crate::origin::{Cell, Constant, Origin};
use crate::table::{Column, Table};

/// Rows in one row group.
const ROW_GROUP_ROWS: usize = 128 * 1024;
/// Rows read from a column at once.
const READ_BATCH_ROWS: usize = 16 * 1024;

/// The bytes of a Parquet file that holds `rows`.
pub(crate) fn encode<T: Table>(rows: &[T], origin: &Origin) -> Result<Vec<u8>, ParquetError> {
    let mut encoder = Encoder::new(Vec::new(), origin)?;
    encoder.add(rows)?;
    encoder.finish()
}

/// A Parquet file that is written row group by row group.
pub(crate) struct Encoder<T, W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    /// Columns with the same cell in each row, after the others.
    constants: Vec<Constant>,
    rows: PhantomData<T>,
}

impl<T: Table, W: Write + Send> Encoder<T, W> {
    pub(crate) fn new(to: W, origin: &Origin) -> Result<Self, ParquetError> {
        let columns = T::columns();
        let constants = if T::HAS_ORIGIN { origin.constants() } else { Vec::new() };
        let all: Vec<Column> = columns.iter().copied().chain(constants.iter().map(|c| c.column)).collect();
        let writer = SerializedFileWriter::new(to, file_schema::<T>(&all)?, properties(&all, origin))?;
        Ok(Encoder { writer, columns, constants, rows: PhantomData })
    }

    /// Writes rows, as one row group or several.
    pub(crate) fn add(&mut self, rows: &[T]) -> Result<(), ParquetError> {
        for group in rows.chunks(ROW_GROUP_ROWS) {
            let mut row_group = self.writer.next_row_group()?;
            for (index, column) in self.columns.iter().enumerate() {
                write_column(&mut row_group, index, column, group)?;
            }
            for constant in &self.constants {
                write_constant(&mut row_group, constant, group.len())?;
            }
            row_group.close()?;
        }
        Ok(())
    }

    /// Writes the footer and returns the underlying writer.
    pub(crate) fn finish(self) -> Result<W, ParquetError> {
        self.writer.into_inner()
    }
}

fn file_schema<T: Table>(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields = columns
        .iter()
        .map(|column| {
            let repetition =
                if column.kind.is_optional() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            let builder = if column.kind.is_text() {
                Type::primitive_type_builder(column.name, PhysicalType::BYTE_ARRAY)
                    .with_logical_type(Some(LogicalType::String))
            } else {
                Type::primitive_type_builder(column.name, PhysicalType::INT64)
            };
            Ok(Arc::new(builder.with_repetition(repetition).build()?))
        })
        .collect::<Result<Vec<_>, ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder(T::NAME).with_fields(fields).build()?))
}

fn properties(columns: &[Column], origin: &Origin) -> WriterPropertiesPtr {
    let docs = columns
        .iter()
        .map(|column| KeyValue::new(format!("longfat.doc.{}", column.name), column.doc.to_owned()))
        .chain([KeyValue::new("longfat.run".to_owned(), origin.json())])
        .collect();
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("longfat version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(docs));
    for column in columns.iter().filter(|c| !c.kind.is_text()) {
        let path = ColumnPath::from(column.name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(builder.build())
}

fn write_column<T: Table, W: Write + Send>(
    row_group: &mut SerializedRowGroupWriter<'_, W>,
    index: usize,
    column: &Column,
    rows: &[T],
) -> Result<(), ParquetError> {
    let Some(mut writer) = row_group.next_column()? else {
        return Err(ParquetError::General(format!("the schema has no column {}", column.name)));
    };
    if column.kind.is_text() {
        let cells: Vec<Option<&str>> = rows.iter().map(|row| row.text(index)).collect();
        let values: Vec<ByteArray> = cells.iter().flatten().map(|text| ByteArray::from(*text)).collect();
        let levels = definition_levels(column, &cells);
        writer.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)?;
    } else {
        let cells: Vec<Option<i64>> = rows.iter().map(|row| row.int(index)).collect();
        let values: Vec<i64> = cells.iter().flatten().copied().collect();
        let levels = definition_levels(column, &cells);
        writer.typed::<Int64Type>().write_batch(&values, levels.as_deref(), None)?;
    }
    writer.close()
}

/// Writes a column whose cells are all the same.
fn write_constant<W: Write + Send>(
    row_group: &mut SerializedRowGroupWriter<'_, W>,
    constant: &Constant,
    rows: usize,
) -> Result<(), ParquetError> {
    let Some(mut writer) = row_group.next_column()? else {
        return Err(ParquetError::General(format!("the schema has no column {}", constant.column.name)));
    };
    let levels =
        |is_present: bool| constant.column.kind.is_optional().then(|| vec![i16::from(is_present); rows]);
    match &constant.cell {
        Cell::Int(value) => {
            writer.typed::<Int64Type>().write_batch(&vec![*value; rows], levels(true).as_deref(), None)?;
        }
        Cell::Text(text) => {
            let cell = text.as_deref().map(ByteArray::from);
            let values: Vec<ByteArray> =
                cell.iter().cycle().take(rows * cell.iter().len()).cloned().collect();
            let levels = levels(text.is_some());
            writer.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)?;
        }
    }
    writer.close()
}

/// Definition levels of an optional column: 1 where a row has a value, 0 where it has none.
fn definition_levels<V>(column: &Column, cells: &[Option<V>]) -> Option<Vec<i16>> {
    column.kind.is_optional().then(|| cells.iter().map(|cell| i16::from(cell.is_some())).collect())
}

/// The rows of an open Parquet file. The error states the damage.
pub(crate) fn decode<T: Table>(file: File) -> Result<Vec<T>, String> {
    match catch_unwind(AssertUnwindSafe(|| decode_unguarded(file))) {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(failure)) => Err(failure.reason()),
        Err(_) => Err("the Parquet file is damaged".to_owned()),
    }
}

/// Why a file could not be decoded.
pub(crate) enum Failure {
    /// It is not a Parquet file, or a damaged one.
    Parquet(ParquetError),
    /// Its columns or values are not those of the table.
    Content(String),
}

impl Failure {
    /// The reason as it follows the file's name in a message.
    pub(crate) fn reason(self) -> String {
        match self {
            Failure::Parquet(e) => format!("not a readable Parquet file ({e})"),
            Failure::Content(reason) => reason,
        }
    }
}

impl From<ParquetError> for Failure {
    fn from(e: ParquetError) -> Self {
        Failure::Parquet(e)
    }
}

fn decode_unguarded<T: Table>(file: File) -> Result<Vec<T>, Failure> {
    let reader = SerializedFileReader::new(file)?;
    let mut rows = Vec::new();
    for index in 0..reader.num_row_groups() {
        decode_row_group(&*reader.get_row_group(index)?, &mut rows)?;
    }
    Ok(rows)
}

fn decode_row_group<T: Table>(group: &dyn RowGroupReader, rows: &mut Vec<T>) -> Result<(), Failure> {
    let first = rows.len();
    for (index, column) in T::columns().iter().enumerate() {
        let stored = group.metadata().columns().iter().position(|c| c.column_path().string() == column.name);
        let Some(stored) = stored else {
            if column.kind.is_optional() {
                continue;
            }
            return Err(Failure::Content(format!("column {} is missing", column.name)));
        };
        // The first column, `time_us`, is required, so it determines the number of rows.
        let mut next = first;
        match group.get_column_reader(stored)? {
            ColumnReader::Int64ColumnReader(reader) if !column.kind.is_text() => {
                read_cells::<Int64Type>(reader, |cell| {
                    let row = row_at(rows, &mut next, index)?;
                    if let Some(value) = required(cell, column)? {
                        row.set_int(index, value);
                    }
                    Ok(())
                })?;
            }
            ColumnReader::ByteArrayColumnReader(reader) if column.kind.is_text() => {
                read_cells::<ByteArrayType>(reader, |cell| {
                    let row = row_at(rows, &mut next, index)?;
                    if let Some(value) = required(cell, column)? {
                        row.set_text(index, value.as_utf8()?).map_err(Failure::Content)?;
                    }
                    Ok(())
                })?;
            }
            _ => return Err(Failure::Content(format!("column {} has another type", column.name))),
        }
        if next != rows.len() {
            return Err(Failure::Content(format!(
                "column {} is shorter than the other columns",
                column.name
            )));
        }
    }
    Ok(())
}

/// The row of the next cell; the first column creates the rows.
fn row_at<'a, T: Table>(rows: &'a mut Vec<T>, next: &mut usize, column: usize) -> Result<&'a mut T, Failure> {
    if column == 0 {
        rows.push(T::empty());
    }
    let row =
        rows.get_mut(*next).ok_or_else(|| Failure::Content("the columns differ in length".to_owned()))?;
    *next += 1;
    Ok(row)
}

/// Refuses an absent cell in a column that every row must have.
fn required<V>(cell: Option<V>, column: &Column) -> Result<Option<V>, Failure> {
    if cell.is_none() && !column.kind.is_optional() {
        return Err(Failure::Content(format!("a row has no {}", column.name)));
    }
    Ok(cell)
}

/// Calls `take` with each cell of a column, with `None` for an absent one.
pub(crate) fn read_cells<D: DataType>(
    mut reader: ColumnReaderImpl<D>,
    mut take: impl FnMut(Option<D::T>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    loop {
        levels.clear();
        values.clear();
        let (records, value_count, _) =
            reader.read_records(READ_BATCH_ROWS, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        let mut values = values.drain(..value_count.min(values.len()));
        for record in 0..records {
            let present = levels.get(record).is_none_or(|level| *level > 0);
            take(if present { values.next() } else { None })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schema::{Cause, Event, EventKind, FlowSample, LinkSample};
    use std::io::{Seek, Write};

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn flows(count: i64) -> Vec<FlowSample> {
        (0..count)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: if i % 2 == 0 { "bulk".to_owned() } else { "\u{fc}ber".to_owned() },
                limited_by: Cause::ALL.get((i % 9) as usize).copied(),
                goodput_bps: Some(i * 1_000_003),
                srtt_us: (i % 3 != 0).then_some(20_000 + i),
                snd_cwnd_segs: Some(i64::MAX - i),
                ..FlowSample::default()
            })
            .collect()
    }

    #[test]
    fn rows_round_trip() {
        let rows = flows(1000);
        assert_eq!(decode::<FlowSample>(file_of(&encode(&rows, &Origin::default()).unwrap())).unwrap(), rows);
        let none: Vec<FlowSample> = Vec::new();
        assert_eq!(decode::<FlowSample>(file_of(&encode(&none, &Origin::default()).unwrap())).unwrap(), none);
    }

    #[test]
    fn several_row_groups_are_read_as_one_table() {
        let rows: Vec<Event> = (0..ROW_GROUP_ROWS as i64 + 5)
            .map(|i| Event {
                time_us: i,
                subject: "s1-s2 forward".into(),
                kind: EventKind::DropQueue,
                value: -i,
            })
            .collect();
        assert_eq!(decode::<Event>(file_of(&encode(&rows, &Origin::default()).unwrap())).unwrap(), rows);
    }

    #[test]
    fn another_tables_file_is_refused_by_column_name() {
        let bytes = encode(&flows(3), &Origin::default()).unwrap();
        assert_eq!(decode::<LinkSample>(file_of(&bytes)).unwrap_err(), "column link is missing");
    }

    #[test]
    fn a_file_of_another_format_is_an_error() {
        assert!(decode::<Event>(file_of(b"")).unwrap_err().contains("not a readable Parquet file"));
        assert!(decode::<Event>(file_of(b"PAR1 and nothing else")).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_row_round_trips(time_us: i64, name in ".{0,20}", direction in "forward|backward|.{0,20}", value in proptest::option::of(any::<i64>())) {
            let row = LinkSample { time_us, link: name, direction: direction.as_str().into(), queue_bytes: value,
                ..LinkSample::default() };
            let bytes = encode(std::slice::from_ref(&row), &Origin::default()).unwrap();
            let back = decode::<LinkSample>(file_of(&bytes)).unwrap();
            prop_assert_eq!(back, vec![row]);
        }

        #[test]
        fn a_truncated_file_is_an_error(cut in 0.0..1.0f64) {
            let bytes = encode(&flows(200), &Origin::default()).unwrap();
            let kept = (bytes.len() as f64 * cut) as usize;
            prop_assert!(decode::<FlowSample>(file_of(&bytes[..kept])).is_err());
        }

        #[test]
        fn flipped_bytes_never_panic(flips in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6)) {
            let mut bytes = encode(&flows(200), &Origin::default()).unwrap();
            for (index, mask) in flips {
                let at = index.index(bytes.len());
                bytes[at] ^= mask;
            }
            // A flip may only change a value; it must not cause a panic or a huge table.
            if let Ok(rows) = decode::<FlowSample>(file_of(&bytes)) {
                prop_assert!(rows.len() < 1_000_000);
            }
        }
    }
}
