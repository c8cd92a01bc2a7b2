//! Measures that the page can request: the metrics of plots, every column, and the lines of a time-sequence
//! graph. Each names the columns from which it is computed, so that only these are read.

use record::{TableName, Texts};
use schema::{FlowSample, LinkSample, Metrics, TraceKind};

use crate::Error;
use crate::axis::Unit;
use crate::metric::{Metric, UNLIMITED_BPS, Value};

/// One curve's values.
pub(crate) struct Measure {
    pub(crate) name: String,
    /// The integer columns from which it is computed.
    pub(crate) columns: Vec<&'static str>,
    /// Whether its samples are noisy, so that means are shown too.
    pub(crate) is_smoothed: bool,
    formula: Formula,
}

/// The formula that computes a value from the columns' cells. A test compares these with the metrics of
/// plots.
#[derive(Clone, Copy)]
enum Formula {
    /// One column, times a factor.
    Times(f64),
    /// One column of microseconds, in seconds.
    Micros,
    /// One column; NaN if it is negative or the kernel's value for "unlimited".
    Limited,
    /// The product of both columns: segments times their size.
    Product,
    /// The first column, or the second if the first is absent.
    Either,
    /// (unacknowledged - SACKed - lost + retransmitted) segments times their size.
    InFlight,
    /// The sum of the first column and the values present in the others.
    Sum,
    /// Trace rows of these kinds only.
    Trace(&'static [TraceKind], Summed),
}

/// Which columns of a trace row are added.
#[derive(Clone, Copy)]
enum Summed {
    /// The first column.
    First,
    /// The sum of the first two columns.
    Both,
}

/// A measure of traces: name, kinds of rows, columns, and their sum.
type TraceMeasure = (&'static str, &'static [TraceKind], &'static [&'static str], Summed);

const TRACE: [TraceMeasure; 6] = [
    ("sent", &[TraceKind::Sent], &["seq_bytes"], Summed::First),
    ("sent_end", &[TraceKind::Sent], &["seq_bytes", "len_bytes"], Summed::Both),
    ("retransmitted", &[TraceKind::Retransmit], &["seq_bytes"], Summed::First),
    ("retransmitted_end", &[TraceKind::Retransmit], &["seq_bytes", "len_bytes"], Summed::Both),
    ("acknowledged", &[TraceKind::Ack, TraceKind::Sack], &["ack_bytes"], Summed::First),
    ("window_end", &[TraceKind::Ack, TraceKind::Sack], &["ack_bytes", "snd_wnd_bytes"], Summed::Both),
];

impl Measure {
    /// The measure of a table that is called `name`.
    pub(crate) fn parse(table: TableName, name: &str) -> Result<Self, Error> {
        if table == TableName::Trace {
            let (name, kinds, columns, summed) = TRACE
                .into_iter()
                .find(|known| known.0 == name)
                .ok_or_else(|| Error::UnknownMetric { name: name.to_owned() })?;
            let formula = Formula::Trace(kinds, summed);
            return Ok(Measure {
                name: name.to_owned(),
                columns: columns.to_vec(),
                is_smoothed: false,
                formula,
            });
        }
        let metric = Metric::parse(name)?;
        if metric.value.is_of_links() != (table == TableName::Links) {
            return Err(Error::UnknownMetric { name: name.to_owned() });
        }
        let (formula, columns) = formula_of(name, metric.value);
        let is_smoothed = metric.is_smoothed();
        Ok(Measure { name: name.to_owned(), columns, is_smoothed, formula })
    }

    /// The value of each of `rows` rows, NaN if there is none. `columns` are the cells of
    /// [`Measure::columns`], `None` if the file lacks one; `kinds` is the trace's column `kind`.
    pub(crate) fn values(&self, rows: usize, columns: &[Option<&[f64]>], kinds: Option<&Texts>) -> Vec<f64> {
        let missing = vec![f64::NAN; if columns.iter().all(Option::is_some) { 0 } else { rows }];
        let cells: Vec<&[f64]> = columns.iter().map(|column| column.unwrap_or(&missing)).collect();
        if cells.iter().any(|column| column.len() != rows) {
            return vec![f64::NAN; rows];
        }
        let or_zero = |value: f64| if value.is_nan() { 0.0 } else { value };
        match (self.formula, cells.as_slice()) {
            (Formula::Times(factor), [a, ..]) => a.iter().map(|a| a * factor).collect(),
            (Formula::Micros, [a, ..]) => a.iter().map(|a| a / 1e6).collect(),
            (Formula::Limited, [a, ..]) => {
                a.iter().map(|a| if (0.0..UNLIMITED_BPS).contains(a) { *a } else { f64::NAN }).collect()
            }
            (Formula::Product, [a, b, ..]) => a.iter().zip(*b).map(|(a, b)| a * b).collect(),
            (Formula::Either, [a, b, ..]) => {
                a.iter().zip(*b).map(|(a, b)| if a.is_nan() { *b } else { *a }).collect()
            }
            (Formula::InFlight, [unacked, sacked, lost, retrans, mss]) => (0..rows)
                .map(|i| {
                    let segs = unacked[i] - or_zero(sacked[i]) - or_zero(lost[i]) + or_zero(retrans[i]);
                    if segs.is_nan() { f64::NAN } else { segs.max(0.0) * mss[i] }
                })
                .collect(),
            (Formula::Sum, [first, others @ ..]) => (0..rows)
                .map(|i| first[i] + others.iter().map(|other| or_zero(other[i])).sum::<f64>())
                .collect(),
            (Formula::Trace(wanted, summed), [a, others @ ..]) => {
                let kind_of =
                    |name: &String| TraceKind::from_name(name).is_some_and(|kind| wanted.contains(&kind));
                let is_wanted_kind: Vec<bool> =
                    kinds.map(|kinds| kinds.names.iter().map(kind_of).collect()).unwrap_or_default();
                let is_wanted = |row: usize| {
                    let kind = kinds.and_then(|kinds| kinds.rows.get(row).copied().flatten());
                    kind.is_some_and(|kind| is_wanted_kind[kind as usize])
                };
                let value_of_row = |row: usize| match (summed, others) {
                    _ if !is_wanted(row) => f64::NAN,
                    (Summed::Both, [b, ..]) => a[row] + b[row],
                    _ => a[row],
                };
                (0..rows).map(value_of_row).collect()
            }
            _ => vec![f64::NAN; rows],
        }
    }
}

