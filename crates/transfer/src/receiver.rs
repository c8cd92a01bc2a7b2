//! Receives files into a directory.
//!
//! Each sender has a thread. A sender that has not proved the token can only occupy its thread, for ten
//! seconds and the time of an error report, and only a few such senders of one address are served. Files are
//! written and ports are opened after the proof.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use bulk::{
    tsunami::wire::{self, Parameters},
    udt::{self, Daimd},
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use iperf3::Token;
use quic::{Identity, QuicListener, QuicOptions};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::BitRate;

use crate::{
    EndEvidence, Error, FileReport, Observer, Session, Transport, UdtListener,
    control::{CHECK_INTERVAL, Control, HANDSHAKE_TIMEOUT, control_check},
    data_stream::{DataStream, SabulStream, datagram_mss, quic_congestion, read_exact, with_port},
    error::failed,
    evidence::{Meter, Task},
    message::{CHALLENGE_BYTES, KEY_BYTES, Message, PROTOCOL},
    name,
    partial_file::{Order, PartialFile},
    proof::{CONFIRMATION_BYTES, confirm_file, prove_token},
    sampler::{Sampled, Sampler, SharedCounts},
    tcp_streams::{MAX_STREAMS, Numbering, StreamsListener},
    tsunami::{self, Receiving},
    wait::while_serving,
};

/// Time for which a session that has ended continues to read, so that the peer receives its last messages.
const LINGER: Duration = Duration::from_secs(3);
/// Maximum number of senders that have not yet proved their token, in total and from one address.
const MAX_GREETING: usize = 256;
const MAX_GREETING_PER_ADDRESS: usize = 16;
/// Interval at which a stream is served while the writer's queue is full.
const FULL_WRITER_PAUSE: Duration = Duration::from_millis(1);
/// Maximum size of a read, bytes.
const READ_BYTES: usize = 256 << 10;

/// The options of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Directory in which files are stored.
    pub directory: PathBuf,
    /// The secret that senders must know; without one every host may send.
    pub token: Option<Token>,
    /// Maximum number of simultaneous senders; others are refused.
    pub max_senders: usize,
}

/// A listening receiver.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    options: ReceiverOptions,
}

impl Receiver {
    /// Listens.
    ///
    /// # Errors
    /// If the address is in use, or the directory does not exist.
    pub fn bind(options: ReceiverOptions) -> Result<Self, Error> {
        let what = || format!("receive into {}", options.directory.display());
        let metadata = options.directory.metadata().map_err(failed(what()))?;
        if !metadata.is_dir() {
            return Err(Error::Input(format!("{} is not a directory", options.directory.display())));
        }
        let listen = || {
            let socket = Socket::new(Domain::for_address(options.listen), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if options.listen.is_ipv6() {
                socket.set_only_v6(false)?;
            }
            socket.bind(&SockAddr::from(options.listen))?;
            socket.listen(128)?;
            socket.set_nonblocking(true)?;
            Ok(TcpListener::from(socket))
        };
        let listener = listen().map_err(failed(format!("listen at {}", options.listen)))?;
        Ok(Receiver { listener, options })
    }

    /// The address.
    ///
    /// # Errors
    /// The errors of getsockname(2).
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(failed("get a socket's address"))
    }

    /// Serves senders until `stop`, or until `is_done` is true while no sender is served.
    ///
    /// # Errors
    /// If the listening socket fails.
    pub fn run(
        &self,
        observer: &dyn Observer,
        stop: &AtomicBool,
        is_done: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let slots = SenderSlots::default();
        thread::scope(|scope| {
            loop {
                let is_over = is_done() && slots.active() == 0;
                if is_over || stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                match os::wait_readable(&self.listener, CHECK_INTERVAL) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed("wait for senders")(error)),
                }
                let (stream, peer) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(error) => {
                        // Descriptors may be exhausted; sessions free theirs when they end.
                        observer.note(&format!("cannot accept a sender: {error}"));
                        thread::sleep(CHECK_INTERVAL);
                        continue;
                    }
                };
                let Some(greeting) = slots.greet(peer.ip().to_canonical()) else { continue };
                let (options, slots) = (&self.options, &slots);
                let session = move || {
                    let result = serve(stream, options, slots, greeting, observer, stop);
                    observer.session(peer, result.as_ref().err());
                };
                if thread::Builder::new().name("sender".into()).spawn_scoped(scope, session).is_err() {
                    observer.note("cannot start a thread for a sender");
                }
            }
        })
    }
}

