//! Mininet's pings between hosts: `pingall`, `pingpair`, and with times `pingallfull`, `pingpairfull`.

use std::process::Stdio;

use anyhow::Context;

use super::Shell;
use crate::{commands::lab::standing::exec_command, exit::Exit, output};

/// Timeout of a ping, in seconds.
const TIMEOUT_S: &str = "3";

/// The output for each ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Whether there was a reply.
    Reached,
    /// The round-trip time.
    Times,
}

impl Shell {
    /// Pings between every two of the first `count` hosts.
    pub fn ping_pairs(&self, count: usize, shown: Shown) -> anyhow::Result<()> {
        let hosts: Vec<&str> = self.hosts().into_iter().take(count).collect();
        let interrupts = lab::standing::terminal_interrupts();
        let (mut sent, mut received) = (0, 0);
        for from in &hosts {
            let mut line = format!("{from} ->");
            for to in hosts.iter().filter(|to| *to != from) {
                let rtt = self.ping(from, to)?;
                if lab::standing::terminal_interrupts() != interrupts {
                    return Err(Exit::Child(super::INTERRUPTED).into());
                }
                sent += 1;
                received += usize::from(rtt.is_some());
                match shown {
                    Shown::Reached => line += &format!(" {}", if rtt.is_some() { to } else { "X" }),
                    Shown::Times => output::text(&match rtt {
                        Some(rtt) => format!("{from}->{to}: 1/1, rtt {rtt} ms"),
                        None => format!("{from}->{to}: 0/1"),
                    })?,
                }
            }
            if shown == Shown::Reached {
                output::text(&line)?;
            }
        }
        let lost = (sent - received) * 100 / sent.max(1);
        output::text(&format!("*** Results: {lost}% dropped ({received}/{sent} received)"))?;
        if received == sent { Ok(()) } else { anyhow::bail!("{} pings had no reply", sent - received) }
    }

    /// The round-trip time of one ping in milliseconds, as ping prints it; `None` without a reply.
    fn ping(&self, from: &str, to: &str) -> anyhow::Result<Option<String>> {
        let output = exec_command(&self.lab.name, from)?
            .args(["ping", "-c", "1", "-W", TIMEOUT_S, to])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .context("cannot start ping")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rtt = text.split("time=").nth(1).and_then(|rest| rest.split_whitespace().next());
        Ok(rtt.filter(|_| output.status.success()).map(str::to_owned))
    }
}
