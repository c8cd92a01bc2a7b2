//! A diagnosis as text.

use std::path::PathBuf;

use diagnosis::{Kind, Limit, Load};
use measurement::path::{Diagnosis, RemedyElsewhere};
use units::{BitRate, Bytes, three_digits};

use super::After;
use crate::{commands::bdp::wrap, output};

const WIDTH: usize = 100;
const INDENT: &str = "     ";

/// Announces the load of a diagnosis.
pub fn load(host: &str, load: &Load) -> String {
    let bytes = |bytes: u64| Bytes(three_digits(bytes as f64));
    let datagrams = load.datagram_rate.map_or(String::new(), |rate| {
        format!(
            "bursts of datagrams, up to {rate} and {} in all (more if ten round trips take over 0.5 s), and ",
            bytes(load.datagram_bytes)
        )
    });
    let tcp = match load.tcp_bytes {
        Some(load) => format!("{} at the expected rate", bytes(load)),
        None => "as fast as the path allows".into(),
    };
    format!(
        "longfat: this sends to {host}: {datagrams}TCP for {} s ({tcp}). --max-rate, --no-datagrams and --time send less",
        load.tcp_time.as_secs_f64()
    )
}

/// The path, the test, and the limits.
pub fn diagnosis(found: &Diagnosis) -> String {
    let observed = &found.observed;
    let by = found.device.as_ref().map_or(String::new(), |device| format!(" via {device}"));
    let mut lines = vec![format!("The path to {} ({}){by}", found.host, found.address)];
    lines.push(format!("  RTT without load          {}", observed.rtt));
    lines.push(format!("  packet size               {}", mtu(found)));
    match &observed.capacity {
        Some(capacity) => {
            let at_least = if capacity.at_least { "at least " } else { "" };
            lines.push(format!("  capacity (TCP payload)    {at_least}{}", rate(capacity.goodput_bps)));
        }
        None => lines.push("  capacity (TCP payload)    unknown".into()),
    }
    if let Some((available, known)) = observed.available.as_ref().and_then(|a| Some((a.available_bps?, a))) {
        let inconclusive = if known.validity.valid { "" } else { ", inconclusive" };
        lines.push(format!(
            "  available bandwidth       {} ({} to {} of IP{inconclusive})",
            rate(available.value),
            rate(available.low),
            rate(available.high)
        ));
    }
    if let Some(bdp) = observed.bdp() {
        lines.push(format!("  bandwidth-delay product   {}", Bytes(three_digits(bdp))));
    }
    if let Some(flow) = &observed.flow {
        lines.push(format!("  one TCP connection        {}", rate(observed.test_goodput_bps())));
        if let Some(median) = flow.median_rtt_us {
            lines.push(format!("  RTT during the test       {:.1} ms (median)", median / 1e3));
        }
        if let Some(again) = flow.retransmitted_segs {
            lines.push(format!("  segments retransmitted    {}", units::group_digits(again)));
        }
    }
    if observed.receiver.is_none() {
        lines.push(format!("  {} does not report its settings: it is not longfat serve", found.host));
    }
    lines.push(String::new());
    let limits = &found.ranking.limits;
    lines.push(match limits.first() {
        None => "No limit was found.".into(),
        Some(first) if !first.measured => {
            "The limiting factor is unknown: none of the limits below explains the result of the test.".into()
        }
        Some(_) if found.ranking.healthy => {
            "The path is healthy: one connection reaches its full capacity.".into()
        }
        Some(first) if first.kind == Kind::PathRate && observed.capacity.is_none() => {
            "Limited by the path's rate, as TCP saw it. The capacity was not measured, so a faster path is possible.".into()
        }
        Some(first) if first.doubt.is_some() => format!("Most likely limited by {}.", words(first)),
        Some(first) => format!("Limited by {}.", words(first)),
    });
    for (index, limit) in limits.iter().enumerate() {
        lines.push(String::new());
        let how = if limit.measured { "measured" } else { "computed" };
        lines.push(format!("{:>3}. {}: {} ({how})", index + 1, words(limit), rate(limit.allows_bps)));
        limit.evidence.iter().for_each(|evidence| indented(evidence, &mut lines));
        if let Some(change) = &limit.change {
            fix(change, INDENT, &mut lines);
        }
        if let Some(gain) = limit.gain_bps.filter(|gain| *gain > 0.0) {
            let without_limit = rate(observed.test_goodput_bps() + gain);
            let (at_most, note) = match limit.gain_is_upper_bound {
                true => ("at most ", "; this limit hides others"),
                false => ("", ""),
            };
            indented(
                &format!("expected without this limit: {at_most}{without_limit} ({} more){note}", rate(gain)),
                &mut lines,
            );
        }
        if let Some(doubt) = &limit.doubt {
            let instead = doubt.instead.map_or("something else".into(), |kind| kind_words(kind, ""));
            let text = format!(
                "low confidence: it may be {instead} instead, because {}. To decide: {}",
                doubt.why, doubt.decide
            );
            indented(&text, &mut lines);
        }
    }
    if let Some(both) = &found.ranking.together {
        let [one, other] = both.kinds.map(|kind| {
            limits.iter().find(|limit| limit.kind == kind).map_or_else(|| kind_words(kind, ""), words)
        });
        lines.push(String::new());
        indented(
            &format!(
                "Removing only one of them gains little: without both {one} and {other}, {} is expected ({} more)",
                rate(observed.test_goodput_bps() + both.gain_bps),
                rate(both.gain_bps)
            ),
            &mut lines,
        );
    }
    lines.join("\n")
}

