//! A diagnosis in plain words.

use std::path::PathBuf;

use diagnosis::{Kind, Limit};
use units::{BitRate, Bytes, three_digits};

use crate::{
    bdp::wrap,
    diagnose_command::{After, Diagnosis},
};

const WIDTH: usize = 100;
const INDENT: &str = "     ";

/// The path, the test, and the limits.
pub fn diagnosis(found: &Diagnosis) -> String {
    let seen = &found.seen;
    let by = found.device.as_ref().map_or(String::new(), |device| format!(" by {device}"));
    let mut lines = vec![format!("The path to {} ({}){by}", found.host, found.address)];
    lines.push(format!("  round trip without load   {}", seen.rtt));
    lines.push(format!("  packets                   {}", mtu(found)));
    match &seen.capacity {
        Some(capacity) => {
            let least = if capacity.at_least { "at least " } else { "" };
            lines.push(format!(
                "  it carries                {least}{} of TCP's payload",
                rate(capacity.goodput_bps)
            ));
        }
        None => lines.push("  it carries                unknown".into()),
    }
    if let Some((available, known)) = seen.available.as_ref().and_then(|a| Some((a.available_bps?, a))) {
        let doubt = if known.validity.valid { "" } else { ", in doubt" };
        lines.push(format!(
            "  other traffic leaves      {} ({} to {} of IP{doubt})",
            rate(available.value),
            rate(available.low),
            rate(available.high)
        ));
    }
    if let Some(bdp) = seen.bdp() {
        lines.push(format!(
            "  so it holds               {} (bandwidth times round trip)",
            Bytes(three_digits(bdp))
        ));
    }
    if let Some(flow) = &seen.flow {
        lines.push(format!("  one TCP connection got    {}", rate(seen.got())));
        if let Some(median) = flow.median_rtt_us {
            lines.push(format!("  round trip meanwhile      {:.1} ms (median)", median / 1e3));
        }
        if let Some(again) = flow.retransmitted_segs {
            lines.push(format!("  segments sent again       {}", units::group_digits(again)));
        }
    }
    if seen.receiver.is_none() {
        lines.push(format!("  {} tells nothing about its settings: it is not longfat serve", found.host));
    }
    lines.push(String::new());
    let limits = &found.ranking.limits;
    lines.push(match limits.first() {
        None => "Nothing that limits was found.".into(),
        Some(first) if !first.measured => {
            "What held the test down is not known: none of these limits did, as far as they are measured."
                .into()
        }
        Some(_) if found.ranking.healthy => "The path is healthy: one connection gets what it gives.".into(),
        Some(first) if first.doubt.is_some() => format!("What limits is, most likely, {}.", words(first)),
        Some(first) => format!("What limits is {}.", words(first)),
    });
    for (place, limit) in limits.iter().enumerate() {
        lines.push(String::new());
        let how = if limit.measured { "measured" } else { "computed" };
        lines.push(format!("{:>3}. {}: {} ({how})", place + 1, words(limit), rate(limit.allows_bps)));
        limit.evidence.iter().for_each(|evidence| indented(evidence, &mut lines));
        if let Some(change) = &limit.change {
            indented(&format!("to change it: {change}"), &mut lines);
        }
        if let Some(gain) = limit.gain_bps.filter(|gain| *gain > 0.0) {
            let then = rate(seen.got() + gain);
            let (least, so) = match limit.gain_is_most {
                true => ("at most ", ", as what else limits cannot be seen as long as this does"),
                false => ("", ""),
            };
            indented(
                &format!("expected without this limit: {least}{then} ({} more){so}", rate(gain)),
                &mut lines,
            );
        }
        if let Some(doubt) = &limit.doubt {
            let instead = doubt.instead.map_or("something else".into(), |kind| kind_words(kind, ""));
            let text = format!(
                "not sure: it may be {instead} instead, for {}. To decide: {}",
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
                "Neither alone is worth removing: without both {one} and {other} {} is expected ({} more)",
                rate(seen.got() + both.gain_bps),
                rate(both.gain_bps)
            ),
            &mut lines,
        );
    }
    lines.join("\n")
}

/// What was applied, before and after, and the records.
pub fn ending(apply: bool, found: &Diagnosis, after: Option<&After>, records: &[PathBuf]) -> String {
    let mut lines = Vec::new();
    match after {
        None if apply => lines.push("\nNothing was changed: this host's settings suit the path.".into()),
        None => {}
        Some(after) => {
            lines.push("\nSet on this host:".into());
            for change in &after.journal.settings {
                lines.push(format!("  {}: {} -> {}", change.name, change.before, change.after));
            }
            let goodput = |flow: Option<&schema::FlowSummary>| {
                flow.and_then(schema::FlowSummary::steady_or_overall_goodput_bps)
                    .map_or("nothing".into(), |bps| rate(bps).to_string())
            };
            lines.push(format!("  before: {}", goodput(found.seen.flow.as_ref())));
            let limit = after
                .ranking
                .limits
                .first()
                .map_or(String::new(), |limit| format!("; what limits now is {}", words(limit)));
            lines.push(format!("  after:  {}{limit}", goodput(after.flow.as_ref())));
            lines.push("  longfat tune --revert puts everything back as it was".into());
        }
    }
    lines.extend(
        records
            .last()
            .map(|record| format!("\nrecord: {} (the last of {})", record.display(), records.len())),
    );
    lines.join("\n")
}

fn mtu(found: &Diagnosis) -> String {
    let mtu = found.seen.mtu;
    match mtu.passes {
        Some(passes) if passes < mtu.device => {
            format!("of up to {passes} bytes pass; larger ones, up to {}, vanish", mtu.device)
        }
        Some(passes) => format!("of {passes} bytes pass"),
        None => format!("of {} bytes leave this host; which pass was not to be found out", mtu.device),
    }
}

/// A limit in words.
fn words(limit: &Limit) -> String {
    kind_words(limit.kind, limit.host.as_deref().unwrap_or_default())
}

fn kind_words(kind: Kind, host: &str) -> String {
    match kind {
        Kind::MtuBlackHole => "a path that swallows large packets (an MTU black hole)".into(),
        Kind::WindowScaling => format!("window scaling, which is off on {host}"),
        Kind::ReceiveBuffer => format!("the receive buffer of {host}"),
        Kind::SendBuffer => format!("the send buffer of {host}"),
        Kind::ReceiverCpu => format!("the processor of {host}, which receives"),
        Kind::SenderCpu => format!("the processor of {host}, which sends"),
        Kind::Loss => "loss on a path that is not full".into(),
        Kind::ShortQueue => "a queue on the way that is too short".into(),
        Kind::Policer => "a policer, which drops what is more than its rate".into(),
        Kind::SackOff => format!("selective acknowledgement (SACK), which is off on {host}"),
        Kind::EcnMarks => "congestion marks (ECN) on a path that is not full".into(),
        Kind::LocalQueue => format!("the transmit queue of {host}"),
        Kind::SlowHop => "a hop that is slower than it should be".into(),
        Kind::PathChanged => "a path that changed during the test".into(),
        Kind::CompetingTraffic => "other traffic on the path".into(),
        Kind::PathRate => "the path's rate".into(),
        Kind::Application => "the program that reads or writes".into(),
        Kind::SlowStart => "slow start: the test was too short".into(),
        Kind::Pacing => "pacing".into(),
    }
}

fn indented(text: &str, lines: &mut Vec<String>) {
    lines.extend(wrap(text, WIDTH - INDENT.len()).iter().map(|line| format!("{INDENT}{line}")));
}

fn rate(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}
