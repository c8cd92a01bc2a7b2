//! `longfat send` and `longfat receive`: files over TCP, UDT, SABUL, Tsunami or QUIC.

use std::{
    collections::{BTreeMap, HashMap},
    io::IsTerminal,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use measurement::file_transfer::{RecordedTransfer, TransferRecorder};
use record::RunsLocation;
use schema::FlowSample;
use serde_json::{Value, json};
use transfer::{
    EndEvidence, FileProgress, FileReport, Observer, RateChoice, Receiver, ReceiverOptions, SenderOptions,
    Session, Transport,
};
use units::{BitRate, Bytes, three_digits};

use super::test::{self, args};
use crate::{
    exit::Exit,
    interrupt, iperf3_values,
    output::{self, Finish},
};

/// The schema of the document that `send --json` prints.
const SEND_SCHEMA: &str = "longfat.send/1";
/// The schema of each line that `receive --json` prints.
const RECEIVE_SCHEMA: &str = "longfat.receive/1";
/// Interval at which progress is shown on a terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Options of `send`.
#[derive(Debug, Args)]
#[command(override_usage = "longfat send [OPTIONS] <FILE>... <HOST:DIR>")]
pub struct SendArgs {
    /// Files and directories, and last the receiver: HOST:DIR, where DIR is below the receiver's directory
    /// and may be empty
    #[arg(value_names = ["FILE", "HOST:DIR"], num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// Transport of the data
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    protocol: Protocol,
    /// Port of the receiver
    #[arg(short, long, default_value_t = transfer::PORT)]
    port: u16,
    /// Rate: the limit with TCP and QUIC, the constant rate with UDT and SABUL, the target with Tsunami
    /// [default: set by the congestion control with TCP, QUIC, UDT and SABUL, 650mbit with Tsunami]
    #[arg(long, value_name = "RATE", value_parser = iperf3_values::rate)]
    rate: Option<BitRate>,
    /// Number of TCP connections that share the data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    streams: u16,
    /// UDT: do not slow down for losses up to this percentage
    #[arg(long, value_name = "PERCENT", conflicts_with = "rate")]
    tolerate_loss: Option<f64>,
    /// Congestion control: this kernel's for TCP; for QUIC longfat's (`longfat cc list`) or a C file, cubic
    /// by default
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Largest packet of UDT, SABUL, Tsunami and QUIC with IP and UDP headers, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mss: u32,
    /// File with the shared secret of `longfat receive --token`
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Timeout of the connection
    #[arg(long, value_name = "TIME", value_parser = iperf3_values::time, default_value = "10s")]
    connect_timeout: Duration,
    /// Write no record
    #[arg(long)]
    no_record: bool,
}

/// Options of `receive`.
#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// The directory in which files are stored; existing files of the same name are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Port to listen on
    #[arg(short, long, default_value_t = transfer::PORT)]
    port: u16,
    /// Address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<std::net::IpAddr>,
    /// File with the shared secret that senders must know
    #[arg(long, value_name = "FILE", required_unless_present = "no_token")]
    token: Option<PathBuf>,
    /// Accept files from every host that can connect
    #[arg(long, conflicts_with = "token")]
    no_token: bool,
    /// Maximum number of simultaneous senders; others are refused
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    max_senders: u16,
    /// Exit after the first sender that sent all its files
    #[arg(short = '1', long)]
    one_off: bool,
    /// Write a record of each sender's session
    #[arg(long)]
    record: bool,
}

/// The transport of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// TCP
    Tcp,
    /// UDT 4 over UDP
    Udt,
    /// SABUL: data over UDP, reports over TCP
    Sabul,
    /// Tsunami: blocks over UDP, controlled over TCP; not fair to other flows
    Tsunami,
    /// QUIC: encrypted, over UDP
    Quic,
}

impl From<Protocol> for Transport {
    fn from(protocol: Protocol) -> Transport {
        match protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udt => Transport::Udt,
            Protocol::Sabul => Transport::Sabul,
            Protocol::Tsunami => Transport::Tsunami,
            Protocol::Quic => Transport::Quic,
        }
    }
}

