//! One end of a stream: a thread for the UDP socket, and the caller's thread for the control connection.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bulk::{
    flow::{Receiver, ReceiverCounts, Sender, SenderCounts},
    stream::Parameters,
};
use iperf3::{Error, service::Channel};
use socket2::Socket;
use traffic::{
    Attempted,
    bulk_end::{Sockets, drive},
    udp::now_since,
};
use units::Instant;

use super::message::{Message, ReceiverReport, SenderReport, plan};

/// Interval of the reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// The stream fails if nothing arrives for this time after its beginning.
const FIRST_PACKET_TIMEOUT: Duration = Duration::from_secs(10);
/// The stream fails if the other end does not report for this time.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum wait for the other end's close, after both final reports.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The role of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Sends,
    Receives,
}

/// The counts of both ends at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamSample {
    /// Since the stream's beginning.
    pub time: Instant,
    /// The sending end, as far as this end knows.
    pub sender: SenderCounts,
    /// The receiving end.
    pub receiver: ReceiverCounts,
    /// Datagrams that the receiver's socket dropped because its buffer was full.
    pub dropped_at_socket: u64,
}

/// State that the UDP thread shares with the control connection.
#[derive(Debug, Default)]
struct Shared {
    sample: StreamSample,
    has_ended: bool,
}

/// The UDP thread's state, for the thread of the control connection.
struct UdpEnd<'a> {
    shared: &'a Mutex<Shared>,
    is_running: &'a dyn Fn() -> bool,
}

/// Runs an end until both have ended; calls `observe` with each pair of counts, and returns the last.
pub(super) fn run(
    role: Role,
    parameters: Parameters,
    socket: Socket,
    channel: &mut Channel<'_>,
    stop: &AtomicBool,
    mut observe: impl FnMut(&StreamSample),
) -> Result<StreamSample, Error> {
    let shared = Mutex::new(Shared::default());
    let is_over = AtomicBool::new(false);
    let begin = std::time::Instant::now();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("stream".into());
        let udp = thread
            .spawn_scoped(scope, || run_udp(role, parameters, socket, begin, &shared, &is_over))
            .attempted(|| "start a thread".into())?;
        let udp_end = UdpEnd { shared: &shared, is_running: &|| !udp.is_finished() };
        let result = exchange(role, &parameters, channel, begin, &udp_end, stop, &mut observe);
        is_over.store(true, Ordering::Release);
        let ended = udp.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.attempted(|| "run a stream".into())?;
        result
    })
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_udp(
    role: Role,
    parameters: Parameters,
    udp: Socket,
    begin: std::time::Instant,
    shared: &Mutex<Shared>,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    let plan = plan(parameters);
    let sockets = Sockets { udp, control: None };
    match role {
        Role::Sends => drive(Sender::new(&plan, Instant::ZERO), sockets, begin, |sender, _| {
            let mut shared = lock(shared);
            shared.sample.sender = sender.counts();
            shared.has_ended = shared.sample.sender.is_complete;
            is_over.load(Ordering::Acquire)
        }),
        Role::Receives => drive(Receiver::new(&plan, 0), sockets, begin, |receiver, dropped| {
            let mut shared = lock(shared);
            shared.sample.receiver = receiver.counts();
            shared.sample.dropped_at_socket = dropped.into();
            shared.has_ended = shared.sample.receiver.is_complete;
            is_over.load(Ordering::Acquire)
        }),
    }
}

/// Exchanges reports until both ends have ended.
fn exchange(
    role: Role,
    parameters: &Parameters,
    channel: &mut Channel<'_>,
    begin: std::time::Instant,
    udp: &UdpEnd<'_>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&StreamSample),
) -> Result<StreamSample, Error> {
    let packets = parameters.packets.unwrap_or(0);
    let planned = parameters.time_of(packets) + parameters.deadline;
    let timeout = planned.to_duration().saturating_add(PEER_TIMEOUT);
    let shared = udp.shared;
    let (mut has_reported_end, mut peer_has_ended) = (false, false);
    let mut last_message = std::time::Instant::now();
    loop {
        let due = std::time::Instant::now() + REPORT_INTERVAL;
        // Read before `has_ended`, which a thread sets before it ends without an error.
        let is_running = (udp.is_running)();
        let (mut sample, has_ended) = {
            let shared = lock(shared);
            (shared.sample, shared.has_ended)
        };
        if !is_running && !has_ended {
            // The caller returns the thread's own error instead.
            return Err(Error::Closed { expected: "data of a stream" });
        }
        if begin.elapsed() > timeout {
            return Err(Error::Timeout { what: "end of the stream", after: timeout });
        }
        sample.time = now_since(begin);
        observe(&sample);
        if has_reported_end && peer_has_ended {
            // The other end may still send reports, and must receive this end's last one.
            channel.finish(CLOSE_TIMEOUT);
            return Ok(sample);
        }
        channel.send(&match role {
            Role::Sends => Message::Sender(SenderReport::of(&sample.sender, has_ended)),
            Role::Receives => {
                Message::Receiver(ReceiverReport::of(&sample.receiver, sample.dropped_at_socket, has_ended))
            }
        })?;
        has_reported_end = has_ended;
        while let Some(left) = due.checked_duration_since(std::time::Instant::now()) {
            if has_reported_end && peer_has_ended {
                break;
            }
            if stop.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if !channel.wait(left)? {
                continue;
            }
            let message: Message = channel.receive("report of a stream", PEER_TIMEOUT)?;
            last_message = std::time::Instant::now();
            let mut shared = lock(shared);
            match message {
                Message::Sender(report) if role == Role::Receives => {
                    shared.sample.sender = report.counts(parameters);
                    peer_has_ended = report.has_ended;
                }
                Message::Receiver(report) if role == Role::Sends => {
                    shared.sample.receiver = report.counts();
                    shared.sample.dropped_at_socket = report.dropped_at_socket;
                    peer_has_ended = report.has_ended;
                }
                _ => return Err(Error::Closed { expected: "report of a stream" }),
            }
        }
        if last_message.elapsed() > PEER_TIMEOUT {
            return Err(Error::Timeout { what: "report of a stream", after: PEER_TIMEOUT });
        }
        let has_arrived =
            sample.receiver.playout.is_some_and(|playout| playout.due + playout.buffered + playout.late > 0);
        if !has_arrived && begin.elapsed() > FIRST_PACKET_TIMEOUT {
            let what = "packet of the stream arrived (does a firewall drop UDP between the hosts?)";
            return Err(Error::Timeout { what, after: FIRST_PACKET_TIMEOUT });
        }
    }
}
