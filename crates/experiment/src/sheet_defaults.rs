//! The settings of the machine for which a lab sheet was written, and how this machine differs from it.

use crate::machine::machine_setting;

/// Settings of hosts that a scenario does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SheetDefaults {
    /// Its name on the command line.
    pub name: &'static str,
    /// The machine that has these settings.
    pub about: &'static str,
    /// The sysctls, by name.
    pub sysctls: &'static [(&'static str, &'static str)],
}

/// All known defaults.
///
/// Source: Lab 8 prints both limits of buffers before they are changed; CUBIC is the default of Linux 4.15,
/// the kernel of the course's machine. (A plain 4.15 has the limits 4096 87380 6291456 and 4096 16384
/// 4194304.)
pub const SHEET_DEFAULTS: &[SheetDefaults] = &[SheetDefaults {
    name: "linux-4.15",
    about: "the lab sheets' machine (Linux 4.15)",
    sysctls: &[
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_rmem", "10240 87380 16777216"),
        ("net.ipv4.tcp_wmem", "10240 87380 16777216"),
    ],
}];

/// The defaults of this name.
pub fn find(name: &str) -> Option<&'static SheetDefaults> {
    SHEET_DEFAULTS.iter().find(|one| one.name == name)
}

/// A setting of this machine that differs from the sheet's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The sysctl.
    pub sysctl: &'static str,
    /// This machine's value.
    pub here: String,
    /// The sheet's.
    pub sheet: &'static str,
}

impl SheetDefaults {
    /// The values to set in a scenario, as by `--set`, for all hosts; without values that hosts cannot have
    /// on this machine.
    pub fn sets(&self) -> Vec<(String, String)> {
        self.sets_unless(is_restricted)
    }

    fn sets_unless(&self, cannot_set: impl Fn(&str, &str) -> bool) -> Vec<(String, String)> {
        let set = |(name, value): &(&str, &str)| (format!("hosts.*.sysctl.\"{name}\""), (*value).to_owned());
        self.sysctls.iter().filter(|(name, value)| !cannot_set(name, value)).map(set).collect()
    }

    /// The settings that hosts of a lab cannot have on this machine, as (sysctl, value): a namespace takes
    /// only congestion controls that the machine allows to every user.
    pub fn restricted(&self) -> Vec<(&'static str, &'static str)> {
        self.sysctls.iter().copied().filter(|(name, value)| is_restricted(name, value)).collect()
    }

    /// The settings in which this machine differs. Settings that it does not have are skipped.
    pub fn differences(&self) -> Vec<Difference> {
        self.differences_from(machine_setting)
    }

    fn differences_from(&self, read: impl Fn(&str) -> Option<String>) -> Vec<Difference> {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let differing = |(sysctl, sheet): &(&'static str, &'static str)| {
            let here = plain(&read(sysctl)?);
            (here != *sheet).then_some(Difference { sysctl, here, sheet })
        };
        self.sysctls.iter().filter_map(differing).collect()
    }
}

/// Whether this machine restricts a congestion control to its own namespace
/// (tcp_set_default_congestion_control, net/ipv4/tcp_cong.c).
fn is_restricted(sysctl: &str, value: &str) -> bool {
    let allowed = || machine_setting("net.ipv4.tcp_allowed_congestion_control");
    sysctl == "net.ipv4.tcp_congestion_control"
        && allowed().is_some_and(|all| !all.split_whitespace().any(|name| name == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_between_values_are_no_difference() {
        let sheet = find("linux-4.15").unwrap();
        let of = |name: &str| match name {
            "net.ipv4.tcp_rmem" => Some("10240\t87380\t16777216\n".to_owned()),
            "net.ipv4.tcp_wmem" => Some("4096\t16384\t4194304\n".to_owned()),
            _ => None,
        };
        let [one] = &sheet.differences_from(of)[..] else { panic!("{:?}", sheet.differences_from(of)) };
        assert_eq!((one.sysctl, one.here.as_str()), ("net.ipv4.tcp_wmem", "4096 16384 4194304"));
        assert_eq!(find("linux-9"), None);
    }

    #[test]
    fn the_values_apply_to_all_hosts_that_have_none() {
        let file = scenario::ScenarioFile::parse(
            "x",
            "duration = \"1s\"\nhosts.a.address = \"10.0.0.1/8\"\nhosts.b.address = \"10.0.0.2/8\"\n[[links]]\nends = [\"a\", \"b\"]\n",
        )
        .unwrap();
        let sheet = find("linux-4.15").unwrap();
        let scenario = file.resolve(None, &sheet.sets_unless(|_, _| false)).unwrap();
        assert_eq!(sheet.sets_unless(|name, _| name.ends_with("control")).len(), 2);
        for host in &scenario.hosts {
            assert_eq!(host.sysctl["net.ipv4.tcp_rmem"], "10240 87380 16777216", "{host:?}");
            assert_eq!(host.sysctl["net.ipv4.tcp_congestion_control"], "cubic");
        }
    }
}