/// The senders that are being served.
#[derive(Debug, Default)]
struct SenderSlots {
    greeting: Mutex<BTreeMap<IpAddr, usize>>,
    senders: AtomicUsize,
}

/// The slot of a sender that has not yet proved its token.
struct Greeting<'a> {
    slots: &'a SenderSlots,
    address: IpAddr,
}

/// The slot of a sender.
struct SenderSlot<'a>(&'a SenderSlots);

impl SenderSlots {
    fn greet(&self, address: IpAddr) -> Option<Greeting<'_>> {
        let mut greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = greeting.values().sum();
        let address_count = greeting.get(&address).copied().unwrap_or(0);
        if all >= MAX_GREETING || address_count >= MAX_GREETING_PER_ADDRESS {
            return None;
        }
        greeting.insert(address, address_count + 1);
        Some(Greeting { slots: self, address })
    }

    fn enter(&self, max: usize) -> Option<SenderSlot<'_>> {
        let entered = self
            .senders
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| (count < max).then_some(count + 1));
        entered.ok().map(|_| SenderSlot(self))
    }

    fn active(&self) -> usize {
        let greeting: usize = self.greeting.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        greeting + self.senders.load(Ordering::Acquire)
    }
}

impl Drop for Greeting<'_> {
    fn drop(&mut self) {
        let mut greeting = self.slots.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = greeting.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                greeting.remove(&self.address);
            }
        }
    }
}

impl Drop for SenderSlot<'_> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(
    stream: TcpStream,
    options: &ReceiverOptions,
    slots: &SenderSlots,
    greeting: Greeting<'_>,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut control = Control::new(stream, stop)?;
    // Kept during the report of a failure, so that the limits of threads include it.
    let mut greeting = Some(greeting);
    let result = session(&mut control, options, slots, &mut greeting, observer);
    match &result {
        Ok(()) => control.finish(LINGER),
        Err(error) => control.report(error, LINGER),
    }
    result
}

/// The request of a sender.
struct Agreement {
    directory: PathBuf,
    transport: Transport,
    mss: u32,
    rate_bps: u64,
    challenges: [String; 2],
    /// The sender's certificate.
    certificate: Option<Vec<u8>>,
    /// Number of TCP connections for the data.
    streams: Option<u16>,
    numbering: Numbering,
    /// The sender measures too.
    measures: bool,
    requested_rate: Option<BitRate>,
    key: String,
}

/// The data connection of this end.
type Data = crate::data::Data<Receiving>;

fn session(
    control: &mut Control<'_>,
    options: &ReceiverOptions,
    slots: &SenderSlots,
    greeting: &mut Option<Greeting<'_>>,
    observer: &dyn Observer,
) -> Result<(), Error> {
    let agreement = agree(control, options)?;
    let slot = slots.enter(options.max_senders);
    let _slot = slot.ok_or_else(|| Error::Input("the receiver is busy with other senders".into()))?;
    *greeting = None;
    let mut data = open_data(control, &agreement, options.token.as_ref())?;
    thread::scope(|scope| {
        let (meter, counts) = (Meter::new(), SharedCounts::default());
        let (session, sampled) = measured_session(control, &mut data, &agreement, &counts)?;
        let sampler = Sampler::start(scope, session, sampled, Arc::clone(&meter), observer)?;
        let _working = meter.begin(Task::Transport);
        let received = receive_files(control, &mut data, &agreement, observer, (&meter, &counts));
        let (session, own) = sampler.finish();
        let result = received.and_then(|sender| {
            if agreement.measures {
                own.messages().iter().try_for_each(|message| control.send(message))?;
            }
            Ok(sender)
        });
        let (sender, error) = match &result {
            Ok(sender) => (sender.clone(), None),
            Err(error) => (None, Some(error)),
        };
        observer.measured(&session, own, sender, error);
        result.map(drop)
    })
}

