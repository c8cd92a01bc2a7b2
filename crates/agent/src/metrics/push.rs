//! The thread that pushes the metrics: to an OpenTelemetry collector or to Prometheus by OTLP, or to
//! Prometheus by remote write.
//!
//! It reads the state as a local user does, and sends it, so that a receiver that stalls delays nothing else.

use std::{
    io, mem,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use super::{
    MetricsPush, MetricsSnapshot, PushProtocol,
    otlp_sender::OtlpSender,
    push_outcome::{PushOutcome, failure},
    remote_write,
    write_queue::WriteQueue,
};
use crate::PostgresAddress;

/// Timeout of all requests of a push by OTLP together, and of each request of remote write.
const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// The thread that pushes; it ends when this is dropped, after the timeout of a push at the latest.
pub(crate) struct MetricsPusher {
    /// The thread waits for the end of this channel.
    _running: Sender<()>,
}

impl MetricsPusher {
    /// Starts the thread for the agent with this state directory. `None`: there is no thread, and the reason
    /// is logged.
    pub fn start(
        push: MetricsPush,
        state: &Path,
        postgres: Option<PostgresAddress>,
    ) -> Option<MetricsPusher> {
        let (running, stopped) = channel();
        let work = PushWork::new(push, state.into(), postgres, stopped);
        match thread::Builder::new().name("metrics".into()).spawn(move || work.run()) {
            Ok(_) => Some(MetricsPusher { _running: running }),
            Err(error) => {
                tracing::warn!("cannot start a thread that pushes metrics: {error}");
                None
            }
        }
    }
}

/// The part of a push that depends on the protocol.
enum PushSender {
    Otlp(OtlpSender),
    RemoteWrite(Box<WriteQueue>),
}

struct PushWork {
    push: MetricsPush,
    state: PathBuf,
    postgres: Option<PostgresAddress>,
    stopped: Receiver<()>,
    sender: PushSender,
    log: PushLog,
}

impl PushWork {
    fn new(
        push: MetricsPush,
        state: PathBuf,
        postgres: Option<PostgresAddress>,
        stopped: Receiver<()>,
    ) -> PushWork {
        let sender = match push.receiver.protocol() {
            PushProtocol::Otlp => PushSender::Otlp(OtlpSender::default()),
            PushProtocol::RemoteWrite => PushSender::RemoteWrite(Box::new(WriteQueue::new())),
        };
        PushWork { push, state, postgres, stopped, sender, log: PushLog::default() }
    }

    fn run(mut self) {
        let every = self.push.every.to_duration();
        let mut due = Instant::now();
        loop {
            let wake = self.attempt_at().map_or(due, |at| at.min(due));
            let wait = wake.saturating_duration_since(Instant::now());
            if self.stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if due <= Instant::now() {
                if let Some(outcome) = self.push_once() {
                    self.report(&outcome);
                }
                due = next_push(due, Instant::now(), every);
            }
            if let Some(outcome) = self.attempt() {
                self.report(&outcome);
            }
        }
    }

    /// When a request of remote write is sent; `None` if none waits.
    fn attempt_at(&self) -> Option<Instant> {
        match &self.sender {
            PushSender::Otlp(_) => None,
            PushSender::RemoteWrite(queue) => queue.attempt_at(),
        }
    }

    /// Reads the values. OTLP sends them; remote write queues them, and then there is no outcome yet.
    fn push_once(&mut self) -> Option<PushOutcome> {
        let snapshot = match MetricsSnapshot::read(&self.state, self.postgres.as_ref()) {
            Ok(snapshot) => snapshot,
            Err(error) => return Some(PushOutcome::Failed(error.to_string())),
        };
        let now = os::realtime();
        let pushed = match &mut self.sender {
            PushSender::Otlp(sender) => {
                let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                sender.send(&self.push, &snapshot, now_ns, PUSH_TIMEOUT)
            }
            PushSender::RemoteWrite(queue) => {
                let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
                match queue.add(snapshot, now_ms, Instant::now()) {
                    Ok(()) => return None,
                    Err(error) => Err(error),
                }
            }
        };
        Some(match pushed {
            Ok(()) => PushOutcome::Accepted,
            Err(error) => PushOutcome::Failed(error),
        })
    }

    /// Sends the first request that waits, if it is time.
    fn attempt(&mut self) -> Option<PushOutcome> {
        let PushSender::RemoteWrite(queue) = &mut self.sender else { return None };
        queue.attempt_at().filter(|at| *at <= Instant::now())?;
        let reply = self.push.post(&remote_write::HEADERS, queue.first()?, PUSH_TIMEOUT);
        let reply = reply.map_err(|error| io::Error::other(failure(&error, PUSH_TIMEOUT)));
        let outcome = queue.handle(reply, Instant::now());
        if outcome == PushOutcome::Accepted {
            let discarded = queue.take_discarded();
            if discarded > 0 {
                let host = self.push.receiver.host();
                tracing::warn!(
                    "{discarded} requests with metrics for {host} were discarded: too many waited"
                );
            }
        }
        Some(outcome)
    }

    fn report(&mut self, outcome: &PushOutcome) {
        match (self.log.change(&self.push, outcome), outcome) {
            (Some(text), PushOutcome::Accepted) => tracing::info!("{text}"),
            (Some(text), PushOutcome::Failed(_) | PushOutcome::Refused(_)) => tracing::warn!("{text}"),
            (None, _) => {}
        }
    }
}

/// The time of the next push. Times that have passed during the last one are skipped.
fn next_push(due: Instant, now: Instant, every: Duration) -> Instant {
    let next = due + every;
    if next > now { next } else { now + every }
}

/// Logs outcomes that differ in kind from the one before.
#[derive(Debug, Default)]
struct PushLog {
    last: Option<PushOutcome>,
}

impl PushLog {
    /// The text for the log; `None` if the kind of outcome has not changed.
    fn change(&mut self, push: &MetricsPush, outcome: &PushOutcome) -> Option<String> {
        let before = self.last.replace(outcome.clone());
        if before.is_some_and(|before| mem::discriminant(&before) == mem::discriminant(outcome)) {
            return None;
        }
        let host = push.receiver.host();
        Some(match outcome {
            PushOutcome::Accepted => format!("metrics are pushed to {host} every {}", push.every),
            PushOutcome::Failed(error) => format!(
                "metrics could not be pushed to {host}: {error}; other failures are not logged until a push succeeds"
            ),
            PushOutcome::Refused(error) => format!(
                "{host} has refused metrics: {error}; they are not sent again, and other refusals are not logged until a push \
                 succeeds"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;
    use crate::metrics::MetricsReceiver;

    fn push(protocol: PushProtocol, address: &str, every_s: u64) -> MetricsPush {
        let receiver = MetricsReceiver::new(protocol, address).unwrap();
        MetricsPush { receiver, credentials: None, every: Time::from_secs(every_s) }
    }

    #[test]
    fn changes_of_the_state_are_logged_once() {
        let push = push(PushProtocol::RemoteWrite, "http://collector.example:9090/api/v1/write", 60);
        let failed = |text: &str| PushOutcome::Failed(text.into());
        let refused = |text: &str| PushOutcome::Refused(text.into());
        let accepted = PushOutcome::Accepted;
        let outcomes = [
            failed("x"),
            failed("y"),
            refused("v"),
            refused("w"),
            accepted.clone(),
            accepted.clone(),
            failed("z"),
        ];
        let mut log = PushLog::default();
        let texts = outcomes.map(|outcome| log.change(&push, &outcome));
        let failure = |reason: &str| {
            let hint = "other failures are not logged until a push succeeds";
            Some(format!("metrics could not be pushed to collector.example: {reason}; {hint}"))
        };
        let hint = "they are not sent again, and other refusals are not logged until a push succeeds";
        let refusal = Some(format!("collector.example has refused metrics: v; {hint}"));
        let success = Some("metrics are pushed to collector.example every 60 s".to_owned());
        assert_eq!(texts, [failure("x"), None, refusal, None, success.clone(), None, failure("z")]);
        let mut log = PushLog::default();
        assert_eq!(log.change(&push, &accepted), success);
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
        for protocol in [PushProtocol::Otlp, PushProtocol::RemoteWrite] {
            let directory = tempfile::tempdir().unwrap();
            let (running, stopped) = channel();
            let push = push(protocol, "http://127.0.0.1:1/x", 86_400);
            let work = PushWork::new(push, directory.path().to_owned(), None, stopped);
            let thread = thread::spawn(move || work.run());
            drop(running);
            thread.join().unwrap();
        }
    }
}
