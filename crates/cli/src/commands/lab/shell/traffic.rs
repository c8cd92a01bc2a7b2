//! `iperf` and `iperfudp`: iperf3 from one host to another.

use std::process::Stdio;

use anyhow::Context;

use super::{Shell, check_success};
use crate::{commands::lab::standing::exec_command, exit::Exit};

/// Mininet's rate of `iperfudp`.
const UDP_RATE: &str = "10M";

impl Shell {
    /// `iperf [A B [OPTIONS]]`: TCP from A to B.
    pub fn iperf(&self, words: &[String]) -> anyhow::Result<()> {
        let (from, to, options) = self.pair_and_options(words, "iperf h1 h2 -t 10")?;
        self.iperf3(from, to, &options.join(" "))
    }

    /// `iperfudp [RATE [A B [OPTIONS]]]`: UDP from A to B at a rate.
    pub fn iperf_udp(&self, words: &[String]) -> anyhow::Result<()> {
        let example = "iperfudp 10M h1 h2";
        let (rate, rest) =
            words.split_first().map_or((UDP_RATE, words), |(rate, rest)| (rate.as_str(), rest));
        if !rate.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Exit::BadInput(format!("{rate} is not a rate; write for example: {example}")).into());
        }
        let (from, to, options) = self.pair_and_options(rest, example)?;
        self.iperf3(from, to, &format!("-u -b {rate} {}", options.join(" ")))
    }

    /// The hosts of a command, by default the first and the last, and the remaining words.
    fn pair_and_options<'a>(
        &'a self,
        words: &'a [String],
        example: &str,
    ) -> anyhow::Result<(&'a str, &'a str, &'a [String])> {
        let hosts = self.hosts();
        match (words, hosts.as_slice()) {
            ([from, to, options @ ..], _) => {
                self.check_host(from)?;
                self.check_host(to)?;
                Ok((from, to, options))
            }
            ([], [first, .., last]) => Ok((first, last, &[])),
            _ => Err(Exit::BadInput(format!("two hosts are necessary; write for example: {example}")).into()),
        }
    }

    /// Runs iperf3 and shows its output.
    fn iperf3(&self, from: &str, to: &str, options: &str) -> anyhow::Result<()> {
        let mut server = exec_command(&self.lab.name, to)?
            .args(["iperf3", "-s", "-1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start iperf3")?;
        // The server needs a moment before it listens.
        let status = self.on_host(from, &format!("sleep 0.3; exec iperf3 -c {to} {options}"));
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            let _ = server.kill();
        }
        let _ = server.wait();
        check_success("iperf3", status?)
    }
}