/// The session whose data connection is open, and its connections to be sampled.
fn measured_session(
    control: &Control<'_>,
    data: &mut Data,
    agreement: &Agreement,
    counts: &SharedCounts,
) -> Result<(Session, Sampled), Error> {
    let sampled = data.sampled(control, counts)?;
    let session = Session {
        is_sender: false,
        transport: agreement.transport,
        streams: agreement.streams.unwrap_or(1),
        local: control.stream().local_addr().map_err(failed("get a socket's address"))?,
        peer: control.peer()?,
        started: SystemTime::now(),
        rate: agreement.requested_rate,
        congestion: None,
        mss: agreement.mss,
    };
    Ok((session, sampled))
}

/// Receives files until the end of the list. Returns the measurements of the sender.
fn receive_files(
    control: &mut Control<'_>,
    data: &mut Data,
    agreement: &Agreement,
    observer: &dyn Observer,
    measuring: (&Arc<Meter>, &SharedCounts),
) -> Result<Option<EndEvidence>, Error> {
    let mut sender = None;
    loop {
        // A hostile sender can send evidence without a pause.
        control.check_stop()?;
        match data.receive(control, "next file")? {
            file @ Message::File { .. } => {
                receive_file(control, data, agreement, file, observer, measuring)?;
            }
            Message::Evidence { samples, activity, .. } => {
                sender.get_or_insert_with(EndEvidence::default).add(samples, activity);
            }
            Message::End => return Ok(sender),
            _ => return Err(Error::Protocol("a file or the end of the list was expected".into())),
        }
    }
}

