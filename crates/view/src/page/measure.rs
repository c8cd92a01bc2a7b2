//! What the page can ask a record for: the plots' metrics, every column, and the lines of a time-sequence graph, each with the
//! columns that it is made of, so that nothing else is read.

use record::{TableName, Texts};
use schema::{FlowSample, LinkSample, Metrics, TraceKind};

use crate::Error;
use crate::axis::Unit;
use crate::metric::{Metric, UNLIMITED_BPS, Value};

/// One curve's values.
pub(crate) struct Measure {
    pub(crate) name: String,
    /// The integer columns that it needs.
    pub(crate) columns: Vec<&'static str>,
    /// Whether its samples are so noisy that a mean reads better.
    pub(crate) is_smoothed: bool,
    take: Take,
}

/// What becomes of the columns' cells. A test holds these against the metrics of plots.
#[derive(Clone, Copy)]
enum Take {
    /// One column, times a factor.
    Times(f64),
    /// One column of microseconds, in seconds.
    Micros,
    /// One column; what is negative or beyond all rates is the kernel's "unlimited".
    Limited,
    /// Both columns multiplied: segments of a size.
    Product,
    /// The first column, or where that is absent the second.
    Either,
    /// Segments unacknowledged less those SACKed and lost, and those sent again, of a size.
    InFlight,
    /// The first column and what is there of the others.
    Sum,
    /// From the cells of a trace's row, where that is of one of these kinds.
    Trace(&'static [TraceKind], Summed),
}

/// Of a trace's row.
#[derive(Clone, Copy)]
enum Summed {
    /// The first column.
    First,
    /// The first two together.
    Both,
}

/// Measures of traces: name, kinds, columns and what becomes of them.
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
            let take = Take::Trace(kinds, summed);
            return Ok(Measure {
                name: name.to_owned(),
                columns: columns.to_vec(),
                is_smoothed: false,
                take,
            });
        }
        let metric = Metric::parse(name)?;
        if metric.value.is_of_links() != (table == TableName::Links) {
            return Err(Error::UnknownMetric { name: name.to_owned() });
        }
        let (take, columns) = made_of(name, metric.value);
        let is_smoothed = metric.is_smoothed();
        Ok(Measure { name: name.to_owned(), columns, is_smoothed, take })
    }

    /// The value of each of `rows` rows, NaN where there is none. `columns` are those of [`Measure::columns`], each `None` where
    /// the file lacks it; `kinds` is the trace's column of that name.
    pub(crate) fn values(&self, rows: usize, columns: &[Option<&[f64]>], kinds: Option<&Texts>) -> Vec<f64> {
        let missing = vec![f64::NAN; if columns.iter().all(Option::is_some) { 0 } else { rows }];
        let cells: Vec<&[f64]> = columns.iter().map(|column| column.unwrap_or(&missing)).collect();
        if cells.iter().any(|column| column.len() != rows) {
            return vec![f64::NAN; rows];
        }
        let or_none = |value: f64| if value.is_nan() { 0.0 } else { value };
        match (self.take, cells.as_slice()) {
            (Take::Times(factor), [a, ..]) => a.iter().map(|a| a * factor).collect(),
            (Take::Micros, [a, ..]) => a.iter().map(|a| a / 1e6).collect(),
            (Take::Limited, [a, ..]) => {
                a.iter().map(|a| if (0.0..UNLIMITED_BPS).contains(a) { *a } else { f64::NAN }).collect()
            }
            (Take::Product, [a, b, ..]) => a.iter().zip(*b).map(|(a, b)| a * b).collect(),
            (Take::Either, [a, b, ..]) => {
                a.iter().zip(*b).map(|(a, b)| if a.is_nan() { *b } else { *a }).collect()
            }
            (Take::InFlight, [unacked, sacked, lost, retrans, mss]) => (0..rows)
                .map(|i| {
                    let segs = unacked[i] - or_none(sacked[i]) - or_none(lost[i]) + or_none(retrans[i]);
                    if segs.is_nan() { f64::NAN } else { segs.max(0.0) * mss[i] }
                })
                .collect(),
            (Take::Sum, [first, others @ ..]) => (0..rows)
                .map(|i| first[i] + others.iter().map(|other| or_none(other[i])).sum::<f64>())
                .collect(),
            (Take::Trace(wanted, summed), [a, others @ ..]) => {
                let kind_of =
                    |name: &String| TraceKind::from_name(name).is_some_and(|kind| wanted.contains(&kind));
                let counts: Vec<bool> =
                    kinds.map(|kinds| kinds.names.iter().map(kind_of).collect()).unwrap_or_default();
                let is_wanted = |row: usize| {
                    let kind = kinds.and_then(|kinds| kinds.rows.get(row).copied().flatten());
                    kind.is_some_and(|kind| counts[kind as usize])
                };
                let of_row = |row: usize| match (summed, others) {
                    _ if !is_wanted(row) => f64::NAN,
                    (Summed::Both, [b, ..]) => a[row] + b[row],
                    _ => a[row],
                };
                (0..rows).map(of_row).collect()
            }
            _ => vec![f64::NAN; rows],
        }
    }
}

