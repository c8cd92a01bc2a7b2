//! Keeps a network up until it is told to end: the process behind `longfat lab up`.
//!
//! Everything that programs on the hosts start lives in a process namespace that ends with this process, however it
//! ends; hosts, mounts and devices are held by its descriptors. What can outlast it, its journal entry and socket, the
//! next clean-up removes.

use std::{
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use net::{Network, PipeId, PipeSpec};
use scenario::Scenario;
use units::Time;

use super::{
    control::{Answer, LinkStatus, NodeStatus, Request, Status, StopCommand, read_line, write_line},
    host_mtus::HostMtus,
    isolate::{begin_processes, send_fds},
    links::{Done, Links},
    mounts,
};
use crate::{
    Error, Journal, Privilege,
    buffers::Buffers,
    capture::{CaptureEnd, CaptureId, CaptureOptions, Captures},
    clock::{Clock, RunTime, TimeMode},
    driver::{Command, Driver, LiveReport, Shared},
    error::Attempted,
    frame::Frame,
    journal::take_spin_right,
    plan,
    port::Backend,
    processors::Placement,
    run::Lab,
    sys,
    taps::taps,
};

/// How often links are counted; nobody records it.
const INTERVAL: Time = Time::from_secs(1);
/// A client that says nothing for so long is left.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);
/// How long the driver may take to answer.
const DRIVER_PATIENCE: Duration = Duration::from_secs(2);
/// How often a stop is looked for.
const NAP: Duration = Duration::from_millis(20);

/// How to keep a lab.
#[derive(Debug)]
pub struct KeepOptions<'a> {
    /// The lab's name.
    pub name: &'a str,
    /// By what right, see [`crate::acquire`].
    pub privilege: Privilege,
    /// How ports are made.
    pub backend: Backend,
    /// Where this lab is entered.
    pub journal: &'a Journal,
    /// Whether the hosts' stop commands are to be run at the end, by whoever ends the lab.
    pub stop_commands: bool,
    /// Set from outside to end the lab.
    pub stop: &'a AtomicBool,
}

/// Keeps the scenario's network up until told to end. `ready` is called with the control socket's path once programs
/// may run. The process must have one thread only.
///
/// # Errors
/// See [`Error`]; whatever goes wrong, nothing of the lab remains.
pub fn keep(scenario: &Scenario, options: &KeepOptions<'_>, ready: impl FnOnce(&Path)) -> Result<(), Error> {
    let entry = options.journal.enter_standing(&scenario.name, options.name)?;
    let socket = entry.socket().to_owned();
    let listener = UnixListener::bind(&socket).attempted(|| format!("make {}", socket.display()))?;
    listener.set_nonblocking(true).attempted(|| format!("use {}", socket.display()))?;
    mounts::prepare(&hosts_file(scenario), &socket)?;
    let (first, alive) = begin_processes().map_err(mounts::no_standing("make a PID namespace"))?;
    let processes = open_namespace(&format!("/proc/{first}/ns/pid"))?;

    let lab = Lab::build(scenario, options.backend)?;
    for host in &lab.hosts {
        mounts::name_namespace(&host.name, &host.namespace)?;
    }
    let network: Network<Frame> = plan::network(scenario)?;
    let spin_right = take_spin_right();
    let (commands, inbox) = channel();
    let placement = Placement::choose(spin_right.is_some());
    let buffers = Buffers::for_links(&scenario.links);
    let time = RunTime::begin(TimeMode::Real);
    let captures = Captures::new(time.start());
    let driver = Driver {
        network,
        ports: &lab.ports,
        sampled: Vec::new(),
        interval: INTERVAL,
        clock: Clock::new(time.clone(), &scenario.links),
        buffers,
        may_spin: placement.may_spin(),
        placement,
        commands: inbox,
        captures: captures.clone(),
    };
    let host_mtus = HostMtus::of(lab.hosts.iter())?;
    let keeper = Keeper {
        host_mtus,
        scenario,
        name: options.name,
        stop_commands: options.stop_commands,
        lab: &lab,
        links: Links::new(scenario),
        captures: captures.clone(),
        files: Vec::new(),
        commands,
        started: Instant::now(),
        remarks: remarks(options),
        user: (options.privilege == Privilege::UserNamespace)
            .then(|| open_namespace("/proc/self/ns/user"))
            .transpose()?,
        mounts: open_namespace("/proc/self/ns/mnt")?,
        processes,
    };
    let shared = Arc::new(Shared::default());
    let result = std::thread::scope(|scope| {
        let shared = &shared;
        let driving = scope.spawn(move || {
            // Nobody receives: rows that are sent are gone at once.
            let (rows, _) = channel();
            driver.run(shared, &rows)
        });
        shared.running.wait_until_set(|| driving.is_finished());
        ready(&socket);
        keeper.serve(&listener, || options.stop.load(Ordering::Relaxed) || driving.is_finished());
        // First the programs, then the network under them.
        drop(alive);
        shared.stop.store(true, Ordering::Relaxed);
        let driven = driving.join();
        captures.stop_all();
        driven
    });
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(Error::Emulator(e.to_string())),
        Err(_) => Err(Error::Emulator("it panicked; please report this".into())),
    }
}