fn agree(control: &mut Control<'_>, options: &ReceiverOptions) -> Result<Agreement, Error> {
    let ours = os::random_hex(CHALLENGE_BYTES).map_err(failed("get random bytes"))?;
    let key = os::random_hex(KEY_BYTES).map_err(failed("get random bytes"))?;
    control.send(&Message::Hello {
        protocol: PROTOCOL.into(),
        challenge: ours.clone(),
        needs_token: options.token.is_some(),
    })?;
    let start = control.receive("first message", HANDSHAKE_TIMEOUT)?;
    let Message::Start {
        protocol,
        challenge,
        proof,
        directory,
        transport,
        mss,
        rate_bps,
        certificate,
        streams,
        numbers_streams,
        evidence,
        requested_bps,
    } = start
    else {
        return Err(Error::Protocol("the first message was expected".into()));
    };
    if protocol != PROTOCOL {
        return Err(Error::Protocol("its version of the protocol is not supported".into()));
    }
    let agreed: Vec<&str> = match &certificate {
        Some(certificate) => vec![&directory, certificate],
        None => Vec::new(),
    };
    let expected = prove_token(options.token.as_ref(), "sender", [&ours, &challenge], &agreed);
    if let Some(expected) = expected {
        let proof = proof.unwrap_or_default();
        // Constant-time comparison.
        let difference = proof.bytes().zip(expected.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        if proof.len() != expected.len() || difference != 0 {
            return Err(Error::Token("the sender has a different token"));
        }
    }
    // The proof includes the certificate, so an attacker cannot replace QUIC by a transport without
    // encryption.
    if certificate.is_some() != (transport == Transport::Quic) {
        return Err(Error::Protocol("QUIC requires a certificate, and no other transport has one".into()));
    }
    let directory = name::join(&options.directory, &directory)?;
    let certificate = certificate.and_then(|digits| HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok());
    let streams = streams.map(|streams| streams.clamp(1, MAX_STREAMS));
    Ok(Agreement {
        directory,
        transport,
        mss,
        rate_bps,
        challenges: [ours, challenge],
        certificate,
        streams,
        numbering: Numbering::of(numbers_streams),
        measures: evidence,
        requested_rate: requested_bps.filter(|bps| *bps > 0).map(BitRate),
        key,
    })
}

/// Opens the port for the data, reports it, and waits for the data connection.
fn open_data(control: &mut Control<'_>, agreement: &Agreement, token: Option<&Token>) -> Result<Data, Error> {
    let local = control.stream().local_addr().map_err(failed("get a socket's address"))?;
    let local = with_port(local, 0);
    let peer = control.peer()?;
    let is_peer = |from: SocketAddr| from.ip().to_canonical() == peer.ip().to_canonical();
    let [ours, theirs] = &agreement.challenges;
    let prove = |agreed: &[&str]| prove_token(token, "receiver", [ours, theirs], agreed);
    let evidence = agreement.measures;
    let ready = |port| Message::Ready {
        proof: prove(&[]),
        key: agreement.key.clone(),
        port,
        certificate: None,
        numbers_streams: agreement.numbering.is_sent(),
        evidence,
    };
    match agreement.transport {
        Transport::Tcp => match agreement.streams {
            None => {
                control.send(&ready(None))?;
                Ok(Data::Tcp)
            }
            Some(count) => {
                let listener = StreamsListener::bind(local)?;
                control.send(&ready(Some(listener.port()?)))?;
                let begins = (agreement.key.as_bytes(), agreement.numbering);
                let streams = listener.accept(count, begins, is_peer, control)?;
                Ok(Data::TcpStreams(streams))
            }
        },
        Transport::Udt | Transport::Sabul => {
            let mss = datagram_mss(agreement.mss, peer);
            let config = udt::Config { mss, ..udt::Config::default() };
            let listener = UdtListener::bind(local, config)?;
            control.send(&ready(Some(listener.port()?)))?;
            let rate = Box::new(Daimd::new(1));
            let stream = listener.accept(HANDSHAKE_TIMEOUT, is_peer, rate, &mut control_check(control))?;
            let mut stream: Box<dyn DataStream> = match agreement.transport {
                Transport::Sabul => Box::new(SabulStream(stream)),
                _ => Box::new(stream),
            };
            let mut key = vec![0; agreement.key.len()];
            read_exact(stream.as_mut(), &mut key, control)?;
            if key != agreement.key.as_bytes() {
                return Err(Error::Protocol("a UDT connection without the session's key".into()));
            }
            Ok(Data::Stream(stream))
        }
        Transport::Quic => {
            let identity = Identity::generate()?;
            let certificate = HEXLOWER.encode(identity.certificate());
            let Some(theirs) = &agreement.certificate else {
                return Err(Error::Protocol("the sender's certificate is invalid".into()));
            };
            let listener = QuicListener::bind(
                local,
                QuicOptions {
                    identity,
                    peer_certificate: Some(theirs.clone()),
                    protocol: PROTOCOL.as_bytes().to_vec(),
                    packet_bytes: agreement
                        .mss
                        .clamp(*QuicOptions::PACKET_BYTES.start(), *QuicOptions::PACKET_BYTES.end()),
                    congestion: quic_congestion(None)?,
                    rate: None,
                },
            )?;
            control.send(&Message::Ready {
                proof: prove(&[&certificate]),
                key: agreement.key.clone(),
                port: Some(listener.port()?),
                certificate: Some(certificate),
                numbers_streams: false,
                evidence,
            })?;
            let stream = listener.accept(HANDSHAKE_TIMEOUT, is_peer, &mut control_check(control))?;
            Ok(Data::Stream(Box::new(stream)))
        }
        Transport::Tsunami => {
            let (socket, port) = tsunami::socket(local)?;
            let headers = (udt::wire::IP_UDP_BYTES + wire::HEADER_BYTES) as u32;
            let parameters = Parameters {
                block_bytes: datagram_mss(agreement.mss, peer) - headers,
                target_bps: u32::try_from(agreement.rate_bps.max(1)).unwrap_or(u32::MAX),
                ..Parameters::default()
            };
            control.send(&ready(Some(port)))?;
            Ok(Data::Tsunami(Receiving::new(socket, port, peer.ip(), parameters)))
        }
    }
}

fn receive_file(
    control: &mut Control<'_>,
    data: &mut Data,
    agreement: &Agreement,
    file: Message,
    observer: &dyn Observer,
    (meter, counts): (&Arc<Meter>, &SharedCounts),
) -> Result<(), Error> {
    let Message::File { name, bytes, mode, modified_ns } = &file else {
        return Err(Error::Protocol("a file was expected".into()));
    };
    let bytes = *bytes;
    let began = Instant::now();
    let path = name::join(&agreement.directory, name)?;
    if path == agreement.directory {
        return Err(Error::Name(name.clone()));
    }
    let partial = meter.wait_for_file(|| {
        while_serving(control, data.stream(), |is_cancelled| PartialFile::open(path, bytes, is_cancelled))
    })?;
    let (stored, hash) = partial.stored_part();
    control.send(&Message::Resume { bytes: stored, hash })?;
    let Message::Begin { from } = data.receive(control, "beginning of the data")? else {
        return Err(Error::Protocol("the beginning of the data was expected".into()));
    };
    let order = match data {
        Data::Tsunami(..) | Data::TcpStreams(_) => Order::AnyOrder,
        Data::Tcp | Data::Stream(_) => Order::InOrder,
    };
    let mut writer = partial.start(from, order, meter)?;
    observer.begin(name, bytes, from);
    let mut at = from;
    if let Data::Tsunami(receiving) = data {
        receiving.discard_old()?;
        let range = (from, bytes);
        let key = agreement.key.as_bytes();
        receiving.receive(control, key, range, &mut writer, counts, |at| observer.progress(at))?;
    } else if let Data::TcpStreams(streams) = data {
        streams.receive(control, (from, bytes), &mut writer, |at| observer.progress(at))?;
    } else {
        while at < bytes {
            let mut piece = writer.buffer(READ_BYTES.min(usize::try_from(bytes - at).unwrap_or(usize::MAX)));
            match data {
                Data::Stream(stream) => read_exact(stream.as_mut(), &mut piece, control)?,
                _ => {
                    let mut filled = 0;
                    while filled < piece.len() {
                        filled += control.read_raw(&mut piece[filled..])?;
                    }
                }
            }
            let offset = at;
            at += piece.len() as u64;
            if let Data::Stream(stream) = data {
                // The writer would wait without serving the stream.
                meter.wait_for_file(|| {
                    while writer.is_full() {
                        control.check_at_intervals()?;
                        stream.serve(Duration::ZERO, control)?;
                        thread::sleep(FULL_WRITER_PAUSE);
                    }
                    Ok::<_, Error>(())
                })?;
            }
            writer.write(offset, piece)?;
            observer.progress(at);
        }
    }
    let Message::Sent { hash: sent } = data.receive(control, "hash of the file")? else {
        return Err(Error::Protocol("the hash of the file was expected".into()));
    };
    let confirmation = match data {
        Data::Stream(stream) if stream.is_authenticated() => {
            let mut confirmation = [0; CONFIRMATION_BYTES];
            read_exact(stream.as_mut(), &mut confirmation, control)?;
            if confirmation != confirm_file(&file, &sent)? {
                return Err(Error::Protocol("the sender does not confirm the announced file".into()));
            }
            Some(confirmation)
        }
        _ => None,
    };
    let received = while_serving(control, data.stream(), |is_cancelled| {
        let (received, whole) = writer.finish(bytes, is_cancelled)?;
        if received != sent {
            let sent = sent.chars().take(64).collect();
            let error = Error::Hash { name: whole.path().display().to_string(), sent, received };
            whole.discard()?;
            return Err(error);
        }
        meter.wait_for_file(|| whole.commit(*mode, *modified_ns))?;
        Ok(received)
    })?;
    control.send(&Message::Stored)?;
    if let (Data::Stream(stream), Some(confirmation)) = (data, confirmation) {
        stream.write_all(&confirmation, control)?;
    }
    observer.end(&FileReport::new(name, bytes, from, began.elapsed(), received));
    Ok(())
}
