//! Sends one flow from this host, or requests it from the other end, and samples it.

use std::{
    io::ErrorKind,
    net::ToSocketAddrs,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use iperf3::{
    ClientOptions, SampleBuffer, Token,
    report::{Amount, Direction, Protocol, Start, TestSpec},
    wire::{COOKIE_BYTES, Cookie, Samples},
};
use schema::FlowSample;
use traffic::{Echo, PingOptions, PingSocket, Stop};
use units::Time;

use crate::{
    error::chain,
    message::{FlowEnd, FlowRequest, Traffic},
};

/// Interval at which a wait checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until an iperf3 server accepts connections again.
const IPERF3_READY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two attempts.
const IPERF3_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// A flow without data for this time has ended.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of lost echoes whose times are kept: 16 MB, and at most 25 MB of the message to the client.
const MAX_LOST_ECHOES: usize = 1_000_000;
/// Maximum time for which a flow with a size continues after its maximum duration.
const DECIDES_END_AFTER: Duration = Duration::from_millis(1);

/// Receives the progress of a flow.
pub(crate) trait FlowObserver {
    /// A message for the user.
    fn note(&mut self, text: &str);
    /// The data begins, at this time of this host's clock.
    fn started(&mut self, realtime_ns: i64);
    /// Samples of this end. Times count from the beginning of the data.
    fn rows(&mut self, rows: &[FlowSample]);
}

/// Runs the flow until it ends or `stop` is set. An error is part of the result.
pub(crate) fn run_flow(
    request: &FlowRequest,
    token: Option<&Token>,
    stop: &AtomicBool,
    observer: &mut dyn FlowObserver,
) -> FlowEnd {
    match &request.traffic {
        Traffic::Ping { interval_us, count, payload, timeout_us } => {
            let options = PingOptions {
                interval: Time::from_nanos(interval_us.saturating_mul(1000)),
                count: *count,
                payload: *payload,
                timeout: Duration::from_micros(*timeout_us),
            };
            run_ping(request, &options, stop, observer)
        }
        Traffic::Tcp { .. } | Traffic::Udp { .. } => run_transfer(request, token, stop, observer),
    }
}

fn run_transfer(
    request: &FlowRequest,
    token: Option<&Token>,
    stop: &AtomicBool,
    observer: &mut dyn FlowObserver,
) -> FlowEnd {
    let spec = spec(request);
    let options = ClientOptions {
        port: request.port,
        bind: request.bind,
        token: token.cloned(),
        session: request.session.as_deref().and_then(cookie),
        fit_block: matches!(request.traffic, Traffic::Udp { payload: None, .. }),
        request_host_info: true,
        idle_timeout: Some(IDLE_TIMEOUT),
        ..ClientOptions::new(&request.to, spec)
    };
    let begun = Instant::now();
    let mut collector = Collector::new(request, observer);
    let mut tested = iperf3::test(&options, stop, &mut collector);
    // An iperf3 server opens a new listening socket after each connection, including the first request
    // of this run.
    while request.session.is_none()
        && collector.started_ns.is_none()
        && tested.error.as_ref().is_some_and(is_transient)
        && begun.elapsed() < IPERF3_READY_TIMEOUT
    {
        std::thread::sleep(IPERF3_RETRY_INTERVAL);
        tested = iperf3::test(&options, stop, &mut collector);
    }
    let (rows, started_ns) = (collector.samples.into_rows(), collector.started_ns);
    let mut rows = iperf3::join_samples(rows, &tested.peer_samples);
    rows.iter_mut().for_each(|row| row.flow.clone_from(&request.name));
    let end = tested.report.end.as_ref();
    let stream = end.and_then(|end| end.streams.first());
    let last = rows.last();
    let (own, other) = (tested.busy, tested.peer_busy);
    FlowEnd {
        started_ns,
        duration_us: stream
            .map(|stream| (stream.received.end_s * 1e6) as u64)
            .or(last.map(|row| row.time_us.max(0) as u64))
            .unwrap_or(0),
        bytes: stream
            .map(|stream| stream.received.bytes)
            .or(last.and_then(|row| row.bytes_received.or(row.bytes_acked)).map(|n| n.max(0) as u64))
            .unwrap_or(0),
        congestion_control: end.and_then(|end| end.sender_congestion.clone()),
        samples: Samples::of(&rows),
        lost_echoes: Vec::new(),
        busy: if request.reverse { [other, own] } else { [own, other] },
        error: tested.error.as_ref().map(|error| chain(error)),
    }
}

/// Whether an iperf3 server may accept the next connection.
fn is_transient(error: &iperf3::Error) -> bool {
    match error {
        iperf3::Error::System(error) => {
            matches!(error.source.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused)
        }
        iperf3::Error::Closed { .. } | iperf3::Error::Denied => true,
        _ => false,
    }
}

/// The test that transfers the flow's data.
pub(crate) fn spec(request: &FlowRequest) -> TestSpec {
    let duration = Duration::from_micros(request.duration_us);
    let amount = |size: Option<units::Bytes>| size.map_or(Amount::Time(duration), Amount::Bytes);
    let spec = match &request.traffic {
        Traffic::Tcp {
            congestion_control,
            size,
            mss,
            send_buffer,
            receive_buffer,
            pacing,
            write_rate,
            write_size,
        } => {
            // An iperf3 server accepts one size for all buffers.
            let window = send_buffer.filter(|size| Some(*size) == *receive_buffer);
            let base = TestSpec::new(Protocol::Tcp, amount(*size));
            TestSpec {
                window,
                send_buffer: if window.is_some() { None } else { *send_buffer },
                receive_buffer: if window.is_some() { None } else { *receive_buffer },
                mss: *mss,
                congestion: congestion_control.clone(),
                fq_rate: *pacing,
                rate: *write_rate,
                block: write_size.unwrap_or(base.block),
                ..base
            }
        }
        Traffic::Udp { rate, payload, size } => {
            let base = TestSpec::new(Protocol::Udp, amount(*size));
            TestSpec {
                rate: Some(*rate),
                block: payload.unwrap_or(base.block),
                udp_counters_64bit: true,
                dont_fragment: true,
                ..base
            }
        }
        Traffic::Ping { .. } => TestSpec::new(Protocol::Tcp, Amount::Time(duration)),
    };
    TestSpec { direction: if request.reverse { Direction::Reverse } else { Direction::Forward }, ..spec }
}

/// The cookie of a session.
pub(crate) fn cookie(text: &str) -> Option<Cookie> {
    let mut bytes = [0; COOKIE_BYTES];
    bytes[..COOKIE_BYTES - 1].copy_from_slice(text.as_bytes().get(..COOKIE_BYTES - 1)?);
    Cookie::from_wire(bytes)
}

/// Collects the samples of a test.
struct Collector<'a> {
    request: &'a FlowRequest,
    observer: &'a mut dyn FlowObserver,
    samples: SampleBuffer,
    started_ns: Option<i64>,
    began: Option<Instant>,
}

