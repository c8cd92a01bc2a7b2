//! The emulator's thread: carries frames between the hosts' ports through [`net`].
//!
//! In virtual time ([`TimeMode::Virtual`]) it sleeps until the network's next event or a frame, and
//! everything happens at its nominal time. The remainder of this text applies to real time.
//!
//! The thread sleeps until just before the next departure and then polls, at real-time priority if that is
//! permitted. Events run at their nominal time however late the thread is, so lateness does not accumulate;
//! the lateness of each delivery is recorded. When the thread stalls, its clock stops (see [`Clock`]).
//!
//! At real-time priority it pauses regularly, even under overload (see [`Budget`]). Overload therefore shows
//! as lateness, by which the run's quality is judged.

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
use net::{DropCause, Network, Packet, PacketSink, PipeCounters, PipeId, PipeSpec, TrainTimes};
use units::{Instant, Time};

use crate::{
    budget::{Budget, PAUSE_NS, Wait},
    buffers::Buffers,
    capture::{CapturePoint, Captures, PacketDirection},
    clock::{Clock, TimeMode},
    cpu_latency::CpuLatency,
    frame::Frame,
    port::{Port, PortRead, is_gone},
    processors::{Placement, move_to},
    stalls::Stalls,
    sys::{self, PollSet},
    writer::{Writer, Written},
};

/// The thread polls for this long after the last frame arrived, ns: longer than the interval between two
/// pings, so that it yields its processor only in an idle lab.
const LINGER_NS: u64 = 2_000_000_000;
/// Traffic is sparse after this time without a frame, ns; then a frame may interrupt a pause.
const SPARSE_AFTER_NS: u64 = 200_000;
/// Capacity of a network card's ring, as the time that the link takes to send it, ns: enough to bridge this
/// thread's lateness.
const RING_NS: u64 = 100_000;
/// Maximum sleep in virtual time, ns: a stop is detected within it.
const MAX_VIRTUAL_SLEEP_NS: u64 = 100_000_000;
/// Maximum number of frames read from one port before the next port is read.
const READ_BATCH_FRAMES: usize = 16;
/// Interval at which other threads check whether the driver runs.
const START_POLL: Duration = Duration::from_micros(500);
/// Real-time priority of the driver; the sampler's is lower.
pub(crate) const DRIVER_PRIORITY: i32 = 20;

/// A one-time event that other threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Waits until it is set, or until `is_over` reports that it never will be.
    pub(crate) fn wait_until_set(&self, is_over: impl Fn() -> bool) {
        while !self.0.load(Ordering::Acquire) && !is_over() {
            std::thread::sleep(START_POLL);
        }
    }
}

/// State that the thread shares with the run.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Set once the sampler's thread runs.
    pub(crate) sampler_ready: Flag,
    /// Set once this thread runs and the run's time has begun.
    pub(crate) running: Flag,
    /// Set to end the thread.
    pub(crate) stop: AtomicBool,
    /// Time spent polling with nothing to do, ns: idle time of the processor.
    spun: AtomicU64,
}

impl Shared {
    /// Time that the thread has spent polling with nothing to do, ns.
    pub(crate) fn spun_ns(&self) -> u64 {
        self.spun.load(Ordering::Relaxed)
    }
}

/// The counters of all sampled pipes at one instant of the run.
pub(crate) struct LinkRow {
    pub(crate) at: Instant,
    pub(crate) counters: Vec<PipeCounters>,
}

/// A command to the running thread.
pub(crate) enum Command {
    /// Replace the parameters of a pipe.
    Change(PipeId, Box<PipeSpec>),
    /// Send the current state of these pipes.
    Report(Vec<PipeId>, Sender<LiveReport>),
}

