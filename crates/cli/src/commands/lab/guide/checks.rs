//! Checks of a guided lab's steps: they read the lab's state or measure.

use std::process::Stdio;

use anyhow::Context;
use lab::{StandingLab, standing::lesson};

use super::sheets::Check;
use crate::commands::lab::standing::{exec_command, status_of};

/// Result of a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The step is done; the finding.
    Done(String),
    /// The step is done, but this machine is too slow or too busy for its figure; the finding.
    Inconclusive(String),
    /// The step is not done yet; the part that is missing.
    NotYet(String),
}

/// Checks a step. A throughput is measured for `seconds`.
pub fn check(lab: &StandingLab, check: &Check, seconds: u32) -> anyhow::Result<Verdict> {
    match check {
        Check::Rtt { ms } => rtt(lab, *ms),
        Check::Port { port, parameters } => {
            let links = status_of(lab)?.links;
            let state = links.into_iter().find(|l| l.from_port == *port).map(|l| l.state).unwrap_or_default();
            Ok(match parameters.iter().find(|parameter| !state.contains(**parameter)) {
                None => Verdict::Done(format!("{port}: {state}")),
                Some(missing) => Verdict::NotYet(format!("{port} has not yet {missing}; it has: {state}")),
            })
        }
        Check::Buffers { max } => buffers(lab, *max),
        Check::PacketSize { bytes } => {
            let size = lesson::echo_payload_bytes(*bytes).to_string();
            let passed = on_host(
                lab,
                "h1",
                &["ping", "-M", "do", "-s", &size, "-c", "2", "-i", "0.2", "-W", "1", "h2"],
            )?;
            Ok(match passed.is_some() {
                true => Verdict::Done(format!("packets of {bytes} bytes pass")),
                false => {
                    Verdict::NotYet(format!("packets of {bytes} bytes do not pass; `links` shows the MTUs"))
                }
            })
        }
        Check::Throughput { published, gbps, options } => throughput(lab, published, *gbps, options, seconds),
    }
}

/// The output of a program on a host; `None` if it failed.
fn on_host(lab: &StandingLab, host: &str, program: &[&str]) -> anyhow::Result<Option<String>> {
    let output = exec_command(&lab.name, host)?
        .args(program)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program[0]))?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn rtt(lab: &StandingLab, wanted_ms: f64) -> anyhow::Result<Verdict> {
    let text = on_host(lab, "h1", &["ping", "-c", "4", "-i", "0.2", "h2"])?.unwrap_or_default();
    let Some((min, values)) = lesson::shortest_ping(&text) else {
        return Ok(Verdict::NotYet("h2 does not reply".into()));
    };
    Ok(match lesson::has_rtt(min, wanted_ms) {
        true => Verdict::Done(format!("ping: min/avg/max/mdev = {values}")),
        false => Verdict::NotYet(format!("the shortest round trip takes {min} ms, not {wanted_ms} ms")),
    })
}

fn buffers(lab: &StandingLab, max: u64) -> anyhow::Result<Verdict> {
    for host in ["h1", "h2"] {
        for key in ["tcp_rmem", "tcp_wmem"] {
            let text =
                on_host(lab, host, &["cat", &format!("/proc/sys/net/ipv4/{key}")])?.unwrap_or_default();
            let found: u64 =
                text.split_whitespace().nth(2).and_then(|max| max.parse().ok()).unwrap_or_default();
            if found != max {
                return Ok(Verdict::NotYet(format!(
                    "{host}: the maximum of net.ipv4.{key} is {found}, not {max}"
                )));
            }
        }
    }
    Ok(Verdict::Done(format!("both hosts allow buffers of {max} bytes")))
}

/// Measures and compares with the published figure. A different figure is not a mistake of the student,
/// because machines and kernels differ.
fn throughput(
    lab: &StandingLab,
    published: &str,
    gbps: f64,
    options: &[&str],
    seconds: u32,
) -> anyhow::Result<Verdict> {
    let mut server = exec_command(&lab.name, "h2")?
        .args(["iperf3", "-s", "-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start iperf3")?;
    let line = format!("sleep 0.5; exec iperf3 -c h2 -J -t {seconds} {}", options.join(" "));
    let text = on_host(lab, "h1", &["sh", "-c", &line])?.unwrap_or_default();
    let _ = server.kill();
    let _ = server.wait();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(bps) = document["end"]["sum_received"]["bits_per_second"].as_f64().filter(|bps| *bps > 0.0)
    else {
        return Ok(Verdict::NotYet("iperf3 measured nothing; is it installed, and does h2 reply?".into()));
    };
    let status = status_of(lab)?;
    let found = format!(
        "this check measured {:.2} Gb/s in {seconds} s; the sheet: about {gbps} Gb/s ({published})",
        bps / 1e9
    );
    Ok(match lesson::is_slow(bps, gbps) || status.is_late() {
        true => Verdict::Inconclusive(format!("{found}; this machine is too slow or too busy")),
        false => Verdict::Done(found),
    })
}