impl<'a> Collector<'a> {
    fn new(request: &'a FlowRequest, observer: &'a mut dyn FlowObserver) -> Self {
        let samples = SampleBuffer::new(Duration::from_micros(request.sample_us));
        Collector { request, observer, samples, started_ns: None, began: None }
    }
}

impl iperf3::Observer for Collector<'_> {
    fn note(&mut self, text: &str) {
        self.observer.note(text);
    }

    fn start(&mut self, _: &Start) {
        let now = os::realtime_ns();
        self.started_ns = Some(now);
        self.began = Some(Instant::now());
        self.observer.started(now);
    }

    fn sample_interval(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.request.sample_us))
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        self.samples.add(rows);
        let named = |row: &FlowSample| FlowSample { flow: self.request.name.clone(), ..row.clone() };
        let rows: Vec<FlowSample> = rows.iter().map(named).collect();
        self.observer.rows(&rows);
    }

    /// Ends a flow with a size at its maximum duration.
    fn is_enough(&mut self) -> bool {
        let duration = Duration::from_micros(self.request.duration_us) + DECIDES_END_AFTER;
        self.began.is_some_and(|began| began.elapsed() >= duration)
    }
}

fn run_ping(
    request: &FlowRequest,
    options: &PingOptions,
    stop: &AtomicBool,
    observer: &mut dyn FlowObserver,
) -> FlowEnd {
    let mut end = FlowEnd::default();
    let address = (request.to.as_str(), 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    let Some(address) = address else {
        end.error = Some(format!("cannot find an address of {}", request.to));
        return end;
    };
    let socket = match PingSocket::with_source(address.ip(), request.bind, identifier(&request.name)) {
        Ok(socket) => socket,
        Err(error) => {
            let hint = match error.source.kind() {
                ErrorKind::PermissionDenied => " (echo requests need the privilege CAP_NET_RAW)",
                _ => "",
            };
            end.error = Some(format!("{}{hint}", chain(&error)));
            return end;
        }
    };
    let (began, started_ns) = (Instant::now(), os::realtime_ns());
    end.started_ns = Some(started_ns);
    observer.started(started_ns);
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let duration = Duration::from_micros(request.duration_us);
    let (over, sockets) = (AtomicBool::new(false), Stop::default());
    // All echoes of a flow of usual length are kept.
    let mut samples = SampleBuffer::new(Duration::from_micros(1));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if stop.load(Ordering::Acquire) || began.elapsed() >= duration {
                    return sockets.set();
                }
                std::thread::sleep(STOP_CHECK_INTERVAL);
            }
        });
        let ran = socket.run(options, &sockets, |Echo { sequence, rtt }| {
            let time_us = micros(began.elapsed());
            let Some(rtt) = rtt else {
                if add_lost(&mut end.lost_echoes, (time_us, i64::from(sequence))) {
                    observer
                        .note(&format!("{MAX_LOST_ECHOES} echoes were lost; later losses are not recorded"));
                }
                return;
            };
            let row = FlowSample {
                time_us,
                flow: request.name.clone(),
                srtt_us: Some(micros(rtt)),
                ..FlowSample::default()
            };
            observer.rows(std::slice::from_ref(&row));
            samples.add(&[row]);
        });
        over.store(true, Ordering::Release);
        ran
    });
    end.error = ran.err().map(|error| chain(&error));
    end.duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    end.samples = Samples::of(&samples.into_rows());
    end
}

