//! The threads of a flow of the scenario (sender and receiver, or ping), and the state that they share with
//! the sampler.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    time::Duration,
};

use scenario::{FlowKind, FlowSpec, PingSpec, TcpSpec};
use socket2::Socket;
use traffic::{Echo, Listener, PingOptions, PingSocket, ReadPause, Stop, TcpOptions, TcpSender};
use units::{Instant, Time};

use crate::{
    Error,
    clock::RunTime,
    flow_bulk::{self, BulkCounts, BulkPlan, Milestone},
    flow_udp::{self, DatagramCounts, DatagramPlan},
    host::Host,
    processors::move_to,
    sys,
};

/// Interval at which a flow that has not started yet checks whether the run has ended.
const STOP_POLL: Duration = Duration::from_millis(20);

/// A flow and the state that its threads share with the sampler.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    time: RunTime,
    /// The kernel's name of the requested congestion control.
    cc: Option<String>,
    plans: FlowPlans,
    pub(crate) stop: Stop,
    /// Application bytes read by the receiver.
    pub(crate) received: AtomicU64,
    state: Mutex<FlowState>,
    done: AtomicBool,
}

/// Values that flows of some kinds derive from the scenario.
#[derive(Debug, Default)]
pub(crate) struct FlowPlans {
    /// Source and addresses, if it is a udp flow.
    pub(crate) datagrams: Option<DatagramPlan>,
    /// Protocol and addresses, if it is a udt, tsunami, stream or quic flow.
    pub(crate) bulk: Option<BulkPlan>,
}

