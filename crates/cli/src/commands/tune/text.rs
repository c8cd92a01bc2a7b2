//! The text output of `longfat tune`.

use std::fmt::Display;

use tune::{
    Advice, Applied, Device, HostFacts, HostPaths, Journal, Reading, Recommendation, RecommendationStatus,
    RequestedSettings, Reverted, Target,
};
use units::Bytes;

use crate::{commands::bdp::wrap, output};

/// Reasons are wrapped at this column.
const WIDTH: usize = 100;
const INDENT: &str = "          ";
/// The sysctls that are shown.
const SHOWN_SYSCTLS: [&str; 12] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.core.default_qdisc",
];

/// The settings of a host.
pub fn host(facts: &HostFacts, applied: Option<&Journal>) -> String {
    let mut lines = vec![format!(
        "Linux {}, {} processors, memory {}",
        facts.kernel,
        facts.cpus,
        shown(&facts.memory_bytes, |bytes| rounded(*bytes))
    )];
    if facts.lab_host {
        lines.push("a host of a lab: only the settings of its network namespace belong to it".into());
    }
    for name in SHOWN_SYSCTLS {
        let value = facts.sysctls.get(name).map(|setting| shown(setting, |setting| setting.value.clone()));
        lines.push(format!("  {name:<41} {}", value.unwrap_or_default()));
    }
    facts.devices.iter().filter(|device| device.up).for_each(|device| self::device(device, &mut lines));
    lines.push(format!("  {:<41} {}", "cpu governor", shown(&facts.governors, |names| names.join(", "))));
    if let Reading::Known(routes) = &facts.routes {
        for route in routes {
            let metrics: Vec<String> =
                route.metrics.iter().map(|(name, value)| format!("{name} {value}")).collect();
            lines.push(format!("  route {:<35} {}", route.to, metrics.join(" ")));
        }
    }
    if let Some(journal) = applied {
        let state = if journal.complete { "applied" } else { "partly applied: interrupted" };
        lines.push(format!("{state}: {} (longfat tune --revert restores it)", journal.purpose));
    }
    lines.join("\n")
}

fn device(device: &Device, lines: &mut Vec<String>) {
    let queue = device.qdisc.as_deref().unwrap_or("no queue");
    let speed = shown(&device.speed_mbps, |mbps| format!("{mbps} Mb/s"));
    lines.push(format!(
        "  {:<41} mtu {}, {queue}, txqueuelen {}",
        device.name, device.mtu, device.tx_queue_len
    ));
    let mut detail = |name: &str, text: String| lines.push(format!("    {name:<39} {text}"));
    detail("speed", speed);
    detail("driver", shown(&device.driver, Clone::clone));
    detail(
        "rings",
        shown(&device.rings, |r| format!("rx {} of {}, tx {} of {}", r.rx, r.rx_max, r.tx, r.tx_max)),
    );
    detail(
        "offloads",
        shown(&device.offloads, |o| {
            let all = [
                ("tso", o.tso),
                ("gso", o.gso),
                ("gro", o.gro),
                ("lro", o.lro),
                ("rx", o.rx_checksum),
                ("tx", o.tx_checksum),
            ];
            let on: Vec<&str> = all.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
            on.join(" ")
        }),
    );
    detail("coalescing", shown(&device.coalescing, |c| format!("rx {} us, tx {} us", c.rx_us, c.tx_us)));
    detail("pause", shown(&device.pause, |p| format!("rx {} tx {}", p.rx, p.tx)));
    detail("memory node", shown(&device.numa_node, |node| node.to_string()));
}

/// The advice, item by item.
pub fn advice(advice: &Advice, purpose: &str) -> String {
    let mut lines = vec![format!(
        "For {purpose}: bandwidth-delay product {}; maximum socket buffer {}, all sockets together {}",
        Bytes(advice.bdp_bytes),
        Bytes(advice.buffer_bytes),
        Bytes(advice.memory_bytes)
    )];
    for item in &advice.items {
        lines.push(String::new());
        lines.push(format!("{:<9} {}", state(&item.status), heading(item)));
        let cost = item.memory_bytes.map_or(String::new(), |bytes| format!("; may take {}", Bytes(bytes)));
        let reason = format!("{}{cost} ({})", item.reason, item.source);
        lines.extend(
            wrap(&reason, output::line_length(WIDTH) - INDENT.len())
                .iter()
                .map(|line| format!("{INDENT}{line}")),
        );
        match &item.status {
            RecommendationStatus::NotChangeable { why } | RecommendationStatus::Unknown { why } => {
                lines.push(format!("{INDENT}{why}"))
            }
            RecommendationStatus::Change | RecommendationStatus::ManualReview => lines.extend(by_hand(item)),
            RecommendationStatus::Satisfied | RecommendationStatus::Exceeded => {}
        }
    }
    if advice.to_change().next().is_some() {
        lines.push("\nto change the settings: the same command with --apply (as root; --plan shows the changes before)".into());
    }
    lines.join("\n")
}

fn state(state: &RecommendationStatus) -> &'static str {
    match state {
        RecommendationStatus::Satisfied => "fine",
        RecommendationStatus::Exceeded => "better",
        RecommendationStatus::Change => "change",
        RecommendationStatus::NotChangeable { .. } => "elsewhere",
        RecommendationStatus::Unknown { .. } => "unknown",
        RecommendationStatus::ManualReview => "review",
    }
}

