//! Metrics as requests of Prometheus remote write 1.0: messages `prometheus.WriteRequest`, each compressed as
//! one block of snappy.
//!
//! The labels `job` and `instance` are those of the push by OTLP. A series that has ended gets a stale marker
//! ("Stale markers" of the specification), so that queries do not return the former cause of a pair beside
//! the present one. Types and help texts are not sent: version 1.0 reserves their field.

use std::collections::BTreeSet;

use super::{
    Metric, MetricValue,
    otlp::SERVICE,
    protobuf::{add_bytes, add_double, add_int64},
};

/// Header fields of a request, beside `User-Agent` (the specification, "Protocol").
pub(super) const HEADERS: [(&str, &str); 3] = [
    ("Content-Encoding", "snappy"),
    ("Content-Type", "application/x-protobuf"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];
/// Maximum number of series in a request. A series has about 150 bytes before compression; receivers limit a
/// request to 32 MiB or more.
const MAX_SERIES: usize = 10_000;
/// Bits of the value that marks the end of a series.
const STALE_MARKER: u64 = 0x7ff0_0000_0000_0002;

// Fields of the messages (the specification, "Protocol").
const REQUEST_SERIES: u64 = 1;
const SERIES_LABELS: u64 = 1;
const SERIES_SAMPLES: u64 = 2;
const LABEL_NAME: u64 = 1;
const LABEL_VALUE: u64 = 2;
const SAMPLE_VALUE: u64 = 1;
const SAMPLE_TIME: u64 = 2;

/// A series with one value.
#[derive(Debug, Clone, Copy)]
struct Series<'a> {
    name: &'a str,
    labels: &'a [(&'static str, &'a str)],
    /// Bits of a `double`: the bits of the stale marker must not change.
    value: u64,
}

/// The metrics of a point as bodies of requests of at most [`MAX_SERIES`]. `previous`: the metrics that were
/// sent before; those that have no sample any more get a stale marker. `time_ms`: milliseconds since 1970.
pub(super) fn requests<'a>(
    metrics: &'a [Metric<'a>],
    previous: &'a [Metric<'a>],
    point: &str,
    time_ms: i64,
) -> snap::Result<Vec<Vec<u8>>> {
    let present: BTreeSet<_> = all_series(metrics).map(|series| (series.name, series.labels)).collect();
    let ended = all_series(previous).filter(|series| !present.contains(&(series.name, series.labels)));
    let ended = ended.map(|series| Series { value: STALE_MARKER, ..series });
    let series: Vec<Series> = all_series(metrics).chain(ended).collect();
    let mut encoder = snap::raw::Encoder::new();
    series
        .chunks(MAX_SERIES)
        .map(|series| encoder.compress_vec(&write_request(series, point, time_ms)))
        .collect()
}

