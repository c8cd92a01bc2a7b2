//! The summaries of several runs as one table: a row for each run and flow, with every figure of the flow
//! summary in SI units.
//!
//! The columns are those of [`schema::FlowSummary`] as JSON. Times are in seconds: `min_rtt_us` becomes
//! `min_rtt_s`. Nested figures have a dotted name, as in `limited.loss`. Sentences (evidence, remedy) are
//! omitted. A column of numbers is a DOUBLE; seeds are texts if one of them is above 2^53.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;

use crate::csv::quoted;
use crate::{Error, Run};

/// Columns that identify the run to which a row belongs; swept fields follow, as `sweep.FIELD`.
const RUN_COLUMNS: [&str; 12] = [
    "scenario",
    "id",
    "engine",
    "kernel",
    "variant",
    "seed",
    "repeat",
    "started",
    "duration_s",
    "partial",
    "reliable",
    "record",
];
/// Sentences, which are not figures.
const TEXTS: [&str; 2] = ["evidence", "remedy"];

/// All integers up to this one are exact as f64.
const MAX_EXACT: u64 = 1 << 53;

/// A cell; absent where a run or flow does not have the figure.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(String),
    Number(f64),
}

/// The table of several runs.
#[derive(Debug)]
pub struct RunTable {
    columns: Vec<String>,
    rows: Vec<BTreeMap<String, Cell>>,
}