fn heading(item: &Recommendation) -> String {
    let name = item.target.name();
    match (&item.status, &item.now) {
        (RecommendationStatus::Satisfied | RecommendationStatus::Exceeded, Some(now)) => {
            format!("{name} = {now}")
        }
        (_, Some(now)) => format!("{name}: {now} -> {}", item.advised),
        (_, None) => format!("{name} -> {}", item.advised),
    }
}

/// The command for a setting that `--apply` does not change.
fn by_hand(item: &Recommendation) -> Option<String> {
    let command = tune::manual_command(&item.target, &item.advised)?;
    // Below a colon, the command is not broken on a narrow terminal.
    Some(format!("{INDENT}by hand:\n{INDENT}  {command}"))
}

/// The changes that `--apply` would make, as a diff.
pub fn plan(advice: &Advice, roots: &HostPaths, requested: &RequestedSettings) -> String {
    let mut lines = Vec::new();
    for (name, value) in &requested.settings {
        let now = advice.items.iter().find(|item| item.target.name() == *name);
        lines.push(format!("-{name} = {}", now.and_then(|item| item.now.as_deref()).unwrap_or_default()));
        lines.push(format!("+{name} = {value}"));
    }
    match (&roots.sysctl_file, lines.is_empty()) {
        (_, true) => lines.push("nothing to change".into()),
        (Some(path), false) => {
            lines.push(format!("\nand {}:", path.display()));
            lines.extend(requested.file_text().lines().map(|line| format!("+{line}")));
        }
        (None, false) => lines.push("\nlive values only: no file is written".into()),
    }
    lines.extend(left_to_others(advice, |name| requested.settings.iter().any(|(own, _)| own == name)));
    lines.join("\n")
}

/// The applied settings.
pub fn applied(applied: &Applied, advice: &Advice) -> String {
    let Applied { journal, rejected: refused, overriding } = applied;
    let settings = journal
        .settings
        .iter()
        .map(|change| format!("{}: {} -> {}", change.name, change.before, change.after));
    let mut lines: Vec<String> = settings.collect();
    lines.extend(journal.file.iter().map(|file| format!("written: {}", file.path.display())));
    for one in refused {
        lines.push(format!("skipped: {} = {}: the device rejects it: {}", one.name, one.value, one.why));
    }
    for line in overriding {
        lines.push(format!(
            "warning: when the machine restarts, a later file sets another value ({line}); remove this line"
        ));
    }
    let is_done = |name: &str| {
        journal.settings.iter().any(|change| change.name == name)
            || refused.iter().any(|one| one.name == name)
    };
    lines.extend(left_to_others(advice, is_done));
    lines.push("\nlongfat tune --revert restores the former settings.".into());
    lines.join("\n")
}

fn left_to_others(advice: &Advice, is_ours: impl Fn(&str) -> bool) -> Vec<String> {
    let commands: Vec<String> = advice
        .to_change()
        .filter(|item| !matches!(item.target, Target::Sysctl { .. }) && !is_ours(&item.target.name()))
        .filter_map(|item| tune::manual_command(&item.target, &item.advised))
        .map(|command| format!("  {command}"))
        .collect();
    let elsewhere =
        advice.items.iter().filter(|item| matches!(item.status, RecommendationStatus::NotChangeable { .. }));
    let mut lines: Vec<String> = elsewhere
        .map(|item| {
            format!("skipped: {} = {} is global, not per network namespace", item.target.name(), item.advised)
        })
        .collect();
    if !commands.is_empty() {
        lines.push("\nto do by hand, for devices and CPUs:".into());
        lines.extend(commands);
    }
    lines
}

/// The restored settings.
pub fn reverted(reverted: &Reverted) -> String {
    let mut lines: Vec<String> = reverted
        .settings
        .iter()
        .map(|change| format!("{}: restored to {}", change.name, change.before))
        .collect();
    for (name, value) in &reverted.changed_since {
        lines.push(format!("note: {name} had been changed to {value} since"));
    }
    lines.extend(reverted.file.iter().map(|path| format!("{}: restored", path.display())));
    if !reverted.file_lines.is_empty() {
        lines.push("note: these lines had been added to it and are removed with it:".into());
        lines.extend(reverted.file_lines.iter().map(|line| format!("  {line}")));
    }
    lines.push("All settings are restored.".into());
    lines.join("\n")
}

fn shown<T, D: Display>(reading: &Reading<T>, show: impl Fn(&T) -> D) -> String {
    match reading {
        Reading::Known(value) => show(value).to_string(),
        Reading::Unknown { why } => format!("unknown: {why}"),
    }
}

fn rounded(bytes: u64) -> Bytes {
    Bytes(units::three_digits(bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_does_not_count_as_unchanged() {
        let file = Some("/etc/sysctl.d/90-longfat.conf".into());
        let text = reverted(&Reverted { file, ..Reverted::default() });
        assert_eq!(text, "/etc/sysctl.d/90-longfat.conf: restored\nAll settings are restored.");
    }
}
