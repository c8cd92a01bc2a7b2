//! Downloads source packages with apt, without root; writes to the work directory only.
//!
//! First apt reads the machine's package lists. If they list no source package, or one that the mirror no
//! longer has because they are old, apt downloads lists to the work directory. The lists of a requested suite
//! are always downloaded, because the machine may not have them. In each case apt checks signatures with the
//! machine's keyrings.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    BuildProgress, BuildStage, Error, Result,
    children::Runner,
    error::Attempted,
    package::{self, Package},
    tools,
};

/// The required programs of apt and dpkg.
const PROGRAMS: [&str; 4] = ["apt-get", "apt-cache", "apt-config", "dpkg-deb"];
/// Distributions: the end of a mirror's address, the main mirror, and the keyring.
const DISTRIBUTIONS: [(&str, &str, &str); 2] = [
    ("/debian", "http://deb.debian.org/debian", "/usr/share/keyrings/debian-archive-keyring.gpg"),
    ("/ubuntu", "http://archive.ubuntu.com/ubuntu", "/usr/share/keyrings/ubuntu-archive-keyring.gpg"),
];

/// Source of the package lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists<'a> {
    /// The machine's existing lists.
    Machine,
    /// Lists downloaded from the machine's sources.
    Fresh,
    /// A suite of the machine's distribution.
    Suite(&'a str),
}

/// apt, with its files in one directory.
pub(crate) struct Apt<'a> {
    directory: PathBuf,
    suite: Option<&'a str>,
}

impl<'a> Apt<'a> {
    /// apt with its files in `directory`, and the lists of `suite` instead of the machine's.
    ///
    /// # Errors
    /// If apt is not installed, or the name of the suite is invalid.
    pub(crate) fn new(directory: PathBuf, suite: Option<&'a str>) -> Result<Self> {
        if let Some(program) = PROGRAMS.into_iter().find(|program| tools::find(program).is_none()) {
            return Err(Error::NoApt(program));
        }
        match suite {
            Some(suite) if !is_suite(suite) => Err(Error::Suite(suite.into())),
            _ => Ok(Apt { directory, suite }),
        }
    }

    /// The package for a version, or the newest.
    ///
    /// # Errors
    /// If no list has it.
    pub(crate) fn choose(
        &self,
        version: Option<&str>,
        runner: &mut Runner<'_>,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<Package> {
        report(BuildProgress::start(BuildStage::PackageLists));
        let candidates = match self.suite {
            Some(suite) => vec![Lists::Suite(suite)],
            None => vec![Lists::Machine, Lists::Fresh],
        };
        let mut available = Vec::new();
        for lists in candidates {
            // One of several sources may fail; that is an error only if no list has packages.
            let updated = match self.configure(lists, runner) {
                Err(failed @ Error::Failed { .. }) => Err(failed),
                other => Ok(other?),
            };
            available = self.packages(runner)?;
            if let Some(package) = package::choose(&available, version) {
                return Ok(package.clone());
            }
            if !available.is_empty() {
                break;
            }
            updated?;
        }
        Err(Error::NoPackage {
            requested: version.unwrap_or("of any version").into(),
            lists: match self.suite {
                Some(suite) => format!("the package lists of {suite}"),
                None => "this machine's package lists".into(),
            },
            available: package::series(&available),
            with_suite: self.suite.is_some(),
        })
    }

    /// Downloads a package to `directory`, and returns its file.
    ///
    /// # Errors
    /// If the mirror does not have it, or it does not match the signed lists.
    pub(crate) fn download(
        &self,
        package: &mut Package,
        version: Option<&str>,
        directory: &Path,
        runner: &mut Runner<'_>,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<PathBuf> {
        let result = self.download_once(package, directory, runner, report);
        if !matches!(result, Err(Error::Failed { .. })) || self.suite.is_some() {
            return result;
        }
        // Lists that are a few weeks old contain packages that mirrors no longer have.
        match self.configure(Lists::Fresh, runner) {
            Err(Error::Failed { .. }) => {}
            other => other?,
        }
        let Some(newer) = package::choose(&self.packages(runner)?, version).cloned() else { return result };
        *package = newer;
        self.download_once(package, directory, runner, report)
    }