/// Sends files.
pub fn send(args: &SendArgs, runs: &RunsLocation, is_json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let Some((target, files)) = args.paths.split_last() else {
        return Err(Exit::BadInput("there is no file to send".into()).into());
    };
    let (host, directory) = target.to_str().and_then(host_and_directory).ok_or_else(|| {
        Exit::BadInput(format!(
            "{} is not HOST:DIR (HOST: for the receiver's directory itself)",
            target.display()
        ))
    })?;
    let rate = match (args.rate, args.tolerate_loss) {
        (Some(rate), _) => RateChoice::Fixed(rate),
        (None, Some(percent)) if (0.0..=100.0).contains(&percent) => RateChoice::Tolerant(percent / 100.0),
        (None, Some(_)) => {
            return Err(Exit::BadInput("--tolerate-loss is a percentage, 0 to 100".into()).into());
        }
        (None, None) => RateChoice::Automatic,
    };
    let (receiver, other_addresses) = resolve(host, args.port)?;
    let options = SenderOptions {
        receiver,
        other_addresses,
        directory: directory.to_string(),
        transport: args.protocol.into(),
        rate,
        mss: args.mss,
        streams: args.streams,
        congestion: args.cc.clone(),
        token: args.token.as_deref().map(args::token).transpose()?,
        connect_timeout: args.connect_timeout,
    };
    let runs_dir = (!args.no_record).then(|| runs.writable()).transpose()?;
    let records = Records { runs, runs_dir, receiver: Some(host.to_string()), open: Mutex::default() };
    let display = Display::new(is_json, "sent", records);
    let result = transfer::send(files, &options, &display, &stop);
    display.clear();
    let recorded = display.recorded.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(recorded), false) = (&recorded, is_json) {
        output::prose(&verdict_text(recorded))?;
    }
    let reports = result.map_err(exit)?;
    if is_json {
        let mut document = json!({
            "schema": SEND_SCHEMA,
            "receiver": display.receiver().unwrap_or(options.receiver).to_string(),
            "protocol": options.transport,
            "files": reports,
        });
        if let Some(recorded) = &recorded {
            add_verdict(&mut document, recorded);
        }
        return output::json(&document);
    }
    Ok(())
}

/// What limited the transfer, and the location of its record.
fn add_verdict(document: &mut Value, recorded: &RecordedTransfer) {
    let run = &recorded.test.run;
    document["limited_by"] = json!(recorded.limit);
    document["flows"] = json!(run.flows);
    document["notes"] = json!(run.quality.notes);
    document["record"] = json!(recorded.test.path);
}

/// What limited the transfer, in words.
fn verdict_text(recorded: &RecordedTransfer) -> String {
    let limit =
        recorded.limit.map_or(String::new(), |limit| format!("the transfer was limited by {limit}\n"));
    let notes: String =
        recorded.test.run.quality.notes.iter().map(|note| format!("note: {note}\n")).collect();
    limit + &notes + test::text::text(&recorded.test).trim_start() + "\n"
}

/// Receives files until a signal.
pub fn receive(args: &ReceiveArgs, runs: &RunsLocation, is_json: bool) -> anyhow::Result<()> {
    let stop = interrupt::flag()?;
    let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, args.port));
    let options = |listen| -> anyhow::Result<ReceiverOptions> {
        Ok(ReceiverOptions {
            listen,
            directory: args.directory.clone(),
            token: args.token.as_deref().map(args::token).transpose()?,
            max_senders: usize::from(args.max_senders),
        })
    };
    let receiver = match args.bind {
        Some(address) => Receiver::bind(options(SocketAddr::new(address, args.port))?),
        // A machine may have no IPv6.
        None => Receiver::bind(options(any)?).or_else(|error| {
            let ipv4 = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, args.port));
            options(ipv4).map_or(Err(error), Receiver::bind)
        }),
    };
    let receiver = receiver.map_err(exit)?;
    output::queue(Finish::AtOnce)?;
    let address = receiver.address().map_err(exit)?;
    output::note(&format!("receiving into {} at port {}", args.directory.display(), address.port()));
    let runs_dir = args.record.then(|| runs.writable()).transpose()?;
    let records = Records { runs, runs_dir, receiver: None, open: Mutex::default() };
    let display = Display::new(is_json, "received", records);
    let is_done = || args.one_off && display.has_completed.load(Ordering::Acquire);
    receiver.run(&display, &stop, is_done).map_err(exit)
}

