//! Sends files to a receiver.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use bulk::{
    tsunami::wire,
    udt::{self, RateChoice},
};
use iperf3::Token;
use socket2::Socket;
use traffic::sys::{fill_random, set_max_pacing_rate};
use units::BitRate;

use crate::{
    Error, FileReport, Observer, Transport, UdtStream,
    control::{Control, HANDSHAKE_TIMEOUT, STORE_TIMEOUT, control_check},
    error::failed,
    file_reader::{FileReader, hash_prefix},
    message::{Message, PROOF_PURPOSE, PROTOCOL, hex},
    tsunami,
    udt_stream::random_id,
};

/// Where and how to send.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The receiver.
    pub receiver: SocketAddr,
    /// Where the files go, relative to the receiver's directory.
    pub directory: String,
    /// The transport of the data.
    pub transport: Transport,
    /// How fast.
    pub rate: RateChoice,
    /// Largest packet of UDT and Tsunami with IP and UDP headers, bytes.
    pub mss: u32,
    /// The secret that the receiver requires.
    pub token: Option<Token>,
    /// Timeout of the connection.
    pub connect_timeout: Duration,
}

/// Smallest and largest packets: a payload of 32 B, and jumbo frames.
const MSS_RANGE: std::ops::RangeInclusive<u32> = 76..=9000;
/// The largest rate that Tsunami's parameters can carry.
const MAX_TSUNAMI_BPS: u64 = u32::MAX as u64;

/// Sends files, and all files in directories, in this order. Returns when the receiver has stored them.
///
/// # Errors
/// If anything fails; what has arrived of the current file stays at the receiver for the next attempt.
pub fn send(
    files: &[PathBuf],
    options: &SenderOptions,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Vec<FileReport>, Error> {
    check(options)?;
    let files = expand(files, observer)?;
    let stream = TcpStream::connect_timeout(&options.receiver, options.connect_timeout)
        .map_err(failed(format!("cannot connect to {}", options.receiver)))?;
    if let (Transport::Tcp, RateChoice::Fixed(rate)) = (options.transport, options.rate) {
        let socket: Socket = stream.try_clone().map_err(failed("cannot duplicate a descriptor"))?.into();
        set_max_pacing_rate(&socket, rate.0 / 8).map_err(failed("cannot set the pacing rate"))?;
    }
    let mut control = Control::new(stream, stop)?;
    let result = run(&mut control, &files, options, observer);
    if let Err(error) = &result {
        control.report(error, Duration::ZERO);
    }
    result
}

fn check(options: &SenderOptions) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::Input(text.to_string()));
    match (options.transport, options.rate) {
        _ if !MSS_RANGE.contains(&options.mss) => invalid("the packet size must be 76 to 9000 bytes"),
        (_, RateChoice::Fixed(BitRate(0..=999))) => invalid("the rate must be at least 1 kbit/s"),
        (Transport::Tsunami, RateChoice::Fixed(BitRate(rate))) if rate > MAX_TSUNAMI_BPS => {
            invalid("Tsunami's rate is at most 4.29 Gbit/s")
        }
        (Transport::Tcp | Transport::Tsunami, RateChoice::Tolerant(_)) => {
            invalid("only UDT has a loss tolerance")
        }
        (Transport::Tcp | Transport::Tsunami, RateChoice::Sabul) => invalid("only UDT has SABUL's control"),
        _ => Ok(()),
    }
}

/// A file to send, and its name at the receiver.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    name: String,
}

/// Lists the regular files, directories with their own name.
fn expand(files: &[PathBuf], observer: &dyn Observer) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for path in files {
        let absolute = fs::canonicalize(path).map_err(failed(format!("cannot open {}", path.display())))?;
        let name = absolute.file_name().unwrap_or_default();
        let name = name.to_str().ok_or_else(|| Error::Name(path.display().to_string()))?;
        add(path, name.to_string(), &mut entries, observer)?;
    }
    if entries.is_empty() {
        return Err(Error::Input("there is no file to send".into()));
    }
    Ok(entries)
}

