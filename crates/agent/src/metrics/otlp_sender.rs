//! Sends metrics by OTLP over HTTP.
//!
//! Nothing is queued or repeated: gauges are the present values and counters are cumulative, so the next push
//! replaces one that failed.

use std::time::{Duration, Instant};

use super::{
    MetricsPush, MetricsSnapshot,
    otlp::{self, MetricsSource, MetricsTimes},
    push_outcome::failure,
};
use crate::http_client::require_success;

/// Header fields of a request, beside `User-Agent`.
const HEADERS: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// Sends metrics, and keeps what the next push needs to know.
#[derive(Debug, Default)]
pub(super) struct OtlpSender {
    /// When the first push was made that the receiver has accepted, ns since 1970.
    start_ns: Option<u64>,
}

impl OtlpSender {
    /// The times of a push. The start of the counters in the archive is unknown: the first point of a
    /// sequence has its own time as its start, and the others have the same start (OpenTelemetry, metrics
    /// data model, "Cumulative streams: handling unknown start time").
    fn times(&self, now_ns: u64) -> MetricsTimes {
        // After a step of the clock to an earlier time a new sequence begins.
        let start_ns = self.start_ns.filter(|start_ns| *start_ns <= now_ns).unwrap_or(now_ns);
        MetricsTimes { start_ns, now_ns }
    }

    /// Sends the values of this time, ns since 1970, within `time`.
    pub fn send(
        &mut self,
        push: &MetricsPush,
        snapshot: &MetricsSnapshot,
        now_ns: u64,
        time: Duration,
    ) -> Result<(), String> {
        let deadline = Instant::now() + time;
        let times = self.times(now_ns);
        let source = MetricsSource { point: &snapshot.status.name, version: &snapshot.status.version };
        let metrics = snapshot.metrics();
        for request in otlp::requests(&metrics, source, times) {
            let request = request.map_err(|error| error.to_string())?;
            let remaining = deadline.saturating_duration_since(Instant::now());
            let reply = push.post(&HEADERS, &request, remaining);
            reply.and_then(|reply| require_success(&reply)).map_err(|error| failure(&error, time))?;
        }
        self.start_ns = Some(times.start_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Display, io::Write, net::TcpListener, thread};

    use serde_json::Value;
    use testing::http::read_request;
    use units::Time;

    use super::*;
    use crate::metrics::{MetricsReceiver, PushProtocol};

    const SECOND_NS: u64 = 1_000_000_000;
    const NOW_NS: u64 = 1_800_000_000 * SECOND_NS;

    fn push_to(address: impl Display) -> MetricsPush {
        let receiver = MetricsReceiver::new(PushProtocol::Otlp, &format!("http://{address}/v1/metrics"));
        MetricsPush { receiver: receiver.unwrap(), credentials: None, every: Time::from_secs(60) }
    }

    /// Accepts a request and replies with this status; returns the head and the document.
    fn serve(listener: &TcpListener, status: &str) -> (String, Value) {
        let (stream, _) = listener.accept().unwrap();
        let (head, body) = read_request(&stream).unwrap();
        write!(&stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
        (head, serde_json::from_slice(&body).unwrap())
    }

    /// Start and time of the points of a counter in a request.
    fn times_of(request: &Value) -> (u64, u64) {
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let sum = metrics.iter().find(|metric| metric["name"] == "longfat_tests_total").unwrap();
        let point = &sum["sum"]["dataPoints"][0];
        let number = |name: &str| point[name].as_str().unwrap().parse().unwrap();
        (number("startTimeUnixNano"), number("timeUnixNano"))
    }

    #[test]
    fn a_collector_gets_all_pushes_of_a_sequence_with_one_start() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let push = push_to(listener.local_addr().unwrap());
        let statuses = ["503 Service Unavailable", "200 OK", "500 Internal Server Error", "200 OK", "200 OK"];
        let server = thread::spawn(move || statuses.map(|status| serve(&listener, status)));
        let snapshot = MetricsSnapshot::complete();
        let mut sender = OtlpSender::default();
        // The clock is set back before the last push.
        let seconds = [0, 60, 120, 180, 30];
        let pushed = seconds.map(|second| {
            sender.send(&push, &snapshot, NOW_NS + second * SECOND_NS, Duration::from_secs(60))
        });
        assert_eq!(pushed[0], Err("HTTP status 503".into()));
        assert_eq!(pushed.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true, true]);
        let requests = server.join().unwrap();
        for (head, _) in &requests {
            assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
        }
        let starts = [0, 60, 60, 60, 30];
        for (((_, request), start), second) in requests.iter().zip(starts).zip(seconds) {
            let expected = (NOW_NS + start * SECOND_NS, NOW_NS + second * SECOND_NS);
            assert_eq!(times_of(request), expected);
        }
    }

    #[test]
    fn a_collector_that_stalls_or_is_absent_fails_a_push() {
        let snapshot = MetricsSnapshot::complete();
        let mut sender = OtlpSender::default();
        // It accepts the connection and does not reply.
        let stalled = TcpListener::bind("127.0.0.1:0").unwrap();
        let time = Duration::from_millis(300);
        let push = push_to(stalled.local_addr().unwrap());
        let error = sender.send(&push, &snapshot, NOW_NS, time).unwrap_err();
        assert_eq!(error, "it has not accepted them within 300 ms");
        let absent = push_to("127.0.0.1:1");
        let error = sender.send(&absent, &snapshot, NOW_NS, Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("refused"), "{error}");
        assert_eq!(sender.start_ns, None, "nothing was accepted");
    }
}
