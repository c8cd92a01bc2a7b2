//! The emulator's one thread: carries frames between the hosts' ports through [`net`], in real time.
//!
//! It sleeps until just before the next departure and then polls, at real-time priority where that is
//! allowed. Events run at their nominal time however late the thread is, so lateness never adds up;
//! how late each delivery was is recorded.
//!
//! At real-time priority it rests a tenth of every millisecond: the kernel takes the processor away
//! for 50 ms and more from whoever never rests.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use net::{Counters, DropCause, Network, PipeId, Sink};
use units::Time;

use crate::{
    buffers::Buffers,
    frame::Frame,
    port::Port,
    sys::{self, PollSet},
};

/// Waits shorter than this are spent polling: a sleep would end too late.
const SPIN: u64 = 40_000;
/// Longest sleep, so that a stop is seen soon.
const LONGEST_SLEEP: u64 = 20_000_000;
/// The span over which the thread must rest, and how much of it it may use.
const WINDOW: u64 = 1_000_000;
const WINDOW_SHARE: u64 = 900_000;
/// So many windows in a row filled by work alone, and the thread gives real-time priority up.
const OVERLOADED_WINDOWS: u32 = 50;
/// Frames read from one port before the others get their turn.
const BATCH: usize = 16;
/// Real-time priority of the driver; the sampler's is lower.
const PRIORITY: i32 = 20;

/// What the thread shares with the run.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Set to end the thread.
    pub(crate) stop: AtomicBool,
    /// Nanoseconds spent polling with nothing to do: idle time, really.
    pub(crate) spun: AtomicU64,
}

/// The counters of all sampled pipes at one instant of the run.
pub(crate) struct LinkRow {
    pub(crate) at: Time,
    pub(crate) counters: Vec<Counters>,
}

/// How the thread did.
#[derive(Debug)]
pub(crate) struct DriverReport {
    /// How late deliveries were, in nanoseconds.
    pub(crate) lateness: Histogram<u64>,
    /// Frames that a host's device refused.
    pub(crate) refused: u64,
    /// Why there was no real-time priority.
    pub(crate) not_real_time: Option<io::Error>,
    /// When real-time priority was given up, since the run's start.
    pub(crate) overloaded: Option<Time>,
}

/// Everything the thread needs.
pub(crate) struct Driver<'a> {
    pub(crate) network: Network<Frame>,
    pub(crate) ports: &'a [Port],
    /// Pipes to sample, in the order of [`LinkRow::counters`].
    pub(crate) sampled: Vec<PipeId>,
    pub(crate) interval: Time,
    /// CLOCK_MONOTONIC at the run's start.
    pub(crate) start: Time,
    /// The processors this thread may use, where it should not use all.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Poll instead of sleeping before a departure. Off where another lab polls on this machine.
    pub(crate) may_spin: bool,
}

impl Driver<'_> {
    /// Runs until stopped. Errors are those of reading a port.
    pub(crate) fn run(mut self, shared: &Arc<Shared>, rows: &Sender<LinkRow>) -> io::Result<DriverReport> {
        if let Some(cpus) = &self.cpus {
            // Where it is refused the scheduler places the thread.
            let _ = sys::set_allowed_cpus(cpus);
        }
        sys::set_timer_slack();
        let not_real_time = sys::set_real_time(PRIORITY).err();
        let mut poll = PollSet::new(self.ports.iter().map(Port::file));
        let mut hands = Hands {
            start: self.start,
            ports: self.ports,
            buffers: Buffers::default(),
            lateness: Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds are valid"),
            refused: 0,
        };
        let mut window = Window::new(hands.now(), self.may_spin);
        let mut overloaded = None;
        let mut next_row = Time(0);
        while !shared.stop.load(Ordering::Relaxed) {
            let now = hands.now();
            self.network.run_until(now, &mut hands);
            if now >= next_row {
                let counters = self.sampled.iter().map(|pipe| self.network.sample(*pipe, now)).collect();
                // The run may have ended its side already.
                let _ = rows.send(LinkRow { at: now, counters });
                next_row = Time((now.0 / self.interval.0 + 1) * self.interval.0);
            }
            let due = self.network.next_wake().map_or(next_row, |wake| wake.min(next_row));
            let before = hands.now();
            let sleep = window.sleep(before, due);
            poll.wait(Duration::from_nanos(sleep))?;
            let after = hands.now();
            let read = read_ports(&mut self.network, &poll, &mut hands)?;
            let idle = !read && due > after;
            window.account(before, after, hands.now(), sleep > 0, idle, shared);
            if window.overloaded() && not_real_time.is_none() && overloaded.is_none() {
                overloaded = Some(after);
                sys::set_ordinary()?;
            }
        }
        Ok(DriverReport { lateness: hands.lateness, refused: hands.refused, not_real_time, overloaded })
    }
}

