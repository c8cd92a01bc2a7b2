//! The keeper: the process of `longfat lab up`, which keeps a network up until it is ended.
//!
//! All processes of the hosts are in a PID namespace that ends with the keeper, however it ends. The keeper's
//! descriptors hold hosts, mounts and devices. Only its journal entry and socket can outlast it; the next
//! clean-up removes them.

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
    control::{LinkStatus, NodeKind, NodeStatus, Reply, Request, Status, StopCommand, read_line, write_line},
    host_mtus::HostMtus,
    isolate::{create_pid_namespace, send_fds},
    links::{CommandResult, Links},
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
    journal::acquire_busy_poll_lock,
    port::Backend,
    processors::Placement,
    run::Lab,
    taps::taps,
};

/// Sample interval of links; the rows are discarded.
const INTERVAL: Time = Time::from_secs(1);
/// Timeout of a client's request; a client that exceeds it is dropped.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the driver's reply.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The keeper adopts a change of the scenario this long after its time, when the emulator has certainly made
/// it.
const CHANGE_MARGIN: Time = Time::from_millis(5);
/// Interval at which the keeper checks for a stop.
const STOP_POLL: Duration = Duration::from_millis(20);

/// Options of a standing lab.
#[derive(Debug)]
pub struct KeeperOptions<'a> {
    /// The lab's name.
    pub name: &'a str,
    /// Returned by [`crate::acquire_privilege`].
    pub privilege: Privilege,
    /// How hosts are connected to the emulator.
    pub backend: Backend,
    /// The journal in which this lab is registered.
    pub journal: &'a Journal,
    /// Whether the client that ends the lab should run the hosts' stop commands.
    pub stop_commands: bool,
    /// The caller sets it to end the lab.
    pub stop: &'a AtomicBool,
}

/// Keeps the scenario's network up until the lab is ended. Calls `ready` with the control socket's path as
/// soon as programs can run. The process must be single-threaded.
///
/// # Errors
/// See [`Error`]; after an error, no part of the lab remains.
pub fn run_keeper(
    scenario: &Scenario,
    options: &KeeperOptions<'_>,
    ready: impl FnOnce(&Path),
) -> Result<(), Error> {
    let entry = options.journal.enter_standing(&scenario.name, options.name)?;
    let socket = entry.socket().to_owned();
    let listener = UnixListener::bind(&socket).attempted(|| format!("create {}", socket.display()))?;
    listener.set_nonblocking(true).attempted(|| format!("use {}", socket.display()))?;
    mounts::prepare(&hosts_file(scenario), &socket)?;
    let (init_pid, init_pipe) =
        create_pid_namespace().map_err(mounts::standing_lab_error("create a PID namespace"))?;
    let pid_namespace = open_namespace(&format!("/proc/{init_pid}/ns/pid"))?;

    let lab = Lab::build(scenario, options.backend)?;
    for host in &lab.hosts {
        mounts::name_namespace(&host.name, &host.namespace)?;
    }
    let network: Network<Frame> = engine_common::build_network(scenario)?;
    let busy_poll_lock = acquire_busy_poll_lock();
    let (commands, receiver) = channel();
    let placement = Placement::choose(busy_poll_lock.is_some());
    let buffers = Buffers::for_links(&scenario.links);
    let time = RunTime::begin(TimeMode::Real);
    let captures = Captures::new(time.clone());
    let driver = Driver {
        network,
        ports: &lab.ports,
        sampled: Vec::new(),
        interval: INTERVAL,
        clock: Clock::new(time.clone(), &scenario.links),
        buffers,
        may_spin: placement.may_spin(),
        placement,
        commands: receiver,
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
        time: time.clone(),
        remarks: remarks(options),
        user_namespace: (options.privilege == Privilege::UserNamespace)
            .then(|| open_namespace("/proc/self/ns/user"))
            .transpose()?,
        mount_namespace: open_namespace("/proc/self/ns/mnt")?,
        pid_namespace,
    };
    let shared = Arc::new(Shared::default());
    let result = std::thread::scope(|scope| {
        let shared = &shared;
        let driver_thread = scope.spawn(move || {
            // The receiver is dropped immediately, so rows are discarded.
            let (rows, _) = channel();
            driver.run(shared, &rows)
        });
        shared.running.wait_until_set(|| driver_thread.is_finished());
        ready(&socket);
        keeper.serve(&listener, || options.stop.load(Ordering::Relaxed) || driver_thread.is_finished());
        // End the programs before the network that they use.
        drop(init_pipe);
        shared.stop.store(true, Ordering::Relaxed);
        let driver_result = driver_thread.join();
        captures.stop_all();
        driver_result
    });
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(Error::Emulator(e.to_string())),
        Err(_) => Err(Error::Emulator("the emulator panicked; please report this".into())),
    }
}

