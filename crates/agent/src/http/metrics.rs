//! Metrics in the text format of Prometheus (exposition format 0.0.4).

use std::fmt::Write;

use super::documents::{MeshDocument, MeshPair};
use crate::control::Status;

/// Value of the header `Content-Type`.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A family of metrics as text.
struct Family<'a>(&'a mut String, &'static str);

impl Family<'_> {
    /// Adds a sample; `labels` are texts of [`labels`].
    fn sample(&mut self, labels: &[&str], value: f64) {
        let Family(text, name) = self;
        text.push_str(name);
        for (index, label) in labels.iter().enumerate() {
            text.push(if index == 0 { '{' } else { ',' });
            text.push_str(label);
        }
        if !labels.is_empty() {
            text.push('}');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, " {value}");
    }
}

/// Labels as text. A mesh has many samples of each pair, so the labels of a pair are formatted once.
fn labels(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        text.push_str(if text.is_empty() { "" } else { "," });
        text.push_str(name);
        text.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\n' => text.push_str("\\n"),
                '\\' | '"' => text.extend(['\\', letter]),
                _ => text.push(letter),
            }
        }
        text.push('"');
    }
    text
}

fn family<'a>(text: &'a mut String, name: &'static str, kind: &str, help: &str) -> Family<'a> {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    Family(text, name)
}

/// The metrics of a point.
pub(super) fn text(status: &Status, mesh: &MeshDocument, archive_bytes: Option<u64>) -> String {
    let mut text = String::new();
    let mut single = |name, kind, help, value: f64| family(&mut text, name, kind, help).sample(&[], value);
    let connected = status.members.iter().filter(|member| member.connected).count();
    let unreachable = status.members.iter().filter(|member| member.failure.is_some()).count();
    single("longfat_uptime_seconds", "gauge", "Time since the start of the agent.", status.uptime_s as f64);
    single("longfat_points", "gauge", "Points of the mesh.", mesh.points.len() as f64);
    single(
        "longfat_points_connected",
        "gauge",
        "Other points with an open connection. Connections without traffic are closed, so 0 is not a fault.",
        connected as f64,
    );
    single(
        "longfat_points_unreachable",
        "gauge",
        "Other points to which the last connection attempt failed.",
        unreachable as f64,
    );
    single(
        "longfat_reservations_open",
        "gauge",
        "Reservations that have not ended.",
        status.open_reservations as f64,
    );
    single("longfat_tests_running", "gauge", "Tests that run at this point.", status.running.len() as f64);
    single(
        "longfat_results_unsent",
        "gauge",
        "Results that wait to be sent to other points.",
        status.unsent_results as f64,
    );
    if let Some(results) = status.unforwarded_results {
        single(
            "longfat_results_unforwarded",
            "gauge",
            "Results that wait to be sent to the common archive.",
            results as f64,
        );
    }
    single(
        "longfat_clock_error_seconds",
        "gauge",
        "Assumed error of this host's clock against UTC.",
        status.clock_error_us as f64 / 1e6,
    );
    if let Some(bytes) = archive_bytes {
        single("longfat_archive_bytes", "gauge", "Size of the archive, without records.", bytes as f64);
    }
    if let Some(bytes) = status.resident_bytes {
        single("process_resident_memory_bytes", "gauge", "Resident memory of the agent.", bytes as f64);
    }
    let mut info = family(&mut text, "longfat_agent_info", "gauge", "The agent; the value is 1.");
    info.sample(&[&labels(&[("point", &status.name), ("version", &status.version)])], 1.0);
    let mut rows = family(&mut text, "longfat_archive_tests", "gauge", "Tests in the archive, by state.");
    for (state, count) in &status.archive {
        rows.sample(&[&labels(&[("state", state)])], *count as f64);
    }
    pairs(&mut text, mesh);
    text
}