/// Adds a lost echo, if there are not too many; true if it is the last that is kept.
fn add_lost(lost: &mut Vec<(i64, i64)>, echo: (i64, i64)) -> bool {
    let has_space = lost.len() < MAX_LOST_ECHOES;
    if has_space {
        lost.push(echo);
    }
    has_space && lost.len() == MAX_LOST_ECHOES
}

/// Distinguishes the echo requests of several flows of several processes.
fn identifier(name: &str) -> u16 {
    let hash =
        name.bytes().fold(std::process::id(), |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (hash ^ (hash >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{BitRate, Bytes};

    fn request(traffic: Traffic) -> FlowRequest {
        FlowRequest {
            name: "bulk".into(),
            to: "node2".into(),
            port: 5201,
            session: None,
            reverse: true,
            bind: None,
            duration_us: 2_000_000,
            sample_us: 10_000,
            traffic,
        }
    }

    #[test]
    fn equal_buffers_are_sent_to_an_iperf3_server_as_its_window() {
        let tcp = |send, receive| Traffic::Tcp {
            congestion_control: Some("reno".into()),
            size: None,
            mss: None,
            send_buffer: send,
            receive_buffer: receive,
            pacing: None,
            write_rate: None,
            write_size: Some(Bytes(8192)),
        };
        let size = Some(Bytes(100_000));
        let equal = spec(&request(tcp(size, size)));
        assert_eq!(equal.block, Bytes(8192));
        assert_eq!((equal.window, equal.send_buffer, equal.receive_buffer), (size, None, None));
        let own = spec(&request(tcp(size, None)));
        assert_eq!((own.window, own.send_buffer, own.receive_buffer), (None, size, None));
        assert_eq!((own.direction, own.amount), (Direction::Reverse, Amount::Time(Duration::from_secs(2))));
    }

    #[test]
    fn the_number_of_kept_losses_is_limited() {
        let mut lost = Vec::new();
        let noted = (0..MAX_LOST_ECHOES as i64 + 5).filter(|time| add_lost(&mut lost, (*time, 1))).count();
        assert_eq!((noted, lost.len()), (1, MAX_LOST_ECHOES));
    }

    #[test]
    fn datagrams_are_requested_with_the_flows_rate_and_size() {
        let udp =
            Traffic::Udp { rate: BitRate(5_000_000), payload: Some(Bytes(700)), size: Some(Bytes(7000)) };
        let spec = spec(&request(udp));
        assert_eq!((spec.rate, spec.block), (Some(BitRate(5_000_000)), Bytes(700)));
        assert_eq!(spec.amount, Amount::Bytes(Bytes(7000)));
    }
}
