//! The time in which data flows, the same at both ends: intervals, samples, the omitted beginning, the end, and what goes
//! wrong. One thread waits for all of it.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use units::Bytes;

use crate::{
    error::Attempted,
    iperf3::{Error, Observer, control::Control, looking::TICK, running::Running, tally::Tally, wire::Code},
    report::{Amount, Direction, Interval, Protocol, TestSpec},
    sys,
};

/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(100);
/// How long the other end may take to say why it closed a stream.
const REASON: Duration = Duration::from_secs(1);
/// Whether the last bytes are acknowledged is looked at this often.
const ACKNOWLEDGED: Duration = Duration::from_micros(500);
/// An interval that is cut short is reported if it lasted at least this share of one (iperf3's rule).
const SHORTEST: f64 = 0.1;
/// Intervals of so many streams are kept at most: a client may not fill a server's memory. More are told of as they come.
const KEPT: usize = 200_000;

/// Why the data ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of the time or amount asked for is over, or it is enough.
    Done,
    /// The other end has something to say.
    Message,
}

/// What bounds a test beside what was asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// This end decides when it is over.
    pub(crate) conducts: bool,
    /// No byte for so long: the other end is gone.
    pub(crate) idle: Option<Duration>,
    /// The longest that it may last, and what to tell whoever exceeds it.
    pub(crate) longest: Option<(Duration, Code)>,
    /// The most bit/s over a time.
    pub(crate) rate: Option<(f64, Duration)>,
}

/// A test whose data flows.
pub(crate) struct Drive<'a> {
    pub(crate) running: &'a mut Running,
    pub(crate) control: &'a Control<'a>,
    pub(crate) spec: &'a TestSpec,
    pub(crate) bounds: Bounds,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) tally: Tally,
    pub(crate) intervals: Vec<Interval>,
    /// When the data began; set by [`Drive::run`].
    pub(crate) begin: Instant,
}

impl<'a> Drive<'a> {
    /// Of a test whose data has not begun.
    pub(crate) fn new(
        running: &'a mut Running,
        control: &'a Control<'a>,
        spec: &'a TestSpec,
        bounds: Bounds,
        observer: &'a mut dyn Observer,
        stop: &'a AtomicBool,
    ) -> Self {
        let tally = Tally::new(running.streams().iter().map(|s| (s.id, s.sends)), !spec.omit.is_zero());
        let (intervals, begin) = (Vec::new(), Instant::now());
        Drive { running, control, spec, bounds, observer, stop, tally, intervals, begin }
    }

    /// Lets the data begin and conducts the test until it is over. What failed is told after the interval under way.
    pub(crate) fn run(&mut self) -> Result<Ended, Error> {
        if !self.tally.is_omitting() {
            // Before anybody can send.
            self.set_amount();
        }
        self.begin = self.running.begin();
        let ended = self.conduct();
        self.tell_samples(true);
        let now_s = self.now().as_secs_f64();
        let long_enough = self.tally.open_s(now_s) >= SHORTEST * self.spec.interval.as_secs_f64()
            || self.intervals.is_empty();
        if !self.spec.interval.is_zero() && long_enough {
            self.report(now_s);
        }
        ended
    }

    fn conduct(&mut self) -> Result<Ended, Error> {
        let tick = self.observer.sample_interval().map(|every| every.max(TICK));
        let mut next_tick = tick;
        let mut next_interval = self.first_interval();
        let mut idle = (self.begin, 0);
        let mut window = (Duration::ZERO, 0);
        loop {
            let due = self.due(next_interval, next_tick);
            let readable = self.wait(due)?;
            if let Some(error) = self.running.shared.take_failure() {
                // A stream that the other end closed: it may say why, a little later.
                let says_why = closed_by_peer(&error) && (readable || self.control.wait(REASON)?);
                return if says_why { Ok(Ended::Message) } else { Err(error.into()) };
            }
            let now = self.now();
            let is_tick = next_tick.is_some_and(|at| now >= at);
            if let Some(tick) = tick {
                self.running.look_for_record(is_tick);
                if is_tick {
                    self.tell_samples(false);
                    next_tick = Some(following(now, tick));
                }
            }
            if self.tally.is_omitting() && now >= self.spec.omit {
                self.count_from(now);
                next_interval = self.first_interval().map(|at| at + now);
            }
            if next_interval.is_some_and(|at| now >= at) {
                self.report(now.as_secs_f64());
                let zero = self.counting_since();
                next_interval = Some(zero + following(now.saturating_sub(zero), self.spec.interval));
            }
            if readable {
                return Ok(Ended::Message);
            }
            if self.bounds.conducts
                && !self.tally.is_omitting()
                && (self.is_done(now) || self.observer.is_enough())
            {
                return Ok(Ended::Done);
            }
            self.check_bounds(now, &mut idle, &mut window)?;
        }
    }

    /// Time since the data began.
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn counting_since(&self) -> Duration {
        Duration::from_secs_f64(self.tally.zero_s())
    }

