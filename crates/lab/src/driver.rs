//! The emulator's one thread: carries frames between the hosts' ports through [`net`].
//!
//! In virtual time ([`TimeMode::Virtual`]) it sleeps until the network's next event or a frame, and everything happens at its
//! nominal time. The rest is for real time.
//!
//! It sleeps until just before the next departure and then polls, at real-time priority where that is
//! allowed. Events run at their nominal time however late the thread is, so lateness never adds up;
//! how late each delivery was is recorded. When the thread stalls, its clock stops (see [`Clock`]).
//!
//! At real-time priority it rests now and then, however much there is to do (see [`Budget`]). Too much to do shows as
//! lateness, which is what the run is judged by.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use net::{Counters, DropCause, Network, Packet, PipeId, PipeSpec, Sink, Train};
use units::Time;

use crate::{
    awake::Awake,
    budget::{Budget, NAP, Wait},
    buffers::Buffers,
    capture::{Captures, Target, Way},
    clock::{Clock, TimeMode},
    frame::Frame,
    port::{Port, is_gone},
    processors::{Placement, move_to},
    stalls::Stalls,
    sys::{self, PollSet},
    writer::{Writer, Written},
};

/// So long after the last frame came in the thread goes on polling: longer than the pause between two pings, so that only an
/// idle lab gives its processor away.
const LINGER: u64 = 2_000_000_000;
/// With no frame for so long little comes.
const QUIET: u64 = 200_000;
/// What a card's ring holds, as the time that the link takes for it: enough to bridge this thread's lateness.
const RING: u64 = 100_000;
/// Maximum sleep in virtual time, ns: a stop is noticed within it.
const MAX_VIRTUAL_SLEEP: u64 = 100_000_000;
/// Frames read from one port before the others get their turn.
const BATCH: usize = 16;
/// How often others look whether the thread runs.
const START_POLL: Duration = Duration::from_micros(500);
/// Real-time priority of the driver; the sampler's is lower.
const PRIORITY: i32 = 20;

/// Something that other threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Waits until it is set, or `is_over` says that it never will be.
    pub(crate) fn wait_until_set(&self, is_over: impl Fn() -> bool) {
        while !self.0.load(Ordering::Acquire) && !is_over() {
            std::thread::sleep(START_POLL);
        }
    }
}

/// What the thread shares with the run.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Set when the sampler's thread runs.
    pub(crate) sampler_ready: Flag,
    /// Set when this thread runs and the run's time has begun.
    pub(crate) running: Flag,
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

/// What the thread may be told while it runs.
pub(crate) enum Command {
    /// From now on a pipe is this.
    Change(PipeId, Box<PipeSpec>),
    /// Tell how these pipes are.
    Report(Vec<PipeId>, Sender<LiveReport>),
}

/// How it goes.
#[derive(Debug)]
pub(crate) struct LiveReport {
    /// Of each pipe that was asked about.
    pub(crate) counters: Vec<Counters>,
    /// How late deliveries were so far, 99th percentile.
    pub(crate) late_p99_ns: u64,
    /// Its stalls so far, but for one that may go on: how many, all of them together and the longest, nanoseconds.
    pub(crate) stalls: (u64, u64, u64),
}

/// How the thread did.
#[derive(Debug)]
pub(crate) struct DriverReport {
    /// How late deliveries were, in nanoseconds.
    pub(crate) lateness: Histogram<u64>,
    /// Frames that a host's device refused.
    pub(crate) refused: u64,
    /// Maximum of the driver's lag behind the kernel's virtual time, nanoseconds; 0 where everything happened at its time.
    pub(crate) lag_max: u64,
    /// When nothing was delivered, or late.
    pub(crate) stalls: Stalls,
    /// Why there was no real-time priority.
    pub(crate) not_real_time: Option<io::Error>,
}