/// Accepts clients until `done`. Each request is read on a separate thread, so that a slow or silent client
/// does not delay others.
fn accept_clients(listener: &UnixListener, requests: &Sender<(UnixStream, Request)>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let Ok(true) = os::wait_readable(listener.as_fd(), STOP_POLL) else { continue };
        let Ok((stream, _)) = listener.accept() else {
            // For example because no file descriptor is free.
            std::thread::sleep(STOP_POLL);
            continue;
        };
        let requests = requests.clone();
        // If no thread can be started, this client is dropped.
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            let set =
                stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(CLIENT_TIMEOUT)));
            if let Ok(request) = set.and_then(|()| read_line(&stream, CLIENT_TIMEOUT)) {
                // Fails if the lab has ended.
                let _ = requests.send((stream, request));
            }
        });
    }
}

/// Handles the requests of clients.
struct Keeper<'a> {
    host_mtus: HostMtus,
    scenario: &'a Scenario,
    name: &'a str,
    stop_commands: bool,
    lab: &'a Lab,
    links: Links,
    captures: Captures,
    /// Active captures, by file.
    files: Vec<(String, CaptureId)>,
    commands: Sender<Command>,
    started: Instant,
    /// The emulator's time, at which the scenario's changes are made.
    time: RunTime,
    remarks: Vec<String>,
    /// The user namespace; only of a lab without root.
    user_namespace: Option<OwnedFd>,
    mount_namespace: OwnedFd,
    pid_namespace: OwnedFd,
}

