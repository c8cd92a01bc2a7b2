//! `longfat lab shell`: a prompt like Mininet's.

mod commands;
mod completion;
mod editor;
mod help;
mod ping;
mod traffic;

use std::{
    io::{BufRead, IsTerminal, Write},
    path::PathBuf,
    process::ExitStatus,
    sync::Mutex,
};

use anyhow::Context;
use clap::Args;
use experiment::sheet_defaults::SheetDefaults;
use lab::{
    StandingLab,
    standing::{NodeKind, NodeStatus, Status},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::standing::{self, LabName, UpArgs, exec_command, status_of};
use crate::{
    exit::{Exit, chain},
    output,
};
pub use editor::{Editor, Line};

/// Options of `lab shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Bring this scenario or MiniEdit topology up first, and down at the end
    #[arg(conflicts_with = "lab")]
    file: Option<PathBuf>,
    #[command(flatten)]
    lab: LabName,
    /// Host settings that apply where the file states none: linux-4.15 (the machine of the lab sheets)
    /// [default: this machine's]
    #[arg(long, value_name = "NAME", value_parser = standing::parse_defaults, requires = "file")]
    defaults: Option<SheetDefaults>,
    /// Execute this command instead of prompting (repeatable)
    #[arg(short = 'c', long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
}

/// Runs the command: reads and executes lines until the end.
pub fn run(args: &ShellArgs) -> anyhow::Result<()> {
    let (lab, is_own) = match &args.file {
        Some(file) => {
            (standing::find(Some(&standing::start(&UpArgs::with_defaults(file, args.defaults))?))?, true)
        }
        None => (args.lab.find()?, false),
    };
    let at_prompt = args.commands.is_empty() && std::io::stdin().is_terminal();
    end_on_signals(&lab, is_own, at_prompt)?;
    let result = Shell::new(lab.clone()).and_then(|mut shell| shell.serve(&args.commands));
    // If a signal is ending the shell, wait for it.
    let _ending = ENDING.lock();
    if is_own {
        standing::end(&lab)?;
    }
    result
}

/// Locked while the shell is ending.
static ENDING: Mutex<()> = Mutex::new(());

/// Makes signals end the shell and the lab that it brought up. At a prompt, Ctrl-C is for the program in the
/// foreground.
pub fn end_on_signals(lab: &StandingLab, is_own: bool, at_prompt: bool) -> anyhow::Result<()> {
    if at_prompt {
        lab::standing::ignore_terminal_signals();
    }
    let ending: &[i32] = if at_prompt { &[SIGTERM, SIGHUP] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let mut signals = Signals::new(ending).context("cannot watch for signals")?;
    let lab = lab.clone();
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let _ending = ENDING.lock();
        if is_own && let Err(error) = standing::end(&lab) {
            output::note(&chain(&error));
        }
        std::process::exit(128 + signal);
    });
    Ok(())
}

/// Executes lines on a lab.
pub struct Shell {
    lab: StandingLab,
    nodes: Vec<NodeStatus>,
    failed: usize,
}

/// Whether to read another line.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Go,
    Exit,
}

impl Shell {
    /// A shell for a lab that is up.
    pub fn new(lab: StandingLab) -> anyhow::Result<Self> {
        let nodes = status_of(&lab)?.nodes;
        Ok(Shell { lab, nodes, failed: 0 })
    }

    fn serve(&mut self, commands: &[String]) -> anyhow::Result<()> {
        if !commands.is_empty() {
            commands.iter().all(|line| self.execute_and_report(line) == Next::Go);
        } else if std::io::stdin().is_terminal() {
            return self.prompt();
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
        let mut status = self.status()?;
        let mut editor = Editor::open(&status)?;
        output::prose("type help for a list of commands, TAB to complete, exit to quit")?;
        loop {
            // Without a reply of the lab the last status remains; the next command reports the failure.
            let now = self.status().unwrap_or_else(|_| status.clone());
            let prompt = prompt_text(&self.lab.name, &now, &status);
            status = now;
            match editor.read(&prompt)? {
                Line::Text(line) => {
                    // Pasted text can have several lines.
                    if line.lines().any(|line| self.execute_and_report(line) == Next::Exit) {
                        return Ok(());
                    }
                }
                Line::Interrupted => {}
                Line::End => return Ok(()),
            }
        }
    }

    /// Executes a line and prints its error.
    pub fn execute_and_report(&mut self, line: &str) -> Next {
        let line = line.trim();
        if matches!(line, "exit" | "quit" | "EOF") {
            return Next::Exit;
        }
        if let Err(error) = self.execute(line) {
            self.failed += 1;
            // The program has reported its own failure.
            if !matches!(error.downcast_ref(), Some(Exit::Child(_))) {
                output::note(&chain(&error));
            }
        }
        let _ = std::io::stdout().flush();
        Next::Go
    }

    /// The lab's status.
    pub fn status(&self) -> anyhow::Result<Status> {
        status_of(&self.lab)
    }

    fn hosts(&self) -> Vec<&str> {
        self.nodes.iter().filter(|n| n.kind == NodeKind::Host).map(|n| n.name.as_str()).collect()
    }

    fn check_host(&self, name: &str) -> anyhow::Result<()> {
        let hosts = self.hosts();
        match hosts.contains(&name) {
            true => Ok(()),
            false => Err(Exit::BadInput(format!("no host {name}; hosts are {}", hosts.join(", "))).into()),
        }
    }

    /// Runs a line of shell on a host, in the terminal's foreground.
    fn on_host(&self, host: &str, line: &str) -> anyhow::Result<ExitStatus> {
        let mut command = exec_command(&self.lab.name, host)?;
        command.args(["sh", "-c", line]);
        lab::standing::run_in_foreground(&mut command).context("cannot start longfat lab exec")
    }
}

/// The prompt. It shows how late the emulator was since the last prompt, if that is a millisecond or more.
fn prompt_text(lab: &str, now: &Status, before: &Status) -> String {
    match now.late_since_ms(before) {
        late_ms if late_ms >= 1.0 => format!("{lab} (late {late_ms:.0} ms)> "),
        _ => format!("{lab}> "),
    }
}

/// An error unless the program succeeded. An end by Ctrl-C is the user's own decision and is not reported.
fn check_success(what: &str, status: ExitStatus) -> anyhow::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(INTERRUPTED) => Err(Exit::Child(INTERRUPTED).into()),
        _ => anyhow::bail!("{what} ended with {status}"),
    }
}

/// Exit code of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 128 + SIGINT;

#[cfg(test)]
mod tests {
    use super::*;

    fn status(late_us: f64, stalls: u64, stalled_us: f64) -> Status {
        Status {
            schema: "longfat.lab/1".into(),
            name: "lab8".into(),
            title: String::new(),
            pid: 1,
            up_s: 1.0,
            nodes: Vec::new(),
            links: Vec::new(),
            emulator_late_p99_us: late_us,
            stalls,
            stalled_total_us: stalled_us,
            stalled_max_us: stalled_us,
            captures: Vec::new(),
            remarks: Vec::new(),
            stop_commands: Vec::new(),
        }
    }

    #[test]
    fn the_prompt_shows_a_late_emulator() {
        let good = status(40.0, 1, 5_000.0);
        assert_eq!(prompt_text("lab8", &good, &good), "lab8> ", "old stalls are not shown again");
        assert_eq!(prompt_text("lab8", &status(40.0, 2, 8_100.0), &good), "lab8 (late 3 ms)> ");
        assert_eq!(prompt_text("lab8", &status(2_600.0, 1, 5_000.0), &good), "lab8 (late 3 ms)> ");
    }
}
