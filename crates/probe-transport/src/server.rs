//! The receiving end of a probe session: one thread, which records when each packet arrives and reports each
//! complete train.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use iperf3::{
    Error,
    service::{Service, ServiceClient, is_hello, reply_to_hello},
    wire::Cookie,
};
use os::realtime_ns;
use socket2::Socket;
use traffic::{
    Attempted, ancillary,
    path_mtu::forbid_fragments,
    sys,
    udp::{
        Header, MAX_MESSAGES, MessageBuffers, NumberWidth, WaitMode, enable_arrival_metadata,
        enable_hardware_stamps,
    },
};

use super::{
    ProbeSecret,
    wire::{
        ARRIVAL_BYTES, Arrival, ArrivalStamps, COOKIE_PREFIX, MAX_REPLY_BYTES, MAX_TRAIN_PACKETS,
        REPLY_BYTES, REPORT_BYTES, SENT_BYTES, TURN, TrainReport, TrainSent, reply_bytes, train_and_index,
        write_reply,
    },
};

/// A train is over if nothing arrives for this time after it was sent: the time for which a path's buffers
/// and shapers hold packets.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// A client that sends nothing for this time counts as disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum duration of a session, so that no client blocks the server's queue.
const MAX_SESSION: Duration = Duration::from_secs(2 * 3600);
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A report that cannot be written in this time ends the session.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The requested receive buffer, bytes.
const RECEIVE_BUFFER_BYTES: i32 = 64 << 20;
/// Maximum number of recorded packets of all trains.
const MAX_KEPT_PACKETS: usize = MAX_TRAIN_PACKETS as usize * 2;
/// Maximum number of trains that were sent and not yet reported.
const MAX_OPEN_TRAINS: usize = 4096;

/// The probe service for an iperf3 server's port.
#[derive(Debug, Clone, Default)]
pub struct ProbeService {
    /// The secret that clients must have; then a server with a token serves them too. `None`: a server
    /// without a token serves all clients.
    pub secret: Option<ProbeSecret>,
}

impl Service for ProbeService {
    fn name(&self) -> &str {
        "path probe"
    }

    fn accepts(&self, cookie: &Cookie) -> bool {
        let text = cookie.as_str().strip_prefix(COOKIE_PREFIX);
        text.is_some_and(|text| self.secret.as_ref().is_none_or(|secret| secret.is_in(text)))
    }

    fn authenticates_by_cookie(&self) -> bool {
        self.secret.is_some()
    }

    fn serve(&self, client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), Error> {
        serve(client, stop)
    }
}

fn serve(client: ServiceClient<'_>, stop: &AtomicBool) -> Result<(), Error> {
    let mut control = &client.control;
    let what = || "set up a probe's connection".to_string();
    control.set_nonblocking(false).attempted(what)?;
    control.set_nodelay(true).attempted(what)?;
    control.set_write_timeout(Some(WRITE_TIMEOUT)).attempted(what)?;
    control.write_all(&[TURN]).attempted(|| "notify a client of its turn".into())?;
    let socket = client.udp_hello().wait("UDP hello of a probe", stop)?;
    socket.set_nonblocking(true).attempted(what)?;
    enable_arrival_metadata(&socket).attempted(what)?;
    enable_hardware_stamps(&socket).attempted(what)?;
    // An IPv6 socket may be connected to an IPv4 address, and then has both options.
    let v6 = forbid_fragments(&socket, false);
    forbid_fragments(&socket, true).or(v6)?;
    sys::widen_receive_buffer(&socket, RECEIVE_BUFFER_BYTES).attempted(what)?;
    control.set_nonblocking(true).attempted(what)?;
    let mut reply = vec![0; MAX_REPLY_BYTES];
    os::fill_random(&mut reply).attempted(what)?;
    TrainReceiver {
        control: client.control,
        socket,
        arrivals: BTreeMap::new(),
        count: 0,
        open: Vec::new(),
        dropped: (0, 0),
        incomplete: Vec::new(),
        reply,
    }
    .run(stop)
}

/// A received packet.
#[derive(Debug, Clone, Copy)]
struct ReceivedPacket {
    index: u32,
    /// ns since 1970, by the kernel.
    at_ns: i64,
    /// ns by the network card.
    hardware_ns: Option<i64>,
}

/// The packets of a train that have arrived.
struct ArrivedTrain {
    packets: Vec<ReceivedPacket>,
    /// When the last of them was read.
    last: Instant,
}

