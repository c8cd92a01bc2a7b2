//! An advice in other programs' forms.

use std::fmt::Write;

use crate::advice::{Advice, Item, State, Target};

/// Another program's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A file for /etc/sysctl.d.
    Sysctl,
    /// nmcli commands for devices; sysctls are not NetworkManager's.
    NetworkManager,
    /// ethtool, ip and tc commands for devices.
    Ethtool,
    /// Tasks of Ansible.
    Ansible,
}

/// `advice` in `format`. `purpose` stands in the first line.
pub fn export(advice: &Advice, format: Format, purpose: &str) -> String {
    let mut text = format!("# longfat tune: {purpose}\n");
    let all = advice.to_change();
    match format {
        Format::Sysctl => {
            for (name, _, value) in advice.changes() {
                line(&mut text, &format!("{name} = {value}"));
            }
        }
        Format::NetworkManager => {
            text.push_str("# CONNECTION is the connection of each device: nmcli -g GENERAL.CONNECTION device show DEVICE\n");
            all.filter_map(nmcli).for_each(|command| line(&mut text, &command));
        }
        Format::Ethtool => {
            all.filter_map(|item| command(&item.target, &item.advised)).for_each(|c| line(&mut text, &c))
        }
        Format::Ansible => all.for_each(|item| task(&mut text, item)),
    }
    for item in advice.items.iter().filter(|item| item.state == State::Look && format != Format::Sysctl) {
        line(&mut text, &format!("# look at {}: {}", item.target.name(), item.reason));
    }
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The command that sets what `tune --apply` does not.
pub fn command(target: &Target, advised: &str) -> Option<String> {
    Some(match target {
        Target::Ring { device, ring } => format!("ethtool -G {device} {ring} {advised}"),
        Target::Offload { device, feature } => format!("ethtool -K {device} {feature} {advised}"),
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

/// Settings of a connection (nm-settings(5)).
fn nmcli(item: &Item) -> Option<String> {
    let advised = &item.advised;
    let (device, key, value) = match &item.target {
        Target::Ring { device, ring } => (device, format!("ethtool.ring-{ring}"), advised.as_str()),
        Target::Offload { device, feature } => {
            (device, format!("ethtool.feature-{feature}"), advised.as_str())
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

fn task(text: &mut String, item: &Item) {
    // A name that is plain letters and blanks needs no quotes in YAML.
    let _ = match (&item.target, command(&item.target, &item.advised)) {
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