/// Everything the thread needs.
pub(crate) struct Driver<'a> {
    pub(crate) network: Network<Frame>,
    pub(crate) ports: &'a [Port],
    /// Pipes to sample, in the order of [`LinkRow::counters`].
    pub(crate) sampled: Vec<PipeId>,
    pub(crate) interval: Time,
    /// Begun at the run's start.
    pub(crate) clock: Clock,
    /// For frames that are read.
    pub(crate) buffers: Buffers,
    /// The processors this thread and the others may use.
    pub(crate) placement: Placement,
    /// Poll instead of sleeping before a departure. Off where another lab polls on this machine.
    pub(crate) may_spin: bool,
    /// Where it is told what to do.
    pub(crate) commands: Receiver<Command>,
    /// What is captured.
    pub(crate) captures: Captures,
}

impl Driver<'_> {
    /// Runs until stopped. Errors are those of reading a port.
    pub(crate) fn run(self, shared: &Arc<Shared>, rows: &Sender<LinkRow>) -> io::Result<DriverReport> {
        // First of all: at ordinary priority each step waits for other programs.
        let not_real_time = sys::set_real_time(PRIORITY).err();
        move_to(self.placement.driver.as_deref());
        // Where the driver has a processor to itself, the writer has the others.
        let Some(cpus) = self.placement.flows.clone() else {
            return self.drive(shared, rows, None, not_real_time);
        };
        std::thread::scope(|scope| {
            let (writer, work) = Writer::new(self.ports, self.clock.time(), &cpus);
            scope.spawn(work);
            self.drive(shared, rows, Some(writer), not_real_time)
        })
    }

    fn drive(
        mut self,
        shared: &Arc<Shared>,
        rows: &Sender<LinkRow>,
        writer: Option<Writer>,
        not_real_time: Option<io::Error>,
    ) -> io::Result<DriverReport> {
        sys::set_timer_slack();
        let mut poll = PollSet::new(self.ports.iter().map(Port::file));
        let mut hands = Hands {
            clock: self.clock,
            ports: self.ports,
            captures: self.captures.clone(),
            buffers: self.buffers,
            lateness: Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds are valid"),
            refused: 0,
            lag_max: 0,
            writer,
        };
        hands.clock.start();
        shared.running.set();
        let mode = hands.clock.mode();
        std::thread::sleep(hands.clock.time().until(Time(0)));
        let mut budget = Budget::new(hands.now(), sys::thread_time(), self.may_spin, not_real_time.is_none());
        let mut gates = Gates::new(self.ports);
        let mut awake = Awake::default();
        let (mut next_row, mut active) = (Time(0), Time(0));
        while !shared.stop.load(Ordering::Relaxed) {
            let now = hands.now();
            self.network.run_until(now, &mut hands);
            hands.collect_written();
            while let Ok(command) = self.commands.try_recv() {
                obey(command, &mut self.network, now, &hands);
            }
            if now >= next_row {
                let lag = hands.clock.synchronize();
                hands.lag_max = hands.lag_max.max(lag);
                let counters = self.sampled.iter().map(|pipe| self.network.sample(*pipe, now)).collect();
                // The run may have ended its side already.
                let _ = rows.send(LinkRow { at: now, counters });
                next_row = Time((now.0 / self.interval.0 + 1) * self.interval.0);
            }
            let due = self.network.next_wake().map_or(next_row, |wake| wake.min(next_row));
            let before = hands.now();
            let due = due.min(gates.open_due(before, &mut poll));
            // A frame that finds the thread asleep is stamped when it wakes, 50 to 100 us later.
            let is_active = before.0 < active.0 + LINGER;
            let latest = if is_active { before } else { due };
            awake.keep(is_active && self.may_spin);
            let wait = match mode {
                TimeMode::Real => budget.wait(before, due, latest),
                TimeMode::Virtual => Wait::Poll(due.0.saturating_sub(before.0).min(MAX_VIRTUAL_SLEEP)),
            };
            let remaining = match wait {
                Wait::Poll(span) => poll.wait(Duration::from_nanos(span))?,
                // Where little comes, what does come may end the nap.
                Wait::Nap if before.0 > active.0 + QUIET => poll.wait(Duration::from_nanos(NAP))?,
                Wait::Nap => {
                    std::thread::sleep(Duration::from_nanos(NAP));
                    poll.wait(Duration::ZERO)?
                }
            };
            let planned = match wait {
                Wait::Poll(span) => span,
                Wait::Nap => NAP,
            };
            let after = hands.clock.after_waiting(planned, remaining.as_nanos() as u64);
            // What came in a nap came in its middle, for all that is known: half the error of taking its end, and none in the mean.
            let came = (wait == Wait::Nap).then(|| Time(before.0.midpoint(after.0)));
            let read = read_ports(&mut self.network, &mut poll, &mut gates, &mut hands, came)?;
            let now = hands.now();
            if read {
                active = now;
            }
            if mode == TimeMode::Real
                && wait == Wait::Poll(0)
                && !read
                && self.network.next_wake().is_none_or(|wake| wake > after)
            {
                shared.spun.fetch_add(now.0 - before.0, Ordering::Relaxed);
            }
            // A nap counts at once, or the next turn would take another.
            if wait == Wait::Nap || (mode == TimeMode::Real && budget.meter_is_due(now)) {
                budget.meter(now, sys::thread_time());
            }
        }
        if let Some(writer) = hands.writer.take() {
            writer.finish().for_each(|written| hands.wrote(written));
        }
        let Hands { lateness, refused, lag_max, clock, .. } = hands;
        Ok(DriverReport { lateness, refused, lag_max, stalls: clock.stalls.finished(), not_real_time })
    }
}

