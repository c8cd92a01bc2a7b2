//! Metrics in the JSON encoding of OTLP: requests of the type `ExportMetricsServiceRequest` of
//! opentelemetry-proto.
//!
//! Keys are in lowerCamelCase, 64-bit integers are decimal strings, and enums are integers (OTLP
//! specification, "JSON Protobuf Encoding").

use serde::{Serialize, Serializer};

use super::{Metric, MetricKind, MetricValue, Sample};

/// `service.name` of all points. Prometheus makes the label `job` of it, and `instance` of
/// `service.instance.id`; remote write sends these labels.
pub(super) const SERVICE: &str = "longfat";
/// Maximum number of data points in a request. A data point has about 200 bytes, and receivers accept
/// requests of 20 MiB by default.
const MAX_POINTS: usize = 10_000;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// The point whose metrics are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricsSource<'a> {
    /// Its name.
    pub point: &'a str,
    /// The version of its program.
    pub version: &'a str,
}

/// Times of all data points, ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetricsTimes {
    /// Start of the sequence of values of counters.
    pub start_ns: u64,
    /// When the values were read.
    pub now_ns: u64,
}

/// The metrics as requests of at most [`MAX_POINTS`].
pub(super) fn requests<'a>(
    metrics: &'a [Metric<'a>],
    source: MetricsSource<'a>,
    times: MetricsTimes,
) -> impl Iterator<Item = serde_json::Result<Vec<u8>>> {
    batches(metrics).into_iter().map(move |batch| serde_json::to_vec(&request(&batch, source, times)))
}

