//! Whether a host is still as it was tuned.

use std::fs;

use serde::Serialize;

use crate::{
    advise::advise,
    error::Error,
    facts::{HostFacts, Reading},
    journal::Journal,
    roots::Roots,
    setting, sysctl,
};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting, or the file's path.
    pub name: String,
    /// What it is.
    pub now: Option<String>,
    /// What it should be.
    pub expected: String,
}

/// What differs from what was applied, and what no longer suits the path that it was applied for; `None` where nothing was. `facts` is
/// the host as it is now.
pub fn check(roots: &Roots, facts: &HostFacts) -> Result<Option<Vec<Difference>>, Error> {
    let Some(journal) = Journal::read(roots)? else { return Ok(None) };
    let mut found: Vec<Difference> = Vec::new();
    for change in &journal.settings {
        let now = setting::read(roots, &change.name).ok();
        if now.as_deref() != Some(&*sysctl::normal(&change.after)) {
            found.push(Difference { name: change.name.clone(), now, expected: change.after.clone() });
        }
    }
    found.extend(unsuitable(&journal, facts));
    if let Some(file) = &journal.file {
        let now = fs::read_to_string(&file.path).ok();
        if now.as_ref() != Some(&file.after) {
            let now = now.map(|_| "another text".into());
            found.push(Difference {
                name: file.path.display().to_string(),
                now,
                expected: "what was written".into(),
            });
        }
    }
    if !journal.complete {
        let (name, now) = ("the last --apply".into(), Some("cut short".into()));
        found.push(Difference { name, now, expected: "complete".into() });
    }
    Ok(Some(found))
}

/// Settings that `--apply` found good enough, and so did not change, and that it would change now.
fn unsuitable(journal: &Journal, facts: &HostFacts) -> Vec<Difference> {
    let Some(goal) = &journal.goal else { return Vec::new() };
    // Counters of the packets since then are no settings.
    let facts = HostFacts { softnet: Reading::unknown("not compared"), ..facts.clone() };
    let advice = match advise(&facts, goal) {
        Ok(advice) => advice,
        Err(refusal) => {
            let (name, now) = ("this host".into(), Some("not able to".into()));
            return vec![Difference {
                name,
                now,
                expected: format!("good for {}: {refusal}", journal.purpose),
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