fn pairs(text: &mut String, mesh: &MeshDocument) {
    let names = mesh.pairs.iter().map(|pair| labels(&[("from", &pair.from), ("to", &pair.to)]));
    let pairs: Vec<(&MeshPair, String)> = mesh.pairs.iter().zip(names).collect();
    let mut tests =
        family(text, "longfat_tests_total", "counter", "Tests that have ended, by pair and outcome.");
    for (pair, names) in &pairs {
        let counts = &pair.tests;
        for (end, count) in [
            ("end=\"finished\"", counts.finished),
            ("end=\"failed\"", counts.failed),
            ("end=\"refused\"", counts.refused),
            ("end=\"not_run\"", counts.not_run),
        ] {
            tests.sample(&[names, end], count as f64);
        }
    }
    let mut gauge = |name, help, value: &dyn Fn(&MeshPair) -> Option<f64>| {
        let mut samples = family(text, name, "gauge", help);
        for (pair, names) in &pairs {
            if let Some(value) = value(pair) {
                samples.sample(&[names], value);
            }
        }
    };
    gauge("longfat_goodput_bits_per_second", "Goodput of the last throughput test.", &|pair| {
        pair.goodput_bps
    });
    gauge("longfat_best_goodput_bits_per_second", "Best goodput of a throughput test.", &|pair| {
        pair.best_goodput_bps
    });
    gauge("longfat_rtt_seconds", "Typical round-trip time of the last test.", &|pair| {
        Some(pair.typical_rtt_us? / 1e6)
    });
    gauge("longfat_rtt_min_seconds", "Minimum round-trip time of the last test.", &|pair| {
        Some(pair.min_rtt_us? / 1e6)
    });
    gauge("longfat_loss_ratio", "Share of lost packets in the last test.", &|pair| pair.loss_share);
    gauge("longfat_test_timestamp_seconds", "Start of the last throughput test.", &|pair| {
        Some(pair.tested_us? as f64 / 1e6)
    });
    gauge(
        "longfat_cause_timestamp_seconds",
        "Start of the first test that found the current cause.",
        &|pair| Some(pair.since_us? as f64 / 1e6),
    );
    let mut causes = family(text, "longfat_cause", "gauge", "The cause that limits a pair; the value is 1.");
    for (pair, names) in &pairs {
        if let (Some(cause), Some(words)) = (&pair.cause, &pair.cause_text) {
            causes.sample(&[names, &labels(&[("cause", cause), ("text", words)])], 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The metrics of a point that has a common archive, and a pair with all figures.
    fn complete() -> String {
        let status = json!({
            "name": "a", "address": "a.example:4862", "version": "1", "uptime_s": 1, "clock_error_us": 1, "authority": "a",
            "members": [], "open_reservations": 0, "running": [], "tests": [], "archive": { "finished": 1 },
            "unsent_results": 0, "unforwarded_results": 1, "resident_bytes": 1,
        });
        let pair = json!({
            "from": "a", "to": "b", "state": "limited", "cause": "loss", "cause_text": "lost packets", "since_us": 1,
            "goodput_bps": 1.0, "best_goodput_bps": 1.0, "loss_share": 0.0, "min_rtt_us": 1.0, "typical_rtt_us": 1.0,
            "tested_us": 1, "tests": { "finished": 1, "failed": 0, "refused": 0, "not_run": 0 },
        });
        let mesh = json!({ "schema": "", "point": "a", "now_us": 1, "points": [], "pairs": [pair] });
        let (status, mesh) = (serde_json::from_value(status).unwrap(), serde_json::from_value(mesh).unwrap());
        super::text(&status, &mesh, Some(1))
    }

    #[test]
    fn the_alerting_rules_use_metrics_that_exist() {
        let text = complete();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let metrics: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        let rules = include_str!("../../../../packaging/prometheus-rules.yml");
        let lines = || rules.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let expressions: Vec<&str> = lines().filter_map(|line| line.strip_prefix("expr: ")).collect();
        assert_eq!(expressions.len(), lines().filter(|line| line.starts_with("- alert: ")).count());
        let mut used = BTreeSet::new();
        for expression in &expressions {
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> =
                words.filter(|word| word.starts_with("longfat_") || word.starts_with("process_")).collect();
            // `up` is a metric of Prometheus.
            assert!(!names.is_empty() || expression.starts_with("up{"), "{expression}");
            used.extend(names);
        }
        for name in &used {
            assert!(metrics.contains(name), "{name} is not a metric: {metrics:?}");
        }
        for name in [
            "longfat_cause_timestamp_seconds",
            "longfat_test_timestamp_seconds",
            "longfat_results_unforwarded",
        ] {
            assert!(used.contains(name), "no rule uses {name}");
        }
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let mut text = String::new();
        let mut samples = family(&mut text, "m", "gauge", "Help.");
        samples.sample(&[&labels(&[("a", "x\"\\\n"), ("b", "y")]), "c=\"z\""], 0.5);
        samples.sample(&[], 1.0);
        assert_eq!(text, "# HELP m Help.\n# TYPE m gauge\nm{a=\"x\\\"\\\\\\n\",b=\"y\",c=\"z\"} 0.5\nm 1\n");
    }
}
