//! Lines of other files that set an applied sysctl again when the machine starts.

use std::{fs, path::PathBuf};

use crate::{journal::Journal, sysctl};

/// The lines that replace applied values at the next start, each after the path of its file. Files of
/// sysctl.d are read in the order of their names (sysctl.d(5)); `sysctl --system` reads /etc/sysctl.conf
/// last.
pub(crate) fn overriding_lines(journal: &Journal) -> Vec<String> {
    let Some((own, directory)) =
        journal.file.as_ref().and_then(|file| Some((&file.path, file.path.parent()?)))
    else {
        return Vec::new();
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut later: Vec<PathBuf> =
        entries.filter(|path| path > own && path.extension().is_some_and(|end| end == "conf")).collect();
    later.sort();
    // On Debian and Fedora 99-sysctl.conf is a link to this file.
    let last = directory.with_file_name("sysctl.conf");
    if later.iter().all(|path| fs::canonicalize(path).ok() != fs::canonicalize(&last).ok()) {
        later.push(last);
    }
    let mut found = Vec::new();
    for path in later {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| replaces(line, journal));
        found.extend(lines.map(|line| format!("{}: {line}", path.display())));
    }
    found
}

/// Whether a line of a sysctl file sets an applied sysctl to another value.
fn replaces(line: &str, journal: &Journal) -> bool {
    let Some((name, value)) = line.trim_start_matches('-').split_once('=') else { return false };
    let (name, value) = (name.trim().replace('/', "."), sysctl::normalize_spaces(value));
    journal.settings.iter().any(|own| own.name == name && sysctl::normalize_spaces(&own.after) != value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{FileChange, SettingChange};

    #[test]
    fn only_later_files_with_other_values_replace_applied_settings() {
        let directory = tempfile::tempdir().unwrap();
        let etc = directory.path();
        let sysctl_d = etc.join("sysctl.d");
        fs::create_dir(&sysctl_d).unwrap();
        let mut journal = Journal::new("a test").unwrap();
        for (name, after) in [("net.ipv4.tcp_rmem", "1 2 3"), ("net.ipv4.tcp_sack", "1")] {
            journal.settings.push(SettingChange {
                name: name.into(),
                before: "0".into(),
                after: after.into(),
            });
        }
        assert_eq!(overriding_lines(&journal), [""; 0], "without a file");
        let path = sysctl_d.join("90-longfat.conf");
        journal.file = Some(FileChange { path, before: None, after: String::new(), made_directory: false });
        let set =
            "net/ipv4/tcp_rmem=4 5 6\n#net.ipv4.tcp_sack = 0\nnet.ipv4.tcp_wmem = 7\nnet.ipv4.tcp_sack = 1\n";
        for name in ["10-own.conf", "90-longfat.conf", "99-own.conf~"] {
            fs::write(sysctl_d.join(name), set).unwrap();
        }
        assert_eq!(overriding_lines(&journal), [""; 0]);
        fs::write(etc.join("sysctl.conf"), set).unwrap();
        let at = |path: PathBuf| format!("{}: net/ipv4/tcp_rmem=4 5 6", path.display());
        assert_eq!(overriding_lines(&journal), [at(etc.join("sysctl.conf"))]);
        std::os::unix::fs::symlink("../sysctl.conf", sysctl_d.join("99-sysctl.conf")).unwrap();
        assert_eq!(overriding_lines(&journal), [at(sysctl_d.join("99-sysctl.conf"))]);
    }
}