struct TrainReceiver {
    control: TcpStream,
    socket: Socket,
    /// Arrivals by train.
    arrivals: BTreeMap<u32, ArrivedTrain>,
    count: usize,
    /// Trains that were sent, in their order, and when the client's message arrived.
    open: Vec<(TrainSent, Instant)>,
    /// The socket's drop counter: current value, and value at the last report.
    dropped: (u32, u32),
    /// The beginning of an incomplete message.
    incomplete: Vec<u8>,
    /// A reply: incompressible bytes.
    reply: Vec<u8>,
}

impl TrainReceiver {
    fn run(mut self, stop: &AtomicBool) -> Result<(), Error> {
        let mut buffers = MessageBuffers::new(MAX_MESSAGES, 64);
        let begin = Instant::now();
        let mut last_message = begin;
        while !stop.load(Ordering::Acquire) {
            let files = [self.control.as_fd(), self.socket.as_fd()];
            let ready = os::wait_any(&files, STOP_CHECK_INTERVAL)
                .attempted(|| "wait for a probe's packets".into())?;
            if ready[1] {
                self.receive_packets(&mut buffers)?;
            }
            if ready[0] {
                last_message = Instant::now();
                if !self.read_messages()? {
                    return Ok(());
                }
            }
            self.report_trains()?;
            if begin.elapsed() > MAX_SESSION {
                return Err(Error::Timeout { what: "end of a probe", after: MAX_SESSION });
            }
            if last_message.elapsed() > IDLE_TIMEOUT {
                return Err(Error::Timeout { what: "message of a probe", after: IDLE_TIMEOUT });
            }
        }
        Err(Error::Interrupted)
    }

    fn receive_packets(&mut self, buffers: &mut MessageBuffers) -> Result<(), Error> {
        loop {
            let count = match buffers.receive(&self.socket, WaitMode::Never) {
                Ok(count) => count,
                // Nothing has arrived, or an ICMP message reports that an earlier reply was rejected or too
                // large for the way back.
                Err(e) if is_about_reply(&e) => return Ok(()),
                Err(e) => return Err(e).attempted(|| "receive a probe's packets".into())?,
            };
            for index in 0..count {
                let message = buffers.message(index);
                if let Some(dropped) = message.dropped {
                    self.dropped.0 = dropped;
                }
                let Some(header) = Header::read(NumberWidth::Bits64, message.bytes) else {
                    // The client repeats its hello if the reply was lost.
                    if is_hello(message.bytes) {
                        reply_to_hello(&self.socket).attempted(|| "reply to a probe's hello".into())?;
                    }
                    continue;
                };
                let at_ns = message.stamp_ns.unwrap_or_else(realtime_ns);
                if let Some(bytes) = reply_bytes(header.number, message.length) {
                    reply(&self.socket, &mut self.reply[..bytes], header, at_ns)?;
                }
                let (train, index) = train_and_index(header.number);
                // The records are limited; packets beyond the limit are not reported.
                if index < MAX_TRAIN_PACKETS
                    && self.count < MAX_KEPT_PACKETS
                    && self.arrivals.len() <= MAX_OPEN_TRAINS
                {
                    let packet = ReceivedPacket { index, at_ns, hardware_ns: message.hardware_ns };
                    let now = Instant::now();
                    let arrived =
                        self.arrivals.entry(train).or_insert(ArrivedTrain { packets: Vec::new(), last: now });
                    arrived.packets.push(packet);
                    arrived.last = now;
                    self.count += 1;
                }
            }
            if count < buffers.capacity() {
                return Ok(());
            }
        }
    }

