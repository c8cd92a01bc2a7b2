//! Agents as processes of this test program, on loopback.

use std::{
    env,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use agent::{
    Authority, Client, Config, Explained, Filter, JoinRequest, Moment, NewReservation, ReloadHandle,
    StepObserver, StopHandle, TestRow,
};
use reservation::Event;
use units::Time;

/// Set in the child: the point's directory.
const DIRECTORY: &str = "LONGFAT_TEST_AGENT";
/// Set in the child: at which moment it waits to be killed, as in `Written held`.
const KILL_AT: &str = "LONGFAT_TEST_KILL_AT";
/// What the child prints when it listens, and when it waits to be killed.
const READY: &str = "agent-is-ready";
const KILL_ME: &str = "agent-waits-to-be-killed";
/// Longer than any step of these tests takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// A file in a point's directory: the offset of its UTC, ns.
const CLOCK_OFFSET: &str = "clock-offset";
/// A file in a point's directory: how long before its end a certificate is renewed, days.
pub const RENEW_DAYS: &str = "renew-days";

/// A file in a point's directory: when it exists, the agent removes it and reads its configuration again.
const RELOAD: &str = "reload";

/// Follows the file [`RELOAD`]. Mistakes of the configuration are printed.
fn reload_by_file(directory: &Path) -> ReloadHandle {
    let (directory, reload) = (directory.to_owned(), ReloadHandle::default());
    let handle = reload.clone();
    std::thread::spawn(move || {
        loop {
            if std::fs::remove_file(directory.join(RELOAD)).is_ok() {
                match Config::read(&directory.join("agent.toml")) {
                    Ok(config) => handle.reload(config),
                    Err(error) => println!("{error}"),
                }
            }
            sleep(Duration::from_millis(20));
        }
    });
    reload
}

/// Lets a running agent read its configuration again.
pub fn reload(directory: &Path) {
    std::fs::write(directory.join(RELOAD), "").unwrap();
}

/// Applies the offset of UTC in the file, which it rereads every 20 ms.
fn step_clock_by_file(directory: &Path, clock: &agent::Clock) {
    let (file, offset) = (directory.join(CLOCK_OFFSET), Arc::clone(&clock.offset_ns));
    std::thread::spawn(move || {
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            offset.store(text.parse().unwrap_or(0), std::sync::atomic::Ordering::Relaxed);
            sleep(Duration::from_millis(20));
        }
    });
}