/// Bad input and interruptions have their exit codes.
pub fn exit(error: transfer::Error) -> anyhow::Error {
    match error {
        transfer::Error::Input(text) => Exit::BadInput(text).into(),
        transfer::Error::Interrupted => Exit::Interrupted.into(),
        other => other.into(),
    }
}

/// Splits HOST:DIR; an IPv6 address is in brackets.
fn host_and_directory(target: &str) -> Option<(&str, &str)> {
    let (host, directory) = match target.strip_prefix('[') {
        Some(rest) => rest.split_once("]:")?,
        None => target.split_once(':')?,
    };
    (!host.is_empty()).then_some((host, directory))
}

/// The host's first address, and its others.
fn resolve(host: &str, port: u16) -> anyhow::Result<(SocketAddr, Vec<SocketAddr>)> {
    let mut addresses = (host, port).to_socket_addrs().with_context(|| format!("cannot resolve {host}"))?;
    let first = addresses.next().with_context(|| format!("{host} has no address"))?;
    Ok((first, addresses.collect()))
}

/// The records of running sessions.
struct Records<'a> {
    runs: &'a RunsLocation,
    /// The directory of the records, if they are written.
    runs_dir: Option<PathBuf>,
    /// At the sender: the receiver, as the user named it.
    receiver: Option<String>,
    open: Mutex<BTreeMap<SocketAddr, TransferRecorder>>,
}

/// Prints files as they are completed, and progress on a terminal.
struct Display<'a> {
    records: Records<'a>,
    /// At the sender: its transfer.
    recorded: Mutex<Option<RecordedTransfer>>,
    /// The other end of the latest session.
    peer: Mutex<Option<SocketAddr>>,
    is_json: bool,
    verb: &'static str,
    is_terminal: bool,
    /// The files that are being transferred, by the thread of their session.
    files: Mutex<HashMap<ThreadId, Current>>,
    has_completed: AtomicBool,
}

struct Current {
    name: String,
    progress: FileProgress,
    began: Instant,
    shown: Instant,
}

impl<'a> Display<'a> {
    fn new(is_json: bool, verb: &'static str, records: Records<'a>) -> Self {
        Display {
            records,
            recorded: Mutex::default(),
            peer: Mutex::default(),
            is_json,
            verb,
            is_terminal: std::io::stderr().is_terminal(),
            files: Mutex::default(),
            has_completed: AtomicBool::new(false),
        }
    }

    /// At the sender: the address of the receiver that accepted the connection.
    fn receiver(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the line of progress.
    fn clear(&self) {
        if self.is_terminal {
            output::rewrite_line("");
        }
    }
}

impl Display<'_> {
    /// A session at the receiver is over.
    fn print_session(&self, session: &Session, recorded: &RecordedTransfer) {
        self.clear();
        // A reader that has closed standard output does not end the transfer.
        let _ = if self.is_json {
            let mut line = json!({
                "schema": RECEIVE_SCHEMA,
                "sender": session.peer.to_string(),
                "protocol": session.transport,
            });
            add_verdict(&mut line, recorded);
            output::text(&format!("{line}\n"))
        } else {
            output::prose(&format!("from {}: {}", session.peer, verdict_text(recorded)))
        };
    }
}