fn all_series<'a>(metrics: &'a [Metric<'a>]) -> impl Iterator<Item = Series<'a>> {
    metrics.iter().flat_map(|metric| {
        metric.samples.iter().map(move |sample| Series {
            name: metric.name,
            labels: &sample.labels,
            value: bits(sample.value),
        })
    })
}

fn bits(value: MetricValue) -> u64 {
    let value = match value {
        MetricValue::Integer(value) => value as f64,
        MetricValue::Real(value) => value,
    };
    // Values that are not a number must differ from the stale marker.
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

/// A message `WriteRequest`.
fn write_request(series: &[Series], point: &str, time_ms: i64) -> Vec<u8> {
    let (mut request, mut message, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for series in series {
        let own = [("__name__", series.name), ("job", SERVICE), ("instance", point)];
        // An empty label is the same as none, and may not be sent.
        let labels = own.iter().chain(series.labels).copied().filter(|(_, value)| !value.is_empty());
        let mut labels: Vec<(&str, &str)> = labels.collect();
        labels.sort_unstable();
        message.clear();
        for (name, value) in labels {
            part.clear();
            add_bytes(&mut part, LABEL_NAME, name.as_bytes());
            add_bytes(&mut part, LABEL_VALUE, value.as_bytes());
            add_bytes(&mut message, SERIES_LABELS, &part);
        }
        part.clear();
        add_double(&mut part, SAMPLE_VALUE, series.value);
        add_int64(&mut part, SAMPLE_TIME, time_ms);
        add_bytes(&mut message, SERIES_SAMPLES, &part);
        add_bytes(&mut request, REQUEST_SERIES, &message);
    }
    request
}

#[cfg(test)]
mod tests {
    use testing::remote_write::{WrittenSeries, decode_write_request};

    use super::*;
    use crate::metrics::{MetricKind, MetricLabels, MetricsSnapshot, gauge, integer, sample};

    const TIME_MS: i64 = 1_800_000_000_123;

    fn decompressed(body: &[u8]) -> Vec<u8> {
        snap::raw::Decoder::new().decompress_vec(body).unwrap()
    }

    /// The series of each request.
    fn decoded(metrics: &[Metric], previous: &[Metric]) -> Vec<Vec<WrittenSeries>> {
        let requests = requests(metrics, previous, "a", TIME_MS).unwrap();
        requests.iter().map(|body| decode_write_request(&decompressed(body))).collect()
    }

    fn labels(labels: &[(&str, &str)]) -> Vec<(String, String)> {
        labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Worked out by hand from the protobuf encoding.
    #[test]
    fn a_request_has_these_bytes() {
        let metrics =
            [gauge("m", "Help.", vec![sample([("to", "b"), ("from", "é"), ("x", "")], integer(1))])];
        let [request]: [Vec<u8>; 1] = requests(&metrics, &[], "p", 300).unwrap().try_into().unwrap();
        let label = |name: &[u8], value: &[u8]| {
            let inner =
                [[0x0a, name.len() as u8].as_slice(), name, &[0x12, value.len() as u8], value].concat();
            [[0x0a, inner.len() as u8].as_slice(), &inner].concat()
        };
        let series = [
            label(b"__name__", b"m"),
            label(b"from", b"\xc3\xa9"),
            label(b"instance", b"p"),
            label(b"job", b"longfat"),
            label(b"to", b"b"),
            // A sample of 12 bytes: 1.0 as a double, and 300.
            vec![0x12, 0x0c, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x10, 0xac, 0x02],
        ]
        .concat();
        let expected = [[0x0a, series.len() as u8].as_slice(), &series].concat();
        assert_eq!(decompressed(&request), expected);
    }

    #[test]
    fn requests_have_the_samples_of_the_metrics_and_labels_as_required() {
        let snapshot = MetricsSnapshot::complete();
        let metrics = snapshot.metrics();
        let [written]: [Vec<WrittenSeries>; 1] = decoded(&metrics, &[]).try_into().unwrap();
        let mut distinct = BTreeSet::new();
        for series in &written {
            assert!(series.labels.is_sorted_by(|a, b| a.0 < b.0), "sorted, none twice: {series:?}");
            assert!(series.labels.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
            assert!(distinct.insert(&series.labels), "twice: {series:?}");
            assert_eq!(series.samples.len(), 1);
        }
        let expected = metrics.iter().flat_map(|metric| {
            metric.samples.iter().map(move |sample| {
                let mut all = labels(&sample.labels);
                all.extend(labels(&[("__name__", metric.name), ("job", "longfat"), ("instance", "a")]));
                all.sort();
                let value = match sample.value {
                    MetricValue::Integer(value) => value as f64,
                    MetricValue::Real(value) => value,
                };
                WrittenSeries { labels: all, samples: vec![(value.to_bits(), TIME_MS)] }
            })
        });
        assert_eq!(written, expected.collect::<Vec<_>>());
    }

    #[test]
    fn series_that_have_ended_get_a_stale_marker() {
        let of = |cause: &'static str, finished: i64| {
            let info = sample([("from", "a"), ("cause", cause)], integer(1));
            let tests = sample([("from", "a")], integer(finished));
            [gauge("cause", "", vec![info]), gauge("tests", "", vec![tests])]
        };
        let (before, after) = (of("loss", 1), of("path_rate", 2));
        let [written]: [Vec<WrittenSeries>; 1] = decoded(&after, &before).try_into().unwrap();
        let values: Vec<(&str, &str, u64)> = written
            .iter()
            .map(|series| {
                let label = |name: &str| {
                    let found = series.labels.iter().find(|(other, _)| other == name);
                    found.map_or("", |(_, value)| value.as_str())
                };
                (label("__name__"), label("cause"), series.samples[0].0)
            })
            .collect();
        let expected = [
            ("cause", "path_rate", 1.0_f64.to_bits()),
            ("tests", "", 2.0_f64.to_bits()),
            ("cause", "loss", 0x7ff0_0000_0000_0002),
        ];
        assert_eq!(values, expected);
        assert_eq!(decoded(&after, &after)[0].len(), 2);
        assert_ne!(bits(MetricValue::Real(f64::from_bits(STALE_MARKER))), STALE_MARKER);
    }

    #[test]
    fn many_series_are_several_requests() {
        let samples = |count: usize| {
            let samples = (0..count).map(|_| sample(MetricLabels::default(), integer(1)));
            samples.collect::<Vec<_>>()
        };
        let metrics = [
            gauge("a", "", samples(1)),
            Metric { name: "b", kind: MetricKind::Counter, help: "", samples: samples(MAX_SERIES) },
        ];
        let counts: Vec<usize> = decoded(&metrics, &[]).iter().map(Vec::len).collect();
        assert_eq!(counts, [MAX_SERIES, 1]);
        assert!(decoded(&[gauge("a", "", Vec::new())], &[]).is_empty());
    }
}
