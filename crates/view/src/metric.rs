//! Metrics that can be plotted: by short name, and every column of the record's tables by its own name.

use schema::{FlowSample, LinkSample, Metrics};

use crate::Error;
use crate::axis::Unit;

/// From this rate on, a value is the kernel's marker for "unlimited".
pub(crate) const UNLIMITED_BPS: f64 = 1e15;

/// How a value is read from a row, in base units (bit/s, bytes, seconds).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Flow(fn(&FlowSample) -> Option<f64>),
    FlowColumn(usize),
    Link(fn(&LinkSample) -> Option<f64>),
    LinkColumn(usize),
}

/// A curve drawn together with a metric, in the same unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Companion {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&FlowSample) -> Option<f64>,
}

/// The metric of a panel.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    /// The name as given.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) value: Value,
    pub(crate) companions: &'static [Companion],
}

const RECEIVE_WINDOW: Companion = Companion { name: "receive window", value: receive_window };
const SSTHRESH: Companion = Companion { name: "ssthresh", value: ssthresh };
const QUEUED: Companion = Companion { name: "memory charged", value: |row| row.wmem_queued_bytes.map(float) };

impl Metric {
    /// The metric called `name`.
    pub(crate) fn parse(name: &str) -> Result<Self, Error> {
        let (title, unit, value, companions): (&str, Unit, Value, &'static [Companion]) = match name {
            "goodput" => ("Goodput", Unit::BitRate, Value::Flow(|row| row.goodput_bps.map(float)), &[]),
            "cwnd" => (
                "Congestion window",
                Unit::Bytes,
                Value::Flow(congestion_window),
                &[RECEIVE_WINDOW, SSTHRESH],
            ),
            "rtt" => ("Round-trip time", Unit::Seconds, Value::Flow(|row| row.srtt_us.map(micros)), &[]),
            "rwnd" => ("Receive window", Unit::Bytes, Value::Flow(receive_window), &[]),
            "inflight" => ("Data in flight", Unit::Bytes, Value::Flow(inflight), &[]),
            "sndbuf" => {
                ("Send buffer", Unit::Bytes, Value::Flow(|row| row.sndbuf_bytes.map(float)), &[QUEUED])
            }
            "ssthresh" => ("Slow-start threshold", Unit::Bytes, Value::Flow(ssthresh), &[]),
            "pacing" => ("Pacing rate", Unit::BitRate, Value::Flow(|row| limited(row.pacing_rate_bps)), &[]),
            "delivery_rate" => {
                ("Delivery rate", Unit::BitRate, Value::Flow(|row| limited(row.delivery_rate_bps)), &[])
            }
            "retrans" => (
                "Segments retransmitted since the start",
                Unit::Count,
                Value::Flow(|row| row.total_retrans_segs.map(float)),
                &[],
            ),
            "queue" => ("Queue", Unit::Bytes, Value::Link(|row| row.queue_bytes.map(float)), &[]),
            "drops" => ("Packets dropped since the start", Unit::Count, Value::Link(drops), &[]),
            "link_rate" => {
                ("Rate on the link", Unit::BitRate, Value::Link(|row| row.rate_bps.map(float)), &[])
            }
            _ => return Self::column(name),
        };
        Ok(Metric { name: name.to_owned(), title: title.to_owned(), unit, value, companions })
    }

    fn column(name: &str) -> Result<Self, Error> {
        let value = FlowSample::column(name)
            .map(Value::FlowColumn)
            .or_else(|| LinkSample::column(name).map(Value::LinkColumn))
            .ok_or_else(|| Error::UnknownMetric { name: name.to_owned() })?;
        Ok(Metric {
            name: name.to_owned(),
            title: column_title(name),
            unit: Unit::of_column(name),
            value,
            companions: &[],
        })
    }

    /// Whether the curve is averaged, because samples are noisy.
    pub(crate) fn is_smoothed(&self) -> bool {
        matches!(self.name.as_str(), "goodput" | "goodput_bps" | "link_rate" | "rate_bps" | "delivery_rate")
    }

    /// Whether it is a congestion window, which gets marks of reductions and timeouts.
    pub(crate) fn is_window(&self) -> bool {
        matches!(self.name.as_str(), "cwnd" | "snd_cwnd_segs")
    }

    /// Whether its panel shows reference lines (wire limit, published figures) and the verdict.
    pub(crate) fn is_goodput(&self) -> bool {
        matches!(self.name.as_str(), "goodput" | "goodput_bps")
    }
}

/// A column's name as a title, without a unit that the axis shows, because the unit on the axis can differ
/// from the column's.
fn column_title(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((stem, "us" | "bps" | "bytes")) => stem.to_owned(),
        Some((stem, "segs")) => format!("{stem} (segments)"),
        Some((stem, "packets")) => format!("{stem} (packets)"),
        _ => name.to_owned(),
    }
}

