//! The metrics of a point: one list for all formats.

mod otlp;
mod otlp_sender;
mod prometheus;
mod protobuf;
mod push;
mod push_outcome;
mod receiver;
mod remote_write;
mod write_queue;

use std::{path::Path, rc::Rc};

use crate::{
    Client, Error, MeshDocument, MeshPair, PostgresAddress, Status, archive::Archive, http::mesh_document,
};

pub(crate) use prometheus::{CONTENT_TYPE, text};
pub(crate) use push::MetricsPusher;
pub use receiver::{MetricsCredentials, MetricsPush, MetricsReceiver, PushProtocol};

/// The state of a point, from which its metrics are made.
#[derive(Debug)]
pub(crate) struct MetricsSnapshot {
    status: Status,
    mesh: MeshDocument,
    archive_bytes: Option<u64>,
}

/// How a value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    /// It increases and decreases.
    Gauge,
    /// It counts events in the archive, and only increases.
    Counter,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MetricValue {
    Integer(i64),
    Real(f64),
}

/// Labels of a sample: names and values. All samples of a pair share theirs.
type MetricLabels<'a> = Rc<[(&'static str, &'a str)]>;

/// A value of a metric, with the labels that distinguish it from others.
#[derive(Debug)]
struct Sample<'a> {
    labels: MetricLabels<'a>,
    value: MetricValue,
}

/// A metric with all its samples. Its name ends with its unit, as is usual for Prometheus.
#[derive(Debug)]
pub(crate) struct Metric<'a> {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    samples: Vec<Sample<'a>>,
}

fn gauge<'a>(name: &'static str, help: &'static str, samples: Vec<Sample<'a>>) -> Metric<'a> {
    Metric { name, kind: MetricKind::Gauge, help, samples }
}

fn sample<'a>(labels: impl Into<MetricLabels<'a>>, value: MetricValue) -> Sample<'a> {
    Sample { labels: labels.into(), value }
}

fn integer(value: impl TryInto<i64>) -> MetricValue {
    MetricValue::Integer(value.try_into().unwrap_or(i64::MAX))
}

impl MetricsSnapshot {
    /// Reads the state of the running agent with this state directory, and the archive whose results it
    /// shows.
    pub fn read(state: &Path, postgres: Option<&PostgresAddress>) -> Result<MetricsSnapshot, Error> {
        let status = Client::new(state).status()?;
        let mesh = mesh_document(state, &status, &Archive::shown(state, postgres)?)?;
        let archive_bytes = Archive::of_point(state)?.size_bytes();
        Ok(MetricsSnapshot { status, mesh, archive_bytes })
    }

    /// The metrics.
    pub fn metrics(&self) -> Vec<Metric<'_>> {
        let MetricsSnapshot { status, mesh, archive_bytes } = self;
        let mut metrics = Vec::new();
        let mut single = |name, help, value| {
            metrics.push(gauge(name, help, vec![sample(MetricLabels::default(), value)]));
        };
        let connected = status.members.iter().filter(|member| member.connected).count();
        let unreachable = status.members.iter().filter(|member| member.failure.is_some()).count();
        single("longfat_uptime_seconds", "Time since the start of the agent.", integer(status.uptime_s));
        single("longfat_points", "Points of the mesh.", integer(mesh.points.len()));
        single(
            "longfat_points_connected",
            "Other points with an open connection. Connections without traffic are closed, so 0 is not a fault.",
            integer(connected),
        );
        single(
            "longfat_points_unreachable",
            "Other points to which the last connection attempt failed.",
            integer(unreachable),
        );
        single(
            "longfat_reservations_open",
            "Reservations that have not ended.",
            integer(status.open_reservations),
        );
        single("longfat_tests_running", "Tests that run at this point.", integer(status.running.len()));
        single(
            "longfat_results_unsent",
            "Results that wait to be sent to other points.",
            integer(status.unsent_results),
        );
        if let Some(results) = status.unforwarded_results {
            let help = "Results that wait to be sent to the common archive.";
            single("longfat_results_unforwarded", help, integer(results));
        }
        let clock_error = MetricValue::Real(status.clock_error_us as f64 / 1e6);
        single("longfat_clock_error_seconds", "Assumed error of this host's clock against UTC.", clock_error);
        if let Some(bytes) = *archive_bytes {
            single("longfat_archive_bytes", "Size of the archive, without records.", integer(bytes));
        }
        if let Some(bytes) = status.resident_bytes {
            single("process_resident_memory_bytes", "Resident memory of the agent.", integer(bytes));
        }
        let info = [("point", status.name.as_str()), ("version", status.version.as_str())];
        let info = vec![sample(info, integer(1))];
        metrics.push(gauge("longfat_agent_info", "The agent; the value is 1.", info));
        let states = status.archive.iter();
        let states = states.map(|(state, count)| sample([("state", state.as_str())], integer(*count)));
        let help = "Tests in the archive, by state.";
        metrics.push(gauge("longfat_archive_tests", help, states.collect()));
        add_pairs(&mut metrics, mesh);
        metrics
    }
}

