//! The error type of this crate.

use std::{io, path::PathBuf};

/// Why a kernel could not be built, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    Os {
        /// The operation and its object.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The environment determines no directory for kernels.
    #[error("no directory for kernels: set LONGFAT_KERNELS, XDG_CACHE_HOME or HOME")]
    NoDirectory,
    /// The cache has no such kernel.
    #[error("no kernel{} in {directory}{}; build one with: longfat kernel build{}",
        of(" ", requested.as_deref()), have(available), suggestion(requested.as_deref()))]
    NoKernel {
        /// The requested version or name; `None`: any.
        requested: Option<String>,
        /// The cache.
        directory: String,
        /// The names of the kernels in it.
        available: Vec<String>,
    },
    /// A kernel's file has changed since it was built.
    #[error(
        "the kernel {name} is damaged: the SHA-256 of {path} has changed since it was built; \
        rebuild it with --force, or remove it with: longfat kernel remove {name}"
    )]
    Damaged {
        /// The kernel's name.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// User-Mode Linux does not exist for this processor.
    #[error("User-Mode Linux runs on x86-64 only, and this machine is {0}")]
    Processor(&'static str),
    /// Programs that a build needs are missing.
    #[error("building a kernel needs {}, which this machine does not have; install with: sudo apt install {}",
        tools.join(", "), packages.join(" "))]
    MissingTools {
        /// The programs.
        tools: Vec<&'static str>,
        /// The Debian packages that contain them.
        packages: Vec<&'static str>,
    },
    /// A distribution without apt.
    #[error(
        "this machine has no {0}, which downloads kernel source packages; \
        unpack a kernel from https://kernel.org and give its directory: longfat kernel build --source DIR"
    )]
    NoApt(&'static str),
    /// No source package of this version.
    #[error("no source package of kernel {requested} in {lists}{}; {}", offers(available), elsewhere(*with_suite))]
    NoPackage {
        /// The requested version.
        requested: String,
        /// The package lists that were searched.
        lists: String,
        /// The kernel versions that they have.
        available: Vec<String>,
        /// Whether a suite was requested.
        with_suite: bool,
    },
    /// A directory without a kernel tree.
    #[error("{0} is not a kernel tree: it has no {1}")]
    NotATree(PathBuf, &'static str),
    /// A file that cannot be booted as a guest kernel.
    #[error("{path} is not a User-Mode Linux kernel with time travel: {why}")]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// Why it cannot be booted.
        why: String,
    },
    /// A kernel without options that the lab needs.
    #[error("kernel {version} cannot be configured for the lab: it does not support {}", options.join(", "))]
    Configuration {
        /// The kernel's version.
        version: String,
        /// Lines of the configuration.
        options: Vec<String>,
    },
    /// A program failed.
    #[error("{what} failed:\n{}\nthe complete log is {}", lines.join("\n"), log.display())]
    Failed {
        /// The operation.
        what: String,
        /// Lines of its output with the cause.
        lines: Vec<String>,
        /// File with all of its output.
        log: PathBuf,
    },
    /// An invalid name for a kernel.
    #[error("{name:?} cannot be the name of a kernel: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why the name is invalid.
        why: &'static str,
    },
    /// An invalid name of a suite.
    #[error("{0:?} is not the name of a Debian suite; write for example trixie-backports or sid")]
    Suite(String),
    /// The disk is too full.
    #[error(
        "building a kernel needs {need_mib} MiB in {directory}, but only {free_mib} MiB are free; \
        free space, or set LONGFAT_KERNELS to another directory"
    )]
    NoSpace {
        /// The cache.
        directory: PathBuf,
        /// Mebibytes that a build needs.
        need_mib: u64,
        /// Mebibytes that are free.
        free_mib: u64,
    },
    /// A path that cannot be written to the kernel's command line.
    #[error("cannot pass the path {0:?} to a guest kernel: it contains a quotation mark or a line break")]
    Path(PathBuf),
    /// No directory can hold a guest's memory.
    #[error(
        "no directory can hold the guest's memory of {needed_mib} MiB: {tried}; \
        set TMPDIR to a directory with space that is not mounted noexec"
    )]
    NoMemory {
        /// Mebibytes that are needed.
        needed_mib: u64,
        /// The directories that were tried, and why each is unsuitable.
        tried: String,
    },
    /// The user stopped the build.
    #[error("interrupted")]
    Interrupted,
}

fn of(before: &str, text: Option<&str>) -> String {
    text.map(|text| format!("{before}{text}")).unwrap_or_default()
}

fn have(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (it has {})", names.join(", ")) }
}

/// The arguments to suggest for `longfat kernel build`.
fn suggestion(requested: Option<&str>) -> String {
    match requested {
        None => " 6.1".into(),
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => format!(" {version}"),
        Some(name) => format!(" --source DIR --name {name}"),
    }
}

fn offers(available: &[String]) -> String {
    if available.is_empty() { String::new() } else { format!(", which have {}", available.join(", ")) }
}

fn elsewhere(with_suite: bool) -> &'static str {
    match with_suite {
        true => "use another suite, or a kernel tree with --source DIR",
        false => {
            "use another suite, as with --suite trixie-backports or --suite sid, or a kernel tree with --source DIR"
        }
    }
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Attempted<T> {
    /// Adds `what`, as in "read /proc/meminfo".
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Attempted<T> for io::Result<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Os { what: what(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_a_command_that_helps() {
        let missing = |requested: Option<&str>, available: &[&str]| {
            Error::NoKernel {
                requested: requested.map(Into::into),
                directory: "/c".into(),
                available: available.iter().map(|name| (*name).into()).collect(),
            }
            .to_string()
        };
        assert_eq!(
            missing(Some("6.1"), &["6.12.117"]),
            "no kernel 6.1 in /c (it has 6.12.117); build one with: longfat kernel build 6.1"
        );
        assert_eq!(missing(None, &[]), "no kernel in /c; build one with: longfat kernel build 6.1");
        assert!(
            missing(Some("mine"), &[])
                .ends_with("build one with: longfat kernel build --source DIR --name mine")
        );
        let tools = Error::MissingTools { tools: vec!["flex", "bc"], packages: vec!["flex", "bc"] };
        assert_eq!(
            tools.to_string(),
            "building a kernel needs flex, bc, which this machine does not have; install with: sudo apt install flex bc"
        );
        let package = Error::NoPackage {
            requested: "6.18".into(),
            lists: "this machine's package lists".into(),
            available: vec!["6.1".into(), "6.12".into()],
            with_suite: false,
        };
        assert!(package.to_string().contains("which have 6.1, 6.12; use another suite"), "{package}");
    }
}