/// State of the emulator during a run.
#[derive(Debug)]
pub(crate) struct LiveReport {
    /// One entry for each pipe requested.
    pub(crate) counters: Vec<PipeCounters>,
    /// Lateness of deliveries so far, 99th percentile.
    pub(crate) late_p99_ns: u64,
    /// Completed stalls so far: their number, their total length and the longest, ns.
    pub(crate) stalls: (u64, u64, u64),
}

/// Report of the thread at its end.
#[derive(Debug)]
pub(crate) struct DriverReport {
    /// Lateness of deliveries, ns.
    pub(crate) lateness: Histogram<u64>,
    /// Frames that a host's device did not accept, or that the kernel could not pass from it to the emulator.
    pub(crate) refused: u64,
    /// Maximum lag of the driver behind the kernel's virtual time, ns; 0 if every event happened at its time.
    pub(crate) lag_max: u64,
    /// Reading the clock takes virtual time; see [`Clock`].
    pub(crate) reading_takes_time: bool,
    /// Periods in which frames were not delivered, or late.
    pub(crate) stalls: Stalls,
    /// Why the thread has no real-time priority.
    pub(crate) not_real_time: Option<io::Error>,
}

/// Input of the thread.
pub(crate) struct Driver<'a> {
    pub(crate) network: Network<Frame>,
    pub(crate) ports: &'a [Port],
    /// Pipes to sample, in the order of [`LinkRow::counters`].
    pub(crate) sampled: Vec<PipeId>,
    pub(crate) interval: Time,
    /// Starts at 0 when the run starts.
    pub(crate) clock: Clock,
    /// Buffers for frames that are read.
    pub(crate) buffers: Buffers,
    /// Processors that this thread and the others may use.
    pub(crate) placement: Placement,
    /// Poll instead of sleeping before a departure. False where another lab polls on this machine.
    pub(crate) may_spin: bool,
    /// Commands to the thread.
    pub(crate) commands: Receiver<Command>,
    /// Active packet captures.
    pub(crate) captures: Captures,
}