/// Takes in what the hosts sent; true if there was anything.
fn read_ports(network: &mut Network<Frame>, poll: &PollSet, hands: &mut Hands<'_>) -> io::Result<bool> {
    let ports = hands.ports;
    let mut any = false;
    for (host, port) in ports.iter().enumerate().filter(|(host, _)| poll.ready(*host)) {
        for _ in 0..BATCH {
            let mut buffer = hands.buffers.take();
            let Some(len) = port.read(&mut buffer)? else {
                hands.buffers.put(buffer);
                break;
            };
            any = true;
            let Some(frame) = hands.buffers.frame(buffer, len) else { continue };
            let now = hands.now();
            network.run_until(now, hands);
            network.send(host as u32, now, frame.destination(ports.len() as u32), frame, hands);
        }
    }
    Ok(any)
}

/// The side of the thread that the network hands packets to.
struct Hands<'a> {
    start: Time,
    ports: &'a [Port],
    buffers: Buffers,
    lateness: Histogram<u64>,
    refused: u64,
}

impl Hands<'_> {
    /// Time since the run's start.
    fn now(&self) -> Time {
        Time(sys::monotonic().0.saturating_sub(self.start.0))
    }
}

impl Sink<Frame> for Hands<'_> {
    fn deliver(&mut self, host: u32, at: Time, frame: Frame) {
        self.lateness.saturating_record(self.now().0.saturating_sub(at.0));
        if !self.ports[host as usize].write(frame.bytes()) {
            self.refused += 1;
        }
        self.buffers.recycle(frame);
    }

    fn drop(&mut self, _pipe: PipeId, _at: Time, _cause: DropCause, frame: Frame) {
        self.buffers.recycle(frame);
    }
}

/// Keeps the thread from using more than its share of any millisecond.
struct Window {
    may_spin: bool,
    begin: u64,
    slept: u64,
    spun: u64,
    busy_windows: u32,
}

impl Window {
    fn new(now: Time, may_spin: bool) -> Self {
        Window { may_spin, begin: now.0, slept: 0, spun: 0, busy_windows: 0 }
    }

    /// How long to sleep now, with something due at `due`.
    fn sleep(&self, now: Time, due: Time) -> u64 {
        let wait = due.0.saturating_sub(now.0).min(LONGEST_SLEEP);
        let used = (now.0 - self.begin).saturating_sub(self.slept);
        if self.may_spin && used < WINDOW_SHARE { wait.saturating_sub(SPIN) } else { wait }
    }

    /// Counts one turn: from `before` to `after` it waited, until `now` it worked or had nothing to do.
    fn account(&mut self, before: Time, after: Time, now: Time, slept: bool, idle: bool, shared: &Shared) {
        if slept {
            self.slept += after.0 - before.0;
        } else if idle {
            self.spun += now.0 - before.0;
        }
        if now.0 - self.begin >= WINDOW {
            let worked = (now.0 - self.begin).saturating_sub(self.slept + self.spun);
            let full = worked >= (now.0 - self.begin) / 10 * 9;
            self.busy_windows = if full { self.busy_windows + 1 } else { 0 };
            shared.spun.fetch_add(self.spun, Ordering::Relaxed);
            (self.begin, self.slept, self.spun) = (now.0, 0, 0);
        }
    }

    fn overloaded(&self) -> bool {
        self.busy_windows >= OVERLOADED_WINDOWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(0);

    #[test]
    fn sleeps_until_just_before_the_departure_then_polls() {
        let window = Window::new(START, true);
        assert_eq!(window.sleep(Time(0), Time(1_000_000)), 960_000);
        assert_eq!(window.sleep(Time(0), Time(30_000)), 0);
        assert_eq!(window.sleep(Time(0), Time(u64::MAX)), LONGEST_SLEEP - SPIN);
        assert_eq!(Window::new(START, false).sleep(Time(0), Time(30_000)), 30_000);
    }

    #[test]
    fn rests_when_its_share_of_the_millisecond_is_used() {
        let mut window = Window::new(START, true);
        assert_eq!(window.sleep(Time(899_999), Time(920_000)), 0);
        assert_eq!(window.sleep(Time(900_000), Time(920_000)), 20_000);
        // What it slept does not count.
        window.account(Time(0), Time(50_000), Time(50_000), true, false, &Shared::default());
        assert_eq!(window.sleep(Time(900_000), Time(920_000)), 0);
    }

    #[test]
    fn only_work_without_rest_is_overload() {
        let shared = Shared::default();
        let mut polling = Window::new(START, true);
        let mut working = Window::new(START, true);
        for i in 0..2 * u64::from(OVERLOADED_WINDOWS) {
            let (from, to) = (Time(i * WINDOW), Time((i + 1) * WINDOW));
            polling.account(from, from, to, false, true, &shared);
            working.account(from, from, to, false, false, &shared);
        }
        assert!(!polling.overloaded());
        assert!(working.overloaded());
        assert_eq!(shared.spun.load(Ordering::Relaxed), 2 * u64::from(OVERLOADED_WINDOWS) * WINDOW);
    }
}
