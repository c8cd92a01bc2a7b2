//! The agents of the demo: their files, and their processes on the hosts of the lab.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use agent::{Authority, Client, DEFAULT_PORT, Members};
use anyhow::{Context, bail};
use lab::StandingLab;
use reservation::round_robin_turn;
use scenario::ScenarioFile;
use units::Time;

use super::NETWORK;
use crate::{
    commands::{agent::failure, lab::standing},
    output,
};

/// Time between two tests of a pair: 30 tests, three at a time.
pub const TEST_EVERY: Time = Time::from_secs(90);
/// Time between the starts of two tests of a point; a slot with its padding is a little shorter.
const TURN: Time = Time::from_secs(9);
/// Maximum delay of a test after its nominal start.
const SLIP: Time = Time::from_secs(45);
/// Length of a test: slow start takes about a second across the Pacific.
const TEST_LENGTH: Time = Time::from_secs(4);
/// Padding of slots: the programs of six points share this machine's processors.
const PADDING: Time = Time::from_millis(1500);
/// Assumed error of the clock, which all points share.
const CLOCK_ERROR: Time = Time::from_millis(1);
/// Timeout of an agent's start and of its end.
const AGENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the start or the end of an agent is checked.
const AGENT_POLL: Duration = Duration::from_millis(50);
/// Lifetime of an invitation of the demo.
const INVITATION: Duration = Duration::from_secs(600);

/// Limits without the restrictions of a point on the Internet: all points belong to the demo.
const LIMITS: &str = "[classes.demo]\n[assign]\ndefault = \"demo\"\n";

/// The locations of the points, and their latitudes and longitudes in degrees: the NICT station at Kashima,
/// and the cities' centres.
const PLACES: [(&str, &str, f64, f64); 6] = [
    ("kashima", "Kashima, Japan", 35.954, 140.66),
    ("tokyo", "Tokyo, Japan", 35.68, 139.77),
    ("fukuoka", "Fukuoka, Japan", 33.59, 130.4),
    ("busan", "Busan, Korea", 35.18, 129.08),
    ("losangeles", "Los Angeles, USA", 34.05, -118.24),
    ("washington", "Washington, USA", 38.9, -77.04),
];

/// The running agents. They are ended when this is dropped.
pub struct Points {
    directory: PathBuf,
    agents: Vec<(String, Child)>,
}

impl Points {
    /// Creates a mesh with the first point, lets the others join it, and starts all of them. Ends early if
    /// `stop` is set.
    pub fn start(
        lab: &StandingLab,
        directory: &Path,
        names: &[&str],
        stop: &AtomicBool,
    ) -> anyhow::Result<Points> {
        let mut points = Points { directory: directory.into(), agents: Vec::new() };
        let addresses = addresses(names)?;
        let listen = ([0, 0, 0, 0], DEFAULT_PORT).into();
        let (first, others) = names.split_first().context("the demo has no points")?;
        let address = format!("{}:{DEFAULT_PORT}", addresses[0]);
        agent::create_mesh(&points.point(first), first, listen, &address).map_err(failure)?;
        points.run(lab, first, stop)?;
        let authority = Authority::open(&points.state(first)).context("the authority's key is missing")?;
        for (name, own) in others.iter().zip(&addresses[1..]) {
            if stop.load(Ordering::Relaxed) {
                return Ok(points);
            }
            let invitation = authority.invite(&points.state(first), name, &address, INVITATION);
            points.join(lab, name, own, &invitation.map_err(failure)?.to_string())?;
        }
        // The tests of each point name all other points, but the first points were started before the later
        // ones joined: all are started again with the complete list.
        let members = Members::open(&points.state(first)).map_err(failure)?;
        points.end();
        for (name, own) in names.iter().zip(&addresses) {
            members.write(&points.state(name)).map_err(failure)?;
            let directory = points.point(name);
            output::file(&directory.join(agent::CONFIG_FILE), config(name, own, names))?;
            output::file(&directory.join("limits.toml"), LIMITS)?;
        }
        for name in names {
            if stop.load(Ordering::Relaxed) {
                return Ok(points);
            }
            points.run(lab, name, stop)?;
        }
        Ok(points)
    }