/// A metric with some of its samples.
type MetricPart<'a> = (&'a Metric<'a>, &'a [Sample<'a>]);

fn batches<'a>(metrics: &'a [Metric<'a>]) -> Vec<Vec<MetricPart<'a>>> {
    let (mut batches, mut batch, mut space) = (Vec::new(), Vec::new(), MAX_POINTS);
    for metric in metrics {
        let mut samples = metric.samples.as_slice();
        while !samples.is_empty() {
            let (part, remaining) = samples.split_at(samples.len().min(space));
            batch.push((metric, part));
            (samples, space) = (remaining, space - part.len());
            if space == 0 {
                batches.push(std::mem::take(&mut batch));
                space = MAX_POINTS;
            }
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'a> {
    resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: Resource<'a>,
    scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeMetrics<'a> {
    scope: InstrumentationScope<'a>,
    metrics: Vec<OtlpMetric<'a>>,
}

#[derive(Serialize)]
struct InstrumentationScope<'a> {
    name: &'a str,
    version: &'a str,
}

#[derive(Serialize)]
struct OtlpMetric<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(flatten)]
    data: MetricData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum MetricData<'a> {
    Gauge(Gauge<'a>),
    Sum(Sum<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gauge<'a> {
    data_points: Vec<NumberDataPoint<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum<'a> {
    data_points: Vec<NumberDataPoint<'a>>,
    aggregation_temporality: u8,
    is_monotonic: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NumberDataPoint<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<Decimal<u64>>,
    time_unix_nano: Decimal<u64>,
    #[serde(flatten)]
    value: PointValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PointValue {
    AsInt(Decimal<i64>),
    AsDouble(Double),
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue<'a> {
    string_value: &'a str,
}

/// A 64-bit integer, as a decimal string.
struct Decimal<T>(T);

impl<T: std::fmt::Display> Serialize for Decimal<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A `double`, as a number; JSON has no numbers for the values that are not finite.
struct Double(f64);

impl Serialize for Double {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Double(value) = *self;
        if value.is_finite() {
            return serializer.serialize_f64(value);
        }
        serializer.serialize_str(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        })
    }
}

fn request<'a>(
    batch: &[MetricPart<'a>],
    source: MetricsSource<'a>,
    times: MetricsTimes,
) -> ExportRequest<'a> {
    let MetricsSource { point, version } = source;
    let attributes = vec![
        attribute("service.name", SERVICE),
        attribute("service.instance.id", point),
        attribute("service.version", version),
    ];
    let metrics = batch.iter().map(|&(metric, samples)| otlp_metric(metric, samples, times));
    let scope = InstrumentationScope { name: "longfat.agent", version };
    let scope_metrics = [ScopeMetrics { scope, metrics: metrics.collect() }];
    ExportRequest { resource_metrics: [ResourceMetrics { resource: Resource { attributes }, scope_metrics }] }
}

fn otlp_metric<'a>(metric: &'a Metric<'a>, samples: &'a [Sample<'a>], times: MetricsTimes) -> OtlpMetric<'a> {
    let start_ns = (metric.kind == MetricKind::Counter).then_some(times.start_ns);
    let data_points = samples.iter().map(|Sample { labels, value }| NumberDataPoint {
        attributes: labels.iter().map(|&(name, value)| attribute(name, value)).collect(),
        start_time_unix_nano: start_ns.map(Decimal),
        time_unix_nano: Decimal(times.now_ns),
        value: match *value {
            MetricValue::Integer(value) => PointValue::AsInt(Decimal(value)),
            MetricValue::Real(value) => PointValue::AsDouble(Double(value)),
        },
    });
    let data_points = data_points.collect();
    let data = match metric.kind {
        MetricKind::Gauge => MetricData::Gauge(Gauge { data_points }),
        MetricKind::Counter => {
            MetricData::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
    };
    OtlpMetric { name: metric.name, description: metric.help, unit: unit(metric.name), data }
}

fn attribute<'a>(key: &'a str, value: &'a str) -> Attribute<'a> {
    Attribute { key, value: AnyValue { string_value: value } }
}

/// The unit of a metric (UCUM), by the end of its name. Prometheus appends the words of a unit to names that
/// lack them, and knows no bits: rates have none, so that metrics have the same names as in `/metrics`.
fn unit(name: &str) -> Option<&'static str> {
    if name.ends_with("_seconds") {
        Some("s")
    } else if name.ends_with("_bytes") {
        Some("By")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::metrics::{MetricLabels, MetricsSnapshot, gauge, sample, text};

    const SOURCE: MetricsSource<'static> = MetricsSource { point: "a", version: "0.2.0" };
    const TIMES: MetricsTimes =
        MetricsTimes { start_ns: 1_800_000_000_000_000_001, now_ns: 1_800_000_060_000_000_002 };

    fn documents(metrics: &[Metric]) -> Vec<Value> {
        let requests = requests(metrics, SOURCE, TIMES);
        requests.map(|request| serde_json::from_slice(&request.unwrap()).unwrap()).collect()
    }

    /// The metrics of a request.
    fn metrics_of(request: &Value) -> &Vec<Value> {
        request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap()
    }

    /// The data points of a metric.
    fn points_of(metric: &Value) -> &Vec<Value> {
        let data = metric.get("sum").or_else(|| metric.get("gauge")).unwrap();
        data["dataPoints"].as_array().unwrap()
    }

    #[test]
    fn requests_have_the_form_of_the_json_mapping() {
        // No `double` has this value.
        let count = MetricValue::Integer(9_007_199_254_740_993);
        let metrics = [
            Metric {
                name: "m_total",
                kind: MetricKind::Counter,
                help: "Tests.",
                samples: vec![sample([("from", "a"), ("to", "\"b\"")], count)],
            },
            gauge("m_seconds", "A time.", vec![sample(MetricLabels::default(), MetricValue::Real(0.25))]),
            gauge("without", "No samples.", Vec::new()),
        ];
        let string = |text: &str| json!({ "stringValue": text });
        let expected = json!({ "resourceMetrics": [{
            "resource": { "attributes": [
                { "key": "service.name", "value": string("longfat") },
                { "key": "service.instance.id", "value": string("a") },
                { "key": "service.version", "value": string("0.2.0") },
            ] },
            "scopeMetrics": [{
                "scope": { "name": "longfat.agent", "version": "0.2.0" },
                "metrics": [
                    {
                        "name": "m_total",
                        "description": "Tests.",
                        "sum": {
                            "dataPoints": [{
                                "attributes": [
                                    { "key": "from", "value": string("a") },
                                    { "key": "to", "value": string("\"b\"") },
                                ],
                                "startTimeUnixNano": "1800000000000000001",
                                "timeUnixNano": "1800000060000000002",
                                "asInt": "9007199254740993",
                            }],
                            "aggregationTemporality": 2,
                            "isMonotonic": true,
                        },
                    },
                    {
                        "name": "m_seconds",
                        "description": "A time.",
                        "unit": "s",
                        "gauge": { "dataPoints": [{ "timeUnixNano": "1800000060000000002", "asDouble": 0.25 }] },
                    },
                ],
            }],
        }] });
        assert_eq!(documents(&metrics), [expected]);
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let snapshot = MetricsSnapshot::complete();
        let metrics = snapshot.metrics();
        let documents = documents(&metrics);
        let mut pushed = BTreeSet::new();
        for metric in documents.iter().flat_map(metrics_of) {
            for point in points_of(metric) {
                let attributes = point["attributes"].as_array().into_iter().flatten();
                let label = |label: &Value| {
                    format!("{}={}", label["key"].as_str().unwrap(), label["value"]["stringValue"])
                };
                let labels = attributes.map(label).collect::<Vec<_>>().join(",");
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                let value = point["asInt"].as_str().map(|text| text.parse::<f64>().unwrap());
                let value = value.or(point["asDouble"].as_f64()).unwrap();
                assert!(pushed.insert(format!("{}{labels} {value}", metric["name"].as_str().unwrap())));
            }
        }
        let text = text(&metrics);
        let scraped: BTreeSet<String> =
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        assert_eq!(pushed, scraped);
    }

    #[test]
    fn many_samples_are_several_requests() {
        let samples = |count: usize| {
            let samples = (0..count).map(|_| sample(MetricLabels::default(), MetricValue::Integer(1)));
            samples.collect::<Vec<_>>()
        };
        let counts = |metrics: &[Metric]| -> Vec<Vec<(String, usize)>> {
            let of_metric =
                |metric: &Value| (metric["name"].as_str().unwrap().to_owned(), points_of(metric).len());
            let documents = documents(metrics);
            documents.iter().map(|request| metrics_of(request).iter().map(of_metric).collect()).collect()
        };
        let part = |name: &str, count| (name.to_owned(), count);
        let metrics = [gauge("a", "", samples(1)), gauge("b", "", samples(2 * MAX_POINTS))];
        let expected =
            [vec![part("a", 1), part("b", MAX_POINTS - 1)], vec![part("b", MAX_POINTS)], vec![part("b", 1)]];
        assert_eq!(counts(&metrics), expected);
        assert_eq!(counts(&[gauge("a", "", samples(MAX_POINTS))]), [[part("a", MAX_POINTS)]]);
        assert!(counts(&[gauge("a", "", Vec::new())]).is_empty());
    }

    #[test]
    fn values_that_are_not_finite_are_strings() {
        let texts = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5]
            .map(|value| serde_json::to_string(&PointValue::AsDouble(Double(value))).unwrap());
        let expected = [
            r#"{"asDouble":"NaN"}"#,
            r#"{"asDouble":"Infinity"}"#,
            r#"{"asDouble":"-Infinity"}"#,
            r#"{"asDouble":0.5}"#,
        ];
        assert_eq!(texts, expected);
    }
}