/// The formula and columns of a plot's metric.
fn formula_of(name: &str, value: Value) -> (Formula, Vec<&'static str>) {
    let column = |name: &'static str| (Formula::Times(Unit::column_factor(name)), vec![name]);
    match value {
        Value::FlowColumn(index) => return column(FlowSample::COLUMNS[index].name),
        Value::LinkColumn(index) => return column(LinkSample::COLUMNS[index].name),
        Value::Flow(_) | Value::Link(_) => {}
    }
    match name {
        "goodput" => column("goodput_bps"),
        "cwnd" => (Formula::Product, vec!["snd_cwnd_segs", "snd_mss_bytes"]),
        "rtt" => (Formula::Micros, vec!["srtt_us"]),
        "rwnd" => (Formula::Either, vec!["snd_wnd_bytes", "rcv_wnd_bytes"]),
        "inflight" => {
            let columns = ["unacked_segs", "sacked_segs", "lost_segs", "retrans_segs", "snd_mss_bytes"];
            (Formula::InFlight, columns.to_vec())
        }
        "sndbuf" => column("sndbuf_bytes"),
        "ssthresh" => (Formula::Product, vec!["snd_ssthresh_segs", "snd_mss_bytes"]),
        "pacing" => (Formula::Limited, vec!["pacing_rate_bps"]),
        "delivery_rate" => (Formula::Limited, vec!["delivery_rate_bps"]),
        "retrans" => column("total_retrans_segs"),
        "queue" => column("queue_bytes"),
        "drops" => {
            (Formula::Sum, vec!["dropped_queue_packets", "dropped_loss_packets", "dropped_aqm_packets"])
        }
        "link_rate" => column("rate_bps"),
        _ => (Formula::Sum, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_names::SHORT_NAMES;

    /// A row in which every column has a different value.
    fn row<T: Metrics>() -> T {
        let mut row = T::default();
        (0..T::COLUMNS.len()).for_each(|i| row.set_metric(i, Some(1000 + 7 * i as i64)));
        row
    }

    #[test]
    fn a_measure_from_its_columns_equals_the_metric_of_the_row() {
        let (mut flow, mut link): (FlowSample, LinkSample) = (row(), row());
        for absent in [
            None,
            Some("sacked_segs"),
            Some("snd_wnd_bytes"),
            Some("dropped_aqm_packets"),
            Some("snd_mss_bytes"),
        ] {
            if let Some(column) = absent.and_then(FlowSample::column) {
                flow.set_metric(column, None);
            }
            if let Some(column) = absent.and_then(LinkSample::column) {
                link.set_metric(column, None);
            }
            for name in SHORT_NAMES.into_iter().chain(crate::metric_names::column_names()) {
                let value = Metric::parse(name).unwrap().value;
                let table = if value.is_of_links() { TableName::Links } else { TableName::Flows };
                let measure = Measure::parse(table, name).unwrap();
                let number =
                    |column: &&str| flow.get(column).or(link.get(column)).map_or(f64::NAN, |v| v as f64);
                let cells: Vec<Vec<f64>> = measure.columns.iter().map(|c| vec![number(c)]).collect();
                let columns: Vec<Option<&[f64]>> = cells.iter().map(|c| Some(c.as_slice())).collect();
                let expected = value.of_flow(&flow).or(value.of_link(&link));
                let found = measure.values(1, &columns, None)[0];
                assert_eq!((!found.is_nan()).then_some(found), expected, "{name} without {absent:?}");
            }
        }
        let unlimited = Measure::parse(TableName::Flows, "pacing").unwrap();
        assert!(unlimited.values(1, &[Some(&[i64::MAX as f64])], None)[0].is_nan());
    }

    #[test]
    fn a_file_without_the_column_gives_gaps() {
        let measure = Measure::parse(TableName::Flows, "rtt").unwrap();
        assert!(measure.values(2, &[None], None).iter().all(|v| v.is_nan()));
    }

    #[test]
    fn a_metric_of_another_table_is_refused() {
        assert!(Measure::parse(TableName::Flows, "queue").is_err());
        assert!(Measure::parse(TableName::Links, "cwnd").is_err());
        assert!(Measure::parse(TableName::Trace, "rtt").is_err());
    }
}
