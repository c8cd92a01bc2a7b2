//! Checks whether a host still has the settings that were applied.

use std::fs;

use serde::Serialize;

use crate::{
    advise::advise, error::Error, facts::HostFacts, host_paths::HostPaths, journal::Journal, setting, sysctl,
};

/// Settings that immediately limit the throughput of a long fat path if they are wrong: the windows and the
/// memory behind them, and the options of TCP without which TCP has no large window.
const LIMITING: [&str; 9] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_moderate_rcvbuf",
];

/// Whether a setting with a wrong value limits throughput: for monitoring, CRITICAL instead of WARNING.
pub fn limits_throughput(name: &str) -> bool {
    LIMITING.contains(&name)
}

/// A setting or file that differs from the applied or recommended value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting, or the file's path.
    pub name: String,
    /// The present value, if known.
    pub now: Option<String>,
    /// The expected value.
    pub expected: String,
}

/// Finds settings that differ from the applied values, and settings that no longer suit the path for which
/// the host was tuned. `None` if nothing was applied. `facts` describes the present host.
///
/// # Errors
/// If the journal is invalid or belongs to another network namespace.
pub fn check(paths: &HostPaths, facts: &HostFacts) -> Result<Option<Vec<Difference>>, Error> {
    let Some(journal) = Journal::read(paths)? else { return Ok(None) };
    let mut found: Vec<Difference> = Vec::new();
    for change in &journal.settings {
        let now = setting::read(paths, &change.name).ok();
        if now.as_deref() != Some(&*sysctl::normalize_spaces(&change.after)) {
            found.push(Difference { name: change.name.clone(), now, expected: change.after.clone() });
        }
    }
    found.extend(unsuitable(&journal, facts));
    if let Some(file) = &journal.file {
        let now = fs::read_to_string(&file.path).ok();
        if now.as_ref() != Some(&file.after) {
            let now = now.map(|_| "different text".into());
            found.push(Difference {
                name: file.path.display().to_string(),
                now,
                expected: "the text that was written".into(),
            });
        }
    }
    if !journal.complete {
        let (name, now) = ("the last --apply".into(), Some("interrupted".into()));
        found.push(Difference { name, now, expected: "complete".into() });
    }
    Ok(Some(found))
}

/// Settings that `--apply` did not change because they were good enough, and that it would change now.
fn unsuitable(journal: &Journal, facts: &HostFacts) -> Vec<Difference> {
    let Some(goal) = &journal.goal else { return Vec::new() };
    let advice = match advise(&facts.clone().without_counters(), goal) {
        Ok(advice) => advice,
        Err(error) => {
            let (name, now) = ("this host".into(), Some("not suitable".into()));
            return vec![Difference {
                name,
                now,
                expected: format!("suitable for {}: {error}", journal.purpose),
            }];
        }
    };
    let devices =
        advice.device_changes().filter(|_| journal.devices).map(|(name, value)| (name, value.into()));
    let sysctls = advice.changes().map(|(name, _, value)| (name.to_string(), value.to_string()));
    let is_new = |name: &str| journal.settings.iter().all(|change| change.name != name);
    sysctls
        .chain(devices)
        .filter(|(name, _): &(String, String)| is_new(name))
        .map(|(name, expected)| {
            let item = advice.items.iter().find(|item| item.target.name() == name);
            Difference { now: item.and_then(|item| item.now.clone()), name, expected }
        })
        .collect()
}