impl Value {
    /// The value in a flow's row; `None` for a link's metric.
    pub(crate) fn of_flow(self, row: &FlowSample) -> Option<f64> {
        match self {
            Value::Flow(get) => get(row),
            Value::FlowColumn(index) => {
                row.metric(index).map(|v| v as f64 * Unit::column_factor(FlowSample::COLUMNS[index].name))
            }
            Value::Link(_) | Value::LinkColumn(_) => None,
        }
    }

    /// The value in a link's row; `None` for a flow's metric.
    pub(crate) fn of_link(self, row: &LinkSample) -> Option<f64> {
        match self {
            Value::Link(get) => get(row),
            Value::LinkColumn(index) => {
                row.metric(index).map(|v| v as f64 * Unit::column_factor(LinkSample::COLUMNS[index].name))
            }
            Value::Flow(_) | Value::FlowColumn(_) => None,
        }
    }

    /// Whether this is a metric of links.
    pub(crate) fn is_of_links(self) -> bool {
        matches!(self, Value::Link(_) | Value::LinkColumn(_))
    }
}

fn float(value: i64) -> f64 {
    value as f64
}

fn micros(us: i64) -> f64 {
    us as f64 / 1e6
}

fn limited(rate_bps: Option<i64>) -> Option<f64> {
    rate_bps.map(float).filter(|rate| (0.0..UNLIMITED_BPS).contains(rate))
}

fn congestion_window(row: &FlowSample) -> Option<f64> {
    Some(float(row.snd_cwnd_segs?) * float(row.snd_mss_bytes?))
}

fn ssthresh(row: &FlowSample) -> Option<f64> {
    Some(float(row.snd_ssthresh_segs?) * float(row.snd_mss_bytes?))
}

fn receive_window(row: &FlowSample) -> Option<f64> {
    row.snd_wnd_bytes.or(row.rcv_wnd_bytes).map(float)
}

/// `tcp_packets_in_flight` of the kernel's `include/net/tcp.h`, times the segment size.
fn inflight(row: &FlowSample) -> Option<f64> {
    let absent = |segs: Option<i64>| segs.unwrap_or(0);
    let segs = row.unacked_segs? - absent(row.sacked_segs) - absent(row.lost_segs) + absent(row.retrans_segs);
    Some(float(segs.max(0)) * float(row.snd_mss_bytes?))
}

fn drops(row: &LinkSample) -> Option<f64> {
    let others = row.dropped_loss_packets.unwrap_or(0) + row.dropped_aqm_packets.unwrap_or(0);
    Some(float(row.dropped_queue_packets?) + float(others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_names::{SHORT_NAMES, column_names};

    #[test]
    fn every_listed_name_is_accepted() {
        for name in SHORT_NAMES.into_iter().chain(column_names()) {
            assert_eq!(Metric::parse(name).unwrap().name, name);
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let message = Metric::parse("cwd").unwrap_err().to_string();
        assert!(message.starts_with("there is no metric \"cwd\"; the nearest are cwnd, "), "{message}");
        assert!(!message.contains("dropped_loss_packets"), "no catalogue: {message}");
    }

    #[test]
    fn titles_of_columns_do_not_contradict_the_unit_of_the_axis() {
        let title = |name: &str| Metric::parse(name).unwrap().title;
        assert_eq!(title("srtt_us"), "srtt");
        assert_eq!(title("snd_cwnd_segs"), "snd_cwnd (segments)");
        assert_eq!(title("sent_packets"), "sent (packets)");
        assert_eq!(title("bytes_acked"), "bytes_acked");
        assert_eq!(title("ca_state"), "ca_state");
    }

    #[test]
    fn windows_are_bytes_and_times_seconds() {
        let row = FlowSample {
            snd_cwnd_segs: Some(100),
            snd_mss_bytes: Some(1448),
            unacked_segs: Some(50),
            sacked_segs: Some(10),
            lost_segs: Some(5),
            retrans_segs: Some(2),
            srtt_us: Some(20_000),
            pacing_rate_bps: Some(i64::MAX),
            ..FlowSample::default()
        };
        let value = |name: &str| Metric::parse(name).unwrap().value.of_flow(&row);
        assert_eq!(value("cwnd"), Some(144_800.0));
        assert_eq!(value("inflight"), Some(37.0 * 1448.0));
        assert_eq!(value("rtt"), Some(0.02));
        assert_eq!(value("srtt_us"), Some(0.02));
        assert_eq!(value("pacing"), None, "the kernel's \"no pacing\"");
        assert_eq!(value("ssthresh"), None);
    }
}