/// Adds the metrics of pairs.
fn add_pairs<'a>(metrics: &mut Vec<Metric<'a>>, mesh: &'a MeshDocument) {
    let tests = mesh.pairs.iter().flat_map(|pair| {
        let (from, to, counts) = (pair.from.as_str(), pair.to.as_str(), &pair.tests);
        let ends = [
            ("finished", counts.finished),
            ("failed", counts.failed),
            ("refused", counts.refused),
            ("not_run", counts.not_run),
        ];
        ends.map(|(end, count)| sample([("from", from), ("to", to), ("end", end)], integer(count)))
    });
    metrics.push(Metric {
        name: "longfat_tests_total",
        kind: MetricKind::Counter,
        help: "Tests that have ended, by pair and outcome.",
        samples: tests.collect(),
    });
    let named = |pair: &'a MeshPair| -> (&'a MeshPair, MetricLabels<'a>) {
        (pair, Rc::from([("from", pair.from.as_str()), ("to", pair.to.as_str())]))
    };
    let pairs: Vec<(&MeshPair, MetricLabels)> = mesh.pairs.iter().map(named).collect();
    let mut of_pairs = |name, help, value: &dyn Fn(&MeshPair) -> Option<f64>| {
        let samples = pairs.iter().filter_map(|(pair, labels)| {
            let value = MetricValue::Real(value(pair)?);
            Some(sample(Rc::clone(labels), value))
        });
        metrics.push(gauge(name, help, samples.collect()));
    };
    of_pairs("longfat_goodput_bits_per_second", "Goodput of the last throughput test.", &|pair| {
        pair.goodput_bps
    });
    of_pairs("longfat_best_goodput_bits_per_second", "Best goodput of a throughput test.", &|pair| {
        pair.best_goodput_bps
    });
    of_pairs("longfat_rtt_seconds", "Typical round-trip time of the last test.", &|pair| {
        Some(pair.typical_rtt_us? / 1e6)
    });
    of_pairs("longfat_rtt_min_seconds", "Minimum round-trip time of the last test.", &|pair| {
        Some(pair.min_rtt_us? / 1e6)
    });
    of_pairs("longfat_loss_ratio", "Share of lost packets in the last test.", &|pair| pair.loss_share);
    let help = "Capacity of the narrowest link, by the last probe.";
    of_pairs("longfat_capacity_bits_per_second", help, &|pair| pair.capacity_bps);
    let help = "Bandwidth that other traffic leaves, by the last probe.";
    of_pairs("longfat_available_bandwidth_bits_per_second", help, &|pair| pair.available_bps);
    of_pairs("longfat_path_mtu_bytes", "Path MTU, by the last trace.", &|pair| Some(pair.mtu_bytes? as f64));
    of_pairs("longfat_path_hops", "Hops to the other end, by the last trace.", &|pair| {
        Some(pair.hops? as f64)
    });
    let help = "Start of the last throughput test with a result, whatever its options.";
    of_pairs("longfat_test_timestamp_seconds", help, &|pair| Some(pair.last_test_us? as f64 / 1e6));
    of_pairs(
        "longfat_cause_timestamp_seconds",
        "Start of the first test that found the current cause.",
        &|pair| Some(pair.since_us? as f64 / 1e6),
    );
    let causes = mesh.pairs.iter().filter_map(|pair| {
        let (cause, words) = (pair.cause.as_deref()?, pair.cause_text.as_deref()?);
        let labels =
            [("from", pair.from.as_str()), ("to", pair.to.as_str()), ("cause", cause), ("text", words)];
        Some(sample(labels, integer(1)))
    });
    let help = "The cause that limits a pair; the value is 1.";
    metrics.push(gauge("longfat_cause", help, causes.collect()));
}

#[cfg(test)]
impl MetricsSnapshot {
    /// A point that has a common archive, and a pair with all figures.
    pub fn complete() -> MetricsSnapshot {
        let status = serde_json::json!({
            "name": "a", "address": "a.example:4862", "version": "1", "uptime_s": 1, "clock_error_us": 1, "authority": "a",
            "members": [], "open_reservations": 0, "running": [], "tests": [], "archive": { "finished": 1 },
            "unsent_results": 0, "unforwarded_results": 1, "resident_bytes": 1,
        });
        let pair = serde_json::json!({
            "from": "a", "to": "b", "state": "limited", "cause": "loss", "cause_text": "lost packets", "since_us": 1,
            "goodput_bps": 1.0, "best_goodput_bps": 1.0, "loss_share": 0.0, "min_rtt_us": 1.0, "typical_rtt_us": 1.0,
            "capacity_bps": 1e9, "available_bps": 8e8, "mtu_bytes": 1500, "hops": 7, "tested_us": 1, "last_test_us": 2_000_000,
            "tests": { "finished": 1, "failed": 0, "refused": 0, "not_run": 0 },
        });
        let mesh =
            serde_json::json!({ "schema": "", "point": "a", "now_us": 1, "points": [], "pairs": [pair] });
        let (status, mesh) = (serde_json::from_value(status).unwrap(), serde_json::from_value(mesh).unwrap());
        MetricsSnapshot { status, mesh, archive_bytes: Some(1) }
    }
}