fn obey(command: Command, network: &mut Network<Frame>, now: Time, hands: &Hands<'_>) {
    match command {
        Command::Change(pipe, spec) => network.change(pipe, now, &spec),
        Command::Report(pipes, to) => {
            let counters = pipes.iter().map(|pipe| network.sample(*pipe, now)).collect();
            // Whoever asked may have given up.
            let stalls = &hands.clock.stalls;
            let _ = to.send(LiveReport {
                counters,
                late_p99_ns: hands.lateness.value_at_quantile(0.99),
                stalls: (stalls.count, stalls.total, stalls.longest),
            });
        }
    }
}

/// Takes in what the hosts sent, as of `came`, or of when it is read; true if there was anything.
fn read_ports(
    network: &mut Network<Frame>,
    poll: &mut PollSet,
    gates: &mut Gates,
    hands: &mut Hands<'_>,
    came: Option<Time>,
) -> io::Result<bool> {
    let ports = hands.ports;
    // In virtual time the next poll says whether there is more; a read that finds nothing would be one system call too many.
    let batch = if hands.clock.mode() == TimeMode::Virtual { 1 } else { BATCH };
    let mut any = false;
    for (host, port) in ports.iter().enumerate() {
        if !poll.ready(host) {
            continue;
        }
        for _ in 0..batch {
            if port.has_tx_queue && !gates.may_read(host, hands.now(), network, poll) {
                break;
            }
            let mut buffer = hands.buffers.take();
            let len = match port.read(&mut buffer) {
                Ok(Some(len)) => len,
                Ok(None) => {
                    hands.buffers.put(buffer);
                    break;
                }
                // Whose device is gone hears nothing more; the others' network stays.
                Err(e) if is_gone(&e) => {
                    poll.forget(host);
                    break;
                }
                Err(e) => return Err(e),
            };
            any = true;
            let Some(frame) = hands.buffers.frame(buffer, len) else { continue };
            let now = came.unwrap_or_else(|| hands.now());
            network.run_until(now, hands);
            hands.capture(Target::Host(host as u32), Way::Out, Train::at(now), &frame);
            network.send(host as u32, now, frame.destination(network.stations()), frame, hands);
        }
    }
    Ok(any)
}