/// Progress of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowState {
    /// Sockets to be sampled.
    pub(crate) sender: Option<Socket>,
    pub(crate) receiver: Option<Socket>,
    /// Counters of a udp flow.
    pub(crate) datagrams: Option<Arc<DatagramCounts>>,
    /// Counts of a udt, tsunami, stream or quic flow.
    pub(crate) bulk: Option<Arc<BulkCounts>>,
    /// The control connection of a tsunami flow.
    pub(crate) control: Option<Socket>,
    /// Congestion control in use.
    pub(crate) cc: Option<String>,
    /// When it was connected, and when its last byte was read, since the run's start.
    pub(crate) started: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    /// Echoes not yet taken by the sampler, with their arrival times.
    pub(crate) echoes: Vec<(Instant, Echo)>,
    pub(crate) failed: Option<Error>,
    /// A note for the run's quality.
    pub(crate) note: Option<String>,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, cc: Option<String>, plans: FlowPlans, time: RunTime) -> Self {
        Flow {
            spec,
            time,
            cc,
            plans,
            stop: Stop::default(),
            received: AtomicU64::new(0),
            state: Mutex::default(),
            done: AtomicBool::new(false),
        }
    }

    /// Locks the flow's state; it stays valid if a thread panicked while holding the lock.
    pub(crate) fn state(&self) -> MutexGuard<'_, FlowState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Packets dropped because the receiver's socket buffer was full.
    pub(crate) fn dropped_at_socket(&self) -> u64 {
        let state = self.state();
        let bulk = state.bulk.as_ref().map_or(0, |counts| counts.dropped_at_socket.load(Ordering::Relaxed));
        state.datagrams.as_ref().map_or(bulk, |counts| counts.tally.lock().dropped_at_socket)
    }

    /// Whether its threads have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Runs the flow from its start to its end on this thread and threads that it starts.
    /// `timeout` limits the wait for an echo or for the last datagrams.
    pub(crate) fn run(self: &Arc<Self>, from: &Host, to: &Host, timeout: Duration, cpus: Option<&[usize]>) {
        move_to(cpus);
        // Raise the priority, so that other programs on these processors do not limit the flow. The kernel
        // refuses this without root; then the run's quality shows the effect.
        let _ = sys::set_highest_nice();
        let now = || self.time.now();
        os::reduce_timer_slack();
        while let wait = self.time.until(self.spec.start)
            && !wait.is_zero()
            && !self.stop.is_set()
        {
            std::thread::sleep(STOP_POLL.min(wait));
        }
        let result = match &self.spec.kind {
            _ if self.stop.is_set() => Ok(()),
            FlowKind::Tcp(tcp) => self.run_tcp(tcp, from, to, &now),
            FlowKind::Ping(ping) => self.run_ping(ping, from, to, timeout, &now),
            FlowKind::Udp(_) => self.run_datagrams(from, to, timeout, &now),
            FlowKind::Udt(_) | FlowKind::Tsunami(_) | FlowKind::Stream(_) | FlowKind::Quic(_) => {
                self.run_bulk(from, to, &now)
            }
            // `check_flows` rejects such a scenario before any flow starts.
            other => Err(Error::NotInLab { flow: self.spec.name.clone(), kind: other.name() }),
        };
        self.ended_with(result);
        self.state().ended.get_or_insert_with(now);
        self.done.store(true, Ordering::Release);
    }

    /// Records an error, unless it is only a consequence of a stop, and stops the flow.
    fn ended_with(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            if !self.stop.is_set() {
                self.state().failed.get_or_insert(error);
            }
            self.stop.set();
        }
    }

    fn run_tcp(
        &self,
        tcp: &TcpSpec,
        from: &Host,
        to: &Host,
        now: &(impl Fn() -> Instant + Sync),
    ) -> Result<(), Error> {
        let options =
            TcpOptions { cc: self.cc.clone(), read_pause: read_pause(tcp, now()), ..tcp_options(tcp) };
        let failed = |source| Error::Flow { flow: self.spec.name.clone(), source };
        let listener = to.namespace.run(|| Listener::bind(to.address, &options).map_err(failed))?;
        let address = listener.address().map_err(failed)?;
        std::thread::scope(|scope| {
            scope.spawn(|| self.ended_with(self.receive(listener, now).map_err(failed)));
            let sender = from
                .namespace
                .run(|| traffic::connect(address, &options, &self.stop).map_err(|e| self.explain(e)))
                .and_then(|sender| self.send(sender, now).map_err(failed));
            // Report inside the scope: this stops a receiver that still waits for its sender.
            self.ended_with(sender);
        });
        Ok(())
    }

    fn receive(&self, listener: Listener, now: &impl Fn() -> Instant) -> Result<(), traffic::Error> {
        let receiver = listener.accept(&self.stop)?;
        self.state().receiver = Some(receiver.socket()?);
        receiver.run(&self.stop, &self.received)?;
        self.state().ended.get_or_insert_with(now);
        Ok(())
    }

    fn send(&self, sender: TcpSender, now: &impl Fn() -> Instant) -> Result<(), traffic::Error> {
        let mut state = self.state();
        state.cc = sender.cc().ok();
        state.sender = Some(sender.socket()?);
        state.started = Some(now());
        drop(state);
        sender.run(&self.stop).map(drop)
    }

    fn run_datagrams(
        &self,
        from: &Host,
        to: &Host,
        timeout: Duration,
        now: &impl Fn() -> Instant,
    ) -> Result<(), Error> {
        let Some(plan) = &self.plans.datagrams else { return Ok(()) };
        let ends = flow_udp::connect(&self.spec.name, plan, from, to, &self.time)?;
        let mut state = self.state();
        state.datagrams = Some(ends.counts.clone());
        state.started = Some(now());
        drop(state);
        let ended = ends.run(&self.stop, timeout);
        let mut state = self.state();
        let ended = match ended {
            Ok(ended) => ended,
            // `run` has set `stop` itself, so `ended_with` would discard the error.
            Err(source) => {
                state.failed.get_or_insert(Error::Flow { flow: self.spec.name.clone(), source });
                return Ok(());
            }
        };
        state.note = ended.note.map(|note| format!("flow {}: {note}", self.spec.name));
        state.ended.get_or_insert(now().saturating_sub(Time::from_duration(ended.since_last)));
        Ok(())
    }

    fn run_bulk(&self, from: &Host, to: &Host, now: &(impl Fn() -> Instant + Sync)) -> Result<(), Error> {
        let Some(plan) = &self.plans.bulk else { return Ok(()) };
        let Some(ends) = flow_bulk::connect(plan, from, to, &self.stop)? else { return Ok(()) };
        let failed = |source| {
            let attempted = format!("send data by {}", self.spec.kind.name());
            Error::Flow { flow: self.spec.name.clone(), source: traffic::Error { attempted, source } }
        };
        let counts = Arc::new(BulkCounts::default());
        let mut state = self.state();
        state.control = ends.control_socket().map_err(failed)?;
        state.bulk = Some(counts.clone());
        drop(state);
        let ended = ends.run(&self.stop, &counts, |milestone| {
            let mut state = self.state();
            match milestone {
                Milestone::Connected => state.started = Some(now()),
                Milestone::Complete => state.ended = Some(now()),
            }
        });
        // `run` has set `stop` itself, so `ended_with` would discard the error.
        if let Err(error) = ended {
            self.state().failed.get_or_insert(failed(error));
        }
        Ok(())
    }

    fn run_ping(
        &self,
        ping: &PingSpec,
        from: &Host,
        to: &Host,
        timeout: Duration,
        now: &impl Fn() -> Instant,
    ) -> Result<(), Error> {
        let failed = |source| Error::Flow { flow: self.spec.name.clone(), source };
        // Each ping of this process has its own identifier, because several can share a host.
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let identifier = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = from.namespace.run(|| PingSocket::new(to.address, identifier).map_err(failed))?;
        let options =
            PingOptions { interval: ping.interval, count: ping.count, payload: ping.payload, timeout };
        self.state().started = Some(now());
        socket.run(&options, &self.stop, |echo| self.state().echoes.push((now(), echo))).map_err(failed)
    }

    /// The lab's error for a connection that failed.
    fn explain(&self, source: traffic::Error) -> Error {
        if let Some(cc) = &self.cc
            && source.source.kind() == std::io::ErrorKind::NotFound
        {
            return no_congestion_control(&self.spec.name, cc);
        }
        Error::Flow { flow: self.spec.name.clone(), source }
    }
}

