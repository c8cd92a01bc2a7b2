//! Pushes the metrics to an OpenTelemetry collector or to Prometheus, by OTLP over HTTP.
//!
//! A thread reads the state as a local user does, and sends it, so that a receiver that stalls delays nothing else. Nothing is queued or
//! repeated: gauges are the present values and counters are cumulative, so the next push replaces one that failed.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    str::FromStr,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use units::Time;

use super::{
    MetricsSnapshot,
    otlp::{self, MetricsSource, MetricsTimes},
};
use crate::{
    PostgresAddress,
    alert::{Webhook, post},
};

/// Timeout of all requests of a push together.
const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// The address to which metrics are pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpReceiver(Webhook);

impl FromStr for OtlpReceiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is not the address of an OTLP receiver; the form is http://HOST[:PORT]/PATH or https://..., as in \
                 http://localhost:4318/v1/metrics"
            )
        };
        let address = text.parse::<Webhook>().map_err(|_| invalid())?;
        // Without a path, the address is that of all signals.
        if address.path() == "/" || address.path().contains('#') {
            return Err(invalid());
        }
        Ok(OtlpReceiver(address))
    }
}

/// Where and how often metrics are pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsPush {
    /// The receiver.
    pub receiver: OtlpReceiver,
    /// The interval.
    pub every: Time,
}

/// The thread that pushes; it ends when this is dropped, after the timeout of a push at the latest.
pub(crate) struct MetricsPusher {
    /// The thread waits for the end of this channel.
    _running: Sender<()>,
}

impl MetricsPusher {
    /// Starts the thread for the agent with this state directory. `None`: there is no thread, and the reason is logged.
    pub fn start(
        push: MetricsPush,
        state: &Path,
        postgres: Option<PostgresAddress>,
    ) -> Option<MetricsPusher> {
        let (running, stopped) = channel();
        let work = PushWork { push, state: state.into(), postgres, stopped, sender: OtlpSender::default() };
        match thread::Builder::new().name("metrics".into()).spawn(move || work.run()) {
            Ok(_) => Some(MetricsPusher { _running: running }),
            Err(error) => {
                tracing::warn!("cannot start a thread that pushes metrics: {error}");
                None
            }
        }
    }
}

struct PushWork {
    push: MetricsPush,
    state: PathBuf,
    postgres: Option<PostgresAddress>,
    stopped: Receiver<()>,
    sender: OtlpSender,
}

impl PushWork {
    fn run(mut self) {
        let every = Duration::from_nanos(self.push.every.as_nanos());
        let mut due = Instant::now();
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if self.stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let pushed = self.push_once();
            match (self.sender.change(&self.push, &pushed), pushed) {
                (Some(text), Ok(())) => tracing::info!("{text}"),
                (Some(text), Err(_)) => tracing::warn!("{text}"),
                (None, _) => {}
            }
            due = next_push(due, Instant::now(), every);
        }
    }

    fn push_once(&mut self) -> Result<(), String> {
        let snapshot = MetricsSnapshot::read(&self.state, self.postgres.as_ref());
        let snapshot = snapshot.map_err(|error| error.to_string())?;
        let now_ns = u64::try_from(os::realtime().as_nanos()).unwrap_or(u64::MAX);
        self.sender.send(&self.push.receiver, &snapshot, now_ns, PUSH_TIMEOUT)
    }
}

/// The time of the next push. Times that have passed during the last one are skipped.
fn next_push(due: Instant, now: Instant, every: Duration) -> Instant {
    let next = due + every;
    if next > now { next } else { now + every }
}

/// Sends metrics, and keeps what the next push needs to know.
#[derive(Debug, Default)]
struct OtlpSender {
    /// When the first push was made that the receiver has accepted, ns since 1970.
    start_ns: Option<u64>,
    /// Whether the last push succeeded; `None` before the first one.
    has_succeeded: Option<bool>,
}

impl OtlpSender {
    /// The times of a push. The start of the counters in the archive is unknown: the first point of a sequence has its own time as its start,
    /// and the others have the same start (OpenTelemetry, metrics data model, "Cumulative streams: handling unknown start time").
    fn times(&self, now_ns: u64) -> MetricsTimes {
        // After a step of the clock to an earlier time a new sequence begins.
        let start_ns = self.start_ns.filter(|start_ns| *start_ns <= now_ns).unwrap_or(now_ns);
        MetricsTimes { start_ns, now_ns }
    }

