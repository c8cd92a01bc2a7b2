//! Whether a host is still as it was tuned.

use std::fs;

use serde::Serialize;

use crate::{error::Error, journal::Journal, roots::Roots, setting, sysctl};

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

/// What differs from what was applied; `None` where nothing was.
pub fn check(roots: &Roots) -> Result<Option<Vec<Difference>>, Error> {
    let Some(journal) = Journal::read(roots)? else { return Ok(None) };
    let mut found: Vec<Difference> = Vec::new();
    for change in &journal.settings {
        let now = setting::read(roots, &change.name).ok();
        if now.as_deref() != Some(&*sysctl::normal(&change.after)) {
            found.push(Difference { name: change.name.clone(), now, expected: change.after.clone() });
        }
    }
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
