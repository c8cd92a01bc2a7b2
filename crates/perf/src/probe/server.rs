//! The receiving end of a probe session: one thread, which keeps when each packet came and tells it when a train is over.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use socket2::Socket;

use super::wire::{
    ARRIVAL_BYTES, Arrival, MOST_PACKETS, REPORT_BYTES, Report, SENT_BYTES, Sent, TURN, train_and_place,
};
use crate::{
    error::Attempted,
    iperf3::{Error, udp_stream},
    sys,
    udp::{
        Header, Numbers,
        sys::{Inbox, MOST_MESSAGES, Wait, realtime_ns, tell_arrivals, widen},
    },
};

/// How long nothing of a train may come before it is over, once it was sent: what the path's buffers hold, and a shaper delays.
const QUIET: Duration = Duration::from_millis(250);
/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(20);
/// A report that is not taken in this time ends the session.
const WRITING: Duration = Duration::from_secs(20);
/// The receive buffer asked for, bytes.
const BUFFER: i32 = 64 << 20;
/// Packets kept of all trains.
const MOST_KEPT: usize = MOST_PACKETS as usize * 2;
/// Trains that were sent and not yet reported.
const MOST_OPEN: usize = 4096;

/// Serves a client whose turn it is: `control` is its connection, `datagrams` waits for its UDP socket.
pub(crate) fn serve(
    mut control: TcpStream,
    datagrams: impl Fn(Duration) -> Option<Socket>,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let what = || "cannot prepare a probe's connection".to_string();
    control.set_nonblocking(false).attempted(what)?;
    control.set_nodelay(true).attempted(what)?;
    control.set_write_timeout(Some(WRITING)).attempted(what)?;
    control.write_all(&[TURN]).attempted(|| "cannot tell a client its turn".into())?;
    let begin = Instant::now();
    let socket = loop {
        if let Some(socket) = datagrams(NAP) {
            break socket;
        }
        if stop.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        if begin.elapsed() > patience {
            return Err(Error::Timeout { what: "UDP greeting of a probe", after: patience });
        }
    };
    socket.set_nonblocking(true).attempted(what)?;
    tell_arrivals(&socket).attempted(what)?;
    widen(&socket, BUFFER).attempted(what)?;
    control.set_nonblocking(true).attempted(what)?;
    Listener {
        control,
        socket,
        kept: BTreeMap::new(),
        count: 0,
        open: Vec::new(),
        dropped: (0, 0),
        asked: Vec::new(),
    }
    .run(stop)
}

struct Listener {
    control: TcpStream,
    socket: Socket,
    /// Arrivals by train.
    kept: BTreeMap<u32, Vec<Arrival>>,
    count: usize,
    /// Trains that were sent, in their order, and when we heard of them.
    open: Vec<(Sent, Instant)>,
    /// The socket's drops: seen, and reported.
    dropped: (u32, u32),
    /// The beginning of a message.
    asked: Vec<u8>,
}

impl Listener {
    fn run(mut self, stop: &AtomicBool) -> Result<(), Error> {
        let mut inbox = Inbox::new(MOST_MESSAGES, 64);
        let mut heard = Instant::now();
        while !stop.load(Ordering::Acquire) {
            let files = [self.control.as_fd(), self.socket.as_fd()];
            let ready =
                sys::wait_any(&files, NAP).attempted(|| "cannot wait for a probe's packets".into())?;
            if ready[1] {
                self.take(&mut inbox)?;
            } else {
                udp_stream::answer_again(&self.socket).attempted(|| "cannot answer a probe".into())?;
            }
            if ready[0] {
                heard = Instant::now();
                if !self.listen()? {
                    return Ok(());
                }
            }
            self.report()?;
            if heard.elapsed() > IDLE {
                return Err(Error::Timeout { what: "word of a probe", after: IDLE });
            }
        }
        Err(Error::Interrupted)
    }

    fn take(&mut self, inbox: &mut Inbox) -> Result<(), Error> {
        loop {
            let count = match inbox.receive(&self.socket, Wait::Never) {
                Ok(count) => count,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                    ) =>
                {
                    return Ok(());
                }
                Err(e) => return Err(e).attempted(|| "cannot receive a probe's packets".into())?,
            };
            for index in 0..count {
                let message = inbox.message(index);
                if let Some(dropped) = message.dropped {
                    self.dropped.0 = dropped;
                }
                let Some(header) = Header::read(Numbers::Bits64, message.bytes) else { continue };
                let at_ns = message.stamp_ns.unwrap_or_else(realtime_ns);
                let (train, place) = train_and_place(header.number);
                // What is kept is bounded; a client that sends more gets no report of it.
                if place < MOST_PACKETS && self.count < MOST_KEPT && self.kept.len() <= MOST_OPEN {
                    self.kept.entry(train).or_default().push(Arrival { place, at_ns });
                    self.count += 1;
                }
            }
            if count < inbox.room() {
                return Ok(());
            }
        }
    }

    /// Hears which trains were sent; false where the client is done.
    fn listen(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; 512];
        match self.control.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(n) => self.asked.extend(&bytes[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e).attempted(|| "cannot read from a probe".into())?,
        }
        while let Some((message, rest)) = self.asked.split_first_chunk::<SENT_BYTES>() {
            let sent = Sent::from_bytes(*message);
            self.asked = rest.to_vec();
            match sent {
                Some(sent) if self.open.len() < MOST_OPEN => self.open.push((sent, Instant::now())),
                _ => return Err(Error::Closed { expected: "a train of a probe" }),
            }
        }
        Ok(true)
    }

    /// Tells of the trains that are over, in their order.
    fn report(&mut self) -> Result<(), Error> {
        while let Some((sent, since)) = self.open.first().copied() {
            let arrivals = self.kept.get(&sent.train);
            let complete = arrivals.is_some_and(|arrivals| arrivals.len() >= sent.packets as usize);
            let last = arrivals.and_then(|arrivals| arrivals.last()).map_or(0, |arrival| arrival.at_ns);
            let quiet = since.elapsed() > QUIET && realtime_ns() - last > QUIET.as_nanos() as i64;
            if !complete && !quiet {
                return Ok(());
            }
            self.open.remove(0);
            let arrivals = self.kept.remove(&sent.train).unwrap_or_default();
            self.count -= arrivals.len();
            let dropped = self.dropped.0.wrapping_sub(self.dropped.1);
            self.dropped.1 = self.dropped.0;
            let report = Report { train: sent.train, received: arrivals.len() as u32, dropped };
            let mut bytes = Vec::with_capacity(REPORT_BYTES + arrivals.len() * ARRIVAL_BYTES);
            bytes.extend(report.to_bytes());
            for arrival in arrivals {
                bytes.extend(arrival.to_bytes());
            }
            self.write(&bytes)?;
            // Late packets of trains that are over help nobody.
            let over: Vec<u32> = self.kept.range(..sent.train).map(|(train, _)| *train).collect();
            for train in over {
                self.count -= self.kept.remove(&train).map_or(0, |arrivals| arrivals.len());
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let what = || "cannot report to a probe".to_string();
        self.control.set_nonblocking(false).attempted(what)?;
        self.control.write_all(bytes).attempted(what)?;
        Ok(self.control.set_nonblocking(true).attempted(what)?)
    }
}
