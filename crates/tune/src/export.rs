//! Writes an advice in other programs' formats.

use std::fmt::Write;

use crate::advice::{Advice, Recommendation, RecommendationStatus, Target};

/// Another program's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A file for /etc/sysctl.d.
    Sysctl,
    /// nmcli commands for devices; NetworkManager does not set sysctls.
    NetworkManager,
    /// ethtool, ip and tc commands for devices.
    Ethtool,
    /// Tasks of Ansible.
    Ansible,
}

/// Writes `advice` in `format`. The first line contains `purpose`.
pub fn export(advice: &Advice, format: ExportFormat, purpose: &str) -> String {
    let mut text = format!("# longfat tune: {purpose}\n");
    let all = advice.to_change();
    match format {
        ExportFormat::Sysctl => {
            for (name, _, value) in advice.changes() {
                push_line(&mut text, &format!("{name} = {value}"));
            }
        }
        ExportFormat::NetworkManager => {
            text.push_str("# CONNECTION is the connection of each device: nmcli -g GENERAL.CONNECTION device show DEVICE\n");
            for item in all {
                match (nmcli_command(item), manual_command(&item.target, &item.advised)) {
                    (Some(command), _) => push_line(&mut text, &command),
                    (None, Some(command)) => {
                        push_line(&mut text, &format!("# not a property of a connection: {command}"));
                    }
                    (None, None) => {}
                }
            }
        }
        ExportFormat::Ethtool => all
            .filter_map(|item| manual_command(&item.target, &item.advised))
            .for_each(|c| push_line(&mut text, &c)),
        ExportFormat::Ansible => all.for_each(|item| push_task(&mut text, item)),
    }
    for item in advice
        .items
        .iter()
        .filter(|item| item.status == RecommendationStatus::ManualReview && format != ExportFormat::Sysctl)
    {
        push_line(&mut text, &format!("# check {}: {}", item.target.name(), item.reason));
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The command that changes a device setting by hand; `None` for sysctls, and for settings without a single
/// command.
pub fn manual_command(target: &Target, advised: &str) -> Option<String> {
    Some(match target {
        Target::Ring { device, ring } => format!("ethtool -G {device} {ring} {advised}"),
        Target::Offload { device, feature } => format!("ethtool -K {device} {feature} {advised}"),
        Target::Coalescing { device, setting } => format!("ethtool -C {device} {setting} {advised}"),
        Target::Qdisc { device } => format!("tc qdisc replace dev {device} root {advised}"),
        Target::TxQueue { device } => format!("ip link set dev {device} txqueuelen {advised}"),
        Target::Mtu { device } => format!("ip link set dev {device} mtu {advised}"),
        Target::Pause { device } => format!("ethtool -A {device} {advised}"),
        Target::Governor => format!("cpupower frequency-set -g {advised}"),
        Target::Sysctl { .. } | Target::Link { .. } | Target::Interrupts { .. } | Target::Route { .. } => {
            return None;
        }
    })
}

/// The command that changes a NetworkManager connection (nm-settings(5)).
fn nmcli_command(item: &Recommendation) -> Option<String> {
    let advised = &item.advised;
    let (device, key, value) = match &item.target {
        Target::Ring { device, ring } => (device, format!("ethtool.ring-{ring}"), advised.as_str()),
        Target::Offload { device, feature } => {
            (device, format!("ethtool.feature-{feature}"), advised.as_str())
        }
        Target::Coalescing { device, setting } => {
            (device, format!("ethtool.coalesce-{setting}"), advised.as_str())
        }
        Target::Mtu { device } => (device, "802-3-ethernet.mtu".into(), advised.as_str()),
        Target::Qdisc { device } => (device, "tc.qdiscs".into(), "root fq"),
        _ => return None,
    };
    let value = match value.contains(' ') {
        true => format!("\"{value}\""),
        false => value.into(),
    };
    Some(format!(
        "nmcli connection modify \"$(nmcli -g GENERAL.CONNECTION device show {device})\" {key} {value}"
    ))
}

fn push_task(text: &mut String, item: &Recommendation) {
    // The names contain only letters, digits, dots, underscores and spaces, which need no quotes in YAML.
    let _ = match (&item.target, manual_command(&item.target, &item.advised)) {
        (Target::Sysctl { name }, _) => write!(
            text,
            "- name: {name}\n  ansible.posix.sysctl:\n    name: {name}\n    value: \"{}\"\n    sysctl_file: /etc/sysctl.d/90-longfat.conf\n",
            item.advised
        ),
        (target, Some(command)) => {
            write!(text, "- name: {}\n  ansible.builtin.command: {command}\n", target.name())
        }
        (_, None) => Ok(()),
    };
}