/// Steps the clock of a running agent.
pub fn step_clock(directory: &Path, offset_s: i64) {
    let text = (offset_s * 1_000_000_000).to_string();
    // Written completely or not at all.
    let new = directory.join("clock-offset.new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, directory.join(CLOCK_OFFSET)).unwrap();
    sleep(Duration::from_millis(500));
}

/// Stops at a moment until the process is killed.
struct StopAt {
    moment: String,
    event: String,
}

impl StepObserver for StopAt {
    fn at(&self, moment: Moment, events: &[Event]) {
        let names = events.iter().map(|event| serde_json::to_value(event).unwrap()["event"].clone());
        let is_event = self.event == "any" || names.into_iter().any(|name| name == self.event.as_str());
        if format!("{moment:?}") == self.moment && is_event {
            println!("{KILL_ME}");
            // The connections run on this thread too: frames passed to them are still sent before the kill
            // arrives.
            if matches!(moment, Moment::Sent | Moment::Started) {
                return;
            }
            loop {
                sleep(Duration::from_secs(60));
            }
        }
    }
}

/// The agent's process; does nothing in a normal test run.
#[test]
fn child() {
    let Ok(directory) = env::var(DIRECTORY) else { return };
    let mut config = Config::read(&Path::new(&directory).join("agent.toml")).unwrap();
    let settings = &mut config.settings;
    settings.hold = Time::from_secs(6);
    settings.resend = Time::from_millis(500);
    settings.max_resend = Time::from_secs(2);
    settings.retry = Time::from_secs(1);
    settings.ahead = Time::from_secs(20);
    step_clock_by_file(Path::new(&directory), &config.clock);
    if let Ok(days) = std::fs::read_to_string(Path::new(&directory).join(RENEW_DAYS)) {
        config.renew_before = Duration::from_secs(86_400) * days.parse().unwrap();
    }
    let kill_at = env::var(KILL_AT).unwrap_or_default();
    let (moment, event) = kill_at.split_once(' ').unwrap_or_default();
    let observer = StopAt { moment: moment.into(), event: event.into() };
    let reload = reload_by_file(Path::new(&directory));
    let on_ready = |_| println!("{READY}");
    agent::run_reloadable(config, Arc::new(observer), &StopHandle::default(), &reload, on_ready).unwrap();
}

/// A running agent; killed when it is dropped.
pub struct Agent {
    child: Child,
    lines: Receiver<String>,
}

impl Agent {
    pub fn start(directory: &Path) -> Agent {
        Agent::start_with(directory, "")
    }

    /// `kill_at`: a moment and an event, as in `Written held`.
    pub fn start_with(directory: &Path, kill_at: &str) -> Agent {
        Agent::spawn(Command::new(env::current_exe().unwrap()), directory, kill_at)
    }

    /// In the mount namespace of a process.
    pub fn start_in_mounts_of(pid: u32, directory: &Path) -> Agent {
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid.to_string(), "--mount", "--"]).arg(env::current_exe().unwrap());
        Agent::spawn(command, directory, "")
    }

    fn spawn(mut command: Command, directory: &Path, kill_at: &str) -> Agent {
        let mut child = command
            .args(["--exact", "agents::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .env(KILL_AT, kill_at)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let agent = Agent { child, lines };
        agent.wait_for(READY);
        agent
    }

    /// Waits until it prints this text.
    pub fn wait_for(&self, text: &str) {
        let begin = Instant::now();
        while begin.elapsed() < TIMEOUT {
            // libtest prints "test agents::child ... " before the first line.
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) if line.contains(text) => return,
                Ok(_) => {}
                Err(error) => panic!("{text:?} was not printed: {error}"),
            }
        }
        panic!("{text:?} was not printed in time");
    }

    /// Waits until the agent has reached the moment at which it is to be killed.
    pub fn wait_for_moment(&self) {
        self.wait_for(KILL_ME);
    }

    /// Stops the process; its connections stay open.
    pub fn freeze(&self) {
        let status = Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The directories of points on loopback, which are members of one mesh.
pub struct Mesh {
    _root: tempfile::TempDir,
    pub directories: Vec<PathBuf>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn listen() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

/// Adds lines to the configuration of a point.
pub fn add(directory: &Path, lines: &str) {
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + lines).unwrap();
}

/// Replaces a line of the configuration.
pub fn configure(directory: &Path, key: &str, value: &str) {
    let path = directory.join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let line = |line: &str| match line.starts_with(&format!("{key} = ")) {
        true => format!("{key} = {value}\n"),
        false => format!("{line}\n"),
    };
    std::fs::write(&path, text.lines().map(line).collect::<String>()).unwrap();
}

impl Mesh {
    /// A mesh of these points; the first one creates it.
    pub fn of(names: &[&str]) -> Mesh {
        let root = tempfile::tempdir().unwrap();
        let directories: Vec<PathBuf> = names.iter().map(|name| root.path().join(name)).collect();
        let address = listen();
        agent::create_mesh(&directories[0], names[0], address, &address.to_string()).unwrap();
        configure(&directories[0], "clock_error", "\"100ms\"");
        let founder = Agent::start(&directories[0]);
        let state = directories[0].join("state");
        let authority = Authority::open(&state).unwrap();
        for (name, directory) in names.iter().zip(&directories).skip(1) {
            let hour = Duration::from_secs(3600);
            let invitation = authority.invite(&state, name, &address.to_string(), hour).unwrap();
            // The token as a user copies it.
            let invitation = invitation.to_string().parse().unwrap();
            let request = JoinRequest { listen: listen(), address: None };
            agent::join_mesh(directory, &invitation, &request).unwrap();
            configure(directory, "clock_error", "\"100ms\"");
        }
        drop(founder);
        Mesh { _root: root, directories }
    }

    pub fn client(&self, index: usize) -> Client {
        Client::new(&self.directories[index].join("state"))
    }
}

/// A short test between two points.
pub fn wanted(from: &str, to: &str, kind: &str) -> NewReservation {
    NewReservation {
        duration_us: Some(1_500_000),
        within_us: 60_000_000,
        ..NewReservation::new(from, to, kind.parse().unwrap())
    }
}

/// Polls until `is_done`.
pub fn wait_until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(begin.elapsed() < TIMEOUT, "{what} did not happen in time");
        sleep(Duration::from_millis(200));
    }
}

/// Waits for the end of a reservation at a point.
pub fn end(client: &Client, id: &str) -> Explained {
    wait_until(&format!("the end of {id}"), || {
        client.why(id).unwrap().into_iter().next().filter(Explained::is_over)
    })
}

/// Waits until no slot is taken at a point.
pub fn wait_for_empty_calendar(client: &Client) {
    wait_until("an empty calendar", || {
        client.calendar(Duration::from_secs(1000)).unwrap().slots.is_empty().then_some(())
    });
}

pub fn results(client: &Client) -> Vec<TestRow> {
    client.results(Filter { limit: 1000, ..Filter::default() }).unwrap()
}