    fn point(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The state directory of a point.
    pub fn state(&self, name: &str) -> PathBuf {
        self.point(name).join("state")
    }

    /// A command of this program on a point's host.
    fn command(&self, lab: &StandingLab, name: &str) -> anyhow::Result<Command> {
        let mut command = standing::exec_command(&lab.name, name)?;
        command.arg(std::env::current_exe().context("cannot find this program's file")?).arg("agent");
        Ok(command)
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// The last line that a point's programs have printed.
    fn last_line(&self, name: &str) -> String {
        let log = fs::read_to_string(self.log_file(name)).unwrap_or_default();
        log.lines().last().unwrap_or("it printed nothing").to_owned()
    }

    fn log(&self, name: &str) -> anyhow::Result<File> {
        let path = self.log_file(name);
        let log = File::options().append(true).create(true).open(&path);
        log.with_context(|| format!("cannot create {}", path.display()))
    }

    /// Starts an agent and waits until it replies.
    fn run(&mut self, lab: &StandingLab, name: &str, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut command = self.command(lab, name)?;
        command.args(["run", "--dir"]).arg(self.point(name));
        let child = command
            .stdin(Stdio::null())
            .stdout(self.log(name)?)
            .stderr(self.log(name)?)
            .spawn()
            .with_context(|| format!("cannot start the agent of {name}"))?;
        self.agents.push((name.into(), child));
        let client = Client::new(&self.state(name));
        let begin = Instant::now();
        while client.status().is_err() && !stop.load(Ordering::Relaxed) {
            self.check()?;
            if begin.elapsed() > AGENT_TIMEOUT {
                bail!("the agent of {name} does not reply: {}", self.last_line(name));
            }
            sleep(AGENT_POLL);
        }
        Ok(())
    }

    fn join(&self, lab: &StandingLab, name: &str, address: &str, token: &str) -> anyhow::Result<()> {
        let mut command = self.command(lab, name)?;
        // The token is passed by standard input, because other users can read arguments.
        command.args(["join", "-", "--listen", &format!("0.0.0.0:{DEFAULT_PORT}"), "--address", address]);
        let mut child = command
            .arg("--dir")
            .arg(self.point(name))
            .stdin(Stdio::piped())
            .stdout(self.log(name)?)
            .stderr(self.log(name)?)
            .spawn()
            .with_context(|| format!("cannot start longfat on {name}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(token.as_bytes()).with_context(|| format!("cannot pass the token to {name}"))?;
        }
        let status = child.wait().with_context(|| format!("cannot wait for longfat on {name}"))?;
        if !status.success() {
            bail!("{name} could not join the mesh: {}", self.last_line(name));
        }
        Ok(())
    }

    /// Fails if an agent has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        for (name, child) in &mut self.agents {
            if let Some(status) = child.try_wait().with_context(|| format!("cannot check {name}"))? {
                let name = name.clone();
                bail!("the agent of {name} ended with {status}: {}", self.last_line(&name));
            }
        }
        Ok(())
    }

    /// Ends all agents in order: SIGTERM first.
    fn end(&mut self) {
        for (_, child) in &self.agents {
            let _ = signal(child.id());
        }
        let begin = Instant::now();
        for (_, child) in &mut self.agents {
            while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < AGENT_TIMEOUT {
                sleep(AGENT_POLL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        self.agents.clear();
    }
}

impl Drop for Points {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends SIGTERM, which `lab exec` forwards to its program.
fn signal(pid: u32) -> std::io::Result<()> {
    Command::new("kill").args(["-TERM", &pid.to_string()]).stderr(Stdio::null()).status().map(drop)
}

/// The addresses of the points' hosts in the network.
fn addresses(names: &[&str]) -> anyhow::Result<Vec<String>> {
    let scenario = ScenarioFile::parse("network.toml", NETWORK).and_then(|file| file.resolve(None, &[]));
    let scenario = scenario.map_err(experiment::Error::from)?;
    let address = |name: &&str| {
        let host = scenario.hosts.iter().find(|host| host.name == **name);
        let interface = host.and_then(|host| host.interfaces.first()?.addresses.first());
        interface.map(|cidr| cidr.address.to_string()).with_context(|| format!("{name} has no address"))
    };
    names.iter().map(address).collect()
}

/// The configuration of a point: a test to each other one.
fn config(name: &str, address: &str, names: &[&str]) -> String {
    let mut text = format!(
        "name = \"{name}\"\nlisten = \"0.0.0.0:{DEFAULT_PORT}\"\naddress = \"{address}:{DEFAULT_PORT}\"\nstate = \"state\"\n\
         limits = \"limits.toml\"\nclock_error = \"{}us\"\npadding = \"{}us\"\n",
        CLOCK_ERROR.as_micros(),
        PADDING.as_micros(),
    );
    let placed = PLACES.iter().find(|(known, ..)| *known == name);
    if names.first() != Some(&name) {
        text += &format!("results_to = [\"{}\"]\n", names[0]);
    }
    if let Some((_, place, latitude, longitude)) = placed {
        text += &format!(
            "\n[directory]\nplace = \"{place}\"\nlatitude = {latitude:?}\nlongitude = {longitude:?}\n"
        );
    }
    let own = names.iter().position(|known| *known == name).unwrap_or_default();
    for (number, other) in names.iter().enumerate().filter(|(number, _)| *number != own) {
        let offset = round_robin_turn(own, number, names.len()) * TURN.as_nanos();
        text += &format!(
            "\n[[tests]]\nname = \"to-{other}\"\nto = \"{other}\"\nkind = \"throughput\"\nduration = \"{}us\"\n\
             every = \"{}us\"\noffset = \"{}us\"\nslip = \"{}us\"\n",
            TEST_LENGTH.as_micros(),
            TEST_EVERY.as_micros(),
            offset / 1000,
            SLIP.as_micros(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tests_of_a_point_fit_between_two_tests_of_a_pair() {
        let count = super::super::POINTS.len();
        let pairs =
            (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let turns = 1 + pairs.map(|(from, to)| round_robin_turn(from, to, count)).max().unwrap_or_default();
        assert!(TURN.as_nanos() * turns <= TEST_EVERY.as_nanos());
    }
}
