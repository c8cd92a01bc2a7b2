//! Series as Arrow tables, which pandas, polars, pyarrow and DuckDB import by the PyCapsule interface without
//! a copy:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    ffi_stream::FFI_ArrowArrayStream,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, ffi::FFI_ArrowSchema};
use pyo3::{prelude::*, types::PyCapsule};
use schema::{Event, FlowSample, LinkSample, Metrics};

use crate::errors::failed;

/// An immutable table.
#[pyclass(frozen, module = "longfat._native")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// The table as a stream of one batch (a capsule `arrow_array_stream`). The table has its own schema,
    /// whatever is requested.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The table's schema (a capsule `arrow_schema`).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        let schema = schema.map_err(|error| failed(py, error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns with their meanings.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        let of = |field: &Arc<Field>| {
            (field.name().clone(), field.metadata().get(MEANING).cloned().unwrap_or_default())
        };
        self.batch.schema().fields().iter().map(of).collect()
    }
}

/// The key of a column's metadata with its meaning.
const MEANING: &str = "doc";

/// Columns that are being built.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, meaning: &str, array: impl Array + 'static) {
        let is_nullable = array.null_count() > 0 || meaning.is_empty();
        self.push_field(Field::new(name, array.data_type().clone(), is_nullable), meaning, Arc::new(array));
    }

    fn push_field(&mut self, field: Field, meaning: &str, array: ArrayRef) {
        let metadata = match meaning {
            "" => HashMap::new(),
            text => HashMap::from([(MEANING.to_owned(), text.to_owned())]),
        };
        self.fields.push(field.with_metadata(metadata));
        self.arrays.push(array);
    }

    /// The metrics of all rows; any of them may be absent.
    fn push_metrics<T: Metrics>(&mut self, rows: &[T]) {
        for (index, column) in T::COLUMNS.iter().enumerate() {
            let array: Int64Array = rows.iter().map(|row| row.metric(index)).collect();
            let field = Field::new(column.name, DataType::Int64, true);
            self.push_field(field, column.doc, Arc::new(array));
        }
    }

    fn build(self) -> Result<Table, ArrowError> {
        let batch = RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)?;
        Ok(Table { batch })
    }
}

const TIME: &str = "time since the run's start";

fn times(rows: impl Iterator<Item = i64>) -> Int64Array {
    Int64Array::from_iter_values(rows)
}

/// Samples of flows with the columns of `flows.parquet`.
pub(crate) fn of_flows(rows: &[FlowSample]) -> Result<Table, ArrowError> {
    let mut columns = Columns::default();
    columns.push("time_us", TIME, times(rows.iter().map(|row| row.time_us)));
    let names = StringArray::from_iter_values(rows.iter().map(|row| &row.flow));
    columns.push("flow", "the flow's name", names);
    let causes: StringArray = rows.iter().map(|row| row.limited_by.map(schema::Cause::name)).collect();
    let meaning = "what limited the flow in the interval that ends here";
    columns.push_field(Field::new("limited_by", DataType::Utf8, true), meaning, Arc::new(causes));
    columns.push_metrics(rows);
    columns.build()
}

/// Samples of links with the columns of `links.parquet`.
pub(crate) fn of_links(rows: &[LinkSample]) -> Result<Table, ArrowError> {
    let mut columns = Columns::default();
    columns.push("time_us", TIME, times(rows.iter().map(|row| row.time_us)));
    let names = StringArray::from_iter_values(rows.iter().map(|row| &row.link));
    columns.push("link", "the link's name", names);
    let directions = StringArray::from_iter_values(rows.iter().map(|row| row.direction.name()));
    columns.push("direction", "forward or backward", directions);
    columns.push_metrics(rows);
    columns.build()
}

/// Events with the columns of `events.parquet`.
pub(crate) fn of_events(rows: &[Event]) -> Result<Table, ArrowError> {
    let mut columns = Columns::default();
    columns.push("time_us", TIME, times(rows.iter().map(|row| row.time_us)));
    let subjects = StringArray::from_iter_values(rows.iter().map(|row| &row.subject));
    columns.push("subject", "the flow or link, or part of the measurement", subjects);
    columns.push(
        "kind",
        "what happened",
        StringArray::from_iter_values(rows.iter().map(|row| row.kind.name())),
    );
    columns.push(
        "value",
        "its value; the meaning depends on the kind",
        times(rows.iter().map(|row| row.value)),
    );
    columns.build()
}

/// The cells of a column.
#[derive(FromPyObject)]
pub(crate) enum Cells {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

/// A table of named columns of numbers or texts.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, columns: Vec<(String, Cells)>) -> PyResult<Table> {
    let mut built = Columns::default();
    for (name, cells) in columns {
        match cells {
            Cells::Numbers(cells) => built.push(&name, "", Float64Array::from(cells)),
            Cells::Texts(cells) => built.push(&name, "", StringArray::from(cells)),
        }
    }
    built.build().map_err(|error| failed(py, error.to_string()))
}
