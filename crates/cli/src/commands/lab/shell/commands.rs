//! The commands of the prompt.

use std::{
    io::ErrorKind,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lab::standing::NodeKind;

use super::{
    Next, Shell, check_success,
    help::{HELP, instead_of},
    ping::Shown,
};
use crate::{
    commands::lab::standing::{self, exec_command, output_unless_empty, send_command, with_absolute_path},
    exit::Exit,
    output,
};

/// Time after the start of an xterm in which its exit with an error is reported.
const XTERM_START_TIME: Duration = Duration::from_millis(500);

impl Shell {
    /// Executes a line.
    pub fn execute(&mut self, line: &str) -> anyhow::Result<()> {
        let (first, rest) = line.split_once(char::is_whitespace).map_or((line, ""), |(a, b)| (a, b.trim()));
        let words = || split(line);
        match first {
            "" => Ok(()),
            comment if comment.starts_with('#') => Ok(()),
            "help" | "?" => output::prose(HELP),
            "nodes" => self.nodes(),
            "links" => output_unless_empty(&send_command(&self.lab, vec!["links".into()])?),
            "net" => self.net(),
            "dump" => self.dump(),
            "intfs" => self.ports_of_nodes(),
            "status" => output::prose(&standing::describe(&self.status()?)),
            "pingall" => self.ping_pairs(usize::MAX, Shown::Reached),
            "pingallfull" => self.ping_pairs(usize::MAX, Shown::Times),
            "pingpair" => self.ping_pairs(2, Shown::Reached),
            "pingpairfull" => self.ping_pairs(2, Shown::Times),
            "iperf" => self.iperf(&words()?[1..]),
            "iperfudp" => self.iperf_udp(&words()?[1..]),
            "xterm" => self.xterm(&words()?[1..]),
            "source" => self.source(&words()?[1..]),
            "time" => {
                let started = Instant::now();
                let result = self.execute(rest);
                output::text(&format!("*** Elapsed time: {:.6} secs", started.elapsed().as_secs_f64()))?;
                result
            }
            "sh" => {
                let status = lab::standing::run_in_foreground(Command::new("sh").args(["-c", rest]))?;
                check_success(&format!("{rest:?}"), status)
            }
            "ip" if !is_link_set(rest) => Err(Exit::BadInput(self.unknown(first, line)).into()),
            "link" | "tc" | "ifconfig" | "ip" => output_unless_empty(&send_command(&self.lab, words()?)?),
            "sudo" if rest.starts_with("tc ") || rest.starts_with("ifconfig ") => {
                output_unless_empty(&send_command(&self.lab, words()?)?)
            }
            "pcap" => output_unless_empty(&send_command(&self.lab, with_absolute_path(words()?)?)?),
            node if self.nodes.iter().any(|n| n.name == node) => self.on_node(node, rest),
            other => Err(Exit::BadInput(self.unknown(other, line)).into()),
        }
    }

    fn on_node(&self, name: &str, rest: &str) -> anyhow::Result<()> {
        if rest.is_empty() {
            let why = format!("no command given for {name}; write for example: {name} ping ...");
            return Err(Exit::BadInput(why).into());
        }
        if self.nodes.iter().any(|n| n.name == name && n.kind != NodeKind::Host) {
            // A switch or router runs no programs; the driver applies the command to its ports.
            return output_unless_empty(&send_command(&self.lab, split(rest)?)?);
        }
        let status = self.on_host(name, rest)?;
        check_success(&format!("{name}: {rest:?}"), status)
    }

    /// The error for a line that is not a command, with an alternative.
    fn unknown(&self, command: &str, line: &str) -> String {
        if let Some(alternative) = instead_of(command) {
            return format!("{command} is not available: {alternative}");
        }
        let program = if command == "sudo" { line.split_whitespace().nth(1).unwrap_or("") } else { command };
        if !program.contains('/') && program_directories().any(|d| d.join(program).is_file()) {
            let host = self.hosts().first().copied().unwrap_or("HOST");
            return format!(
                "{program} is a program: run it on a host with \"{host} {line}\", or on this machine with \"sh {line}\""
            );
        }
        format!("unknown command {command}; try help")
    }

    fn nodes(&self) -> anyhow::Result<()> {
        let lines: Vec<String> = self
            .status()?
            .nodes
            .iter()
            .map(|n| format!("{:6} {}  {}", n.kind, n.name, n.addresses.join(" ")))
            .collect();
        output::text(&lines.join("\n"))
    }

    /// The ports of each node, each with the port at the other end of its link.
    fn ports(&self) -> anyhow::Result<Vec<NodePorts>> {
        let links = self.status()?.links;
        let of = |node: &str| {
            let is_of_node = |port: &str| port.rsplit_once("-eth").is_some_and(|(name, _)| name == node);
            let pairs = links.iter().map(|l| (l.from_port.clone(), l.to_port.clone()));
            pairs.filter(|(port, _)| is_of_node(port)).collect()
        };
        Ok(self.nodes.iter().map(|n| NodePorts { node: n.name.clone(), ports: of(&n.name) }).collect())
    }

    /// Prints links as Mininet does: `h1 h1-eth0:s1-eth1`.
    fn net(&self) -> anyhow::Result<()> {
        let line = |NodePorts { node, ports }: NodePorts| {
            let pairs: Vec<String> = ports.iter().map(|(port, peer)| format!("{port}:{peer}")).collect();
            format!("{node} {}", pairs.join(" "))
        };
        let lines: Vec<String> = self.ports()?.into_iter().map(line).collect();
        output::text(&lines.join("\n"))
    }

    /// Prints ports as Mininet does: `h1: h1-eth0`.
    fn ports_of_nodes(&self) -> anyhow::Result<()> {
        let line = |NodePorts { node, ports }: NodePorts| {
            let ports: Vec<String> = ports.into_iter().map(|(port, _)| port).collect();
            format!("{node}: {}", ports.join(","))
        };
        let lines: Vec<String> = self.ports()?.into_iter().map(line).collect();
        output::text(&lines.join("\n"))
    }

    /// Prints nodes as Mininet does: `<Host h1: h1-eth0:10.0.0.1/8>`.
    fn dump(&self) -> anyhow::Result<()> {
        let lines =
            self.ports()?.into_iter().zip(&self.nodes).map(|(NodePorts { node: name, ports }, node)| {
                let (addresses, ports): (_, Vec<&str>) =
                    (&node.addresses, ports.iter().map(|(port, _)| port.as_str()).collect());
                let ports = match addresses.len() == ports.len() {
                    true => ports
                        .iter()
                        .zip(addresses)
                        .map(|(p, a)| format!("{p}:{a}"))
                        .collect::<Vec<_>>()
                        .join(","),
                    false => [ports.join(","), addresses.join(" ")].join(" ").trim().to_owned(),
                };
                let (first, others) = node.kind.name().split_at(1);
                format!("<{}{others} {name}: {ports}>", first.to_uppercase())
            });
        output::text(&lines.collect::<Vec<_>>().join("\n"))
    }

    /// Opens a window with a shell on each host.
    fn xterm(&self, hosts: &[String]) -> anyhow::Result<()> {
        if hosts.is_empty() {
            return Err(Exit::BadInput("no host given; write for example: xterm h1 h2".into()).into());
        }
        hosts.iter().try_for_each(|host| self.check_host(host))?;
        let instead =
            format!("in another terminal: longfat lab exec --lab {} {} -- bash", self.lab.name, hosts[0]);
        if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
            return Err(
                Exit::BadInput(format!("there is no X display (DISPLAY is not set); {instead}")).into()
            );
        }
        let shell = if Path::new("/bin/bash").exists() { "bash" } else { "sh" };
        for host in hosts {
            let exec = exec_command(&self.lab.name, host)?;
            let mut window = Command::new("xterm");
            window.args(["-title", &format!("{}: {host}", self.lab.name), "-e"]).arg(exec.get_program());
            window.args(exec.get_args()).arg(shell);
            // A separate process group: Ctrl-C at this prompt must not close the window.
            let spawned = window.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            let mut child = spawned.map_err(|error| match error.kind() {
                ErrorKind::NotFound => Exit::BadInput(format!("xterm is not installed; {instead}")).into(),
                _ => anyhow::Error::from(error).context(format!("cannot start xterm; {instead}")),
            })?;
            // If the display cannot be opened, xterm ends at once.
            let deadline = Instant::now() + XTERM_START_TIME;
            while Instant::now() < deadline {
                if let Some(status) = child.try_wait()?.filter(|status| !status.success()) {
                    anyhow::bail!("xterm of {host} ended with {status}; {instead}");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::spawn(move || child.wait());
        }
        Ok(())
    }

    /// Executes the lines of a file.
    fn source(&mut self, words: &[String]) -> anyhow::Result<()> {
        let [file] = words else {
            return Err(Exit::BadInput("source needs one file".into()).into());
        };
        let text =
            std::fs::read_to_string(file).map_err(|e| Exit::BadInput(format!("cannot read {file}: {e}")))?;
        for line in text.lines() {
            if line.split_whitespace().next() == Some("source") {
                return Err(
                    Exit::BadInput(format!("{file}: source in a sourced file is not supported")).into()
                );
            }
            if self.execute_and_report(line) == Next::Exit {
                break;
            }
        }
        Ok(())
    }
}

/// A node's ports, each with the port at the other end of its link.
struct NodePorts {
    node: String,
    ports: Vec<(String, String)>,
}

/// Whether these are the arguments of `ip link set`, which works on emulated ports.
fn is_link_set(rest: &str) -> bool {
    let words: Vec<&str> = rest.split_whitespace().collect();
    matches!(words[..], [link, set, ..] if link.starts_with('l') && set.starts_with('s'))
}

/// Splits a line into words as a shell does, with quotes.
fn split(line: &str) -> anyhow::Result<Vec<String>> {
    shlex::split(line).ok_or_else(|| Exit::BadInput(format!("unclosed quote in: {line}")).into())
}

/// The directories of PATH, and the sbin directories, which an ordinary user's PATH does not have.
pub fn program_directories() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.into_iter().chain(["/usr/sbin".into(), "/sbin".into()])
}