    /// Reads the client's messages about the trains that it has sent; false if it has closed the connection.
    fn read_messages(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; 512];
        match self.control.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(n) => self.incomplete.extend(&bytes[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e).attempted(|| "read from a probe".into())?,
        }
        while let Some((message, rest)) = self.incomplete.split_first_chunk::<SENT_BYTES>() {
            let sent = TrainSent::from_bytes(*message);
            self.incomplete = rest.to_vec();
            match sent {
                Some(sent) if self.open.len() < MAX_OPEN_TRAINS => self.open.push((sent, Instant::now())),
                _ => return Err(Error::Closed { expected: "a valid train of a probe" }),
            }
        }
        Ok(true)
    }

    /// Reports the trains that are over, in their order.
    fn report_trains(&mut self) -> Result<(), Error> {
        while let Some((sent, since)) = self.open.first().copied() {
            let arrivals = self.arrivals.get(&sent.train);
            let complete = arrivals.is_some_and(|train| train.packets.len() >= sent.packets as usize);
            let quiet = since.elapsed() > QUIET_TIME
                && arrivals.is_none_or(|train| train.last.elapsed() > QUIET_TIME);
            if !complete && !quiet {
                return Ok(());
            }
            self.open.remove(0);
            let arrivals = self.arrivals.remove(&sent.train).map_or(Vec::new(), |train| train.packets);
            self.count -= arrivals.len();
            let dropped = self.dropped.0.wrapping_sub(self.dropped.1);
            self.dropped.1 = self.dropped.0;
            let (stamps, arrivals) = arrivals_by_one_clock(&arrivals);
            let report = TrainReport { train: sent.train, received: arrivals.len() as u32, dropped, stamps };
            let mut bytes = Vec::with_capacity(REPORT_BYTES + arrivals.len() * ARRIVAL_BYTES);
            bytes.extend(report.to_bytes());
            for arrival in arrivals {
                bytes.extend(arrival.to_bytes());
            }
            self.write(&bytes)?;
            // Late packets of reported trains are discarded.
            let over: Vec<u32> = self.arrivals.range(..sent.train).map(|(train, _)| *train).collect();
            for train in over {
                self.count -= self.arrivals.remove(&train).map_or(0, |train| train.packets.len());
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let what = || "report to a probe".to_string();
        self.control.set_nonblocking(false).attempted(what)?;
        self.control.write_all(bytes).attempted(what)?;
        Ok(self.control.set_nonblocking(true).attempted(what)?)
    }
}

/// The arrivals of a train by the network card's clock if it has stamped all of them, else by the kernel's.
fn arrivals_by_one_clock(packets: &[ReceivedPacket]) -> (ArrivalStamps, Vec<Arrival>) {
    let by_card = packets.iter().map(|one| Some(Arrival { index: one.index, at_ns: one.hardware_ns? }));
    match by_card.collect::<Option<Vec<Arrival>>>().filter(|arrivals| !arrivals.is_empty()) {
        Some(arrivals) => (ArrivalStamps::Hardware, arrivals),
        None => {
            let by_kernel = packets.iter().map(|one| Arrival { index: one.index, at_ns: one.at_ns });
            (ArrivalStamps::Software, by_kernel.collect())
        }
    }
}

/// Replies to a request. A reply that cannot be sent now is lost: a server does not wait for its client.
fn reply(socket: &Socket, reply: &mut [u8], header: Header, arrived_ns: i64) -> Result<(), Error> {
    let Some(beginning) = reply.first_chunk_mut::<REPLY_BYTES>() else { return Ok(()) };
    let held_ns = u64::try_from(realtime_ns().saturating_sub(arrived_ns)).unwrap_or(0);
    write_reply(beginning, header, held_ns);
    match socket.send(reply) {
        Ok(_) => Ok(()),
        Err(e) if is_about_reply(&e) => Ok(()),
        Err(e) => Err(e).attempted(|| "reply to a probe".into())?,
    }
}

/// Whether the socket is still usable: the error concerns one reply, this one or an earlier one.
fn is_about_reply(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE) || ancillary::is_transient(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_of_a_train_are_by_one_clock() {
        let packet =
            |index, hardware_ns| ReceivedPacket { index, at_ns: 100 + i64::from(index), hardware_ns };
        let (stamps, arrivals) = arrivals_by_one_clock(&[packet(0, Some(7)), packet(1, Some(9))]);
        assert_eq!((stamps, arrivals[1]), (ArrivalStamps::Hardware, Arrival { index: 1, at_ns: 9 }));
        let (stamps, arrivals) = arrivals_by_one_clock(&[packet(0, Some(7)), packet(1, None)]);
        assert_eq!((stamps, arrivals[0]), (ArrivalStamps::Software, Arrival { index: 0, at_ns: 100 }));
        assert_eq!(arrivals_by_one_clock(&[]).0, ArrivalStamps::Software);
    }

    #[test]
    fn a_reply_that_a_router_rejects_does_not_end_the_session() {
        let concerns_reply = |errno| is_about_reply(&std::io::Error::from_raw_os_error(errno));
        let errors = [libc::EMSGSIZE, libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::EAGAIN, libc::EBADF];
        assert_eq!(errors.map(concerns_reply), [true, true, true, true, false]);
    }
}
