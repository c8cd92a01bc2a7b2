//! `longfat lab up`, `exec`, `status` and `down`: labs that stay up.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use clap_complete::ArgValueCompleter;
use experiment::{
    clean_journal, scenario_file,
    sheet_defaults::{self, SHEET_DEFAULTS, SheetDefaults},
};
use lab::{
    Journal, StandingLab,
    standing::{KeeperOptions, NodeKind, NodeStatus, Reply, Request, Status, send_request},
};
use scenario::{Scenario, ScenarioFile};
use serde_json::{Value, json};

use crate::{
    commands::completions::complete_scenario,
    exit::{Exit, chain},
    interrupt,
    open::{parse_set, read_scenario},
    output,
};

/// Maximum time in which a lab goes down. The kernel takes some 20 ms for each device (600 hosts: 11 s on 2
/// cores).
const DOWN_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the end of a lab is checked.
const DOWN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Options of `lab up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// The scenario file, a MiniEdit topology (.mn), or the name of a built-in scenario
    #[arg(add = ArgValueCompleter::new(complete_scenario))]
    pub file: PathBuf,
    /// Name of the lab [default: the name of the file]
    #[arg(long = "lab", alias = "name", value_name = "NAME")]
    pub name: Option<String>,
    /// Variant of the scenario [default: the first]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Change a value of the scenario, as in `--set links.s1-s2.forward.delay=50ms`
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    sets: Vec<(String, String)>,
    /// Also run the hosts' start commands, and their stop commands on `down`
    #[arg(long)]
    pub run_commands: bool,
    /// Host settings that apply where the file states none: linux-4.15 (the machine of the lab sheets)
    /// [default: this machine's]
    #[arg(long, value_name = "NAME", value_parser = parse_defaults)]
    defaults: Option<SheetDefaults>,
    /// How the hosts are connected: tap, or packet [default: tap where /dev/net/tun can be opened]
    #[arg(long, value_name = "PORTS")]
    ports: Option<lab::Backend>,
}

impl UpArgs {
    /// The options for a file, all others default.
    pub fn of(file: &Path) -> Self {
        UpArgs {
            file: file.into(),
            name: None,
            variant: None,
            sets: Vec::new(),
            run_commands: false,
            defaults: None,
            ports: None,
        }
    }

    /// The options for a file with the settings of a lab sheet's machine.
    pub fn with_defaults(file: &Path, defaults: Option<SheetDefaults>) -> Self {
        UpArgs { defaults, ..UpArgs::of(file) }
    }

    fn name(&self) -> String {
        let stem = self.file.file_stem().map(|s| s.to_string_lossy().into_owned());
        self.name.clone().or(stem).unwrap_or_default()
    }

    fn resolve(&self, file: &ScenarioFile) -> anyhow::Result<Scenario> {
        let variant = self.variant.as_deref().or_else(|| file.variants().next());
        let mut sets = self.defaults.map(|defaults| defaults.sets()).unwrap_or_default();
        sets.extend_from_slice(&self.sets);
        Ok(scenario_file::resolve(file, &self.file, variant, &sets)?)
    }
}

/// The settings of this name.
pub fn parse_defaults(name: &str) -> Result<SheetDefaults, String> {
    sheet_defaults::find(name).copied().ok_or_else(|| {
        let known: Vec<&str> = SHEET_DEFAULTS.iter().map(|one| one.name).collect();
        format!("unknown settings; there are {}", known.join(", "))
    })
}

/// Lists the settings in which this machine differs from that of the lab sheets, if a MiniEdit topology is
/// started with this machine's settings: the sheets' figures depend on them.
fn note_differences(args: &UpArgs) {
    for (sysctl, value) in args.defaults.iter().flat_map(SheetDefaults::restricted) {
        output::note(&format!(
            "{}: {sysctl} stays this machine's: hosts cannot have {value} unless net.ipv4.tcp_allowed_congestion_control has it",
            args.name()
        ));
    }
    if args.defaults.is_some() || !scenario_file::is_mn(&args.file) {
        return;
    }
    for sheet in SHEET_DEFAULTS {
        let differences = sheet.differences();
        if differences.is_empty() {
            continue;
        }
        output::note(&format!(
            "{}: hosts have this machine's settings, not those of {}:",
            args.name(),
            sheet.about
        ));
        for one in differences {
            output::note(&format!("  {} = {} (the sheet's machine: {})", one.sysctl, one.here, one.sheet));
        }
        output::note(&format!("  for the sheet's settings: --defaults {}", sheet.name));
    }
}

/// The selected lab.
#[derive(Debug, Args)]
pub struct LabName {
    /// Name of the lab [default: the one that you brought up last]
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
}

impl LabName {
    /// The lab of this name, or the one brought up last.
    pub fn find(&self) -> anyhow::Result<StandingLab> {
        find(self.lab.as_deref())
    }
}

/// Options of `lab exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    #[command(flatten)]
    lab: LabName,
    /// The host; for tc, ifconfig and ip link set also a switch or router
    node: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Options of `lab status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the lab [default: all labs]
    #[arg(long = "lab", value_name = "NAME")]
    lab: Option<String>,
    /// The name without `--lab`
    #[arg(hide = true, conflicts_with = "lab")]
    name: Option<String>,
}

/// Options of `lab down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    #[command(flatten)]
    lab: LabName,
    /// The name without `--lab`
    #[arg(hide = true, conflicts_with = "lab")]
    name: Option<String>,
    /// Take down all labs of this user
    #[arg(long, conflicts_with_all = ["lab", "name"])]
    all: bool,
}