impl RunTable {
    /// The table of `runs`, in this order. A run without flows has no row.
    pub fn of(runs: &[Run]) -> Self {
        let mut rows = Vec::new();
        let mut swept: Vec<String> = Vec::new();
        let mut figures: Vec<String> = Vec::new();
        for run in runs {
            let (run_cells, fields) = run_cells(run);
            add_new(&mut swept, fields);
            for flow in &run.run().flows {
                let mut cells = BTreeMap::new();
                let flow = serde_json::to_value(flow).unwrap_or_default();
                flatten("", &flow, &mut cells);
                if let Some(name) = cells.remove("name") {
                    cells.insert("flow".into(), name);
                }
                add_new(&mut figures, cells.keys().filter(|name| *name != "flow").cloned());
                cells.extend(run_cells.clone());
                rows.push(cells);
            }
        }
        let first = RUN_COLUMNS.iter().map(|name| (*name).to_owned());
        let columns = first.chain(swept).chain(["flow".to_owned()]).chain(figures).collect();
        RunTable { columns, rows }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// As CSV: column names, then a line for each row.
    pub fn to_csv(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        let mut text = names.join(",") + "\n";
        for row in &self.rows {
            let cell = |name: &String| match row.get(name) {
                Some(Cell::Text(text)) => quoted(text),
                Some(Cell::Number(number)) => number.to_string(),
                None => String::new(),
            };
            text.push_str(&self.columns.iter().map(cell).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// As the bytes of a Parquet file; `path` is for messages.
    ///
    /// # Errors
    /// The table cannot be encoded.
    pub fn to_parquet(&self, path: &Path) -> Result<Vec<u8>, Error> {
        self.encode().map_err(|error| Error::Encode { path: path.to_owned(), reason: error.to_string() })
    }

    fn encode(&self) -> Result<Vec<u8>, ParquetError> {
        let field = |name: &String| {
            let builder = match self.is_text(name) {
                true => Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
                    .with_logical_type(Some(LogicalType::String)),
                false => Type::primitive_type_builder(name, PhysicalType::DOUBLE),
            };
            Ok(Arc::new(builder.with_repetition(Repetition::OPTIONAL).build()?))
        };
        let fields = self.columns.iter().map(field).collect::<Result<Vec<_>, ParquetError>>()?;
        let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields).build()?);
        let properties = WriterProperties::builder()
            .set_created_by(concat!("longfat version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for name in &self.columns {
            let Some(mut column) = group.next_column()? else {
                return Err(ParquetError::General(format!("the schema has no column {name}")));
            };
            let cells: Vec<Option<&Cell>> = self.rows.iter().map(|row| row.get(name)).collect();
            let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
            match self.is_text(name) {
                true => {
                    let text = |cell: &&Cell| ByteArray::from(cell.text().as_str());
                    let values: Vec<ByteArray> = cells.iter().flatten().map(text).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
                false => {
                    let number = |cell: &&Cell| match cell {
                        Cell::Number(number) => *number,
                        Cell::Text(_) => f64::NAN,
                    };
                    let values: Vec<f64> = cells.iter().flatten().map(number).collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        writer.into_inner()
    }

    /// Whether a column has texts.
    fn is_text(&self, name: &str) -> bool {
        self.rows.iter().any(|row| matches!(row.get(name), Some(Cell::Text(_))))
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
        }
    }
}

/// The cells that all rows of a run share, and the names of its swept fields' columns.
fn run_cells(run: &Run) -> (BTreeMap<String, Cell>, Vec<String>) {
    let summary = run.run();
    let yes = |is: bool| Some(Cell::Number(f64::from(u8::from(is))));
    let text = |text: &str| Some(Cell::Text(text.to_owned()));
    let values = [
        text(&run.summary.scenario),
        text(run.id()),
        text(&summary.engine.to_string()),
        summary.kernel.as_deref().and_then(text),
        summary.variant.as_deref().and_then(text),
        Some(seed_cell(summary.seed)),
        Some(Cell::Number(f64::from(summary.repeat))),
        text(&summary.started),
        Some(Cell::Number(summary.duration_s)),
        yes(run.partial),
        yes(summary.quality.is_reliable()),
        text(&run.location()),
    ];
    let cells = RUN_COLUMNS.iter().zip(values).filter_map(|(name, cell)| Some(((*name).to_owned(), cell?)));
    let swept =
        summary.sweep.iter().map(|(field, value)| (format!("sweep.{field}"), Cell::Text(value.clone())));
    let swept: Vec<(String, Cell)> = swept.collect();
    let names = swept.iter().map(|(name, _)| name.clone()).collect();
    (cells.chain(swept).collect(), names)
}

/// A seed; as text if it is not a number that a DOUBLE represents exactly.
fn seed_cell(seed: u64) -> Cell {
    if seed <= MAX_EXACT { Cell::Number(seed as f64) } else { Cell::Text(seed.to_string()) }
}

/// Adds the figures within `value` under their column names.
fn flatten(name: &str, value: &Value, cells: &mut BTreeMap<String, Cell>) {
    let cell = match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !TEXTS.contains(&key.as_str())) {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, cells);
            }
            return;
        }
        Value::Null | Value::Array(_) => return,
        Value::Bool(is) => Cell::Number(f64::from(u8::from(*is))),
        Value::Number(number) => Cell::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Cell::Text(text.clone()),
    };
    match (name.strip_suffix("_us"), cell) {
        (Some(stem), Cell::Number(micros)) => cells.insert(format!("{stem}_s"), Cell::Number(micros / 1e6)),
        (_, cell) => cells.insert(name.to_owned(), cell),
    };
}

fn add_new(known: &mut Vec<String>, names: impl IntoIterator<Item = String>) {
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use schema::{Cause, FlowSummary, Summary};

    use super::*;

    fn run(variant: &str, swept: Option<&str>, flow: FlowSummary) -> Run {
        let mut summary: Summary = serde_json::from_str(crate::EXAMPLE_SUMMARY).unwrap();
        summary.runs[0].variant = Some(variant.into());
        summary.runs[0].sweep = swept.map(|value| ("a.b".to_owned(), value.to_owned())).into_iter().collect();
        summary.runs[0].flows = vec![flow];
        Run { path: "runs/x".into(), partial: false, summary, store: None }
    }

    fn table() -> RunTable {
        let with_rtt = FlowSummary {
            name: "bulk".into(),
            goodput_bps: Some(1.5e9),
            min_rtt_us: Some(20_003.0),
            verdict: Some(Cause::Loss),
            remedy: Some("do this".into()),
            ..FlowSummary::default()
        };
        let without = FlowSummary { name: "ping, \"b\"".into(), ..FlowSummary::default() };
        RunTable::of(&[run("one", None, with_rtt), run("two", Some("100p"), without)])
    }

    #[test]
    fn a_row_has_the_run_the_point_and_the_figures_in_si_units() {
        let csv = table().to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        let names: Vec<&str> = lines[0].split(',').collect();
        assert_eq!(names[..RUN_COLUMNS.len()], RUN_COLUMNS);
        assert_eq!(names[RUN_COLUMNS.len()..RUN_COLUMNS.len() + 2], ["sweep.a.b", "flow"]);
        let first: Vec<&str> = lines[1].split(',').collect();
        let of =
            |name: &str| first[names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}"))];
        assert_eq!((of("flow"), of("variant"), of("sweep.a.b")), ("bulk", "one", ""));
        assert_eq!((of("goodput_bps"), of("min_rtt_s"), of("verdict")), ("1500000000", "0.020003", "loss"));
        assert!(names.contains(&"limited.loss") && !names.contains(&"remedy"), "{names:?}");
        assert!(lines[2].contains("100p,\"ping, \"\"b\"\"\""), "{}", lines[2]);
    }

    #[test]
    fn large_seeds_keep_their_digits() {
        let mut large = run("one", None, FlowSummary::default());
        large.summary.runs[0].seed = (1 << 53) + 1;
        let table = RunTable::of(&[large, run("two", None, FlowSummary::default())]);
        let csv = table.to_csv();
        assert!(csv.contains(",9007199254740993,") && csv.contains(",two,1,"), "{csv}");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&table.to_parquet(Path::new("t.parquet")).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        for (row, seed) in rows.iter().zip(["9007199254740993", "1"]) {
            assert!(row.contains(&format!("seed: \"{seed}\"")), "{row}");
        }
    }

    #[test]
    fn the_parquet_file_has_the_same_columns_and_rows() {
        let table = table();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&table.to_parquet(Path::new("t.parquet")).unwrap()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
        assert_eq!(names, table.columns);
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows[0].contains("min_rtt_s: 0.020003") && rows[0].contains("variant: \"one\""),
            "{}",
            rows[0]
        );
        assert!(rows[1].contains("min_rtt_s: null"), "{}", rows[1]);
    }
}