/// The applied settings, the results before and after, and the records.
pub fn ending(apply: bool, found: &Diagnosis, after: Option<&After>, records: &[PathBuf]) -> String {
    let mut lines = Vec::new();
    match after {
        None if apply => lines.push("\nNothing was changed: the settings of this host suit the path.".into()),
        None => {}
        Some(after) => {
            lines.push("\nChanged on this host:".into());
            for change in &after.journal.settings {
                lines.push(format!("  {}: {} -> {}", change.name, change.before, change.after));
            }
            let goodput = |flow: Option<&schema::FlowSummary>| {
                flow.and_then(schema::FlowSummary::steady_or_overall_goodput_bps)
                    .map_or("nothing".into(), |bps| rate(bps).to_string())
            };
            lines.push(format!("  before: {}", goodput(found.observed.flow.as_ref())));
            let limit = after
                .ranking
                .limits
                .first()
                .map_or(String::new(), |limit| format!("; now limited by {}", words(limit)));
            lines.push(format!("  after:  {}{limit}", goodput(after.flow.as_ref())));
            lines.push("  longfat tune --revert restores the former settings".into());
        }
    }
    let ranking = after.map_or(&found.ranking, |after| &after.ranking);
    if let Some(elsewhere) = found.remedy_elsewhere(ranking).filter(|_| apply) {
        let RemedyElsewhere { host, kind, change } = elsewhere;
        lines.push(format!(
            "\nThe limit is at the other host: {}. --apply changes this host only.",
            kind_words(kind, &host)
        ));
        fix(&format!("on {host}: {change}"), "", &mut lines);
    }
    lines.extend(
        records
            .last()
            .map(|record| format!("\nrecord: {} (the last of {})", record.display(), records.len())),
    );
    lines.join("\n")
}

fn mtu(found: &Diagnosis) -> String {
    let mtu = found.observed.mtu;
    match mtu.passes {
        Some(passes) if passes < mtu.device => {
            format!(
                "up to {passes} bytes pass; larger packets, up to {}, are lost without an ICMP error",
                mtu.device
            )
        }
        Some(passes) => format!("{passes} bytes pass"),
        None => format!("{} bytes leave this host; the size that passes is unknown", mtu.device),
    }
}

/// A limit in words.
fn words(limit: &Limit) -> String {
    kind_words(limit.kind, limit.host.as_deref().unwrap_or_default())
}