/// Runs `lab up`: starts the lab's process and waits until it is ready.
pub fn up(args: &UpArgs, json: bool) -> anyhow::Result<()> {
    let name = start(args)?;
    let remarks = status_of(&find(Some(&name))?)?.remarks;
    if json {
        return output::json(&json!({ "schema": "longfat.lab/1", "name": name, "remarks": remarks }));
    }
    remarks.iter().for_each(|remark| output::note(&format!("{name}: {remark}")));
    output::prose(&format!(
        "{name} is up; try: longfat lab shell, longfat lab exec HOST -- PROGRAM, longfat lab down"
    ))
}

/// Starts the lab and returns its name.
pub fn start(args: &UpArgs) -> anyhow::Result<String> {
    // Mistakes are reported here, before anything is started.
    let scenario = args.resolve(&read_scenario(&args.file)?)?;
    let name = args.name();
    if name.is_empty() || name.contains(char::is_control) {
        return Err(Exit::BadInput(format!(
            "{name:?} is not a valid name for a lab; choose another with --lab NAME"
        ))
        .into());
    }
    note_differences(args);
    clean_journal(&Journal::of_this_user())?;
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = Command::new(program);
    command.args(["lab", "keep"]).arg(&args.file);
    for (option, value) in [("--lab", &args.name), ("--variant", &args.variant)] {
        command.args(value.iter().flat_map(|value| [option, value]));
    }
    command.args(args.sets.iter().flat_map(|(key, value)| ["--set".into(), format!("{key}={value}")]));
    if args.run_commands {
        command.arg("--run-commands");
    }
    if let Some(defaults) = args.defaults {
        command.args(["--defaults", defaults.name]);
    }
    if let Some(ports) = args.ports {
        command.args(["--ports", ports.name()]);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot start the lab's process")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).context("cannot read from the lab's process")?;
    }
    if line.is_empty() {
        // The process has printed the reason on standard error.
        let status = child.wait().context("cannot wait for the lab's process")?;
        return Err(Exit::Child(status.code().unwrap_or(1)).into());
    }
    if args.run_commands {
        let commands = scenario.hosts.iter().filter_map(|h| Some((h.name.as_str(), h.start.as_deref()?)));
        commands.into_iter().for_each(|(host, line)| run_command(&name, host, line));
    }
    Ok(name)
}

/// Runs a start or stop command. A failure is reported and does not stop the others.
fn run_command(lab: &str, host: &str, line: &str) {
    match on_host(lab, host, line) {
        Ok(status) if status.success() => {}
        Ok(status) => output::note(&format!("{host}: {line:?} ended with {status}")),
        Err(error) => output::note(&format!("{host}: {line:?}: {}", chain(&error))),
    }
}