impl Observer for Display<'_> {
    fn connected(&self, session: &Session) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.peer);
        let peer = self.records.receiver.clone();
        let peer = peer.unwrap_or_else(|| session.peer.ip().to_canonical().to_string());
        let mut recorder = TransferRecorder::new(self.records.runs_dir.as_deref(), &peer);
        if let Err(note) = recorder.begin(session) {
            self.note(&note);
        }
        self.records.open.lock().unwrap_or_else(PoisonError::into_inner).insert(session.peer, recorder);
    }

    fn samples(&self, session: &Session, rows: &[FlowSample]) {
        let mut open = self.records.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(note)) = open.get_mut(&session.peer).map(|recorder| recorder.append(rows)) {
            self.note(&note);
        }
    }

    fn measured(
        &self,
        session: &Session,
        own: EndEvidence,
        peer: Option<EndEvidence>,
        error: Option<&transfer::Error>,
    ) {
        let recorder = self.records.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&session.peer);
        let Some(recorder) = recorder else { return };
        let recorded = recorder.finish(session, own, peer, error.map(ToString::to_string));
        match recorded {
            Ok(mut recorded) => {
                let path = recorded.test.path.take();
                recorded.test.path = path.map(|path| self.records.runs.name_of(&path).into());
                match session.is_sender {
                    true => {
                        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorded);
                    }
                    false => self.print_session(session, &recorded),
                }
            }
            Err(error) => self.note(&format!("no record is written: {error}")),
        }
    }

    fn begin(&self, name: &str, bytes: u64, resumed_bytes: u64) {
        let now = Instant::now();
        let progress = FileProgress { bytes, resumed_bytes };
        let current = Current { name: name.to_string(), progress, began: now, shown: now };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(thread::current().id(), current);
    }

    fn progress(&self, bytes: u64) {
        if !self.is_terminal {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = files.get_mut(&thread::current().id()) else { return };
        if current.shown.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        current.shown = Instant::now();
        let Current { name, progress, began, .. } = &*current;
        let (percent, goodput) = (progress.percent(bytes), progress.goodput(bytes, began.elapsed()));
        let name = in_one_line(name);
        output::rewrite_line(&format!("{name}: {percent:.0} % of {}, {goodput}", Bytes(progress.bytes)));
    }

    fn end(&self, report: &FileReport) {
        self.clear();
        // A reader that has closed standard output does not end the transfer.
        let _ = if self.is_json {
            if self.verb == "received" {
                output::text(&format!("{}\n", json!({ "schema": RECEIVE_SCHEMA, "file": report })))
            } else {
                Ok(())
            }
        } else {
            output::text(&line(self.verb, report))
        };
    }

    fn session(&self, peer: SocketAddr, error: Option<&transfer::Error>) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread::current().id());
        match error {
            None => self.has_completed.store(true, Ordering::Release),
            Some(error) => output::note(&format!("{peer}: {error}")),
        }
    }

    fn note(&self, text: &str) {
        output::note(text);
    }
}

/// The name of a file without line ends and other control characters: a sender could imitate the lines of
/// other files.
fn in_one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// One line per file.
fn line(verb: &str, report: &FileReport) -> String {
    let rate = BitRate(three_digits(report.goodput_bps));
    let name = in_one_line(&report.name);
    let mut line = format!("{verb} {name}: {} in {:.1} s, {rate}", Bytes(report.bytes), report.duration_s);
    if report.resumed_bytes > 0 {
        line += &format!(", {} of it by an earlier transfer", Bytes(report.resumed_bytes));
    }
    if let (Some(sent), Some(retransmitted), Some(percent)) =
        (report.sent_packets, report.retransmitted_packets, report.retransmitted_percent())
    {
        line += &format!(", retransmitted: {retransmitted} of {sent} packets ({percent:.2} %)");
    }
    line + &format!(", BLAKE3 {}\n", report.blake3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_host_and_a_directory() {
        assert_eq!(host_and_directory("h:"), Some(("h", "")));
        assert_eq!(host_and_directory("h:a/b"), Some(("h", "a/b")));
        assert_eq!(host_and_directory("[::1]:a"), Some(("::1", "a")));
        assert_eq!(host_and_directory("file"), None);
        assert_eq!(host_and_directory(":a"), None);
    }

    #[test]
    fn a_file_has_one_line_whatever_its_name_is() {
        let report = FileReport {
            name: "a\nreceived b: 1 GB\r\u{1b}[2J".into(),
            bytes: 1,
            resumed_bytes: 0,
            duration_s: 1.0,
            goodput_bps: 8.0,
            blake3: "00".into(),
            sent_packets: None,
            retransmitted_packets: None,
        };
        let line = line("received", &report);
        assert!(line.starts_with("received a?received b: 1 GB??[2J: "), "{line}");
        assert_eq!(line.matches(char::is_control).collect::<Vec<_>>(), ["\n"]);
    }

    #[test]
    fn the_progress_of_a_file_is_not_that_of_another_session() {
        let runs = RunsLocation::from(PathBuf::from("runs"));
        let records = Records { runs: &runs, runs_dir: None, receiver: None, open: Mutex::default() };
        let display = Display::new(false, "received", records);
        display.begin("large", 1_000_000, 0);
        thread::scope(|scope| {
            scope.spawn(|| display.begin("small", 10, 0));
        });
        let files = display.files.lock().unwrap();
        let current = &files[&thread::current().id()];
        assert_eq!((files.len(), current.name.as_str(), current.progress.bytes), (2, "large", 1_000_000));
    }
}