impl Driver<'_> {
    /// Runs until stopped.
    ///
    /// # Errors
    /// If polling or reading a port fails.
    pub(crate) fn run(self, shared: &Arc<Shared>, rows: &Sender<LinkRow>) -> io::Result<DriverReport> {
        // This comes first: at ordinary priority each step waits for other programs.
        let not_real_time = sys::set_real_time(DRIVER_PRIORITY).err();
        move_to(self.placement.driver.as_deref());
        // Only a driver with a dedicated processor has a writer, which runs on the others.
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
        os::reduce_timer_slack();
        let mut poll = PollSet::new(self.ports.iter().map(Port::file));
        let mut sink = FrameSink {
            clock: self.clock,
            ports: self.ports,
            captures: self.captures.clone(),
            buffers: self.buffers,
            lateness: Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds are valid"),
            refused: 0,
            lag_max: 0,
            writer,
        };
        sink.clock.start();
        shared.running.set();
        let mode = sink.clock.mode();
        std::thread::sleep(sink.clock.time().until(Instant::ZERO));
        let mut budget = Budget::new(sink.now(), thread_time(), self.may_spin, not_real_time.is_none());
        let mut gates = TransmitGates::new(self.ports);
        let mut cpu_latency = CpuLatency::default();
        let (mut next_row, mut active) = (Instant::ZERO, Instant::ZERO);
        while !shared.stop.load(Ordering::Relaxed) {
            let now = sink.now();
            self.network.run_until(now, &mut sink);
            sink.collect_written();
            while let Ok(command) = self.commands.try_recv() {
                handle_command(command, &mut self.network, now, &sink);
            }
            if now >= next_row {
                let lag = sink.clock.synchronize();
                sink.lag_max = sink.lag_max.max(lag);
                let counters = self.sampled.iter().map(|pipe| self.network.sample(*pipe, now)).collect();
                // The receiver may have ended already.
                let _ = rows.send(LinkRow { at: now, counters });
                next_row = now.next_tick(self.interval);
            }
            let due = self.network.next_event().map_or(next_row, |wake| wake.min(next_row));
            let before = sink.now();
            let due = due.min(gates.open_due(before, &mut poll));
            // Frames that arrive during a sleep are timestamped when the thread wakes, 50 to 100 us later.
            let is_active = before.as_nanos() < active.as_nanos() + LINGER_NS;
            let latest = if is_active { before } else { due };
            cpu_latency.set_low(is_active && self.may_spin);
            let wait = match mode {
                TimeMode::Real => budget.wait(before, due, latest),
                TimeMode::Virtual => {
                    Wait::Poll(due.saturating_since(before).as_nanos().min(MAX_VIRTUAL_SLEEP_NS))
                }
            };
            let remaining = match wait {
                Wait::Poll(span) => poll.wait(Duration::from_nanos(span))?,
                // While traffic is sparse a frame may end the pause.
                Wait::Pause if before.as_nanos() > active.as_nanos() + SPARSE_AFTER_NS => {
                    poll.wait(Duration::from_nanos(PAUSE_NS))?
                }
                Wait::Pause => {
                    std::thread::sleep(Duration::from_nanos(PAUSE_NS));
                    poll.wait(Duration::ZERO)?
                }
            };
            let planned = match wait {
                Wait::Poll(span) => span,
                Wait::Pause => PAUSE_NS,
            };
            let after = sink.clock.after_waiting(planned, remaining.as_nanos() as u64);
            // Arrival times during a pause are unknown. The middle of the pause is unbiased, and has half the
            // error of its end.
            let arrival = (wait == Wait::Pause)
                .then(|| Instant::from_nanos(before.as_nanos().midpoint(after.as_nanos())));
            let read = read_ports(&mut self.network, &mut poll, &mut gates, &mut sink, arrival)?;
            let now = sink.now();
            if read {
                active = now;
            }
            if mode == TimeMode::Real
                && wait == Wait::Poll(0)
                && !read
                && self.network.next_event().is_none_or(|wake| wake > after)
            {
                shared.spun.fetch_add(now.since(before).as_nanos(), Ordering::Relaxed);
            }
            // Account for the pause now; otherwise the next iteration would pause again.
            if wait == Wait::Pause || (mode == TimeMode::Real && budget.meter_is_due(now)) {
                budget.meter(now, thread_time());
            }
        }
        if let Some(writer) = sink.writer.take() {
            writer.finish().for_each(|written| sink.record_written(written));
        }
        let FrameSink { lateness, refused, lag_max, clock, .. } = sink;
        Ok(DriverReport {
            lateness,
            refused,
            lag_max,
            reading_takes_time: clock.reading_takes_time(),
            stalls: clock.stalls.finished(),
            not_real_time,
        })
    }
}

fn handle_command(command: Command, network: &mut Network<Frame>, now: Instant, sink: &FrameSink<'_>) {
    match command {
        Command::Change(pipe, spec) => network.change_pipe(pipe, now, &spec),
        Command::Report(pipes, to) => {
            let counters = pipes.iter().map(|pipe| network.sample(*pipe, now)).collect();
            // The receiver may have timed out.
            let stalls = &sink.clock.stalls;
            let _ = to.send(LiveReport {
                counters,
                late_p99_ns: sink.lateness.value_at_quantile(0.99),
                stalls: (stalls.count, stalls.total, stalls.longest),
            });
        }
    }
}