fn add(path: &Path, name: String, entries: &mut Vec<Entry>, observer: &dyn Observer) -> Result<(), Error> {
    let what = || format!("cannot open {}", path.display());
    let kind = fs::metadata(path).map_err(failed(what()))?.file_type();
    if kind.is_file() {
        entries.push(Entry { path: path.to_path_buf(), name });
    } else if kind.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .map_err(failed(what()))?;
        inside.sort_by_key(fs::DirEntry::file_name);
        for entry in inside {
            let file_name = entry.file_name();
            let part = file_name.to_str().ok_or_else(|| Error::Name(entry.path().display().to_string()))?;
            let kind = entry.file_type().map_err(failed(what()))?;
            if kind.is_file() || kind.is_dir() {
                let name = if name.is_empty() { part.to_string() } else { format!("{name}/{part}") };
                add(&entry.path(), name, entries, observer)?;
            } else {
                observer.note(&format!("{} is not a regular file, skipped", entry.path().display()));
            }
        }
    } else {
        return Err(Error::Input(format!("{} is neither a regular file nor a directory", path.display())));
    }
    Ok(())
}

/// The transport of the data, after the agreement.
enum Data {
    Tcp,
    Udt(Box<UdtStream>),
    Tsunami { socket: Socket, key: String },
}

fn run(
    control: &mut Control<'_>,
    files: &[Entry],
    options: &SenderOptions,
    observer: &dyn Observer,
) -> Result<Vec<FileReport>, Error> {
    let (key, port) = agree(control, options)?;
    let peer = control.peer()?;
    let mut data = match (options.transport, port) {
        (Transport::Tcp, _) => Data::Tcp,
        (Transport::Udt, Some(port)) => Data::Udt(Box::new(connect_udt(control, peer, port, &key, options)?)),
        (Transport::Tsunami, Some(_)) => {
            let local = control.stream().local_addr().map_err(failed("cannot get a socket's address"))?;
            let (socket, _) = tsunami::socket(SocketAddr::new(local.ip(), 0))?;
            Data::Tsunami { socket, key }
        }
        (_, None) => return Err(Error::Protocol("no UDP port".into())),
    };
    let mut reports = Vec::new();
    for entry in files {
        reports.push(send_file(control, &mut data, entry, peer, observer)?);
    }
    control.send(&Message::End)?;
    if let Data::Udt(stream) = data {
        stream.close(&mut || Ok(()))?;
    }
    Ok(reports)
}