/// What a metric of the plots is made of.
fn made_of(name: &str, value: Value) -> (Take, Vec<&'static str>) {
    let column = |name: &'static str| (Take::Times(Unit::column_factor(name)), vec![name]);
    match value {
        Value::FlowColumn(index) => return column(FlowSample::COLUMNS[index].name),
        Value::LinkColumn(index) => return column(LinkSample::COLUMNS[index].name),
        Value::Flow(_) | Value::Link(_) => {}
    }
    match name {
        "goodput" => column("goodput_bps"),
        "cwnd" => (Take::Product, vec!["snd_cwnd_segs", "snd_mss_bytes"]),
        "rtt" => (Take::Micros, vec!["srtt_us"]),
        "rwnd" => (Take::Either, vec!["snd_wnd_bytes", "rcv_wnd_bytes"]),
        "inflight" => {
            let columns = ["unacked_segs", "sacked_segs", "lost_segs", "retrans_segs", "snd_mss_bytes"];
            (Take::InFlight, columns.to_vec())
        }
        "sndbuf" => column("sndbuf_bytes"),
        "ssthresh" => (Take::Product, vec!["snd_ssthresh_segs", "snd_mss_bytes"]),
        "pacing" => (Take::Limited, vec!["pacing_rate_bps"]),
        "delivery_rate" => (Take::Limited, vec!["delivery_rate_bps"]),
        "retrans" => column("total_retrans_segs"),
        "queue" => column("queue_bytes"),
        "drops" => (Take::Sum, vec!["dropped_queue_packets", "dropped_loss_packets", "dropped_aqm_packets"]),
        "link_rate" => column("rate_bps"),
        _ => (Take::Sum, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::FRIENDLY;

    /// A row in which every column has another value.
    fn row<T: Metrics>() -> T {
        let mut row = T::default();
        (0..T::COLUMNS.len()).for_each(|i| row.set_metric(i, Some(1000 + 7 * i as i64)));
        row
    }

    #[test]
    fn a_measure_of_its_columns_alone_is_the_metric_of_the_row() {
        let (mut flow, mut link): (FlowSample, LinkSample) = (row(), row());
        for absent in [
            None,
            Some("sacked_segs"),
            Some("snd_wnd_bytes"),
            Some("dropped_aqm_packets"),
            Some("snd_mss_bytes"),
        ] {
            if let Some(place) = absent.and_then(FlowSample::column) {
                flow.set_metric(place, None);
            }
            if let Some(place) = absent.and_then(LinkSample::column) {
                link.set_metric(place, None);
            }
            for name in FRIENDLY.into_iter().chain(crate::metric::column_names()) {
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
