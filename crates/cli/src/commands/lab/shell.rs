//! `longfat lab shell`: a prompt like Mininet's.

use std::{
    io::{BufRead, IsTerminal, Write},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Mutex,
};

use anyhow::Context;
use clap::Args;
use lab::{StandingLab, standing::Status};
use rustyline::{DefaultEditor, error::ReadlineError};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::standing::{
    self, UpArgs, exec_command, on_host, output_unless_empty, send_command, status_of, with_absolute_path,
};
use crate::{
    exit::{Exit, chain},
    output,
};

const HELP: &str = "\
HOST COMMAND        run a command on a host: h1 ping h2, h2 iperf3 -s &, h1 iperf3 -c h2
pingall             ping between every pair of hosts
iperf A B [OPTIONS] iperf3 from A to B
nodes               hosts, switches and routers
links               configuration of each link
status              links with their counters
link A-B down       take a link down, or up
link A-B [forward|backward] KEY VALUE ...
                    change a link: link s1-s2 delay 50ms loss 1%; KEYs are those of the scenario file
tc qdisc ...        netem and tbf on a port: tc qdisc add dev s1-eth2 root netem delay 20ms
ifconfig s1-eth1 mtu 9000
                    the MTU of a port
pcap NODE|LINK FILE capture the packets of a host or link, until pcap stop FILE
sh COMMAND          run a command on this machine
exit                exit; stops a lab that this prompt started";

/// Options of `lab shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Bring this scenario or MiniEdit topology up first, and down at the end
    file: Option<PathBuf>,
    /// Name of a lab that is up
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    lab: Option<String>,
    /// Execute this command instead of prompting (repeatable)
    #[arg(short = 'c', long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
}

/// Runs the command: reads and executes lines until the end.
pub fn run(args: &ShellArgs) -> anyhow::Result<()> {
    let (lab, ours) = match &args.file {
        Some(file) => (standing::find(Some(&standing::start(&UpArgs::of(file))?))?, true),
        None => (standing::find(args.lab.as_deref())?, false),
    };
    let at_prompt = args.commands.is_empty() && std::io::stdin().is_terminal();
    end_in_order(&lab, ours, at_prompt)?;
    let result = Shell::new(lab.clone()).and_then(|mut shell| shell.serve(&args.commands));
    // If a signal is ending the shell, wait for it.
    let _ending = ENDING.lock();
    if ours {
        standing::end(&lab)?;
    }
    result
}

/// Held while the shell is ending.
static ENDING: Mutex<()> = Mutex::new(());

/// Makes signals end the shell and the lab that it brought up. At a prompt, Ctrl-C goes to the programs on hosts.
fn end_in_order(lab: &StandingLab, ours: bool, at_prompt: bool) -> anyhow::Result<()> {
    if at_prompt {
        lab::standing::ignore_terminal_signals();
    }
    let ending: &[i32] = if at_prompt { &[SIGTERM, SIGHUP] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let mut signals = Signals::new(ending).context("cannot watch for signals")?;
    let lab = lab.clone();
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let _ending = ENDING.lock();
        if ours && let Err(error) = standing::end(&lab) {
            output::note(&chain(&error));
        }
        std::process::exit(128 + signal);
    });
    Ok(())
}

struct Shell {
    lab: StandingLab,
    hosts: Vec<String>,
    failed: usize,
}

/// Whether to read another line.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    Exit,
}

impl Shell {
    fn new(lab: StandingLab) -> anyhow::Result<Self> {
        let hosts = status_of(&lab)?.nodes.into_iter().filter(|n| n.kind == "host").map(|n| n.name).collect();
        Ok(Shell { lab, hosts, failed: 0 })
    }

    fn serve(&mut self, commands: &[String]) -> anyhow::Result<()> {
        if !commands.is_empty() {
            commands.iter().all(|line| self.execute_and_report(line) == Next::Go);
        } else if std::io::stdin().is_terminal() {
            self.prompt()?;
            return Ok(());
        } else {
            for line in std::io::stdin().lock().lines() {
                if self.execute_and_report(&line.context("cannot read commands")?) == Next::Exit {
                    break;
                }
            }
        }
        match self.failed {
            0 => Ok(()),
            n => Err(Exit::Failed(format!("{n} of the commands failed")).into()),
        }
    }