/// Reads the frames that hosts sent and passes them to the network, with arrival time `arrival` or else the
/// time of reading. Returns whether there were any.
fn read_ports(
    network: &mut Network<Frame>,
    poll: &mut PollSet,
    gates: &mut TransmitGates,
    sink: &mut FrameSink<'_>,
    arrival: Option<Instant>,
) -> io::Result<bool> {
    let ports = sink.ports;
    // In virtual time the next poll reports whether there are more; reading an empty port would waste a
    // system call.
    let batch = if sink.clock.mode() == TimeMode::Virtual { 1 } else { READ_BATCH_FRAMES };
    let mut any = false;
    for (host, port) in ports.iter().enumerate() {
        if !poll.is_ready(host) {
            continue;
        }
        for _ in 0..batch {
            if port.has_tx_queue && !gates.may_read(host, sink.now(), network, poll) {
                break;
            }
            let mut buffer = sink.buffers.take();
            let len = match port.read(&mut buffer) {
                Ok(PortRead::Frame(len)) => len,
                Ok(PortRead::Empty) => {
                    sink.buffers.put(buffer);
                    break;
                }
                Ok(PortRead::Dropped) => {
                    sink.buffers.put(buffer);
                    sink.refused += 1;
                    any = true;
                    continue;
                }
                // The host removed its device: stop polling it, and continue with the others.
                Err(e) if is_gone(&e) => {
                    poll.remove(host);
                    break;
                }
                Err(e) => return Err(e),
            };
            any = true;
            let Some(frame) = sink.buffers.frame(buffer, len) else { continue };
            let now = arrival.unwrap_or_else(|| sink.now());
            network.run_until(now, sink);
            sink.capture(CapturePoint::Host(host as u32), PacketDirection::Out, TrainTimes::at(now), &frame);
            network.send(host as u32, now, frame.destination(network.stations()), frame, sink);
        }
    }
    Ok(any)
}

/// Delivers the packets that leave the network to the hosts' ports and captures.
struct FrameSink<'a> {
    clock: Clock,
    ports: &'a [Port],
    captures: Captures,
    buffers: Buffers,
    lateness: Histogram<u64>,
    refused: u64,
    /// Maximum lag of virtual time behind the kernel's, ns.
    lag_max: u64,
    /// Writes large frames while the driver is behind; `None` without a processor for it.
    writer: Option<Writer>,
}

impl FrameSink<'_> {
    /// Writes a frame that is `late` nanoseconds late to its host, or passes it to the writer.
    fn write_to_host(&mut self, station: u32, at: Instant, late: u64, frame: Frame) {
        let frame = match &mut self.writer {
            Some(writer) => match writer.take(station, at, late, frame) {
                Ok(()) => return,
                Err(frame) => frame,
            },
            None => frame,
        };
        let accepted = self.ports[station as usize].write(frame.bytes());
        self.record_written(Written { station, at, frame, late, accepted });
    }

    fn record_written(&mut self, Written { frame, at, late, accepted, .. }: Written) {
        self.lateness.saturating_record(late);
        self.clock.stalls.delivered(at, late);
        self.refused += u64::from(!accepted);
        self.buffers.recycle(frame);
    }

    fn collect_written(&mut self) {
        while let Some(written) = self.writer.as_mut().and_then(Writer::written) {
            self.record_written(written);
        }
    }

    /// Time since the run's start, by the thread's clock.
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    /// Passes a frame to the captures of `point`.
    fn capture(&self, point: CapturePoint, direction: PacketDirection, train: TrainTimes, frame: &Frame) {
        if self.captures.is_captured(point) {
            self.captures.take(point, direction, train, frame.segments(), |each| {
                frame.wire_segments().for_each(|segment| each(&segment));
            });
        }
    }
}

impl PacketSink<Frame> for FrameSink<'_> {
    fn deliver(&mut self, station: u32, at: Instant, frame: Frame) {
        self.collect_written();
        let late = self.now().saturating_since(at).as_nanos();
        self.capture(CapturePoint::Host(station), PacketDirection::In, TrainTimes::at(at), &frame);
        let gro = self.ports[station as usize].gro;
        let mut frame = frame;
        while let Some(max) = gro.filter(|max| frame.segments() > *max) {
            let remainder = frame.split_off(max);
            self.write_to_host(station, at, late, std::mem::replace(&mut frame, remainder));
        }
        self.write_to_host(station, at, late, frame);
    }

    fn drop(&mut self, _pipe: PipeId, _at: Instant, _cause: DropCause, frame: Frame) {
        self.buffers.recycle(frame);
    }

    fn pass(&mut self, pipe: PipeId, train: TrainTimes, frame: &Frame) {
        self.capture(CapturePoint::Pipe(pipe), PacketDirection::Unspecified, train, frame);
    }
}