/// Takes in clients until `done`. Each is heard on a thread of its own: one that is slow or says nothing keeps no other
/// from being answered, and one that behaves badly only harms itself.
fn hear(listener: &UnixListener, requests: &Sender<(UnixStream, Request)>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let Ok(true) = sys::wait_readable(listener.as_fd(), NAP) else { continue };
        let Ok((stream, _)) = listener.accept() else {
            // No descriptors are left, say.
            std::thread::sleep(NAP);
            continue;
        };
        let requests = requests.clone();
        // Where there can be no more threads this client is left.
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            let set =
                stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(CLIENT_PATIENCE)));
            if let Ok(request) = set.and_then(|()| read_line(&stream, CLIENT_PATIENCE)) {
                // Where the lab ends meanwhile nobody answers.
                let _ = requests.send((stream, request));
            }
        });
    }
}

/// Answers requests.
struct Keeper<'a> {
    host_mtus: HostMtus,
    scenario: &'a Scenario,
    name: &'a str,
    stop_commands: bool,
    lab: &'a Lab,
    links: Links,
    captures: Captures,
    /// The captures that go on, by file.
    files: Vec<(String, CaptureId)>,
    commands: Sender<Command>,
    started: Instant,
    user: Option<OwnedFd>,
    remarks: Vec<String>,
    mounts: OwnedFd,
    processes: OwnedFd,
}

