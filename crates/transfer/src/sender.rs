//! Sends files to a receiver: connects, agrees with it on the session, sends the files one after the other,
//! and exchanges the measurements.

mod file_list;
mod send_file;

use std::{
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread::{self, Scope},
    time::{Duration, SystemTime},
};

use bulk::{
    tsunami::wire,
    udt::{self, RateChoice},
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use iperf3::Token;
use quic::{Identity, QuicOptions, QuicStream};
use socket2::{SockRef, Socket};
use traffic::sys::set_max_pacing_rate;
use units::BitRate;

use crate::{
    EndEvidence, Error, FileReport, Observer, Session, Transport, UdtStream,
    control::{Control, Frame, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, control_check},
    data_stream::{
        DEFAULT_QUIC_CONGESTION, DataStream, MSS_RANGE, SabulStream, datagram_mss, quic_congestion, with_port,
    },
    error::failed,
    evidence::{MAX_MESSAGES, Meter, Task},
    message::{CHALLENGE_BYTES, Message, PROTOCOL},
    proof::prove_token,
    sampler::{Sampled, Sampler, SharedCounts},
    tcp_streams::{MAX_STREAMS, Numbering, TcpStreams},
    tsunami,
    udt_stream::random_id,
};
use file_list::{Entry, list_files};
use send_file::send_file;

/// The receiver, and how to send to it.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The receiver.
    pub receiver: SocketAddr,
    /// Other addresses of the receiver, tried in this order if the first accepts no connection.
    pub other_addresses: Vec<SocketAddr>,
    /// The directory for the files, relative to the receiver's directory.
    pub directory: String,
    /// The transport of the data.
    pub transport: Transport,
    /// The control of the sending rate.
    pub rate: RateChoice,
    /// Largest packet of UDT, SABUL, Tsunami and QUIC with IP and UDP headers, bytes.
    pub mss: u32,
    /// Number of TCP connections for the data; 1: the control connection.
    pub streams: u16,
    /// The congestion control: this kernel's for TCP, longfat's or a C file for QUIC.
    pub congestion: Option<String>,
    /// The secret that the receiver requires.
    pub token: Option<Token>,
    /// Timeout of the attempt to connect.
    pub connect_timeout: Duration,
}

/// The largest rate that Tsunami's parameters can carry.
const MAX_TSUNAMI_BPS: u64 = u32::MAX as u64;

/// Sends files, and all files in directories, in this order. Returns when the receiver has stored them.
///
/// # Errors
/// If any step fails; the part of the current file that has arrived stays at the receiver for the next
/// attempt.
pub fn send(
    files: &[PathBuf],
    options: &SenderOptions,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Vec<FileReport>, Error> {
    check(options)?;
    let files = list_files(files, observer)?;
    let stream = connect(options)?;
    if options.transport == Transport::Tcp && options.streams == 1 {
        set_up_tcp(&stream, options)?;
    }
    let mut control = Control::new(stream, stop)?;
    let result = thread::scope(|scope| run(&mut control, &files, options, observer, scope));
    if let Err(error) = &result {
        control.report(error, Duration::ZERO);
    }
    result
}

/// Connects to the first address that accepts the connection. If none does, the error is that of the first.
fn connect(options: &SenderOptions) -> Result<TcpStream, Error> {
    let connect = |to: &SocketAddr| {
        TcpStream::connect_timeout(to, options.connect_timeout).map_err(failed(format!("connect to {to}")))
    };
    connect(&options.receiver)
        .or_else(|error| options.other_addresses.iter().find_map(|to| connect(to).ok()).ok_or(error))
}

fn check(options: &SenderOptions) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::Input(text.to_string()));
    match (options.transport, options.rate) {
        _ if !MSS_RANGE.contains(&options.mss) => invalid("the packet size must be 76 to 9000 bytes"),
        (_, RateChoice::Fixed(BitRate(0..=999))) => invalid("the rate must be at least 1 kbit/s"),
        (Transport::Tsunami, RateChoice::Fixed(BitRate(rate))) if rate > MAX_TSUNAMI_BPS => {
            invalid("Tsunami's rate is at most 4.29 Gbit/s")
        }
        _ if !(1..=MAX_STREAMS).contains(&options.streams) => {
            invalid("the number of streams must be 1 to 64")
        }
        (transport, _) if transport != Transport::Tcp && options.streams > 1 => {
            invalid("only TCP has several streams")
        }
        (Transport::Quic, _) if !QuicOptions::PACKET_BYTES.contains(&options.mss) => {
            invalid("the packet size of QUIC must be 1248 to 9000 bytes")
        }
        (transport, RateChoice::Tolerant(_)) if transport != Transport::Udt => {
            invalid("only UDT has a loss tolerance")
        }
        (transport, RateChoice::Sabul) if !matches!(transport, Transport::Udt | Transport::Sabul) => {
            invalid("only UDT and SABUL have SABUL's control")
        }
        (Transport::Udt | Transport::Tsunami | Transport::Sabul, _) if options.congestion.is_some() => {
            invalid("only TCP and QUIC have a choice of congestion controls")
        }
        (Transport::Quic, _) => quic_congestion(options.congestion.as_deref()).map(|_| ()),
        _ => Ok(()),
    }
}