    fn send(
        &mut self,
        receiver: &OtlpReceiver,
        snapshot: &MetricsSnapshot,
        now_ns: u64,
        time: Duration,
    ) -> Result<(), String> {
        let deadline = Instant::now() + time;
        let times = self.times(now_ns);
        let source = MetricsSource { point: &snapshot.status.name, version: &snapshot.status.version };
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                format!("it has not accepted them within {}", Time::from_duration(time))
            }
            _ => error.to_string(),
        };
        let metrics = snapshot.metrics();
        for request in otlp::requests(&metrics, source, times) {
            let request = request.map_err(|error| failed(error.into()))?;
            let remaining = deadline.saturating_duration_since(Instant::now());
            post(&receiver.0, &request, remaining).map_err(failed)?;
        }
        self.start_ns = Some(times.start_ns);
        Ok(())
    }

    /// Updates whether pushes succeed; returns the text for the log if that has changed.
    fn change(&mut self, push: &MetricsPush, pushed: &Result<(), String>) -> Option<String> {
        let before = self.has_succeeded.replace(pushed.is_ok());
        if before == self.has_succeeded {
            return None;
        }
        let host = push.receiver.0.host();
        Some(match pushed {
            Ok(()) => format!("metrics are pushed to {host} every {}", push.every),
            Err(error) => format!(
                "metrics could not be pushed to {host}: {error}; other failures are not logged until a push succeeds"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener};

    use serde_json::Value;
    use testing::http::read_request;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const NOW_NS: u64 = 1_800_000_000 * SECOND_NS;

    fn receiver(listener: &TcpListener) -> OtlpReceiver {
        format!("http://{}/v1/metrics", listener.local_addr().unwrap()).parse().unwrap()
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
        let receiver = receiver(&listener);
        let statuses = ["503 Service Unavailable", "200 OK", "500 Internal Server Error", "200 OK", "200 OK"];
        let server = thread::spawn(move || statuses.map(|status| serve(&listener, status)));
        let snapshot = MetricsSnapshot::complete();
        let mut sender = OtlpSender::default();
        // The clock is set back before the last push.
        let seconds = [0, 60, 120, 180, 30];
        let pushed = seconds.map(|second| {
            sender.send(&receiver, &snapshot, NOW_NS + second * SECOND_NS, Duration::from_secs(60))
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
        let error = sender.send(&receiver(&stalled), &snapshot, NOW_NS, time).unwrap_err();
        assert_eq!(error, "it has not accepted them within 300 ms");
        let absent = "http://127.0.0.1:1/v1/metrics".parse().unwrap();
        let error = sender.send(&absent, &snapshot, NOW_NS, Duration::from_secs(60)).unwrap_err();
        assert!(error.contains("refused"), "{error}");
        assert_eq!(sender.start_ns, None, "nothing was accepted");
    }

    #[test]
    fn changes_of_the_state_are_logged_once() {
        let receiver = "http://collector.example:4318/v1/metrics".parse().unwrap();
        let push = MetricsPush { receiver, every: Time::from_secs(60) };
        let mut sender = OtlpSender::default();
        let failed = |text: &str| Err(text.to_owned());
        let outcomes = [failed("x"), failed("y"), Ok(()), Ok(()), failed("z")];
        let texts = outcomes.map(|pushed| sender.change(&push, &pushed));
        let failure = |reason: &str| {
            let hint = "other failures are not logged until a push succeeds";
            Some(format!("metrics could not be pushed to collector.example: {reason}; {hint}"))
        };
        let success = Some("metrics are pushed to collector.example every 60 s".to_owned());
        assert_eq!(texts, [failure("x"), None, success.clone(), None, failure("z")]);
        let mut sender = OtlpSender::default();
        assert_eq!(sender.change(&push, &Ok(())), success);
    }

    #[test]
    fn pushes_have_a_fixed_interval_and_missed_ones_are_skipped() {
        let second = Duration::from_secs;
        let due = Instant::now();
        assert_eq!(next_push(due, due + second(1), second(60)), due + second(60));
        assert_eq!(next_push(due, due + second(59), second(60)), due + second(60));
        // A push took longer than the interval.
        assert_eq!(next_push(due, due + second(130), second(60)), due + second(190));
    }

    #[test]
    fn the_thread_ends_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let (running, stopped) = channel();
        let push = MetricsPush {
            receiver: "http://127.0.0.1:1/v1/metrics".parse().unwrap(),
            every: Time::from_secs(86_400),
        };
        let state = directory.path().to_owned();
        let work = PushWork { push, state, postgres: None, stopped, sender: OtlpSender::default() };
        let thread = thread::spawn(move || work.run());
        drop(running);
        thread.join().unwrap();
    }

    #[test]
    fn addresses_of_a_receiver() {
        for text in [
            "http://localhost:4318/v1/metrics",
            "http://[::1]:9090/api/v1/otlp/v1/metrics",
            "https://otlp.example/v1/metrics?tenant=x",
        ] {
            assert_eq!(text.parse::<OtlpReceiver>().unwrap().0, text.parse::<Webhook>().unwrap());
        }
        for text in ["", "collector:4318", "http://collector:4318", "http://c:4318/", "http://c/v1#x"] {
            let error = text.parse::<OtlpReceiver>().unwrap_err();
            let expected = format!("{text:?} is not the address of an OTLP receiver;");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
