//! A udp flow of the scenario between two hosts: the simulator's source in real time, and the kernel's times of arrival.
//!
//! Both ends read the machine's one wall clock, so one-way delays are true. They are as exact as the header's microseconds, and
//! include what the hosts' kernels take: some 10 us of a quiet machine.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use datagrams::Source;
use perf::{
    Stop,
    udp::{Arrivals, Buffer, Numbers, Receiver, SendEnd, Sender, Sent, Tally, Watch},
};
use scenario::{Kind, Scenario, Udp, plan};
use socket2::{Domain, Protocol, Socket, Type};
use units::Time;

use crate::{
    Error,
    clock::{RunTime, TimeMode},
    error::Attempted,
    host::Host,
    sys,
};

/// The shortest payload: the header with number and time.
const LEAST_PAYLOAD: u64 = 16;
/// What a sender makes up for. More would be bursts that the scenario does not have, and losses that no network made.
const MOST_LATE: Duration = Duration::from_millis(10);
/// How often a sender that is done looks whether all has come.
const NAP: Duration = Duration::from_millis(2);

/// What is sent, and between which addresses.
#[derive(Debug, Clone)]
pub(crate) struct DatagramPlan {
    source: Source,
    from: IpAddr,
    to: IpAddr,
}

/// What both ends count.
#[derive(Debug)]
pub(crate) struct DatagramCounts {
    pub(crate) sent: Sent,
    pub(crate) tally: Tally,
}

/// Both ends, connected.
pub(crate) struct DatagramEnds {
    sender: Sender,
    receiver: Receiver,
    pub(crate) counts: Arc<DatagramCounts>,
}

/// How a flow ended.
pub(crate) struct DatagramEnd {
    /// How long ago the last datagram came; no time at all where it was stopped.
    pub(crate) since_last: Duration,
    /// What the run's quality should mention.
    pub(crate) note: Option<String>,
}

impl DatagramPlan {
    /// Of flow number `index`; `None` where that is no udp flow.
    pub(crate) fn new(scenario: &Scenario, index: usize) -> Option<Self> {
        let flow = &scenario.flows[index];
        let Kind::Udp(udp) = &flow.kind else { return None };
        let (from, to) = scenario.flow_addresses(flow)?;
        let ip_header = if from.is_ipv4() { 20 } else { 40 };
        let most = scenario.host(&flow.from)?.mtu - ip_header - plan::UDP_HEADER;
        Some(DatagramPlan { source: plan::source(udp, most, scenario.seed, index, Time(0)), from, to })
    }
}

/// Whether the flow's datagrams have room for their header.
pub(crate) fn check(flow: &str, udp: &Udp) -> Result<(), Error> {
    match udp.packet {
        Some(packet) if packet.0 < LEAST_PAYLOAD => {
            Err(Error::ShortDatagrams { flow: flow.into(), packet, least: LEAST_PAYLOAD })
        }
        _ => Ok(()),
    }
}

/// Makes both ends of flow `name`. Its source pauses while the emulator of the run with this `time` stalls.
pub(crate) fn connect(
    name: &str,
    plan: &DatagramPlan,
    from: &Host,
    to: &Host,
    time: &RunTime,
) -> Result<DatagramEnds, Error> {
    let here = from.namespace.run(|| bound(plan.from))?;
    let there = to.namespace.run(|| bound(plan.to))?;
    join(&here, &there)?;
    join(&there, &here)?;
    let failed = |source| Error::Flow { flow: name.into(), source };
    let receiver = Receiver::new(there, Arrivals::Exact, Buffer::Wide).map_err(failed)?;
    let counts = DatagramCounts { sent: Sent::default(), tally: Tally::new(Numbers::Bits64) };
    Ok(DatagramEnds {
        sender: Sender::of_source(here, plan.source.clone())
            .making_up(MOST_LATE)
            .watching(match time.mode() {
                TimeMode::Real => Watch::Little,
                TimeMode::Virtual => Watch::Never,
            })
            .pausing(time.stalled()),
        receiver,
        counts: Arc::new(counts),
    })
}

impl DatagramEnds {
    /// Runs both ends until all has been sent and has come, or will not come any more, or `stop` is set. It is set in the end.
    pub(crate) fn run(self, stop: &Stop, patience: Duration) -> Result<DatagramEnd, perf::Error> {
        let DatagramEnds { sender, receiver, counts } = self;
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let ended = receiver.run(stop, &counts.tally);
                stop.set();
                ended
            });
            let sending = sender.run(stop, &counts.sent);
            if sending.is_ok() {
                counts.wait(stop, patience);
            }
            let since_last = counts.since_last(stop);
            stop.set();
            let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let note = given_up(&sending?);
            received.map(|()| DatagramEnd { since_last, note })
        })
    }
}

impl DatagramCounts {
    /// Waits until what was sent has come, but no longer than `patience`.
    fn wait(&self, stop: &Stop, patience: Duration) {
        let until = Instant::now() + patience;
        let sent = self.sent.datagrams.load(Ordering::Relaxed);
        while self.tally.lock().counts.received < sent && Instant::now() < until && !stop.is_set() {
            std::thread::sleep(NAP);
        }
    }

    /// How long ago the last datagram came, where the flow ended by itself.
    fn since_last(&self, stop: &Stop) -> Duration {
        let now = sys::wall_clock().0;
        match self.tally.lock().counts.last_ns {
            Some(last) if !stop.is_set() => Duration::from_nanos(now.saturating_sub(last.max(0) as u64)),
            _ => Duration::ZERO,
        }
    }
}

fn given_up(end: &SendEnd) -> Option<String> {
    (!end.given_up.is_zero()).then(|| {
        let ms = end.given_up.as_secs_f64() * 1e3;
        format!("its sender stood still and left out {ms:.0} ms of its schedule")
    })
}

/// A UDP socket of this thread's namespace, on a free port of `address`.
fn bound(address: IpAddr) -> Result<Socket, Error> {
    let at = SocketAddr::new(address, 0);
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))
        .attempted(|| "make a UDP socket".into())?;
    socket.bind(&at.into()).attempted(|| format!("bind a UDP socket to {address}"))?;
    Ok(socket)
}

fn join(one: &Socket, other: &Socket) -> Result<(), Error> {
    let connect = || one.connect(&other.local_addr()?);
    connect().attempted(|| "connect a UDP socket".into())
}
