//! The phase of a test in which data flows, the same at both ends: intervals, samples, the omitted beginning,
//! the end, and failures. One thread (the control thread) waits for all of these events.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use traffic::Attempted;
use units::Bytes;

use crate::{
    Error, Observer,
    control::Control,
    interval_counter::IntervalCounter,
    report::{Amount, Direction, Interval, Protocol, TestSpec},
    stream_sampler::TICK,
    stream_threads::StreamThreads,
    wire::Code,
};

/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time in which the other end sends the reason why it closed a stream.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which the control thread checks whether the last bytes are acknowledged.
const ACKNOWLEDGED_CHECK_INTERVAL: Duration = Duration::from_micros(500);
/// Maximum time until a thread ends after it woke the control thread.
const THREAD_END_TIME: Duration = Duration::from_millis(50);
/// A truncated interval is reported if it lasted at least this fraction of a whole one (iperf3's rule).
const MIN_INTERVAL_FRACTION: f64 = 0.1;
/// Maximum stored intervals times streams: a client must not fill a server's memory. Further ones are only
/// passed to the observer.
const MAX_STREAM_INTERVALS: usize = 200_000;

/// Why the data ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataPhaseEnd {
    /// The requested time has passed, the amount is transferred, or the observer has ended the test.
    Done,
    /// The other end has sent a message.
    Message,
}

/// Limits of a test other than the requested amount.
#[derive(Debug, Clone, Default)]
pub(crate) struct DataBounds {
    /// This end decides when the test is over.
    pub(crate) decides_end: bool,
    /// The test is over when all streams have ended: senders after the requested amount, receivers at the end
    /// of the stream.
    pub(crate) ends_with_streams: bool,
    /// If no byte is transferred for this time, the other end counts as unreachable.
    pub(crate) idle: Option<Duration>,
    /// Maximum duration, and the error code to send when it is exceeded.
    pub(crate) max_duration: Option<(Duration, Code)>,
    /// Maximum bit/s, averaged over a time.
    pub(crate) rate: Option<(f64, Duration)>,
}

/// The data phase of a test.
pub(crate) struct DataPhase<'a> {
    pub(crate) running: &'a mut StreamThreads,
    /// `None`: a test without a control connection.
    pub(crate) control: Option<&'a Control<'a>>,
    pub(crate) spec: &'a TestSpec,
    pub(crate) bounds: DataBounds,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) counter: IntervalCounter,
    pub(crate) intervals: Vec<Interval>,
    /// When the data began; set by [`DataPhase::run`].
    pub(crate) begin: Instant,
    /// When a thread last woke the control thread.
    woken: Option<Instant>,
}