/// Proves the token to each other, and agrees on the transport. Returns the session's key and the UDP port.
fn agree(control: &mut Control<'_>, options: &SenderOptions) -> Result<(String, Option<u16>), Error> {
    let hello = control.receive("greeting", HANDSHAKE_TIMEOUT)?;
    let Message::Hello { protocol, challenge: theirs, needs_token } = hello else {
        return Err(Error::Protocol("no greeting".into()));
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
    let mut ours = [0; 32];
    fill_random(&mut ours).map_err(failed("cannot get random bytes"))?;
    let ours = hex(&ours);
    let proof = |role: &str| {
        let parts = [role.as_bytes(), theirs.as_bytes(), ours.as_bytes()];
        options.token.as_ref().map(|token| hex(&token.keyed_hash(PROOF_PURPOSE, &parts)))
    };
    control.send(&Message::Start {
        protocol: PROTOCOL.into(),
        challenge: ours.clone(),
        proof: proof("sender"),
        directory: options.directory.clone(),
        transport: options.transport,
        mss: options.mss,
        rate_bps: match options.rate {
            RateChoice::Fixed(rate) => rate.0,
            _ => u64::from(wire::Parameters::default().target_bps),
        },
    })?;
    match control.receive("agreement", HANDSHAKE_TIMEOUT)? {
        Message::Ready { proof: theirs, key, port } if theirs == proof("receiver") => Ok((key, port)),
        Message::Ready { .. } => Err(Error::Token("the receiver has a different token")),
        _ => Err(Error::Protocol("no agreement".into())),
    }
}

fn connect_udt(
    control: &mut Control<'_>,
    peer: SocketAddr,
    port: u16,
    key: &str,
    options: &SenderOptions,
) -> Result<UdtStream, Error> {
    let rate = options.rate.control(random_id()?.into(), options.mss);
    let config = udt::Config { mss: options.mss, ..udt::Config::default() };
    let mut check = control_check(control);
    let mut stream = UdtStream::connect(SocketAddr::new(peer.ip(), port), config, rate, &mut check)?;
    stream.write_all(key.as_bytes(), &mut check)?;
    Ok(stream)
}

fn send_file(
    control: &mut Control<'_>,
    data: &mut Data,
    entry: &Entry,
    peer: SocketAddr,
    observer: &dyn Observer,
) -> Result<FileReport, Error> {
    let what = || format!("cannot open {}", entry.path.display());
    // Opening a FIFO must not wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&entry.path)
        .map_err(failed(what()))?;
    let metadata = file.metadata().map_err(failed(what()))?;
    let bytes = metadata.len();
    let begin = Instant::now();
    control.send(&Message::File {
        name: entry.name.clone(),
        bytes,
        mode: metadata.mode() & 0o777,
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
    })?;
    let Message::Resume { bytes: stored, hash } = control.receive("reply about the file", STORE_TIMEOUT)?
    else {
        return Err(Error::Protocol("a reply about the file was expected".into()));
    };
    if stored > bytes {
        return Err(Error::Protocol(format!("it claims to have {stored} of {bytes} bytes")));
    }
    let mut hasher = hash_prefix(&file, &entry.path, stored)?;
    let is_same = hasher.finalize().to_hex().to_string() == hash;
    let from = if is_same { stored } else { 0 };
    if !is_same {
        hasher = blake3::Hasher::new();
    }
    control.send(&Message::Begin { from })?;
    observer.begin(&entry.name, bytes, from);
    let before = match data {
        Data::Udt(stream) => Some(stream.statistics()),
        _ => None,
    };
    let mut counts = None;
    let hash = match data {
        Data::Tsunami { socket, key } => {
            let duplicate = file.try_clone().map_err(failed("cannot duplicate a descriptor"))?;
            let path = entry.path.clone();
            let hash = thread::Builder::new().name("file hash".into());
            let hash = hash
                .spawn(move || hash_prefix(&duplicate, &path, bytes))
                .map_err(failed("cannot start a thread"))?;
            let source = tsunami::Source { file: &file, path: &entry.path, bytes };
            counts = Some(tsunami::serve(control, socket, peer.ip(), key.as_bytes(), &source, |at| {
                observer.progress(at)
            })?);
            let hasher = hash.join().map_err(|_| Error::Input("the hashing thread has failed".into()))??;
            hasher.finalize().to_hex().to_string()
        }
        Data::Tcp | Data::Udt(_) => {
            let mut reader = FileReader::start(file, entry.path.clone(), hasher, from, bytes)?;
            let mut sent = from;
            while let Some(piece) = reader.next()? {
                match data {
                    Data::Udt(stream) => stream.write_all(&piece, &mut control_check(control))?,
                    _ => {
                        control.is_in_data = true;
                        control.send_raw(&piece)?;
                        control.check()?;
                    }
                }
                sent += piece.len() as u64;
                let buffered = if let Data::Udt(stream) = data { stream.unacknowledged_bytes() } else { 0 };
                observer.progress(sent.saturating_sub(buffered).max(from));
            }
            if let Data::Udt(stream) = data {
                stream.flush(&mut control_check(control))?;
            }
            control.is_in_data = false;
            reader.finish()?
        }
    };
    control.send(&Message::Sent { hash: hash.clone() })?;
    let Message::Stored = control.receive("confirmation", STORE_TIMEOUT)? else {
        return Err(Error::Protocol("no confirmation".into()));
    };
    if let (Data::Udt(stream), Some(before)) = (&*data, before) {
        let after = stream.statistics();
        counts = Some((
            after.sent_packets - before.sent_packets,
            after.retransmitted_packets - before.retransmitted_packets,
        ));
    }
    let mut report = FileReport::new(&entry.name, bytes, from, begin.elapsed(), hash);
    (report.sent_packets, report.retransmitted_packets) = (counts.map(|c| c.0), counts.map(|c| c.1));
    observer.end(&report);
    Ok(report)
}