    fn download_once(
        &self,
        package: &Package,
        directory: &Path,
        runner: &mut Runner<'_>,
        report: &mut dyn FnMut(BuildProgress),
    ) -> Result<PathBuf> {
        let mut command = self.program("apt-get", runner);
        command.args(["download", "--print-uris", &package.request()]);
        let line = runner.output("finding the package", command, None)?;
        let total = size_of_uri(&line);
        let mut command = self.program("apt-get", runner);
        command.args(["download", "-q=2", &package.request()]).current_dir(directory);
        report(BuildProgress { stage: BuildStage::Download, done: 0, total });
        runner.run_watched("downloading the source package", command, |_| {
            report(BuildProgress { stage: BuildStage::Download, done: bytes_in(directory), total });
        })?;
        let files = fs::read_dir(directory).attempted(|| format!("list {}", directory.display()))?;
        let debs = files
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "deb"));
        debs.last().ok_or_else(|| Error::NoPackage {
            requested: package.request(),
            lists: "the download directory of apt-get".into(),
            available: Vec::new(),
            with_suite: false,
        })
    }

    /// All source packages of kernels in apt's lists.
    fn packages(&self, runner: &mut Runner<'_>) -> Result<Vec<Package>> {
        let mut command = self.program("apt-cache", runner);
        command.args(["pkgnames", package::PREFIX]);
        let names = runner.output("reading package lists", command, None)?;
        let names: Vec<&str> = names.lines().filter(|name| package::is_kernel_source(name)).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.program("apt-cache", runner);
        command.arg("madison").args(names);
        Ok(package::listed(&runner.output("reading package lists", command, None)?))
    }

    /// Writes apt's configuration for these lists, and downloads them if necessary.
    fn configure(&self, lists: Lists<'_>, runner: &mut Runner<'_>) -> Result<()> {
        let create = |name: &str| {
            let path = self.directory.join(name);
            fs::create_dir_all(&path).attempted(|| format!("create {}", path.display()))
        };
        create("lists/partial")?;
        create("cache/archives/partial")?;
        let mut dump = runner.program("apt-config");
        dump.arg("dump");
        let machine = runner.output("reading apt's configuration", dump, None)?;
        let mut text = configuration(&machine, &self.directory);
        if let Lists::Suite(suite) = lists {
            let mut targets = runner.program("apt-get");
            targets.args(["indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]);
            // Without sources the distribution's main mirror is used.
            let targets = runner.output("reading apt's sources", targets, None).unwrap_or_default();
            let sources = self.directory.join("suite.list");
            let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
            let line = source_line(&targets, &os, suite);
            fs::write(&sources, line).attempted(|| format!("write {}", sources.display()))?;
            text += &format!(
                "Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"/dev/null\";\n",
                sources.display()
            );
        }
        if lists != Lists::Machine {
            text += &format!("Dir::State::Lists \"{}\";\n", self.directory.join("lists").display());
        }
        let path = self.configuration();
        fs::write(&path, text).attempted(|| format!("write {}", path.display()))?;
        if lists == Lists::Machine {
            return Ok(());
        }
        let mut update = self.program("apt-get", runner);
        // Without the option an unreachable mirror is only a warning.
        update.args(["update", "-q", "-o", "APT::Update::Error-Mode=any"]);
        runner.run("downloading package lists", update)
    }

    fn program(&self, name: &str, runner: &Runner<'_>) -> Command {
        let mut command = runner.program(name);
        command.env("APT_CONFIG", self.configuration());
        command
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("apt.conf")
    }
}

/// apt's configuration: the machine's settings for reaching mirrors (proxies, timeouts), without its hooks,
/// which could change files elsewhere.
fn configuration(machine: &str, directory: &Path) -> String {
    let kept = machine
        .lines()
        .filter(|line| line.starts_with("Acquire::") && !line.starts_with("Acquire::IndexTargets"))
        .filter(|line| !line.starts_with("Acquire::Languages"));
    let mut text: String = kept.flat_map(|line| [line, "\n"]).collect();
    let cache = directory.join("cache");
    text += &format!(
        "Dir::Etc::Main \"/dev/null\";\nDir::Etc::Parts \"/dev/null\";\n\
         Dir::Cache \"{}\";\nDir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n\
         Acquire::Languages \"none\";\n",
        cache.display()
    );
    if os::is_root() {
        // The user _apt cannot write to root's cache; apt would print a warning and continue as root.
        text += "APT::Sandbox::User \"root\";\n";
    }
    text
}

/// The line of sources.list(5) for a suite: the machine's mirror and its distribution's keyring.
fn source_line(targets: &str, os_release: &str, suite: &str) -> String {
    let mirrors =
        targets.lines().filter_map(|line| line.strip_suffix(" main")).map(|uri| uri.trim_end_matches('/'));
    let configured = mirrors.clone().find_map(|uri| {
        DISTRIBUTIONS.iter().find(|(ending, ..)| uri.ends_with(ending)).map(|(_, _, keyring)| (uri, *keyring))
    });
    let is_ubuntu = os_release.lines().any(|line| line.trim() == "ID=ubuntu");
    let (_, main, keyring) = DISTRIBUTIONS[usize::from(is_ubuntu)];
    let (mirror, keyring) = configured.unwrap_or((main, keyring));
    let signed = if Path::new(keyring).exists() { format!("[signed-by={keyring}] ") } else { String::new() };
    format!("deb {signed}{mirror} {suite} main\n")
}

/// Whether this is a valid name of a suite: lower-case letters, digits, and `. - /`.
fn is_suite(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-/".contains(&b);
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(allowed)
}

/// The size in a line of `apt-get download --print-uris`: `'http://...' name.deb 139331676 SHA256:...`.
fn size_of_uri(text: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with('\''));
    line.and_then(|line| line.split_whitespace().nth(2)).and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// Total size of all files in a directory.
fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files
        .filter_map(|entry| entry.metadata().ok())
        .filter(|about| about.is_file())
        .map(|about| about.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_uses_the_machines_mirror() {
        let targets = "\
http://packages.cloud.google.com/apt/ main
http://deb.debian.org/debian-security/ main
http://mirror.example.org/debian/ contrib
http://mirror.example.org/debian/ main
";
        let line = source_line(targets, "ID=debian\n", "sid");
        assert!(line.ends_with("http://mirror.example.org/debian sid main\n"), "{line}");
        let line = source_line("", "NAME=x\nID=ubuntu\n", "noble");
        assert!(line.ends_with("http://archive.ubuntu.com/ubuntu noble main\n"), "{line}");
        let line = source_line("", "", "trixie-backports");
        assert!(line.ends_with("http://deb.debian.org/debian trixie-backports main\n"), "{line}");
        for good in ["sid", "trixie-backports", "bookworm/updates"] {
            assert!(is_suite(good), "{good}");
        }
        for bad in ["", "sid main", "sid\ndeb x", "-x", "[trusted=yes]", "SID"] {
            assert!(!is_suite(bad), "{bad}");
        }
    }

    #[test]
    fn the_machines_proxies_are_used_but_its_hooks_are_not() {
        let machine = "\
APT::Update::Post-Invoke:: \"rm -f /var/cache/apt/*.bin\";
Acquire::http::Proxy \"http://proxy:3128\";
Acquire::Languages \"en\";
Acquire::IndexTargets::deb::DEP-11::MetaKey \"x\";
Dir::Cache \"var/cache/apt\";
";
        let text = configuration(machine, Path::new("/w"));
        assert!(text.starts_with("Acquire::http::Proxy \"http://proxy:3128\";\nDir::Etc::Main"), "{text}");
        assert!(
            !text.contains("Post-Invoke") && !text.contains("DEP-11") && text.contains("\"/w/cache\""),
            "{text}"
        );
    }

    #[test]
    fn the_size_of_a_download_is_parsed() {
        let line = "'http://deb.debian.org/x_6.1%7e.deb' x_6.1~.deb 139331676 SHA256:e849\n";
        assert_eq!(size_of_uri(line), 139_331_676);
        assert_eq!(size_of_uri("E: nothing"), 0);
    }
}
