//! What the page can ask a record for: the plots' metrics, every column, and the lines of a time-sequence graph, each with the
//! columns that it is made of, so that nothing else is read.

use record::{TableName, Texts};
use schema::{FlowSample, LinkSample, Metrics, TraceKind};

use crate::Error;
use crate::metric::{Metric, Value};

/// One curve's values.
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) table: TableName,
    /// The integer columns that it needs.
    pub(crate) columns: Vec<&'static str>,
    /// Whether its samples are so noisy that a mean reads better.
    pub(crate) is_smoothed: bool,
    take: Take,
}

enum Take {
    /// By a metric of the plots, and where its columns are in a row.
    Row(Value, Vec<usize>),
    /// From the cells of a trace's row, where that is of one of these kinds.
    Trace(&'static [TraceKind], fn(&[Option<i64>]) -> Option<i64>),
}

/// Measures of traces: name, kinds, columns and what becomes of them.
type TraceMeasure =
    (&'static str, &'static [TraceKind], &'static [&'static str], fn(&[Option<i64>]) -> Option<i64>);

const TRACE: [TraceMeasure; 6] = [
    ("sent", &[TraceKind::Sent], &["seq_bytes"], |cells| cells[0]),
    ("sent_end", &[TraceKind::Sent], &["seq_bytes", "len_bytes"], |cells| cells[0]?.checked_add(cells[1]?)),
    ("retransmitted", &[TraceKind::Retransmit], &["seq_bytes"], |cells| cells[0]),
    ("retransmitted_end", &[TraceKind::Retransmit], &["seq_bytes", "len_bytes"], |cells| {
        cells[0]?.checked_add(cells[1]?)
    }),
    ("acknowledged", &[TraceKind::Ack, TraceKind::Sack], &["ack_bytes"], |cells| cells[0]),
    ("window_end", &[TraceKind::Ack, TraceKind::Sack], &["ack_bytes", "snd_wnd_bytes"], |cells| {
        cells[0]?.checked_add(cells[1]?)
    }),
];

impl Measure {
    /// The measure of a table that is called `name`.
    pub(crate) fn parse(table: TableName, name: &str) -> Result<Self, Error> {
        if table == TableName::Trace {
            let (name, kinds, columns, of) = TRACE
                .into_iter()
                .find(|known| known.0 == name)
                .ok_or_else(|| Error::UnknownMetric { name: name.to_owned() })?;
            let take = Take::Trace(kinds, of);
            return Ok(Measure {
                name: name.to_owned(),
                table,
                columns: columns.to_vec(),
                is_smoothed: false,
                take,
            });
        }
        let metric = Metric::parse(name)?;
        if metric.value.is_of_links() != (table == TableName::Links) {
            return Err(Error::UnknownMetric { name: name.to_owned() });
        }
        let columns = columns_of(name, metric.value);
        let place = |column: &&str| match table {
            TableName::Links => LinkSample::column(column),
            _ => FlowSample::column(column),
        };
        let places = columns.iter().filter_map(place).collect();
        let is_smoothed = metric.is_smoothed();
        Ok(Measure {
            name: name.to_owned(),
            table,
            columns,
            is_smoothed,
            take: Take::Row(metric.value, places),
        })
    }

    /// The value of each of `rows` rows, NaN where there is none. `columns` are those of [`Measure::columns`], each `None` where
    /// the file lacks it; `kinds` is the trace's column of that name.
    pub(crate) fn values(
        &self,
        rows: usize,
        columns: &[Option<&[Option<i64>]>],
        kinds: Option<&Texts>,
    ) -> Vec<f64> {
        let cell =
            |column: usize, row: usize| columns[column].and_then(|cells| cells.get(row).copied().flatten());
        let finite = |value: Option<f64>| value.filter(|v| v.is_finite()).unwrap_or(f64::NAN);
        match &self.take {
            Take::Row(value, places) if self.table == TableName::Links => {
                let mut sample = LinkSample::default();
                let of_row = |row| {
                    places.iter().enumerate().for_each(|(i, place)| sample.set_metric(*place, cell(i, row)));
                    finite(value.of_link(&sample))
                };
                (0..rows).map(of_row).collect()
            }
            Take::Row(value, places) => {
                let mut sample = FlowSample::default();
                let of_row = |row| {
                    places.iter().enumerate().for_each(|(i, place)| sample.set_metric(*place, cell(i, row)));
                    finite(value.of_flow(&sample))
                };
                (0..rows).map(of_row).collect()
            }
            Take::Trace(wanted, of) => {
                let kind_of =
                    |name: &String| TraceKind::from_name(name).is_some_and(|kind| wanted.contains(&kind));
                let counts: Vec<bool> =
                    kinds.map(|kinds| kinds.names.iter().map(kind_of).collect()).unwrap_or_default();
                let is_wanted = |row: usize| {
                    let kind = kinds.and_then(|kinds| kinds.rows.get(row).copied().flatten());
                    kind.is_some_and(|kind| counts[kind as usize])
                };
                let mut cells = vec![None; columns.len()];
                let of_row = |row| {
                    if !is_wanted(row) {
                        return f64::NAN;
                    }
                    cells.iter_mut().enumerate().for_each(|(i, slot)| *slot = cell(i, row));
                    finite(of(&cells).map(|v| v as f64))
                };
                (0..rows).map(of_row).collect()
            }
        }
    }
}

/// The columns that a metric of the plots is made of.
fn columns_of(name: &str, value: Value) -> Vec<&'static str> {
    match value {
        Value::FlowColumn(index) => return vec![FlowSample::COLUMNS[index].name],
        Value::LinkColumn(index) => return vec![LinkSample::COLUMNS[index].name],
        Value::Flow(_) | Value::Link(_) => {}
    }
    match name {
        "goodput" => vec!["goodput_bps"],
        "cwnd" => vec!["snd_cwnd_segs", "snd_mss_bytes"],
        "rtt" => vec!["srtt_us"],
        "rwnd" => vec!["snd_wnd_bytes", "rcv_wnd_bytes"],
        "inflight" => vec!["unacked_segs", "sacked_segs", "lost_segs", "retrans_segs", "snd_mss_bytes"],
        "sndbuf" => vec!["sndbuf_bytes"],
        "ssthresh" => vec!["snd_ssthresh_segs", "snd_mss_bytes"],
        "pacing" => vec!["pacing_rate_bps"],
        "delivery_rate" => vec!["delivery_rate_bps"],
        "retrans" => vec!["total_retrans_segs"],
        "queue" => vec!["queue_bytes"],
        "drops" => vec!["dropped_queue_packets", "dropped_loss_packets", "dropped_aqm_packets"],
        "link_rate" => vec!["rate_bps"],
        _ => Vec::new(),
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
        let (flow, link): (FlowSample, LinkSample) = (row(), row());
        for name in FRIENDLY.into_iter().chain(crate::metric::column_names()) {
            let value = Metric::parse(name).unwrap().value;
            let table = if value.is_of_links() { TableName::Links } else { TableName::Flows };
            let measure = Measure::parse(table, name).unwrap();
            let cells: Vec<Vec<Option<i64>>> =
                measure.columns.iter().map(|c| vec![flow.get(c).or(link.get(c))]).collect();
            let columns: Vec<Option<&[Option<i64>]>> = cells.iter().map(|c| Some(c.as_slice())).collect();
            let expected = value.of_flow(&flow).or(value.of_link(&link)).unwrap();
            assert_eq!(measure.values(1, &columns, None), [expected], "{name}");
        }
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