    fn first_interval(&self) -> Option<Duration> {
        (!self.spec.interval.is_zero()).then_some(self.spec.interval)
    }

    /// What comes next, as a time since the data began.
    fn due(&self, next_interval: Option<Duration>, next_tick: Option<Duration>) -> Duration {
        let now = self.now();
        let mut due = now + NAP;
        let end = match self.spec.amount {
            Amount::Time(time) if self.bounds.conducts && !self.tally.is_omitting() => {
                Some(self.counting_since() + time)
            }
            _ => None,
        };
        let omitted = self.tally.is_omitting().then_some(self.spec.omit);
        let acknowledged =
            (self.bounds.conducts && self.running.shared.has_sent_all()).then_some(now + ACKNOWLEDGED);
        let look = next_tick.and_then(|_| self.running.next_look());
        for at in [next_interval, next_tick, look, end, omitted, acknowledged].into_iter().flatten() {
            due = due.min(at);
        }
        due
    }

    /// Waits until `due`, or until a thread or the other end has something to tell: true for the other end.
    fn wait(&mut self, due: Duration) -> Result<bool, Error> {
        if self.stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        let left = due.saturating_sub(self.now());
        let files = [self.control.stream().as_fd(), self.running.wake(), self.running.shared.alarm()];
        let ready = sys::wait_any(&files, left).attempted(|| "cannot wait for a test's sockets".into())?;
        if ready[1] {
            self.running.take_wakes()?;
        }
        if ready[2] {
            self.running.shared.take_alarm();
        }
        Ok(ready[0])
    }

    /// Hands on what the looks at the streams showed.
    fn tell_samples(&mut self, all: bool) {
        let rows = self.running.take_rows(all);
        if !rows.is_empty() {
            self.observer.samples(&rows);
        }
    }

    /// Ends the interval under way.
    fn report(&mut self, now_s: f64) {
        let interval = self.tally.interval(now_s, &self.running.look());
        self.observer.interval(&interval);
        if self.intervals.len() * interval.streams.len().max(1) < KEPT || self.bounds.conducts {
            self.intervals.push(interval);
        }
    }

    /// The omitted beginning is over.
    fn count_from(&mut self, now: Duration) {
        let now_s = now.as_secs_f64();
        if self.tally.open_s(now_s) >= SHORTEST * self.spec.interval.as_secs_f64()
            && !self.spec.interval.is_zero()
        {
            self.report(now_s);
        }
        self.tally.count_from(now_s, &self.running.look());
        self.set_amount();
    }

    /// From now on the amount asked for counts.
    fn set_amount(&self) {
        let Some(bytes) = amount_bytes(self.spec) else { return };
        let shared = &self.running.shared;
        // A server that sends does not know when the client's beginning is over, nor which datagrams were lost, so it sends until
        // it is told to stop.
        if self.bounds.conducts || (self.spec.omit.is_zero() && self.spec.protocol == Protocol::Tcp) {
            shared.limit_sending(bytes.0, self.spec.block.0);
        }
        shared.want(bytes.0);
    }

    fn is_done(&self, now: Duration) -> bool {
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
                let wanted = amount_bytes(self.spec).map_or(u64::MAX, |bytes| bytes.0);
                received.saturating_sub(self.tally.base_received()) >= wanted
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
        if let Some(longest) = self.bounds.idle
            && idle.0.elapsed() >= longest
        {
            return Err(Error::Timeout { what: "data", after: longest });
        }
        if let Some((longest, code)) = self.bounds.longest
            && now >= longest
        {
            let text = format!("the test did not end within {} s", longest.as_secs_f64());
            return Err(Error::Limit(text, code));
        }
        if let Some((limit, over)) = self.bounds.rate
            && now - window.0 >= over
        {
            let rate = (bytes - window.1) as f64 * 8.0 / (now - window.0).as_secs_f64();
            *window = (now, bytes);
            if rate > limit {
                let text = format!("the test made {rate:.0} bit/s where {limit:.0} are allowed");
                return Err(Error::Limit(text, Code::TOTAL_RATE));
            }
        }
        Ok(())
    }
}

/// The other end may have closed the stream that this came of. A file that cannot be written is this end's own affair.
pub(crate) fn closed_by_peer(error: &crate::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    matches!(error.source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut)
}

/// The next multiple of `every` after `now`.
fn following(now: Duration, every: Duration) -> Duration {
    let passed = now.as_nanos() / every.as_nanos().max(1) + 1;
    Duration::from_nanos(u64::try_from(passed * every.as_nanos()).unwrap_or(u64::MAX))
}

/// Bytes that are asked for, where it is no time.
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
    fn ticks_do_not_drift() {
        let ms = Duration::from_millis;
        assert_eq!(following(ms(0), ms(100)), ms(100));
        assert_eq!(following(ms(101), ms(100)), ms(200));
        assert_eq!(following(ms(200), ms(100)), ms(300));
        assert_eq!(following(ms(455), ms(100)), ms(500), "what was missed is not made up for");
    }
}
