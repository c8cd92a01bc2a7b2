//! Metrics in the text format of Prometheus (exposition format 0.0.4).

use std::fmt::Write;

use super::{Metric, MetricKind, MetricValue, Sample};

/// Value of the header `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics as text.
pub(crate) fn text(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, samples } in metrics {
        let kind = match kind {
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for Sample { labels, value } in samples {
            text.push_str(name);
            add_labels(&mut text, labels);
            let _ = match value {
                MetricValue::Integer(value) => writeln!(text, " {value}"),
                MetricValue::Real(value) => writeln!(text, " {value}"),
            };
        }
    }
    text
}

fn add_labels(text: &mut String, labels: &[(&str, &str)]) {
    for (index, (name, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
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
    if !labels.is_empty() {
        text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::{MetricLabels, MetricsSnapshot, sample};

    #[test]
    fn the_alerting_rules_use_metrics_that_exist() {
        let text = text(&MetricsSnapshot::complete().metrics());
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
    fn pairs_have_the_figures_of_probes_and_traces_and_the_start_of_the_last_test() {
        let text = text(&MetricsSnapshot::complete().metrics());
        for (name, value) in [
            ("longfat_capacity_bits_per_second", "1000000000"),
            ("longfat_available_bandwidth_bits_per_second", "800000000"),
            ("longfat_path_mtu_bytes", "1500"),
            ("longfat_path_hops", "7"),
            ("longfat_test_timestamp_seconds", "2"),
        ] {
            let line = format!("{name}{{from=\"a\",to=\"b\"}} {value}");
            assert!(text.lines().any(|found| found == line), "no line {line}: {text}");
        }
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let samples = vec![
            sample([("a", "x\"\\\n"), ("b", "y")], MetricValue::Real(0.5)),
            sample(MetricLabels::default(), MetricValue::Integer(-1)),
        ];
        let metric = Metric { name: "m", kind: MetricKind::Counter, help: "Help.", samples };
        let expected = "# HELP m Help.\n# TYPE m counter\nm{a=\"x\\\"\\\\\\n\",b=\"y\"} 0.5\nm -1\n";
        assert_eq!(text(&[metric]), expected);
    }
}