impl Keeper<'_> {
    fn serve(mut self, listener: &UnixListener, stopped: impl Fn() -> bool) {
        let (sender, requests) = channel();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| accept_clients(listener, &sender, &done));
            while !stopped() {
                self.take_changes();
                self.apply_host_mtus();
                if let Ok((stream, request)) = requests.recv_timeout(STOP_POLL)
                    && self.handle(&stream, &request)
                {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    /// Handles one request and sends the reply; true if the request was to end the lab.
    fn handle(&mut self, stream: &UnixStream, request: &Request) -> bool {
        self.take_changes();
        self.apply_host_mtus();
        let refused = |why: String| Reply::Refused { why };
        let reply = match request {
            Request::Command { command } => match self.run_command(command) {
                Ok(text) => Reply::Text { text },
                Err(why) => refused(why),
            },
            Request::Enter { host } => match self.lab.host(host) {
                Some(host) => {
                    let mut fds: Vec<BorrowedFd<'_>> = self.user_namespace.iter().map(AsFd::as_fd).collect();
                    fds.extend([
                        self.mount_namespace.as_fd(),
                        self.pid_namespace.as_fd(),
                        host.namespace.fd(),
                    ]);
                    match send_fds(stream, &fds) {
                        Ok(()) => Reply::Text { text: String::new() },
                        Err(_) => return false,
                    }
                }
                None => {
                    // The client first reads one byte, to which the descriptors (SCM_RIGHTS) are attached if
                    // there is no error.
                    let mut stream = stream;
                    let _ = stream.write_all(&[0]);
                    refused(self.unknown_host_message(host))
                }
            },
            Request::Status => match self.status() {
                Some(status) => Reply::Status(Box::new(status)),
                None => refused("the emulator does not reply".into()),
            },
            Request::Down => Reply::Text { text: self.stop_captures() },
        };
        let _ = write_line(stream, &reply);
        *request == Request::Down
    }

    fn unknown_host_message(&self, name: &str) -> String {
        let hosts: Vec<&str> = self.lab.hosts.iter().map(|h| h.name.as_str()).collect();
        format!("no host {name}; hosts are {}", hosts.join(", "))
    }

    /// Runs a command; returns its output.
    fn run_command(&mut self, command: &[String]) -> Result<String, String> {
        let command =
            if command.first().is_some_and(|name| name == "sudo") { &command[1..] } else { command };
        let (name, arguments) = command.split_first().ok_or("no command given")?;
        let name = name.rsplit('/').next().unwrap_or(name);
        let result = match (name, arguments) {
            ("link", arguments) => self.links.link(arguments)?,
            ("tc", arguments) => {
                let counters = self.report().ok_or("the emulator does not reply")?.counters;
                self.links.tc(arguments, &counters)?
            }
            ("ifconfig", arguments) => self.links.ifconfig(arguments)?,
            ("ip", [link, set, remaining @ ..]) if link.starts_with('l') && set.starts_with('s') => {
                let has_dev = remaining.first().is_some_and(|argument| argument == "dev");
                self.links.ifconfig(if has_dev { &remaining[1..] } else { remaining })?
            }
            ("pcap", arguments) => return self.pcap(arguments),
            ("links", []) => CommandResult { text: self.links.list(), ..CommandResult::default() },
            (other, _) => {
                return Err(format!(
                    "unknown command {other}; commands are link, links, tc, ifconfig, ip link set and pcap"
                ));
            }
        };
        self.change_pipes(result.changed)?;
        Ok(result.text)
    }

    fn change_pipes(&self, pipes: Vec<(PipeId, PipeSpec)>) -> Result<(), String> {
        for (pipe, spec) in pipes {
            self.commands
                .send(Command::Change(pipe, Box::new(spec)))
                .map_err(|_| "the emulator has ended")?;
        }
        Ok(())
    }

    /// Adopts the changes of links that the scenario makes at its times.
    fn take_changes(&mut self) {
        let changed = self.links.take_changes(self.time.now().saturating_sub(CHANGE_MARGIN));
        // Fails only if the emulator has ended, which `serve` detects.
        let _ = self.change_pipes(changed);
    }

    /// Sets the MTUs of links to those that programs on the hosts have set.
    fn apply_host_mtus(&mut self) {
        for (device, mtu) in self.host_mtus.take_changes() {
            // Fails only if the emulator has ended, which `serve` detects.
            if let Ok(result) = self.links.ifconfig(&[device, "mtu".into(), mtu.to_string()]) {
                let _ = self.change_pipes(result.changed);
            }
        }
    }

    /// `pcap`, `pcap NAME [forward|backward] FILE`, `pcap stop FILE`.
    fn pcap(&mut self, arguments: &[String]) -> Result<String, String> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (name, side, file) = match arguments[..] {
            [] => {
                let files: Vec<&str> = self.files.iter().map(|(file, _)| file.as_str()).collect();
                return Ok(if files.is_empty() { "no active captures".into() } else { files.join("\n") });
            }
            ["stop", file] => return self.stop_capture(file),
            [name, file] => (name, None, file),
            [name, side @ ("forward" | "backward"), file] => (name, Some(side), file),
            _ => return Err("write for example: pcap h1 out.pcapng, or pcap s1-s2 forward out.pcapng".into()),
        };
        if self.files.iter().any(|(known, _)| known == file) {
            return Err(format!("a capture already writes to {file}"));
        }
        let mut taps = taps(self.scenario, name);
        match side {
            Some("forward") => taps.truncate(1),
            Some(_) => drop(taps.drain(..1.min(taps.len()))),
            None => {}
        }
        if taps.is_empty() {
            return Err(format!("no host or link {name}"));
        }
        let path = Path::new(file);
        if !path.is_absolute() {
            return Err(format!("{file} must be an absolute path: the lab has another working directory"));
        }
        let started = self.captures.start(name, &taps, path, &CaptureOptions::default());
        let id = started.map_err(|e| e.to_string())?;
        self.files.push((file.into(), id));
        Ok(format!("capturing {name} to {file}; stop with: pcap stop {file}"))
    }

    fn stop_capture(&mut self, file: &str) -> Result<String, String> {
        let index = self.files.iter().position(|(known, _)| known == file);
        let (_, id) = self.files.remove(index.ok_or_else(|| format!("no capture writes to {file}"))?);
        let end = self.captures.stop(id).ok_or_else(|| format!("the capture to {file} has ended already"))?;
        let missed = end.note().map(|note| format!("; {note}")).unwrap_or_default();
        Ok(format!("{} packets in {file}{missed}", end.packets))
    }

    /// Ends all captures; returns a note for each that is incomplete.
    fn stop_captures(&mut self) -> String {
        let ends = self.captures.stop_all();
        ends.iter().filter_map(CaptureEnd::note).collect::<Vec<_>>().join("\n")
    }

    /// The emulator's report, with the counters of all directions of links.
    fn report(&self) -> Option<LiveReport> {
        let pipes: Vec<PipeId> = (0..self.scenario.links.len() as u32)
            .flat_map(|link| net::Direction::BOTH.map(|direction| PipeId { link, direction }))
            .collect();
        let (sender, reports): (Sender<LiveReport>, Receiver<LiveReport>) = channel();
        self.commands.send(Command::Report(pipes, sender)).ok()?;
        reports.recv_timeout(DRIVER_TIMEOUT).ok()
    }

    fn status(&self) -> Option<Status> {
        let report = self.report()?;
        let links = report.counters.iter().enumerate().map(|(i, counters)| LinkStatus {
            name: self.scenario.links[i / 2].name.clone(),
            direction: net::Direction::BOTH[i % 2].name().into(),
            from_port: self.links.port(i / 2, i % 2).into(),
            to_port: self.links.port(i / 2, 1 - i % 2).into(),
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
    let node = |name: &str, kind, interfaces: &[scenario::Interface]| NodeStatus {
        name: name.into(),
        kind,
        addresses: interfaces.iter().flat_map(|i| &i.addresses).map(ToString::to_string).collect(),
    };
    let hosts = scenario.hosts.iter().map(|h| node(&h.name, NodeKind::Host, &h.interfaces));
    let switches = scenario.switches.iter().map(|s| node(s, NodeKind::Switch, &[]));
    let routers = scenario.routers.iter().map(|r| node(&r.name, NodeKind::Router, &r.interfaces));
    hosts.chain(switches).chain(routers).collect()
}

fn remarks(options: &KeeperOptions<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if options.privilege == Privilege::UserNamespace {
        remarks.push(
            "run without root: no real-time priority, so a busy machine delays packets; net.core.rmem_max and wmem_max \
             cap the socket buffers that programs set"
                .into(),
        );
    }
    if options.backend == Backend::Packet {
        remarks.push(
            "no TAP devices: hosts are connected by veth pairs and packet sockets, which cost more processor time"
                .into(),
        );
    }
    remarks
}

fn stop_commands(scenario: &Scenario) -> Vec<StopCommand> {
    let of = |host: &scenario::Host| Some(StopCommand { host: host.name.clone(), line: host.stop.clone()? });
    scenario.hosts.iter().filter_map(of).collect()
}

/// The text of /etc/hosts, with the names of all hosts and routers.
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