    fn prompt(&mut self) -> anyhow::Result<()> {
        let mut editor = DefaultEditor::new().context("cannot use this terminal")?;
        output::text("type help for a list of commands, exit to quit")?;
        loop {
            match editor.readline(&format!("{}> ", self.lab.name)) {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    if self.execute_and_report(&line) == Next::Exit {
                        return Ok(());
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(()),
                Err(e) => return Err(e).context("cannot read from this terminal"),
            }
        }
    }

    /// Executes a line and prints its error.
    fn execute_and_report(&mut self, line: &str) -> Next {
        let line = line.trim();
        if matches!(line, "exit" | "quit") {
            return Next::Exit;
        }
        if let Err(error) = self.execute(line) {
            self.failed += 1;
            output::note(&chain(&error));
        }
        let _ = std::io::stdout().flush();
        Next::Go
    }

    fn execute(&self, line: &str) -> anyhow::Result<()> {
        let (first, rest) = line.split_once(char::is_whitespace).map_or((line, ""), |(a, b)| (a, b.trim()));
        let words = || split(line);
        match first {
            "" => Ok(()),
            comment if comment.starts_with('#') => Ok(()),
            "help" | "?" => output::text(HELP),
            "nodes" => self.nodes(),
            "links" | "net" => output_unless_empty(&send_command(&self.lab, vec!["links".into()])?),
            "status" | "dump" => output::text(&standing::describe(&self.status()?)),
            "pingall" => self.ping_all(),
            "iperf" => self.iperf(rest),
            "sh" => {
                let status = std::process::Command::new("sh").args(["-c", rest]).status()?;
                check_success(&format!("{rest:?}"), status)
            }
            "link" | "tc" | "ifconfig" | "ip" => output_unless_empty(&send_command(&self.lab, words()?)?),
            "sudo" if rest.starts_with("tc ") || rest.starts_with("ifconfig ") => {
                output_unless_empty(&send_command(&self.lab, words()?)?)
            }
            "pcap" => output_unless_empty(&send_command(&self.lab, with_absolute_path(words()?)?)?),
            host if self.hosts.iter().any(|h| h == host) && !rest.is_empty() => {
                let status = on_host(&self.lab.name, host, rest)?;
                check_success(&format!("{host}: {rest:?}"), status)
            }
            other => {
                let status = self.status()?;
                match status.nodes.iter().find(|n| n.name == other) {
                    Some(_) if !rest.is_empty() => {
                        // A switch or router: the command is about its ports.
                        output_unless_empty(&send_command(&self.lab, split(rest)?)?)
                    }
                    Some(_) => Err(Exit::BadInput(format!(
                        "no command given for {other}; write for example: {other} ping ..."
                    ))
                    .into()),
                    None => Err(Exit::BadInput(format!("unknown command {other}; try help")).into()),
                }
            }
        }
    }

    fn status(&self) -> anyhow::Result<Status> {
        status_of(&self.lab)
    }

    fn nodes(&self) -> anyhow::Result<()> {
        let status = self.status()?;
        let lines: Vec<String> = status
            .nodes
            .iter()
            .map(|n| format!("{:6} {}  {}", n.kind, n.name, n.addresses.join(" ")))
            .collect();
        output::text(&lines.join("\n"))
    }

    /// Mininet's matrix: for each host the hosts that it reaches, X for the others.
    fn ping_all(&self) -> anyhow::Result<()> {
        let (mut sent, mut received) = (0, 0);
        let mut lines = Vec::new();
        for from in &self.hosts {
            let mut line = format!("{from} ->");
            for to in self.hosts.iter().filter(|to| *to != from) {
                sent += 1;
                let reached = exec_command(&self.lab.name, from)?
                    .args(["ping", "-c", "1", "-W", "3", to])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()?
                    .success();
                received += usize::from(reached);
                line += &format!(" {}", if reached { to } else { "X" });
            }
            lines.push(line);
        }
        let lost = (sent - received) * 100 / sent.max(1);
        lines.push(format!("*** Results: {lost}% dropped ({received}/{sent} received)"));
        output::text(&lines.join("\n"))?;
        if received == sent { Ok(()) } else { anyhow::bail!("{} pings had no reply", sent - received) }
    }

    /// Runs iperf3 from one host to another and shows its output.
    fn iperf(&self, rest: &str) -> anyhow::Result<()> {
        let mut words = rest.split_whitespace();
        let (Some(from), Some(to)) = (words.next(), words.next()) else {
            return Err(Exit::BadInput("write for example: iperf h1 h2 -t 10".into()).into());
        };
        let mut server = exec_command(&self.lab.name, to)?
            .args(["iperf3", "-s", "-1"])
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start iperf3")?;
        let options: Vec<&str> = words.collect();
        // The server needs a moment before it listens.
        let line = format!("sleep 0.3; exec iperf3 -c {to} {}", options.join(" "));
        let status = on_host(&self.lab.name, from, &line)?;
        if !status.success() {
            let _ = server.kill();
        }
        let _ = server.wait();
        check_success("iperf3", status)
    }
}

/// An error unless the program succeeded.
fn check_success(what: &str, status: ExitStatus) -> anyhow::Result<()> {
    if status.success() { Ok(()) } else { anyhow::bail!("{what} ended with {status}") }
}

/// Splits a line into words as a shell does, with quotes.
fn split(line: &str) -> anyhow::Result<Vec<String>> {
    shlex::split(line).ok_or_else(|| Exit::BadInput(format!("unclosed quote in: {line}")).into())
}
