//! The settings of this machine, which hosts of scenarios inherit.

use std::fs;

use scenario::Host;

/// This machine's value of a sysctl; `None` if it has none of this name.
pub(crate) fn machine_setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().replace('\t', " "))
}

/// A host's sysctl: the host's value, else the default of Linux 2.4 if the scenario simulates it, else this
/// machine's value.
pub fn setting(host: Option<&Host>, name: &str) -> Option<String> {
    computed_runs::flow_context::setting(&machine_setting, host, name)
}