/// Runs a shell command on a host, in a separate process.
pub fn on_host(lab: &str, host: &str, line: &str) -> anyhow::Result<std::process::ExitStatus> {
    exec_command(lab, host)?.args(["sh", "-c", line]).status().context("cannot start longfat lab exec")
}

/// `longfat lab exec HOST --`, to which a program is appended.
pub fn exec_command(lab: &str, host: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's file")?);
    command.args(["lab", "exec", "--lab", lab, host, "--"]);
    Ok(command)
}

/// Runs the lab's process, which `lab up` starts.
pub fn keep(args: &UpArgs) -> anyhow::Result<()> {
    // `up` has already printed the notes.
    let scenario = args.resolve(&scenario_file::read(&args.file, |_| {})?)?;
    lab::standing::start_session();
    let journal = Journal::of_this_user();
    let stop: std::sync::Arc<AtomicBool> = interrupt::flag()?;
    let privilege = lab::acquire_privilege().map_err(experiment::Error::from)?;
    let name = args.name();
    let options = KeeperOptions {
        name: &name,
        privilege,
        backend: args.ports.unwrap_or_else(lab::Backend::for_this_machine),
        journal: &journal,
        stop_commands: args.run_commands,
        stop: &stop,
    };
    let ready = |_: &Path| {
        // The parent may have ended; the lab stays up.
        let _ = output::text(&name);
        lab::standing::detach_standard_streams();
    };
    Ok(lab::standing::run_keeper(&scenario, &options, ready).map_err(experiment::Error::from)?)
}

/// Runs `lab exec`: a program on a node, in this terminal.
pub fn exec(args: &ExecArgs) -> anyhow::Result<()> {
    let lab = args.lab.find()?;
    note_other_labs(&args.lab, &lab)?;
    let status = status_of(&lab)?;
    let node = find_node(&status, &args.node)?;
    if node.kind != NodeKind::Host {
        let words = args.program.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        return output_unless_empty(&send_command(&lab, with_absolute_path(words)?)?);
    }
    match lab::standing::run_on_host(&lab.socket, &args.node, &args.program)? {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            use std::os::unix::process::ExitStatusExt;
            let code = status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1);
            Err(Exit::Child(code).into())
        }
        Err(why) => Err(Exit::BadInput(why).into()),
    }
}

fn find_node<'a>(status: &'a Status, name: &str) -> anyhow::Result<&'a NodeStatus> {
    status.nodes.iter().find(|n| n.name == name).ok_or_else(|| {
        let known: Vec<&str> = status.nodes.iter().map(|n| n.name.as_str()).collect();
        Exit::BadInput(format!("{} has no {name}; it has {}", status.name, known.join(", "))).into()
    })
}

/// Makes the file name of a capture absolute: the lab's process has another working directory.
pub fn with_absolute_path(mut words: Vec<String>) -> anyhow::Result<Vec<String>> {
    if words.len() >= 3
        && words[0] == "pcap"
        && let Some(file) = words.last_mut()
    {
        *file = std::path::absolute(Path::new(file.as_str()))?.display().to_string();
    }
    Ok(words)
}

/// Sends a command to the lab's process; returns its reply.
pub fn send_command(lab: &StandingLab, words: Vec<String>) -> anyhow::Result<String> {
    match send_request(&lab.socket, &Request::Command { command: words })? {
        Reply::Text { text } => Ok(text),
        Reply::Refused { why } => Err(Exit::BadInput(why).into()),
        Reply::Status(_) => bail!("the lab sent an invalid reply"),
    }
}

pub fn output_unless_empty(text: &str) -> anyhow::Result<()> {
    if text.is_empty() { Ok(()) } else { output::text(text) }
}