/// Sets the rate limit and the congestion control of a TCP connection.
fn set_up_tcp(stream: &TcpStream, options: &SenderOptions) -> Result<(), Error> {
    let socket = SockRef::from(stream);
    if let RateChoice::Fixed(rate) = options.rate {
        let socket: Socket = stream.try_clone().map_err(failed("duplicate a descriptor"))?.into();
        // The connections share the rate.
        let rate = rate.0 / 8 / u64::from(options.streams);
        set_max_pacing_rate(&socket, rate).map_err(failed("set the pacing rate"))?;
    }
    if let Some(name) = &options.congestion {
        let what = failed(format!("use congestion control {name:?} of this kernel"));
        socket.set_tcp_congestion(name.as_bytes()).map_err(what)?;
    }
    Ok(())
}

/// This end of Tsunami.
struct TsunamiSender {
    socket: Socket,
    /// The session's key.
    key: String,
}

/// The data connection of this end.
type Data = crate::data::Data<TsunamiSender>;

fn run<'scope, 'env>(
    control: &mut Control<'_>,
    files: &[Entry],
    options: &SenderOptions,
    observer: &'env dyn Observer,
    scope: &'scope Scope<'scope, 'env>,
) -> Result<Vec<FileReport>, Error> {
    let identity = match options.transport {
        Transport::Quic => Some(Identity::generate()?),
        _ => None,
    };
    let agreement = agree(control, options, identity.as_ref())?;
    let peer = control.peer()?;
    let Agreement { key, port, certificate, numbering, measures } = agreement;
    let mut data = match (options.transport, port) {
        (Transport::Tcp, None) if options.streams == 1 => Data::Tcp,
        (Transport::Tcp, Some(port)) => {
            let peer = with_port(peer, port);
            let set_up = |stream: &TcpStream| set_up_tcp(stream, options);
            let begins = (key.as_bytes(), numbering);
            Data::TcpStreams(TcpStreams::connect(peer, options.streams, begins, control, set_up)?)
        }
        (Transport::Udt | Transport::Sabul, Some(port)) => {
            Data::Stream(connect_udt(control, peer, port, &key, options)?)
        }
        (Transport::Quic, Some(port)) => {
            let (Some(identity), Some(theirs)) = (identity, certificate) else {
                return Err(Error::Protocol("the receiver's certificate is missing or invalid".into()));
            };
            let quic_options = QuicOptions {
                identity,
                peer_certificate: Some(theirs),
                protocol: PROTOCOL.as_bytes().to_vec(),
                packet_bytes: options.mss,
                congestion: quic_congestion(options.congestion.as_deref())?,
                rate: match options.rate {
                    RateChoice::Fixed(rate) => Some(rate),
                    _ => None,
                },
            };
            let peer = with_port(peer, port);
            let check = &mut control_check(control);
            Data::Stream(Box::new(QuicStream::connect(peer, &quic_options, HANDSHAKE_TIMEOUT, check)?))
        }
        (Transport::Tsunami, Some(_)) => {
            let local = control.stream().local_addr().map_err(failed("get a socket's address"))?;
            let (socket, _) = tsunami::socket(with_port(local, 0))?;
            Data::Tsunami(TsunamiSender { socket, key })
        }
        (_, None) => return Err(Error::Protocol("no port for the data".into())),
    };
    let (meter, counts) = (Meter::new(), SharedCounts::default());
    let (session, sampled) = measured_session(control, &mut data, options, &counts)?;
    let sampler = Sampler::start(scope, session, sampled, Arc::clone(&meter), observer)?;
    let _working = meter.begin(Task::Transport);
    let mut receiver = None;
    let sent = send_files(control, &mut data, files, observer, &meter, &counts);
    let (session, own) = sampler.finish();
    let result = sent.and_then(|reports| {
        if measures {
            own.messages().iter().try_for_each(|message| control.send(message))?;
        }
        control.send(&Message::End)?;
        if let Data::Stream(stream) = data {
            stream.close(control)?;
        }
        if measures {
            receiver = Some(receive_evidence(control, observer).unwrap_or_default());
        }
        Ok(reports)
    });
    observer.measured(&session, own, receiver, result.as_ref().err());
    result
}

