//! Metrics that an agent pushes by Prometheus remote write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use testing::remote_write::{WrittenSeries, decode_write_request};

use crate::{
    agents::{Agent, Mesh, add, end, listen, wait_until, wanted},
    http::get,
    receiver::serve,
};

/// Names and values of labels, sorted.
type Labels = Vec<(String, String)>;

/// Metrics that differ between two moments of an idle agent.
const CHANGING: [&str; 4] = [
    "longfat_uptime_seconds",
    "longfat_clock_error_seconds",
    "longfat_points_connected",
    "process_resident_memory_bytes",
];

fn decode(body: &[u8]) -> Vec<WrittenSeries> {
    decode_write_request(&snap::raw::Decoder::new().decompress_vec(body).expect("a block of snappy"))
}

/// The time of all values of a request, ms since 1970.
fn time_of(body: &[u8]) -> i64 {
    let times: Vec<i64> =
        decode(body).iter().flat_map(|series| series.samples.iter().map(|(_, time)| *time)).collect();
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    times[0]
}

fn is_changing(labels: &[(String, String)]) -> bool {
    labels.iter().any(|(name, value)| name == "__name__" && CHANGING.contains(&value.as_str()))
}

/// The bits of values by labels. Values that change have a value of 0.
fn values(series: impl Iterator<Item = (Labels, u64)>) -> BTreeMap<Labels, u64> {
    let mut values = BTreeMap::new();
    for (labels, bits) in series {
        let bits = if is_changing(&labels) { 0 } else { bits };
        assert_eq!(values.insert(labels.clone(), bits), None, "twice: {labels:?}");
    }
    values
}

/// The values of a request, without the labels of the point.
fn written(body: &[u8]) -> BTreeMap<Labels, u64> {
    values(decode(body).into_iter().map(|mut series| {
        for (name, value) in [("job", "longfat"), ("instance", "a")] {
            let at = series.labels.iter().position(|label| label.0 == name).expect("a label of the point");
            assert_eq!(series.labels.remove(at).1, value);
        }
        assert!(series.labels.is_sorted(), "{series:?}");
        (series.labels, series.samples[0].0)
    }))
}

/// A line of `/metrics` without the value.
fn parse_labels(metric: &str) -> Labels {
    let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
    let mut parsed = vec![("__name__".to_owned(), name.to_owned())];
    for label in labels.trim_end_matches("\"}").split("\",").filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once("=\"").expect("a label");
        parsed.push((name.to_owned(), value.to_owned()));
    }
    parsed.sort();
    parsed
}

/// The values of `/metrics`.
fn scraped(address: &str) -> BTreeMap<Labels, u64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200, "{text}");
    values(text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (metric, value) = line.rsplit_once(' ').unwrap();
        (parse_labels(metric), value.parse::<f64>().unwrap().to_bits())
    }))
}

/// Configures a point to push each second to this receiver, with a token; `lines` are other tables.
fn push_to(directory: &std::path::Path, receiver: &str, lines: &str) {
    std::fs::write(directory.join("token"), "abc.def\n").unwrap();
    let url = format!("{receiver}/api/v1/write");
    add(
        directory,
        &format!("\n[metrics]\nremote_write = \"{url}\"\ntoken_file = \"token\"\nevery = \"1s\"\n{lines}"),
    );
}

#[test]
fn a_receiver_gets_the_values_of_the_metrics_page() {
    let mesh = Mesh::of(&["a", "b"]);
    let newest = Arc::new(Mutex::new(None));
    let request = Arc::clone(&newest);
    let receiver = serve(move |head, body| {
        assert!(head.starts_with("POST /api/v1/write HTTP/1.1\r\n"), "{head}");
        for line in [
            "Content-Encoding: snappy",
            "Content-Type: application/x-protobuf",
            "X-Prometheus-Remote-Write-Version: 0.1.0",
            "Authorization: Bearer abc.def",
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}\nhas no {line}");
        }
        assert!(head.contains("\r\nUser-Agent: longfat/"), "{head}");
        *request.lock().unwrap() = Some(body);
        "204 No Content"
    });
    let address = listen().to_string();
    push_to(&mesh.directories[0], &receiver, &format!("\n[http]\nlisten = \"{address}\"\n"));
    let _agents: Vec<Agent> = mesh.directories.iter().map(|directory| Agent::start(directory)).collect();
    let a = mesh.client(0);
    assert_eq!(end(&a, &a.reserve(wanted("a", "b", "throughput")).unwrap().id).phase, "finished");
    // A push that is made after the test has the values of the page.
    let values = wait_until("a request with the values of /metrics", || {
        let written = written(newest.lock().unwrap().as_ref()?);
        (written == scraped(&address)).then_some(written)
    });
    let tests = parse_labels("longfat_tests_total{from=\"a\",to=\"b\",end=\"finished\"}");
    assert_eq!(values.get(&tests), Some(&1.0_f64.to_bits()), "{values:?}");
}

/// The fourth request is refused, and the first one cannot be stored yet.
#[test]
fn a_request_is_repeated_after_an_error_of_the_receiver_and_not_after_a_refusal() {
    let mesh = Mesh::of(&["a"]);
    let received = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&received);
    let receiver = serve(move |_, body| {
        let mut requests = requests.lock().unwrap();
        requests.push(body);
        match requests.len() {
            1 => "503 Service Unavailable\r\nRetry-After: 2",
            4 => "400 Bad Request",
            _ => "200 OK",
        }
    });
    push_to(&mesh.directories[0], &receiver, "");
    let _agent = Agent::start(&mesh.directories[0]);
    let requests: Vec<Vec<u8>> = wait_until("seven requests", || {
        Some(received.lock().unwrap().clone()).filter(|requests| requests.len() >= 7)
    });
    assert_eq!(requests[0], requests[1], "the same request again");
    let times: Vec<i64> = requests[1..].iter().map(|body| time_of(body)).collect();
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "in order, each once: {times:?}");
}