impl<'a> DataPhase<'a> {
    /// For a test whose data has not begun.
    pub(crate) fn new(
        running: &'a mut StreamThreads,
        control: Option<&'a Control<'a>>,
        spec: &'a TestSpec,
        bounds: DataBounds,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Self {
        let counter =
            IntervalCounter::new(running.streams().iter().map(|s| (s.id, s.sends)), !spec.omit.is_zero());
        let (intervals, begin) = (Vec::new(), Instant::now());
        DataPhase { running, control, spec, bounds, observer, stop, counter, intervals, begin, woken: None }
    }

    /// Starts the data and runs until the phase is over. Reports the current interval before it returns an
    /// error.
    pub(crate) fn run(&mut self) -> Result<DataPhaseEnd, Error> {
        if !self.counter.is_omitting() {
            // Before any thread can send.
            self.set_amount();
        }
        self.begin = self.running.begin();
        let ended = self.run_until_end();
        self.report_samples(true);
        let now_s = self.now().as_secs_f64();
        let is_long_enough = self.counter.open_s(now_s)
            >= MIN_INTERVAL_FRACTION * self.spec.interval.as_secs_f64()
            || self.intervals.is_empty();
        if !self.spec.interval.is_zero() && is_long_enough {
            self.report(now_s);
        }
        ended
    }

    fn run_until_end(&mut self) -> Result<DataPhaseEnd, Error> {
        let tick = self.observer.sample_interval().map(|every| every.max(TICK));
        let mut next_tick = tick;
        let mut next_interval = self.first_interval();
        let mut idle = (self.begin, 0);
        let mut window = (Duration::ZERO, 0);
        loop {
            let due = self.due(next_interval, next_tick);
            let readable = self.wait(due)?;
            if let Some(error) = self.running.shared.take_failure() {
                // The other end has closed a stream: it may send the reason a little later.
                let sends_reason = match self.control {
                    Some(control) => closed_by_peer(&error) && (readable || control.wait(REASON_TIMEOUT)?),
                    None => false,
                };
                return if sends_reason { Ok(DataPhaseEnd::Message) } else { Err(error.into()) };
            }
            let now = self.now();
            let is_tick = next_tick.is_some_and(|at| now >= at);
            if let Some(tick) = tick {
                self.running.sample_overdue(is_tick);
                if is_tick {
                    self.report_samples(false);
                    next_tick = Some(following(now, tick));
                }
            }
            if self.counter.is_omitting() && now >= self.spec.omit {
                self.count_from(now);
                next_interval = self.first_interval().map(|at| at + now);
            }
            if next_interval.is_some_and(|at| now >= at) {
                self.report(now.as_secs_f64());
                let zero = self.counting_since();
                next_interval = Some(zero + following(now.saturating_sub(zero), self.spec.interval));
            }
            if readable {
                return Ok(DataPhaseEnd::Message);
            }
            if self.bounds.decides_end
                && !self.counter.is_omitting()
                && (self.is_done(now) || self.observer.is_enough())
            {
                return Ok(DataPhaseEnd::Done);
            }
            self.check_bounds(now, &mut idle, &mut window)?;
        }
    }

    /// Time since the data began.
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn counting_since(&self) -> Duration {
        Duration::from_secs_f64(self.counter.zero_s())
    }

    fn first_interval(&self) -> Option<Duration> {
        (!self.spec.interval.is_zero()).then_some(self.spec.interval)
    }

    /// The time of the next event, since the data began.
    fn due(&self, next_interval: Option<Duration>, next_tick: Option<Duration>) -> Duration {
        let now = self.now();
        let mut due = now + STOP_CHECK_INTERVAL;
        let end = match self.spec.amount {
            Amount::Time(time) if self.bounds.decides_end && !self.counter.is_omitting() => {
                Some(self.counting_since() + time)
            }
            _ => None,
        };
        let omitted = self.counter.is_omitting().then_some(self.spec.omit);
        let acknowledged = (self.bounds.decides_end && self.running.shared.has_sent_all())
            .then_some(now + ACKNOWLEDGED_CHECK_INTERVAL);
        // A thread wakes the control thread just before it ends.
        let is_ending = self.woken.is_some_and(|woken| woken.elapsed() < THREAD_END_TIME);
        let ended = (self.bounds.ends_with_streams && is_ending).then_some(now + ACKNOWLEDGED_CHECK_INTERVAL);
        let sample = next_tick.and_then(|_| self.running.next_sample());
        for at in [next_interval, next_tick, sample, end, omitted, acknowledged, ended].into_iter().flatten()
        {
            due = due.min(at);
        }
        due
    }

    /// Waits until `due`, or until a thread wakes the control thread or the other end sends a message; true
    /// for a message.
    fn wait(&mut self, due: Duration) -> Result<bool, Error> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        let timeout = due.saturating_sub(self.now());
        let wake = self.running.wake();
        let control = self.control.map_or(wake, |control| control.stream().as_fd());
        let files = [control, wake, self.running.shared.wake_timer()];
        let ready = os::wait_any(&files, timeout).attempted(|| "wait for a test's sockets".into())?;
        if ready[1] {
            self.woken = Some(Instant::now());
            self.running.clear_wake_ups()?;
        }
        if ready[2] {
            self.running.shared.clear_wake_timer();
        }
        Ok(ready[0] && self.control.is_some())
    }

    /// Passes the new samples to the observer.
    fn report_samples(&mut self, all: bool) {
        let rows = self.running.take_rows(all);
        if !rows.is_empty() {
            self.observer.samples(&rows);
        }
    }

    /// Ends the current interval.
    fn report(&mut self, now_s: f64) {
        let interval = self.counter.interval(now_s, &self.running.snapshots());
        self.observer.interval(&interval);
        if self.intervals.len() * interval.streams.len().max(1) < MAX_STREAM_INTERVALS
            || self.bounds.decides_end
        {
            self.intervals.push(interval);
        }
    }