/// Runs `lab status`.
pub fn status(args: &StatusArgs, json: bool) -> anyhow::Result<()> {
    let name = args.lab.as_ref().or(args.name.as_ref());
    let labs = match name {
        Some(name) => vec![find(Some(name))?],
        None => standing()?,
    };
    // A lab that does not reply, or is still coming up, must not hide the others.
    let (mut statuses, mut silent) = (Vec::new(), Vec::new());
    for lab in &labs {
        match status_of(lab) {
            Ok(status) => statuses.push(status),
            Err(error) if name.is_some() => return Err(error),
            Err(error) => silent.push(format!("{}: {}", lab.name, chain(&error))),
        }
    }
    silent.iter().for_each(|line| output::note(line));
    if json {
        let labs: Vec<Value> = statuses.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        return output::json(&json!({ "schema": "longfat.labs/1", "labs": labs }));
    }
    if statuses.is_empty() {
        return if silent.is_empty() { output::text("no lab is up") } else { Ok(()) };
    }
    output::prose(&statuses.iter().map(describe).collect::<Vec<_>>().join("\n\n"))
}

/// The status of a lab as text.
pub fn describe(status: &Status) -> String {
    let mut lines = vec![format!(
        "{}: {} (process {}, up {:.0} s, packets late p99 {:.0} us)",
        status.name, status.title, status.pid, status.up_s, status.emulator_late_p99_us
    )];
    if status.stalls > 0 {
        lines.push(format!(
            "  the emulator stalled {}, {:.1} ms in total and {:.1} ms at most: this machine was busy",
            if status.stalls == 1 { "once".to_owned() } else { format!("{} times", status.stalls) },
            status.stalled_total_us / 1000.0,
            status.stalled_max_us / 1000.0
        ));
    }
    lines
        .extend(status.nodes.iter().map(|n| format!("  {:6} {}  {}", n.kind, n.name, n.addresses.join(" "))));
    lines.extend(status.links.iter().filter(|l| l.state != "ideal").map(|l| {
        format!(
            "  link   {} {}  {}  (sent {}, dropped {} at the queue, {} on the wire, {} B queued)",
            l.name, l.direction, l.state, l.sent_packets, l.dropped_queue, l.dropped_loss, l.queue_bytes
        )
    }));
    lines.extend(status.remarks.iter().map(|remark| format!("  {remark}")));
    lines.extend(status.captures.iter().map(|c| format!("  capture {c}")));
    lines.join("\n")
}

/// Runs `lab down`.
pub fn down(args: &DownArgs, json: bool) -> anyhow::Result<()> {
    let labs = match args.all {
        true => standing()?,
        false => vec![find(args.name.as_deref().or(args.lab.lab.as_deref()))?],
    };
    let (mut names, mut failed) = (Vec::new(), Vec::new());
    for lab in &labs {
        match end(lab) {
            Ok(()) => names.push(lab.name.as_str()),
            // The remaining labs are still taken down.
            Err(error) => failed.push(chain(&error)),
        }
    }
    match json {
        true => output::json(&json!({ "schema": "longfat.labs/1", "down": names }))?,
        false if labs.is_empty() => output::text("no lab is up")?,
        false if names.is_empty() => {}
        false => output::text(&down_text(&names)?)?,
    }
    if failed.is_empty() { Ok(()) } else { Err(Exit::Failed(failed.join("; ")).into()) }
}

/// The list of labs that are down now, and of those that are still up.
fn down_text(down: &[&str]) -> anyhow::Result<String> {
    let others = names()?;
    Ok(match others.is_empty() {
        true => format!("{} is down", down.join(", ")),
        false => format!("{} is down; still up: {} (--lab NAME)", down.join(", "), others.join(", ")),
    })
}

/// `name`, or `name-2` and so on if labs have it.
pub fn free_name(name: &str, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
    free.unwrap_or_else(|| name.to_owned())
}

/// Runs the stop commands, ends the lab and waits until its processes have ended.
pub fn end(lab: &StandingLab) -> anyhow::Result<()> {
    match status_of(lab) {
        Ok(status) => status.stop_commands.iter().for_each(|c| run_command(&lab.name, &c.host, &c.line)),
        // The emulator may have stalled, which must not keep the lab up.
        Err(error) => output::note(&format!("{}; stop commands of its hosts are not run", chain(&error))),
    }
    if let Reply::Text { text } = send_request(&lab.socket, &Request::Down)?
        && !text.is_empty()
    {
        output::note(&text);
    }
    let started = Instant::now();
    while lab.socket.exists() {
        if started.elapsed() > DOWN_TIMEOUT {
            bail!("{} does not stop; kill -9 its process (longfat lab clean shows the pid)", lab.name);
        }
        std::thread::sleep(DOWN_CHECK_INTERVAL);
    }
    Ok(())
}

