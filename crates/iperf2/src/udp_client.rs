//! A UDP test: a thread sends or receives on each stream, and this one reports intervals.

use std::{
    io::{ErrorKind, Read},
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use datagrams::{DatagramSource, Draws, ReceiverCounters, SourcePlan};
use iperf3::{
    ClientOptions, Error, Observer, TestOutcome, flow_name,
    plain_streams::{End, new_socket, set_up, start_of},
    report::{self, Datagrams, Direction, Protocol, Role, StreamEnd, StreamTotals, TestSpec},
};
use schema::FlowSample;
use socket2::Socket;
use traffic::Attempted;
use units::{BitRate, Bytes, Instant};

use crate::{
    test_set_up::{addresses, from, header, no_address},
    udp_totals::{self, Intervals, datagrams, now_ns},
    wire::{DATAGRAM_HEADER_BYTES, DatagramHeader, HEADER_BYTES, ServerReport},
};

/// Smallest datagram that has space for the header.
const MIN_BLOCK: u64 = (DATAGRAM_HEADER_BYTES + HEADER_BYTES) as u64;
/// The schedule of a test without a rate limit: faster than any host can send.
const NO_LIMIT: BitRate = BitRate(10_000_000_000_000);
/// Interval at which the last datagram is repeated until the server replies.
const REPEAT_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time in which the server replies.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which threads check whether they should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A server that sends is requested again after this time without data.
const HELLO_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum delay behind the schedule that a sender catches up.
const MAX_LATE: Duration = Duration::from_millis(100);
/// Sleeping is only worthwhile for longer waits.
const MIN_SLEEP: Duration = Duration::from_micros(60);
/// A truncated interval is reported if it lasted at least this share of a whole one (as in iperf3).
const MIN_INTERVAL_SHARE: f64 = 0.1;
/// Largest UDP payload, bytes.
const MAX_DATAGRAM: usize = 65_535;

/// One stream's socket and counters.
struct UdpStream {
    id: u32,
    socket: Socket,
    sent_bytes: AtomicU64,
    sent_datagrams: AtomicU64,
    received: Mutex<ReceiverCounters>,
    /// The server's reply, or when a receiver got the last datagram.
    report: Mutex<Option<ServerReport>>,
    /// When the last datagram was sent or received, microseconds since the data began; 0: not yet.
    ended_us: AtomicU64,
    has_ended: AtomicBool,
}

/// Runs a UDP test.
pub(crate) fn test(
    options: &ClientOptions,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<TestOutcome, Error> {
    let spec = &options.spec;
    let refused = |text: String| Err(Error::Iperf2(text));
    if spec.block.0 < MIN_BLOCK {
        return refused(format!("a datagram of iperf 2 has at least {MIN_BLOCK} bytes, for its header (-l)"));
    }
    if spec.direction == Direction::Both {
        return refused("a UDP test with iperf 2 has one direction: omit --bidir".into());
    }
    let to =
        *addresses(options)?.first().ok_or_else(|| no_address(options, "no address of this IP version"))?;
    let streams =
        (0..spec.streams).map(|n| connect(options, to, n, observer)).collect::<Result<Vec<_>, _>>()?;
    let sends = spec.direction == Direction::Forward;
    let sockets: Vec<_> = streams.iter().map(|stream| (&stream.socket, sends)).collect();
    let mut outcome = TestOutcome::default();
    let start = start_of(Role::Client, to, options.port, spec, &sockets)?;
    let start = report::Start { peer_name: options.host.clone(), mss: 0, ..start };
    observer.start(&start);
    outcome.report.start = Some(start);
    let begin = std::time::Instant::now();
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for stream in &streams {
            let (failed, header) = (&failed, header(options).encode(true));
            scope.spawn(move || {
                let ended = match sends {
                    true => stream.send(spec, &header, begin, stop),
                    false => stream.receive(spec, &header, begin, stop, options.phase_timeout),
                };
                if let Err(error) = ended {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
                stream.has_ended.store(true, Ordering::Release);
            });
        }
        outcome.report.intervals = observe(&streams, sends, spec, begin, observer);
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Ok(with_error(outcome, error));
    }
    if stop.load(Ordering::Acquire) {
        return Ok(with_error(outcome, Error::Interrupted));
    }
    let unreported = streams.iter().filter(|stream| stream.reported().is_none()).count();
    if unreported > 0 {
        let text = format!(
            "the server reported the datagrams of {} of {} streams: is an iperf 2 server running there, and do its \
             datagrams reach this host?",
            streams.len() - unreported,
            streams.len()
        );
        return Ok(with_error(outcome, Error::Iperf2(text)));
    }
    outcome.report.end = Some(udp_totals::end(streams.iter().map(|stream| stream.end(sends)).collect()));
    Ok(outcome)
}

fn with_error(mut outcome: TestOutcome, error: Error) -> TestOutcome {
    outcome.report.error = Some(error.to_string());
    outcome.error = Some(error);
    outcome
}

fn connect(
    options: &ClientOptions,
    to: SocketAddr,
    number: u32,
    observer: &mut dyn Observer,
) -> Result<UdpStream, Error> {
    let socket = new_socket(to, from(options, to, number), options.device.as_deref(), Protocol::Udp)?;
    let notes = set_up(&socket, to.ip(), &options.spec, true, None, End::Client)?;
    if number == 0 {
        notes.iter().for_each(|note| observer.note(note));
    }
    socket.connect(&to.into()).attempted(|| format!("connect to {to}"))?;
    socket.set_write_timeout(Some(STOP_CHECK_INTERVAL)).attempted(|| "set a timeout".into())?;
    Ok(UdpStream {
        // As iperf3 numbers its streams: 1, 3, 4, ...
        id: if number == 0 { 1 } else { number + 2 },
        socket,
        sent_bytes: AtomicU64::new(0),
        sent_datagrams: AtomicU64::new(0),
        received: Mutex::default(),
        report: Mutex::default(),
        ended_us: AtomicU64::new(0),
        has_ended: AtomicBool::new(false),
    })
}

/// Reports intervals and samples until all streams have ended.
fn observe(
    streams: &[UdpStream],
    sends: bool,
    spec: &TestSpec,
    begin: std::time::Instant,
    observer: &mut dyn Observer,
) -> Vec<report::Interval> {
    let mut intervals = Intervals::default();
    let mut all = Vec::new();
    let sample = observer.sample_interval().unwrap_or(Duration::MAX);
    let interval = if spec.interval.is_zero() { Duration::MAX } else { spec.interval };
    let (mut next_sample, mut next_interval) = (sample, interval);
    let is_over = || streams.iter().all(|stream| stream.has_ended.load(Ordering::Acquire));
    let mut report = |now_s: f64, observer: &mut dyn Observer, is_last: bool| {
        let is_long = intervals.open_s(now_s) > MIN_INTERVAL_SHARE * spec.interval.as_secs_f64();
        if is_last && !is_long && !all.is_empty() {
            return;
        }
        let totals: Vec<_> =
            streams.iter().map(|stream| (stream.id, sends, stream.totals(sends, now_s))).collect();
        let done = intervals.next(now_s, &totals);
        observer.interval(&done);
        all.push(done);
    };
    while !is_over() {
        let due = next_sample.min(next_interval).saturating_sub(begin.elapsed());
        std::thread::sleep(due.min(STOP_CHECK_INTERVAL / 10));
        let now = begin.elapsed();
        if now >= next_sample {
            let rows: Vec<FlowSample> = streams.iter().map(|stream| stream.row(sends, now)).collect();
            observer.samples(&rows);
            next_sample = now + sample;
        }
        // The wait for the server's report is not an interval.
        let is_running = streams.iter().any(|stream| stream.ended_us.load(Ordering::Acquire) == 0);
        if now >= next_interval && is_running {
            report(now.as_secs_f64(), observer, false);
            next_interval += interval;
        }
    }
    if interval < Duration::MAX {
        let end_s = streams.iter().map(UdpStream::ended_s).fold(0.0, f64::max);
        report(end_s.max(1e-6), observer, true);
    }
    all
}

impl UdpStream {
    fn reported(&self) -> Option<ServerReport> {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This end's totals so far.
    fn totals(&self, sends: bool, now_s: f64) -> StreamTotals {
        let (bytes, udp) = match sends {
            true => {
                let packets = self.sent_datagrams.load(Ordering::Relaxed);
                (self.sent_bytes.load(Ordering::Relaxed), Datagrams { packets, ..Datagrams::default() })
            }
            false => {
                let counters = self.received.lock().unwrap_or_else(PoisonError::into_inner);
                (counters.bytes, datagrams(&counters))
            }
        };
        StreamTotals { start_s: 0.0, end_s: now_s, bytes, udp: Some(udp) }
    }

    /// When the last datagram was sent or received, seconds since the data began.
    fn ended_s(&self) -> f64 {
        self.ended_us.load(Ordering::Acquire) as f64 * 1e-6
    }

    fn set_ended(&self, at: Duration) {
        self.ended_us.store(u64::try_from(at.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Release);
    }

    fn row(&self, sends: bool, now: Duration) -> FlowSample {
        let count = |n: u64| i64::try_from(n).ok();
        let time_us = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let row = FlowSample { time_us, flow: flow_name(self.id), ..FlowSample::default() };
        if sends {
            let datagrams_sent = count(self.sent_datagrams.load(Ordering::Relaxed));
            return FlowSample { datagrams_sent, ..row };
        }
        let counters = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        FlowSample {
            datagrams_received: count(counters.received),
            datagrams_lost: count(counters.lost()),
            datagrams_reordered: count(counters.reordered),
            datagrams_duplicated: count(counters.duplicated),
            jitter_us: Some((counters.jitter_ns * 1e-3).round() as i64),
            bytes_received: count(counters.bytes),
            ..row
        }
    }

    fn end(&self, sends: bool) -> StreamEnd {
        let report = self.reported().unwrap_or_default();
        let own = self.totals(sends, self.ended_s());
        let (sent, received) = match sends {
            true => (own, udp_totals::totals(&report)),
            // The numbers of the received datagrams are the only report of the sender.
            false => {
                let udp = own.udp.map(|udp| Datagrams { packets: udp.packets, ..Datagrams::default() });
                (StreamTotals { udp, ..own }, own)
            }
        };
        StreamEnd { id: self.id, forward: sends, sent, received, tcp: None }
    }

    /// Sends for the time or amount of the test, then waits for the server's report.
    fn send(
        &self,
        spec: &TestSpec,
        header: &[u8],
        begin: std::time::Instant,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let size = match spec.amount {
            report::Amount::Time(_) => None,
            report::Amount::Bytes(bytes) => Some(bytes.0),
            report::Amount::Blocks(blocks) => Some(blocks.saturating_mul(spec.block.0)),
        };
        let time = match spec.amount {
            report::Amount::Time(time) => time,
            _ => Duration::MAX,
        };
        let block = usize::try_from(spec.block.0).unwrap_or(MAX_DATAGRAM).min(MAX_DATAGRAM);
        let plan = SourcePlan {
            rate: spec.rate.unwrap_or(NO_LIMIT),
            payload: block as u32,
            back_to_back: spec.burst,
            size: size.map(|bytes| Bytes(bytes.div_ceil(u64::from(spec.streams.max(1))))),
            bursts: None,
        };
        let mut source = DatagramSource::new(&plan, Draws::new(0, 0), Instant::ZERO);
        let mut bytes = vec![0; block];
        bytes[DATAGRAM_HEADER_BYTES..DATAGRAM_HEADER_BYTES + HEADER_BYTES].copy_from_slice(header);
        let mut number = 0i64;
        // The schedule is moved by this time, which grows when the sender is more than MAX_LATE behind it.
        let mut delayed = Duration::ZERO;
        while let Some(due) = source.next() {
            let due = due.since_origin().to_duration() + delayed;
            let now = begin.elapsed();
            if now >= time || stop.load(Ordering::Acquire) {
                break;
            }
            if due > now + MIN_SLEEP {
                std::thread::sleep((due - now - MIN_SLEEP / 2).min(STOP_CHECK_INTERVAL));
                continue;
            }
            if due > now {
                std::hint::spin_loop();
                continue;
            }
            delayed += (now - due).saturating_sub(MAX_LATE);
            let (_, payload) = source.take();
            let payload = (payload as usize).max(MIN_BLOCK as usize);
            number += 1;
            self.write(&mut bytes[..payload], number)?;
            self.sent_datagrams.fetch_add(1, Ordering::Relaxed);
            self.sent_bytes.fetch_add(payload as u64, Ordering::Relaxed);
        }
        self.set_ended(begin.elapsed().min(time));
        // The last datagram, which the server counts as well.
        self.sent_datagrams.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.finish(&mut bytes, number)
    }

    /// Sends a datagram; a full queue of this host is a loss.
    fn write(&self, bytes: &mut [u8], number: i64) -> Result<(), Error> {
        let header = DatagramHeader { number, sent_ns: now_ns() };
        bytes[..DATAGRAM_HEADER_BYTES].copy_from_slice(&header.encode());
        match self.socket.send(bytes) {
            Ok(_) => Ok(()),
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(error).attempted(|| format!("send on stream {}", self.id)).map_err(Error::from),
        }
    }

    /// Repeats the last datagram until the server replies. Without a reply the report stays unknown.
    fn finish(&self, bytes: &mut [u8], last: i64) -> Result<(), Error> {
        let deadline = std::time::Instant::now() + REPLY_TIMEOUT;
        let mut reply = vec![0; MAX_DATAGRAM];
        let mut number = last + 1;
        while std::time::Instant::now() < deadline {
            // The number of the last datagram with data, as a negative number, ends the test.
            self.write(bytes, -number)?;
            number += 1;
            let wait = std::time::Instant::now() + REPEAT_INTERVAL;
            while let Some(left) = wait.checked_duration_since(std::time::Instant::now()) {
                if !os::wait_readable(&self.socket, left).unwrap_or(false) {
                    break;
                }
                let Ok(length) = (&self.socket).read(&mut reply) else { break };
                if let Some(report) = reply.get(DATAGRAM_HEADER_BYTES..length).and_then(ServerReport::decode)
                {
                    *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Requests data from the server, and receives until its last datagram.
    fn receive(
        &self,
        spec: &TestSpec,
        header: &[u8],
        begin: std::time::Instant,
        stop: &AtomicBool,
        slack: Duration,
    ) -> Result<(), Error> {
        let mut hello =
            vec![0; usize::try_from(spec.block.0).unwrap_or(0).clamp(MIN_BLOCK as usize, MAX_DATAGRAM)];
        hello[DATAGRAM_HEADER_BYTES..DATAGRAM_HEADER_BYTES + HEADER_BYTES].copy_from_slice(header);
        let deadline = match spec.amount {
            report::Amount::Time(time) => time + slack,
            _ => Duration::MAX,
        };
        let mut bytes = vec![0; MAX_DATAGRAM];
        let mut next_hello = Duration::ZERO;
        let mut last = begin.elapsed();
        while !stop.load(Ordering::Acquire) {
            let now = begin.elapsed();
            let has_data = self.received.lock().unwrap_or_else(PoisonError::into_inner).received > 0;
            if !has_data && now >= next_hello {
                self.write(&mut hello, 1)?;
                next_hello = now + HELLO_INTERVAL;
            }
            let silence = now.saturating_sub(last);
            if (now >= deadline || silence >= slack) || (!has_data && silence >= REPLY_TIMEOUT) {
                // The last datagram may have been lost.
                if has_data && now >= deadline.saturating_sub(slack) {
                    self.complete(last);
                }
                return Ok(());
            }
            if !os::wait_readable(&self.socket, STOP_CHECK_INTERVAL).unwrap_or(false) {
                continue;
            }
            let length = match (&self.socket).read(&mut bytes) {
                Ok(length) => length,
                Err(error) if is_transient(&error) => continue,
                Err(error) => {
                    return Err(error)
                        .attempted(|| format!("receive on stream {}", self.id))
                        .map_err(Error::from);
                }
            };
            let Some(header) = DatagramHeader::decode(&bytes[..length], true) else { continue };
            let arrived = begin.elapsed();
            if header.number < 0 {
                self.complete(last);
                return Ok(());
            }
            last = arrived;
            let arrived_ns = i64::try_from(arrived.as_nanos()).unwrap_or(i64::MAX);
            let mut counters = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            counters.record((header.number - 1).max(0) as u64, length as u32, header.sent_ns, arrived_ns);
        }
        Ok(())
    }

    /// The server has sent everything.
    fn complete(&self, last: Duration) {
        self.set_ended(last);
        let counters = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let report = udp_totals::server_report(&counters, last);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
}

/// Errors that do not end a UDP test: a full queue, or an ICMP error to an earlier datagram.
fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}