    /// Ends the omitted beginning.
    fn count_from(&mut self, now: Duration) {
        let now_s = now.as_secs_f64();
        if self.counter.open_s(now_s) >= MIN_INTERVAL_FRACTION * self.spec.interval.as_secs_f64()
            && !self.spec.interval.is_zero()
        {
            self.report(now_s);
        }
        self.counter.count_from(now_s, &self.running.snapshots());
        self.set_amount();
    }

    /// Starts counting towards the requested amount.
    fn set_amount(&self) {
        let Some(bytes) = amount_bytes(self.spec) else { return };
        let shared = &self.running.shared;
        // A sending server does not know when the client's omitted beginning is over, nor which datagrams
        // were lost, so it sends until the client ends the test.
        if self.bounds.decides_end || (self.spec.omit.is_zero() && self.spec.protocol == Protocol::Tcp) {
            shared.limit_sending(bytes.0, self.spec.block.0);
        }
        shared.expect_bytes(bytes.0);
    }

    fn is_done(&self, now: Duration) -> bool {
        if self.bounds.ends_with_streams {
            if matches!(self.spec.amount, Amount::Time(time) if now >= self.counting_since() + time) {
                self.running.shared.end_sending();
            }
            self.running.finish_ended_senders();
            return self.running.have_all_ended();
        }
        match (self.spec.amount, self.spec.direction) {
            (Amount::Time(time), _) if now >= self.counting_since() + time => true,
            (_, Direction::Forward) => self.running.has_delivered_all(),
            (Amount::Time(_), _) => false,
            (_, Direction::Reverse) => self.has_received_all(),
            (_, Direction::Both) => self.running.has_delivered_all() || self.has_received_all(),
        }
    }

    fn has_received_all(&self) -> bool {
        match self.spec.protocol {
            Protocol::Tcp => self.running.shared.has_received_all(),
            Protocol::Udp => {
                let streams = self.running.streams().iter().filter(|stream| !stream.sends);
                let received: u64 = streams.map(|stream| stream.bytes()).sum();
                let requested = amount_bytes(self.spec).map_or(u64::MAX, |bytes| bytes.0);
                received.saturating_sub(self.counter.base_received()) >= requested
            }
        }
    }

    fn check_bounds(
        &self,
        now: Duration,
        idle: &mut (Instant, u64),
        window: &mut (Duration, u64),
    ) -> Result<(), Error> {
        let bytes = self.running.bytes();
        if bytes != idle.1 {
            *idle = (Instant::now(), bytes);
        }
        if let Some(timeout) = self.bounds.idle
            && idle.0.elapsed() >= timeout
        {
            return Err(Error::Timeout { what: "data", after: timeout });
        }
        if let Some((max_duration, code)) = self.bounds.max_duration
            && now >= max_duration
        {
            let text = format!("the test did not end within {} s", max_duration.as_secs_f64());
            return Err(Error::Limit(text, code));
        }
        if let Some((limit, over)) = self.bounds.rate
            && now - window.0 >= over
        {
            let rate = (bytes - window.1) as f64 * 8.0 / (now - window.0).as_secs_f64();
            *window = (now, bytes);
            if rate > limit {
                let text = format!("the test transferred {rate:.0} bit/s, but the server allows {limit:.0}");
                return Err(Error::Limit(text, Code::TOTAL_RATE));
            }
        }
        Ok(())
    }
}

/// True if the other end may have caused this error by closing the stream. A file that cannot be written is
/// an error of this end.
pub(crate) fn closed_by_peer(error: &traffic::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    matches!(error.source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut)
}

/// The next multiple of `every` after `now`.
fn following(now: Duration, every: Duration) -> Duration {
    let passed = now.as_nanos() / every.as_nanos().max(1) + 1;
    Duration::from_nanos(u64::try_from(passed * every.as_nanos()).unwrap_or(u64::MAX))
}

/// The requested number of bytes; `None` if the test ends after a time.
pub(crate) fn amount_bytes(spec: &TestSpec) -> Option<Bytes> {
    match spec.amount {
        Amount::Time(_) => None,
        Amount::Bytes(bytes) => Some(bytes),
        Amount::Blocks(blocks) => Some(Bytes(blocks.saturating_mul(spec.block.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_times_do_not_drift() {
        let ms = Duration::from_millis;
        assert_eq!(following(ms(0), ms(100)), ms(100));
        assert_eq!(following(ms(101), ms(100)), ms(200));
        assert_eq!(following(ms(200), ms(100)), ms(300));
        assert_eq!(following(ms(455), ms(100)), ms(500), "missed ticks are skipped");
    }
}