/// Requests the status of a lab.
pub fn status_of(lab: &StandingLab) -> anyhow::Result<Status> {
    match send_request(&lab.socket, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        Reply::Refused { why } => bail!("{}: {why}", lab.name),
        Reply::Text { .. } => bail!("{} sent an invalid reply", lab.name),
    }
}

/// The lab of this name (or of the scenario file of this name), or the one that this user brought up last.
pub fn find(name: Option<&str>) -> anyhow::Result<StandingLab> {
    let labs = standing()?;
    let stem = name.and_then(stem_of_scenario);
    let found = match name {
        Some(name) => labs.iter().find(|l| l.name == name || Some(l.name.as_str()) == stem),
        None => labs.last(),
    };
    match (found, name) {
        (Some(lab), _) => Ok(lab.clone()),
        (None, Some(name)) if !labs.is_empty() => {
            let names = labs.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", ");
            Err(Exit::BadInput(format!("no lab {name} is up; choose one with --lab NAME: {names}")).into())
        }
        _ => Err(Exit::BadInput("no lab is up; bring one up with longfat lab up FILE".into()).into()),
    }
}

/// At a terminal, prints which lab was chosen if none was given and several are up.
fn note_other_labs(chosen: &LabName, lab: &StandingLab) -> anyhow::Result<()> {
    if chosen.lab.is_some() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    let others: Vec<String> = names()?.into_iter().filter(|name| *name != lab.name).collect();
    if !others.is_empty() {
        output::note(&format!(
            "on {}, the lab brought up last; others: --lab {}",
            lab.name,
            others.join(", --lab ")
        ));
    }
    Ok(())
}

/// The name of the lab of this scenario file. `v1.2` is not a file name: reading it as v1 would take the
/// wrong lab down.
fn stem_of_scenario(name: &str) -> Option<&str> {
    let path = Path::new(name);
    let is_scenario = |e: &std::ffi::OsStr| e.eq_ignore_ascii_case("toml") || e.eq_ignore_ascii_case("mn");
    path.extension().filter(|e| is_scenario(e)).and_then(|_| path.file_stem()?.to_str())
}

/// The names of all labs of this user that are up.
pub fn names() -> anyhow::Result<Vec<String>> {
    Ok(standing()?.into_iter().map(|lab| lab.name).collect())
}

/// All labs of this user that are up, in the order in which they were brought up.
fn standing() -> anyhow::Result<Vec<StandingLab>> {
    let mut alive = clean_journal(&Journal::of_this_user())?.alive;
    alive.sort_by_key(|entry| (entry.start_time, entry.pid));
    Ok(alive.into_iter().filter_map(|entry| entry.standing).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_file_names_a_lab_but_a_dot_alone_does_not() {
        assert_eq!(stem_of_scenario("dir/two hosts.toml"), Some("two hosts"));
        assert_eq!(stem_of_scenario("topo.MN"), Some("topo"));
        assert_eq!((stem_of_scenario("v1.2"), stem_of_scenario("v1")), (None, None));
    }

    #[test]
    fn a_lab_whose_emulator_does_not_reply_is_taken_down() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let lab = StandingLab { name: "test".into(), socket: socket.clone() };
        let keeper = std::thread::spawn(move || {
            let refused = Reply::Refused { why: "the emulator does not reply".into() };
            for (expected, reply) in
                [(Request::Status, refused), (Request::Down, Reply::Text { text: String::new() })]
            {
                let (stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), expected);
                serde_json::to_writer(&stream, &reply).unwrap();
            }
            std::fs::remove_file(socket).unwrap();
        });
        end(&lab).unwrap();
        keeper.join().unwrap();
    }
}