fn kind_words(kind: Kind, host: &str) -> String {
    match kind {
        Kind::MtuBlackHole => "an MTU black hole: large packets are lost without an ICMP error".into(),
        Kind::WindowScaling => format!("window scaling, which is disabled on {host}"),
        Kind::ReceiveBuffer => format!("the receive buffer of {host}"),
        Kind::SendBuffer => format!("the send buffer of {host}"),
        Kind::ReceiverCpu => format!("the CPU of {host}, which receives"),
        Kind::SenderCpu => format!("the CPU of {host}, which sends"),
        Kind::Loss => "packet loss on a path that is not full".into(),
        Kind::ShortQueue => "a queue on the path that is too short".into(),
        Kind::Policer => "a policer, which drops packets above its rate".into(),
        Kind::SackOff => format!("selective acknowledgement (SACK), which is disabled on {host}"),
        Kind::SmallMss => "small segments: the MSS is clamped".into(),
        Kind::CachedSsthresh => format!("the slow-start threshold that {host} begins with"),
        Kind::EcnMarks => "congestion marks (ECN) on a path that is not full".into(),
        Kind::LocalQueue => format!("the transmit queue of {host}"),
        Kind::SlowHop => "a hop that is slower than expected".into(),
        Kind::PathChanged => "a path that changed during the test".into(),
        Kind::CompetingTraffic => "other traffic on the path".into(),
        Kind::PathRate => "the path's rate".into(),
        Kind::Application => "the application that reads or writes".into(),
        Kind::SlowStart => "slow start: the test was too short".into(),
        Kind::Pacing => "pacing".into(),
    }
}

/// How to remove a limit. Of `on HOST: COMMAND (NOTE)` the command gets a separate line, so that users can
/// copy it; other advice is a sentence.
fn fix(change: &str, indent: &str, lines: &mut Vec<String>) {
    let Some((host, command, note)) = command_on_host(change) else {
        return wrapped(&format!("to fix it: {change}"), indent, lines);
    };
    lines.push(format!("{indent}to fix it, on {host}:"));
    lines.push(format!("{indent}  {command}"));
    if let Some(note) = note {
        wrapped(note, indent, lines);
    }
}

/// The host, the command and the note in parentheses of `on HOST: COMMAND (NOTE)`.
fn command_on_host(change: &str) -> Option<(&str, &str, Option<&str>)> {
    let (host, rest) = change.strip_prefix("on ")?.split_once(": ")?;
    match rest.find(" (").filter(|_| rest.ends_with(')')) {
        Some(at) => Some((host, &rest[..at], Some(&rest[at + 1..]))),
        None => Some((host, rest, None)),
    }
}

fn indented(text: &str, lines: &mut Vec<String>) {
    wrapped(text, INDENT, lines);
}

fn wrapped(text: &str, indent: &str, lines: &mut Vec<String>) {
    let width = output::line_length(WIDTH) - indent.len();
    lines.extend(wrap(text, width).iter().map(|line| format!("{indent}{line}")));
}

fn rate(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_this_host_is_printed_as_a_sentence() {
        assert_eq!(kind_words(Kind::SenderCpu, "this host"), "the CPU of this host, which sends");
        assert_eq!(kind_words(Kind::ReceiverCpu, "h2"), "the CPU of h2, which receives");
    }

    #[test]
    fn commands_have_a_separate_line_and_advice_is_a_sentence() {
        let lines = |change: &str| {
            let mut lines = Vec::new();
            fix(change, "  ", &mut lines);
            lines
        };
        assert_eq!(
            lines("on h2: longfat tune --rate 96mbit --rtt 20ms --apply (it sets net.ipv4.tcp_rmem = 1 2 3)"),
            [
                "  to fix it, on h2:",
                "    longfat tune --rate 96mbit --rtt 20ms --apply",
                "  (it sets net.ipv4.tcp_rmem = 1 2 3)"
            ]
        );
        // An IPv6 address has colons, but none before a space.
        assert_eq!(
            lines("on fd00::2: sysctl -w net.ipv4.tcp_sack=1"),
            ["  to fix it, on fd00::2:", "    sysctl -w net.ipv4.tcp_sack=1"]
        );
        assert_eq!(lines("pace the flow (fq)"), ["  to fix it: pace the flow (fq)"]);
    }
}
