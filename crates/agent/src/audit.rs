//! The audit log of a point: who has requested what. One JSON document a line, appended to `audit.log` in the
//! state directory.
//!
//! It has the requests of users and programs and the changes of the mesh. Requests without a valid token are
//! not in it: anyone can send them, and they would fill the disk.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

use crate::{Error, files, users::user_name};

/// At this size the log is renamed to `audit.log.1`, replacing the previous file of this name.
const MAX_BYTES: u64 = 16 << 20;

/// Threads of this process append one after another: of two that find the log full, the second would replace
/// the first one's `audit.log.1`.
static APPENDING: Mutex<()> = Mutex::new(());

/// Appends a request and its outcome: the object that it concerns, or why it was refused. `role` is the role
/// of the user.
pub(crate) fn append_request(
    state: &Path,
    user: &str,
    role: Option<&str>,
    action: &str,
    mut details: Value,
    outcome: Result<String, String>,
) -> Result<(), Error> {
    let (key, text) = match outcome {
        Ok(object) => ("object", object),
        Err(reason) => ("refused", reason),
    };
    details[key] = text.into();
    if let Some(role) = role {
        details["role"] = role.into();
    }
    append(state, user, action, details)
}

/// Appends an entry. `details` states what was requested, and why it was refused.
pub(crate) fn append(state: &Path, user: &str, action: &str, details: Value) -> Result<(), Error> {
    append_limited(state, user, action, details, MAX_BYTES)
}

/// Appends an entry of the user who runs this process.
pub(crate) fn append_own(state: &Path, action: &str, details: Value) -> Result<(), Error> {
    let process = Path::new("/proc/self");
    let uid = fs::metadata(process).map_err(files::failed("read", process))?.uid();
    append(state, &user_name(uid), action, details)
}

fn append_limited(
    state: &Path,
    user: &str,
    action: &str,
    details: Value,
    max_bytes: u64,
) -> Result<(), Error> {
    let path = state.join("audit.log");
    let _appending = APPENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if fs::metadata(&path).is_ok_and(|about| about.len() >= max_bytes) {
        fs::rename(&path, state.join("audit.log.1")).map_err(files::failed("rename", &path))?;
    }
    let now = jiff::Timestamp::now();
    let mut entry = json!({
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "user": user, "action": action,
    });
    if let (Some(entry), Value::Object(details)) = (entry.as_object_mut(), details) {
        entry.extend(details);
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let mut file = file.map_err(files::failed("open", &path))?;
    // One write: lines of several processes (`agent invite` and the agent) do not mix.
    file.write_all(format!("{entry}\n").as_bytes()).map_err(files::failed("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_a_line_and_the_size_of_the_log_is_limited() {
        let state = tempfile::tempdir().unwrap();
        for number in 0..40 {
            append_limited(
                state.path(),
                "alice@a",
                "reserve",
                json!({ "to": "b\n", "number": number }),
                1000,
            )
            .unwrap();
        }
        let read = |name: &str| fs::read_to_string(state.path().join(name)).unwrap();
        let (old, new) = (read("audit.log.1"), read("audit.log"));
        let entry: Value = serde_json::from_str(new.lines().last().unwrap()).unwrap();
        assert_eq!((&entry["user"], &entry["number"]), (&"alice@a".into(), &39.into()));
        let numbers = old.lines().chain(new.lines()).map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            entry["number"].as_u64().unwrap()
        });
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers.is_sorted() && numbers.len() > 10, "{numbers:?}");
        assert!(old.len() < 1200 && new.len() < 1200);
    }
}