fn send_files(
    control: &mut Control<'_>,
    data: &mut Data,
    files: &[Entry],
    observer: &dyn Observer,
    meter: &Arc<Meter>,
    counts: &SharedCounts,
) -> Result<Vec<FileReport>, Error> {
    let peer = control.peer()?;
    files.iter().map(|entry| send_file(control, data, entry, peer, observer, (meter, counts))).collect()
}

/// The session whose data connection is open, and its connections to be sampled.
fn measured_session(
    control: &Control<'_>,
    data: &mut Data,
    options: &SenderOptions,
    counts: &SharedCounts,
) -> Result<(Session, Sampled), Error> {
    let sampled = data.sampled(control, counts)?;
    let congestion = match data {
        Data::Tcp => congestion_of(control.stream()),
        Data::TcpStreams(streams) => streams.connections().first().and_then(congestion_of),
        Data::Stream(_) if options.transport == Transport::Quic => {
            Some(options.congestion.clone().unwrap_or(DEFAULT_QUIC_CONGESTION.into()))
        }
        Data::Stream(_) | Data::Tsunami(_) => None,
    };
    let session = Session {
        is_sender: true,
        transport: options.transport,
        streams: options.streams,
        local: control.stream().local_addr().map_err(failed("get a socket's address"))?,
        peer: control.peer()?,
        started: SystemTime::now(),
        rate: requested_rate(options),
        congestion,
        mss: options.mss,
    };
    Ok((session, sampled))
}

/// The measurements of the receiver. The files are already stored: an error does not make the transfer fail.
fn receive_evidence(control: &mut Control<'_>, observer: &dyn Observer) -> Option<EndEvidence> {
    let mut evidence = EndEvidence::default();
    let mut receive = || {
        // A hostile peer can send messages without end.
        for _ in 0..MAX_MESSAGES {
            // The receiver reads this end's evidence first, and the path back can be much slower than that of
            // the files.
            match control.receive_slowly("evidence", IDLE_TIMEOUT)? {
                Frame::Message(Message::Evidence { samples, activity, is_last }) => {
                    evidence.add(samples, activity);
                    if is_last {
                        return Ok(());
                    }
                }
                // A late report of SABUL's connection, which is closed.
                Frame::Report(_) => {}
                _ => return Err(Error::Protocol("the receiver's evidence was expected".into())),
            }
        }
        Err(Error::Protocol(format!("its evidence has more than {MAX_MESSAGES} messages")))
    };
    match receive() {
        Ok(()) => Some(evidence),
        Err(error) => {
            observer.note(&format!("the receiver's part of the evidence is missing: {error}"));
            None
        }
    }
}

/// The requested rate; Tsunami has a default one.
fn requested_rate(options: &SenderOptions) -> Option<BitRate> {
    match (options.rate, options.transport) {
        (RateChoice::Fixed(rate), _) => Some(rate),
        (_, Transport::Tsunami) => Some(BitRate(u64::from(wire::Parameters::default().target_bps))),
        _ => None,
    }
}