impl Keeper<'_> {
    fn serve(mut self, listener: &UnixListener, stopped: impl Fn() -> bool) {
        let (sender, requests) = channel();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| hear(listener, &sender, &done));
            while !stopped() {
                self.follow_host_mtus();
                if let Ok((stream, request)) = requests.recv_timeout(NAP)
                    && self.answer(&stream, &request)
                {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    /// Answers one client; true where it asked for the end.
    fn answer(&mut self, stream: &UnixStream, request: &Request) -> bool {
        self.follow_host_mtus();
        let refused = |why: String| Answer::Refused { why };
        let answer = match request {
            Request::Words { words } => match self.obey(words) {
                Ok(text) => Answer::Text { text },
                Err(why) => refused(why),
            },
            Request::Enter { host } => match self.lab.host(host) {
                Some(host) => {
                    let mut fds: Vec<BorrowedFd<'_>> = self.user.iter().map(AsFd::as_fd).collect();
                    fds.extend([self.mounts.as_fd(), self.processes.as_fd(), host.namespace.fd()]);
                    match send_fds(stream, &fds) {
                        Ok(()) => Answer::Text { text: String::new() },
                        Err(_) => return false,
                    }
                }
                None => {
                    // The byte that would carry descriptors.
                    let mut stream = stream;
                    let _ = stream.write_all(&[0]);
                    refused(self.no_host(host))
                }
            },
            Request::Status => match self.status() {
                Some(status) => Answer::Status(Box::new(status)),
                None => refused("the emulator does not answer".into()),
            },
            Request::Down => Answer::Text { text: self.stop_captures() },
        };
        let _ = write_line(stream, &answer);
        *request == Request::Down
    }

    fn no_host(&self, name: &str) -> String {
        let hosts: Vec<&str> = self.lab.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("there is no host {name}; there are {}", hosts.join(", "))
    }

    /// Does what a command says; returns what to tell.
    fn obey(&mut self, words: &[String]) -> Result<String, String> {
        let words = if words.first().is_some_and(|w| w == "sudo") { &words[1..] } else { words };
        let (name, rest) = words.split_first().ok_or("which command?")?;
        let name = name.rsplit('/').next().unwrap_or(name);
        let done = match (name, rest) {
            ("link", rest) => self.links.link(rest)?,
            ("tc", rest) => self.links.tc(rest)?,
            ("ifconfig", rest) => self.links.ifconfig(rest)?,
            ("ip", [link, set, rest @ ..]) if link.starts_with('l') && set.starts_with('s') => {
                let rest = if rest.first().is_some_and(|w| w == "dev") { &rest[1..] } else { rest };
                self.links.ifconfig(rest)?
            }
            ("pcap", rest) => return self.pcap(rest),
            ("links", []) => Done { text: self.links.list(), ..Done::default() },
            (other, _) => {
                return Err(format!(
                    "{other} is not understood here; link, tc, ifconfig, ip link set and pcap are"
                ));
            }
        };
        self.change(done.changed)?;
        Ok(done.text)
    }

    fn change(&self, pipes: Vec<(PipeId, PipeSpec)>) -> Result<(), String> {
        for (pipe, spec) in pipes {
            self.commands
                .send(Command::Change(pipe, Box::new(spec)))
                .map_err(|_| "the emulator has ended")?;
        }
        Ok(())
    }

    /// What programs on the hosts did to the MTUs of their devices.
    fn follow_host_mtus(&mut self) {
        for (device, mtu) in self.host_mtus.changed() {
            // An emulator that has ended is noticed elsewhere.
            if let Ok(done) = self.links.ifconfig(&[device, "mtu".into(), mtu.to_string()]) {
                let _ = self.change(done.changed);
            }
        }
    }

    /// `pcap`, `pcap NAME [forward|backward] FILE`, `pcap stop FILE`.
    fn pcap(&mut self, words: &[String]) -> Result<String, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, side, file) = match words[..] {
            [] => {
                let files: Vec<&str> = self.files.iter().map(|(file, _)| file.as_str()).collect();
                return Ok(if files.is_empty() { "nothing is captured".into() } else { files.join("\n") });
            }
            ["stop", file] => return self.stop_capture(file),
            [name, file] => (name, None, file),
            [name, side @ ("forward" | "backward"), file] => (name, Some(side), file),
            _ => return Err("write for example: pcap h1 out.pcapng, or pcap s1-s2 forward out.pcapng".into()),
        };
        if self.files.iter().any(|(known, _)| known == file) {
            return Err(format!("{file} is being written already"));
        }
        let mut taps = taps(self.scenario, name);
        match side {
            Some("forward") => taps.truncate(1),
            Some(_) => drop(taps.drain(..1.min(taps.len()))),
            None => {}
        }
        if taps.is_empty() {
            return Err(format!("there is no host or link {name}"));
        }
        let path = Path::new(file);
        if !path.is_absolute() {
            return Err(format!("{file} must begin with /: the lab does not know your directory"));
        }
        let started = self.captures.start(name, &taps, path, &CaptureOptions::default());
        let id = started.map_err(|e| e.to_string())?;
        self.files.push((file.into(), id));
        Ok(format!("{name} is captured in {file}; end with: pcap stop {file}"))
    }

    fn stop_capture(&mut self, file: &str) -> Result<String, String> {
        let at = self.files.iter().position(|(known, _)| known == file);
        let (_, id) = self.files.remove(at.ok_or_else(|| format!("{file} is not being written"))?);
        let end = self.captures.stop(id).ok_or_else(|| format!("{file} has ended already"))?;
        let missed = end.note().map(|note| format!("; {note}")).unwrap_or_default();
        Ok(format!("{} packets in {file}{missed}", end.packets))
    }

    /// Ends all captures; says which are not complete.
    fn stop_captures(&mut self) -> String {
        let ends = self.captures.stop_all();
        ends.iter().filter_map(CaptureEnd::note).collect::<Vec<_>>().join("\n")
    }

    fn status(&self) -> Option<Status> {
        let pipes: Vec<PipeId> = (0..self.scenario.links.len() as u32)
            .flat_map(|link| {
                [net::Direction::Forward, net::Direction::Backward]
                    .map(|direction| PipeId { link, direction })
            })
            .collect();
        let (sender, answer): (Sender<LiveReport>, Receiver<LiveReport>) = channel();
        self.commands.send(Command::Report(pipes, sender)).ok()?;
        let report = answer.recv_timeout(DRIVER_PATIENCE).ok()?;
        let links = report.counters.iter().enumerate().map(|(i, counters)| LinkStatus {
            name: self.scenario.links[i / 2].name.clone(),
            direction: if i % 2 == 0 { "forward".into() } else { "backward".into() },
            state: self.links.state(i / 2, i % 2),
            sent_packets: counters.sent_packets,
            dropped_queue: counters.dropped_queue,
            dropped_loss: counters.dropped_loss,
            queue_bytes: counters.queue_bytes,
        });
        Some(Status {
            schema: "longfat.lab/1".into(),
            name: self.name.into(),
            title: self.scenario.title.clone(),
            pid: std::process::id(),
            up_s: self.started.elapsed().as_secs_f64(),
            nodes: nodes(self.scenario),
            links: links.collect(),
            emulator_late_p99_us: report.late_p99_ns as f64 / 1000.0,
            stalls: report.stalls.0,
            stalled_total_us: report.stalls.1 as f64 / 1000.0,
            stalled_max_us: report.stalls.2 as f64 / 1000.0,
            captures: self.files.iter().map(|(file, _)| file.clone()).collect(),
            remarks: self.remarks.clone(),
            stop_commands: if self.stop_commands { stop_commands(self.scenario) } else { Vec::new() },
        })
    }
}

