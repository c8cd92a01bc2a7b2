//! A udp flow of the scenario between two hosts: it sends by the simulator's schedule in real time, and takes
//! arrival times from the kernel.
//!
//! Both ends read the same wall clock, so one-way delays need no clock synchronization. They have the
//! resolution of the header, 1 us, and include the time in the hosts' kernels: some 10 us on a quiet machine.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use datagrams::DatagramSource;
use engine_common::{UDP_HEADER_BYTES, datagram_source};
use scenario::{FlowKind, Scenario, UdpSpec};
use socket2::{Domain, Protocol, Socket, Type};
use traffic::{
    Stop,
    udp::{
        ArrivalTimes, NumberWidth, ReceiveBuffer, Receiver, SendSummary, Sender, SentCounts,
        SharedStatistics, SpinPolicy,
    },
};
use units::Instant;

use crate::{
    Error,
    clock::{RunTime, TimeMode},
    error::Attempted,
    host::Host,
};

/// Minimum payload, bytes: the header with sequence number and time.
const MIN_PAYLOAD_BYTES: u64 = 16;
/// Maximum delay that a sender catches up with. More would cause bursts that the scenario does not have, and
/// losses that the network did not cause.
const MAX_CATCH_UP: Duration = Duration::from_millis(10);
/// Interval at which a finished sender checks whether all datagrams have arrived.
const ARRIVAL_POLL: Duration = Duration::from_millis(2);

/// The source of a flow's datagrams and its addresses.
#[derive(Debug, Clone)]
pub(crate) struct DatagramPlan {
    source: DatagramSource,
    from: IpAddr,
    to: IpAddr,
}

/// Counters of both ends.
#[derive(Debug)]
pub(crate) struct DatagramCounts {
    pub(crate) sent: SentCounts,
    pub(crate) tally: SharedStatistics,
}

/// Both ends, connected.
pub(crate) struct DatagramEnds {
    sender: Sender,
    receiver: Receiver,
    pub(crate) counts: Arc<DatagramCounts>,
}

/// Result of a flow.
pub(crate) struct DatagramEnd {
    /// Time since the last datagram arrived; zero if the flow was stopped.
    pub(crate) since_last: Duration,
    /// A note for the run's quality.
    pub(crate) note: Option<String>,
}

impl DatagramPlan {
    /// The plan of flow number `index`; `None` if it is not a udp flow.
    pub(crate) fn new(scenario: &Scenario, index: usize) -> Option<Self> {
        let flow = &scenario.flows[index];
        let FlowKind::Udp(udp) = &flow.kind else { return None };
        let (from, to) = scenario.flow_addresses(flow)?;
        let ip_header = if from.is_ipv4() { 20 } else { 40 };
        let max_payload = scenario.host(&flow.from)?.mtu - ip_header - UDP_HEADER_BYTES;
        Some(DatagramPlan {
            source: datagram_source(udp, max_payload, scenario.seed, index, Instant::ZERO),
            from,
            to,
        })
    }
}

/// Checks that the flow's datagrams have space for their header.
pub(crate) fn check(flow: &str, udp: &UdpSpec) -> Result<(), Error> {
    match udp.packet {
        Some(packet) if packet.0 < MIN_PAYLOAD_BYTES => {
            Err(Error::ShortDatagrams { flow: flow.into(), packet, min: MIN_PAYLOAD_BYTES })
        }
        _ => Ok(()),
    }
}

/// Connects both ends of flow `name`. Its source pauses while the emulator stalls, according to the run's
/// `time`.
pub(crate) fn connect(
    name: &str,
    plan: &DatagramPlan,
    from: &Host,
    to: &Host,
    time: &RunTime,
) -> Result<DatagramEnds, Error> {
    let sending = from.namespace.run(|| bound(plan.from))?;
    let receiving = to.namespace.run(|| bound(plan.to))?;
    connect_to(&sending, &receiving)?;
    connect_to(&receiving, &sending)?;
    let failed = |source| Error::Flow { flow: name.into(), source };
    let receiver = Receiver::new(receiving, ArrivalTimes::Exact, ReceiveBuffer::Wide).map_err(failed)?;
    let counts =
        DatagramCounts { sent: SentCounts::default(), tally: SharedStatistics::new(NumberWidth::Bits64) };
    Ok(DatagramEnds {
        sender: Sender::from_source(sending, plan.source.clone())
            .with_max_lateness(MAX_CATCH_UP)
            .with_spin_policy(match time.mode() {
                TimeMode::Real => SpinPolicy::Limited,
                TimeMode::Virtual => SpinPolicy::Never,
            })
            .with_pauses(time.stalled()),
        receiver,
        counts: Arc::new(counts),
    })
}

impl DatagramEnds {
    /// Runs both ends until all datagrams have arrived, or `timeout` has passed since the last was sent, or
    /// `stop` is set. Sets `stop` at the end.
    pub(crate) fn run(self, stop: &Stop, timeout: Duration) -> Result<DatagramEnd, traffic::Error> {
        let DatagramEnds { sender, receiver, counts } = self;
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let ended = receiver.run(stop, &counts.tally);
                stop.set();
                ended
            });
            let sending = sender.run(stop, &counts.sent);
            if sending.is_ok() {
                counts.wait(stop, timeout);
            }
            let since_last = counts.since_last(stop);
            stop.set();
            let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let note = skipped_note(&sending?);
            received.map(|()| DatagramEnd { since_last, note })
        })
    }
}

impl DatagramCounts {
    /// Waits until all sent datagrams have arrived, for at most `timeout`.
    fn wait(&self, stop: &Stop, timeout: Duration) {
        let until = std::time::Instant::now() + timeout;
        let sent = self.sent.datagrams.load(Ordering::Relaxed);
        while self.tally.lock().counts.received < sent && std::time::Instant::now() < until && !stop.is_set()
        {
            std::thread::sleep(ARRIVAL_POLL);
        }
    }

    /// Time since the last datagram arrived; zero if the flow was stopped.
    fn since_last(&self, stop: &Stop) -> Duration {
        let now = os::realtime_ns() as u64;
        match self.tally.lock().counts.last_ns {
            Some(last) if !stop.is_set() => Duration::from_nanos(now.saturating_sub(last.max(0) as u64)),
            _ => Duration::ZERO,
        }
    }
}

fn skipped_note(end: &SendSummary) -> Option<String> {
    (!end.skipped.is_zero()).then(|| {
        let ms = end.skipped.as_secs_f64() * 1e3;
        format!("the sender stalled and skipped {ms:.0} ms of its schedule")
    })
}

/// A UDP socket of this thread's namespace, on a free port of `address`.
fn bound(address: IpAddr) -> Result<Socket, Error> {
    let at = SocketAddr::new(address, 0);
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))
        .attempted(|| "create a UDP socket".into())?;
    socket.bind(&at.into()).attempted(|| format!("bind a UDP socket to {address}"))?;
    Ok(socket)
}

fn connect_to(one: &Socket, other: &Socket) -> Result<(), Error> {
    let connect = || one.connect(&other.local_addr()?);
    connect().attempted(|| "connect a UDP socket".into())
}