/// Processor time that this thread has used.
fn thread_time() -> Time {
    Time::from_nanos(os::thread_cpu_time().as_nanos() as u64)
}

/// Flow control of hosts with a transmit queue: their ports are not read while their link has more than a
/// ring's worth of packets. A network card's ring is small; further packets wait in the kernel's transmit
/// queue, which drops those beyond its length. Each entry is the time at which a port may be read again; 0 if
/// it is open.
struct TransmitGates(Vec<Instant>);

impl TransmitGates {
    fn new(ports: &[Port]) -> Self {
        TransmitGates(vec![Instant::ZERO; ports.len()])
    }

    /// Opens the ports that may be read again; returns when the next port opens.
    fn open_due(&mut self, now: Instant, poll: &mut PollSet) -> Instant {
        let mut next = Instant::NEVER;
        for (host, until) in self.0.iter_mut().enumerate().filter(|(_, until)| **until > Instant::ZERO) {
            if *until <= now {
                *until = Instant::ZERO;
                poll.set_enabled(host, true);
            } else {
                next = next.min(*until);
            }
        }
        next
    }

    /// Whether the ring of `host` has space; if not, closes its port until then.
    fn may_read(
        &mut self,
        host: usize,
        now: Instant,
        network: &mut Network<Frame>,
        poll: &mut PollSet,
    ) -> bool {
        let busy = network.drain_time(host as u32, now).as_nanos();
        if busy <= RING_NS {
            return true;
        }
        self.0[host] = now.later_by(Time::from_nanos(busy - RING_NS / 2));
        poll.set_enabled(host, false);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::net::UnixDatagram},
    };

    use scenario::ScenarioFile;

    use super::*;
    use crate::clock::RunTime;

    const SCENARIO: &str = r#"
duration = "1s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
links = [{ ends = ["h1", "h2"], both = { rate = "1gbit", delay = "1ms" } }]
flows = [{ name = "f", from = "h1", to = "h2" }]
"#;

    #[test]
    fn an_unreadable_frame_disables_neither_its_port_nor_others() {
        let scenario = ScenarioFile::parse("s.toml", SCENARIO).unwrap().resolve(None, &[]).unwrap();
        let mut network: Network<Frame> = engine_common::build_network(&scenario).unwrap();
        // Such a file always polls as readable, and reading it fails (EINVAL).
        let unreadable = File::open("/proc/self/ns/net").unwrap();
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.send(&[0; 100]).unwrap();
        let ports = [Port::onto(unreadable), Port::onto(File::from(OwnedFd::from(ours)))];
        let time = RunTime::begin(TimeMode::Real);
        let mut sink = FrameSink {
            clock: Clock::new(time.clone(), &scenario.links),
            ports: &ports,
            captures: Captures::new(time),
            buffers: Buffers::default(),
            lateness: Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap(),
            refused: 0,
            lag_max: 0,
            writer: None,
        };
        let mut poll = PollSet::new(ports.iter().map(Port::file));
        let mut gates = TransmitGates::new(&ports);
        for batches in 1..=2 {
            poll.wait(Duration::ZERO).unwrap();
            assert!(read_ports(&mut network, &mut poll, &mut gates, &mut sink, None).unwrap());
            assert_eq!(sink.refused, (batches * READ_BATCH_FRAMES) as u64);
        }
        assert_eq!(ports[1].read(&mut [0; 200]).unwrap(), PortRead::Empty, "the other port was read");
    }
}