/// The side of the thread that the network hands packets to.
struct Hands<'a> {
    clock: Clock,
    ports: &'a [Port],
    captures: Captures,
    buffers: Buffers,
    lateness: Histogram<u64>,
    refused: u64,
    /// Longest lag of virtual time behind the kernel's, ns.
    lag_max: u64,
    /// Helps where there is a processor for it.
    writer: Option<Writer>,
}

impl Hands<'_> {
    /// Gives a frame that is `late` by so many nanoseconds to its host.
    fn give(&mut self, station: u32, at: Time, late: u64, frame: Frame) {
        let frame = match &mut self.writer {
            Some(writer) => match writer.take(station, at, late, frame) {
                Ok(()) => return,
                Err(frame) => frame,
            },
            None => frame,
        };
        let taken = self.ports[station as usize].write(frame.bytes());
        self.wrote(Written { station, at, frame, late, taken });
    }

    fn wrote(&mut self, Written { frame, at, late, taken, .. }: Written) {
        self.lateness.saturating_record(late);
        self.clock.stalls.delivered(at, late);
        self.refused += u64::from(!taken);
        self.buffers.recycle(frame);
    }

    fn collect_written(&mut self) {
        while let Some(written) = self.writer.as_mut().and_then(Writer::written) {
            self.wrote(written);
        }
    }

    /// Time since the run's start, by the thread's clock.
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    /// Shows a frame to the captures that want it.
    fn capture(&self, target: Target, way: Way, train: Train, frame: &Frame) {
        if self.captures.wants(target) {
            self.captures.take(target, way, train, frame.segments(), |each| {
                frame.wire_segments().for_each(|segment| each(&segment));
            });
        }
    }
}

impl Sink<Frame> for Hands<'_> {
    fn deliver(&mut self, station: u32, at: Time, frame: Frame) {
        self.collect_written();
        let late = self.now().0.saturating_sub(at.0);
        self.capture(Target::Host(station), Way::In, Train::at(at), &frame);
        let gro = self.ports[station as usize].gro;
        let mut frame = frame;
        while let Some(most) = gro.filter(|most| frame.segments() > *most) {
            let rest = frame.split_off(most);
            self.give(station, at, late, std::mem::replace(&mut frame, rest));
        }
        self.give(station, at, late, frame);
    }

    fn drop(&mut self, _pipe: PipeId, _at: Time, _cause: DropCause, frame: Frame) {
        self.buffers.recycle(frame);
    }

    fn pass(&mut self, pipe: PipeId, train: Train, frame: &Frame) {
        self.capture(Target::Pipe(pipe), Way::Past, train, frame);
    }
}

/// Holds back what hosts with a transmit queue send, until their link has sent most of what it has: a card's ring is
/// small, and what does not fit waits in the kernel's own queue, which drops what does not fit there.
struct Gates(Vec<Time>);

impl Gates {
    fn new(ports: &[Port]) -> Self {
        Gates(vec![Time(0); ports.len()])
    }

    /// Heeds again the ports whose time has come; says when the next one's comes.
    fn open_due(&mut self, now: Time, poll: &mut PollSet) -> Time {
        let mut next = Time(u64::MAX);
        for (host, until) in self.0.iter_mut().enumerate().filter(|(_, until)| **until > Time(0)) {
            if *until <= now {
                *until = Time(0);
                poll.heed(host, true);
            } else {
                next = next.min(*until);
            }
        }
        next
    }

    /// Whether the ring of `host` has room; if not, its port is left alone until it has.
    fn may_read(&mut self, host: usize, now: Time, network: &mut Network<Frame>, poll: &mut PollSet) -> bool {
        let busy = network.busy(host as u32, now).0;
        if busy <= RING {
            return true;
        }
        self.0[host] = Time(now.0 + busy - RING / 2);
        poll.heed(host, false);
        false
    }
}