fn nodes(scenario: &Scenario) -> Vec<NodeStatus> {
    let node = |name: &str, kind: &str, interfaces: &[scenario::Interface]| NodeStatus {
        name: name.into(),
        kind: kind.into(),
        addresses: interfaces.iter().flat_map(|i| &i.addresses).map(ToString::to_string).collect(),
    };
    let hosts = scenario.hosts.iter().map(|h| node(&h.name, "host", &h.interfaces));
    let switches = scenario.switches.iter().map(|s| node(s, "switch", &[]));
    let routers = scenario.routers.iter().map(|r| node(&r.name, "router", &r.interfaces));
    hosts.chain(switches).chain(routers).collect()
}

fn remarks(options: &KeepOptions<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if options.privilege == Privilege::UserNamespace {
        remarks.push(
            "kept without root: no real-time priority, so a busy machine delays packets; no settings of the whole \
             machine, so socket buffers that programs ask for are capped by its net.core limits"
                .into(),
        );
    }
    if options.backend == Backend::Packet {
        remarks.push(
            "no TAP devices here: hosts are connected by veth and packet sockets, which cost more time"
                .into(),
        );
    }
    remarks
}

fn stop_commands(scenario: &Scenario) -> Vec<StopCommand> {
    let of = |host: &scenario::Host| Some(StopCommand { host: host.name.clone(), line: host.stop.clone()? });
    scenario.hosts.iter().filter_map(of).collect()
}

/// Every host's and router's name, so that they resolve on every host.
fn hosts_file(scenario: &Scenario) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    let hosts = scenario.hosts.iter().map(|h| (&h.name, &h.interfaces));
    let routers = scenario.routers.iter().map(|r| (&r.name, &r.interfaces));
    for (name, interfaces) in hosts.chain(routers) {
        for cidr in interfaces.iter().flat_map(|i| &i.addresses) {
            text.push_str(&format!("{}\t{name}\n", cidr.address));
        }
    }
    text
}

fn open_namespace(path: &str) -> Result<OwnedFd, Error> {
    File::open(path).map(OwnedFd::from).attempted(|| format!("open {path}"))
}
