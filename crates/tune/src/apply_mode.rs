//! The two modes in which settings are applied: live only, or with a sysctl file. A network namespace has
//! settings of one mode at a time.

use std::io;

use crate::{error::Error, host_paths::HostPaths, journal::Journal};

impl HostPaths {
    /// Paths for applying settings, without a sysctl file if `live`.
    ///
    /// # Errors
    /// If settings of this network namespace were applied in the other mode, with or without a file, and not
    /// yet reverted; or if the journal of these paths is invalid or belongs to another network namespace.
    pub fn for_apply(live: bool) -> Result<HostPaths, Error> {
        let (paths, other) = (HostPaths::of_this_host(live)?, HostPaths::of_this_host(!live)?);
        if other != paths {
            paths.check_mode(&other)?;
        }
        Ok(paths)
    }

    /// Checks that no settings of this network namespace were applied with the paths of the other mode, and
    /// that those of these paths belong to it.
    fn check_mode(&self, other: &HostPaths) -> Result<(), Error> {
        let is_applied = |paths: &HostPaths| match Journal::read(paths) {
            // Only root can read it. An unprivileged user can plan, but not apply.
            Err(error) if error.kind() == Some(io::ErrorKind::PermissionDenied) => Ok(false),
            read => read.map(|journal| journal.is_some()),
        };
        match is_applied(other) {
            Ok(true) => return Err(Error::FileModeMismatch { with_file: self.sysctl_file.is_none() }),
            Ok(false) | Err(Error::OtherNamespace { .. }) => {}
            Err(error) => return Err(error),
        }
        is_applied(self).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        apply::{RequestedSettings, apply},
        host_paths::{namespace_id, tests::paths},
    };

    /// Writes a journal of another network namespace of this boot, as it remains in a container that was
    /// restarted.
    fn move_to_another_namespace(paths: &HostPaths) {
        let path = paths.journal_path();
        let (text, own) = (fs::read_to_string(&path).unwrap(), namespace_id().unwrap());
        let moved = text.replace(&format!("\"namespace\": {own}"), &format!("\"namespace\": {}", own + 1));
        assert_ne!(moved, text);
        fs::write(&path, moved).unwrap();
    }

    #[test]
    fn the_journal_of_another_namespace_blocks_only_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let with_file = paths(directory.path(), Some("90-longfat.conf"), "tune.json");
        let live = paths(directory.path(), None, "tune-1.json");
        live.check_mode(&with_file).unwrap();
        let requested = RequestedSettings { purpose: "a test".into(), ..RequestedSettings::default() };
        apply(&with_file, &requested, |_| {}).unwrap();
        let refused = live.check_mode(&with_file);
        assert!(matches!(refused, Err(Error::FileModeMismatch { with_file: true })), "{refused:?}");
        with_file.check_mode(&live).unwrap();

        move_to_another_namespace(&with_file);
        live.check_mode(&with_file).unwrap();
        let error = with_file.check_mode(&live).unwrap_err();
        assert!(matches!(error, Error::OtherNamespace { .. }), "{error}");
        let (journal, file) = (with_file.journal_path(), with_file.sysctl_file.clone().unwrap());
        let remedy = format!("remove {} and {}", journal.display(), file.display());
        assert!(error.to_string().ends_with(&remedy), "{error}");
        for path in [journal, file] {
            fs::remove_file(path).unwrap();
        }
        with_file.check_mode(&live).unwrap();
        apply(&with_file, &requested, |_| {}).unwrap();
    }
}