/// Checks that the kernel has a flow's congestion control (by the kernel's name), before the run.
pub(crate) fn check_congestion_control((flow, cc): (&String, &String)) -> Result<(), Error> {
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    match socket.and_then(|s| s.set_tcp_congestion(cc.as_bytes())) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(no_congestion_control(flow, cc)),
        Err(e) => Err(Error::System { attempted: format!("use congestion control {cc:?}"), source: e }),
        Ok(()) => Ok(()),
    }
}

/// Whether the kernel has a congestion control of this name, even if this process is not allowed to use it.
/// Loads the module of that name if this process may.
///
/// # Errors
/// [`Error::System`] for other errors of the kernel.
pub fn has_congestion_control(name: &str) -> Result<bool, Error> {
    let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    match socket.and_then(|s| s.set_tcp_congestion(name.as_bytes())) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        // It exists, but is restricted (tcp_allowed_congestion_control).
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Ok(true),
        Err(e) => Err(Error::System { attempted: format!("use congestion control {name:?}"), source: e }),
        Ok(()) => Ok(true),
    }
}

fn no_congestion_control(flow: &str, cc: &str) -> Error {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    Error::NoCongestionControl {
        flow: flow.into(),
        cc: cc.into(),
        available: available.trim().replace(' ', ", "),
    }
}

fn tcp_options(tcp: &TcpSpec) -> TcpOptions {
    TcpOptions {
        cc: None,
        size: tcp.size,
        mss: tcp.mss,
        send_buffer: tcp.send_buffer,
        receive_buffer: tcp.receive_buffer,
        pacing: tcp.pacing,
        read_rate: tcp.read_rate,
        write_rate: tcp.write_rate,
        write_size: tcp.write_size,
        read_pause: None,
    }
}

/// The reader's pause on this process's clock; `now` is an instant of the run.
fn read_pause(tcp: &TcpSpec, now: Instant) -> Option<ReadPause> {
    let this_instant = std::time::Instant::now();
    // Earlier times are set to this instant, which has the same effect.
    let instant = |at: Instant| this_instant + at.saturating_since(now).to_duration();
    match (tcp.reader_stops, tcp.reader_resumes) {
        (None, None) => None,
        (stops, resumes) => {
            Some(ReadPause { from: instant(stops.unwrap_or_default()), until: resumes.map(instant) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_and_unknown_congestion_controls_are_distinguished() {
        assert!(has_congestion_control("reno").unwrap());
        assert!(!has_congestion_control("nosuchcc").unwrap());
    }

    #[test]
    fn times_of_a_pause_are_since_the_runs_start() {
        let second = |n: u64| Some(Instant::from_secs(n));
        let tcp =
            |stops, resumes| TcpSpec { reader_stops: stops, reader_resumes: resumes, ..TcpSpec::default() };
        let now = Instant::from_secs(2);
        let pause = read_pause(&tcp(second(3), second(5)), now).unwrap();
        assert_eq!(pause.until.unwrap() - pause.from, Duration::from_secs(2));
        assert!(pause.from > std::time::Instant::now() + Duration::from_millis(500));
        let over = read_pause(&tcp(second(0), second(1)), now).unwrap();
        assert_eq!(Some(over.from), over.until, "a flow that starts later has no pause");
        assert_eq!(read_pause(&tcp(second(1), None), now).unwrap().until, None);
        assert_eq!(read_pause(&tcp(None, None), now), None);
    }
}