/// The congestion control of a TCP connection.
fn congestion_of(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    String::from_utf8(name).ok().map(|name| name.trim_end_matches('\0').to_string())
}

/// The receiver's part of the agreement.
struct Agreement {
    /// Identifies the data connection.
    key: String,
    /// The receiver's port for the data.
    port: Option<u16>,
    certificate: Option<Vec<u8>>,
    numbering: Numbering,
    /// The receiver measures too.
    measures: bool,
}

/// Exchanges the proofs of the token, and agrees on the transport. `identity`: the certificate for QUIC.
fn agree(
    control: &mut Control<'_>,
    options: &SenderOptions,
    identity: Option<&Identity>,
) -> Result<Agreement, Error> {
    let hello = control.receive("greeting", HANDSHAKE_TIMEOUT)?;
    let Message::Hello { protocol, challenge: theirs, needs_token } = hello else {
        return Err(Error::Protocol("the receiver's first message was expected".into()));
    };
    if protocol != PROTOCOL {
        return Err(Error::Protocol(format!(
            "its version is {:?}",
            protocol.chars().take(40).collect::<String>()
        )));
    }
    if needs_token && options.token.is_none() {
        return Err(Error::Token("the receiver requires a token"));
    }
    if !needs_token && options.token.is_some() {
        return Err(Error::Token("the receiver has no token, so its identity cannot be checked"));
    }
    let ours = os::random_hex(CHALLENGE_BYTES).map_err(failed("get random bytes"))?;
    let prove =
        |role: &str, agreed: &[&str]| prove_token(options.token.as_ref(), role, [&theirs, &ours], agreed);
    let certificate = identity.map(|identity| HEXLOWER.encode(identity.certificate()));
    let agreed: Vec<&str> = match &certificate {
        Some(certificate) => vec![&options.directory, certificate],
        None => Vec::new(),
    };
    control.send(&Message::Start {
        protocol: PROTOCOL.into(),
        challenge: ours.clone(),
        proof: prove("sender", &agreed),
        directory: options.directory.clone(),
        transport: options.transport,
        mss: options.mss,
        rate_bps: match options.rate {
            RateChoice::Fixed(rate) => rate.0,
            _ => u64::from(wire::Parameters::default().target_bps),
        },
        certificate: certificate.clone(),
        streams: (options.streams > 1).then_some(options.streams),
        numbers_streams: options.streams > 1,
        evidence: true,
        requested_bps: requested_rate(options).map(|rate| rate.0),
    })?;
    let ready = control.receive("agreement", HANDSHAKE_TIMEOUT)?;
    let Message::Ready { proof, key, port, certificate, numbers_streams, evidence } = ready else {
        return Err(Error::Protocol("the receiver's agreement was expected".into()));
    };
    let agreed: Vec<&str> = certificate.iter().map(String::as_str).collect();
    if proof != prove("receiver", &agreed) {
        return Err(Error::Token("the receiver has a different token"));
    }
    Ok(Agreement {
        key,
        port,
        certificate: certificate.and_then(|digits| HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()),
        numbering: Numbering::of(numbers_streams),
        measures: evidence,
    })
}

fn connect_udt(
    control: &mut Control<'_>,
    peer: SocketAddr,
    port: u16,
    key: &str,
    options: &SenderOptions,
) -> Result<Box<dyn DataStream>, Error> {
    let choice = match (options.transport, options.rate) {
        (Transport::Sabul, RateChoice::Automatic) => RateChoice::Sabul,
        (_, rate) => rate,
    };
    let mss = datagram_mss(options.mss, peer);
    let rate = choice.control(random_id()?.into(), mss);
    let config = udt::Config { mss, ..udt::Config::default() };
    let peer = with_port(peer, port);
    let stream = UdtStream::connect(peer, config, rate, &mut control_check(control))?;
    let mut stream: Box<dyn DataStream> = match options.transport {
        Transport::Sabul => Box::new(SabulStream(stream)),
        _ => Box::new(stream),
    };
    stream.write_all(key.as_bytes(), control)?;
    Ok(stream)
}
