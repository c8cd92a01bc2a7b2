//! The C source of a congestion control: a built-in file, or a user's file.

use crate::build_error::BuildError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Maximum size of a C file, bytes: a larger file cannot be a congestion control.
const MAX_SOURCE_BYTES: u64 = 4_000_000;

/// A built-in algorithm: its text and both of its builds.
#[derive(Debug)]
pub struct Algorithm {
    /// The file's name without `.bpf.c`.
    pub name: &'static str,
    /// The C source.
    pub text: &'static str,
    /// The shared object of the native build.
    pub native: &'static [u8],
    /// The eBPF object.
    bpf: Aligned,
}

/// An aligned ELF file, which is read in place.
#[derive(Debug)]
struct Aligned(&'static [u8]);

const BUILT_IN: &[Algorithm] = include!(concat!(env!("OUT_DIR"), "/algorithms.rs"));

impl Algorithm {
    /// All built-in algorithms, by name.
    pub fn all() -> &'static [Algorithm] {
        BUILT_IN
    }

    /// The eBPF object.
    pub fn bpf(&self) -> &'static [u8] {
        self.bpf.0
    }

    /// The first line of the file's opening comment, which describes the algorithm.
    pub fn summary(&self) -> &'static str {
        self.comment_lines().find(|l| !l.is_empty() && !l.starts_with("SPDX")).unwrap_or_default()
    }

    /// How its behaviour differs from that of the kernel's algorithm of this name, in a few words; `None`
    /// if it does not, or if the kernel has none of this name. The file's opening comment lists all
    /// differences.
    pub fn departure(&self) -> Option<&'static str> {
        let line = self.comment_lines().find_map(|line| line.strip_prefix("Unlike the kernel's: "))?;
        Some(line.trim_end_matches('.'))
    }

    /// The lines of the file's comments.
    fn comment_lines(&self) -> impl Iterator<Item = &'static str> {
        let comments = self.text.split("/*").skip(1).filter_map(|c| c.split("*/").next());
        comments.flat_map(str::lines).map(|l| l.trim().trim_start_matches('*').trim())
    }
}

/// A congestion control's C file.
#[derive(Debug, Clone)]
pub enum Source {
    /// A built-in algorithm.
    BuiltIn(&'static Algorithm),
    /// A user's file.
    File {
        /// Path of the file; the compiler also searches its directory for headers.
        path: PathBuf,
        /// Its text.
        text: String,
    },
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read congestion control {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// The file does not compile.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Source {
    /// The built-in algorithm of this name.
    pub fn built_in(name: &str) -> Option<Source> {
        Algorithm::all().iter().find(|a| a.name == name).map(Source::BuiltIn)
    }

    /// Reads a user's file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a regular file or is too large.
    pub fn file(path: &Path) -> Result<Source, SourceError> {
        match read(path) {
            Ok(text) => Ok(Source::File { path: path.to_owned(), text }),
            Err(cause) => Err(SourceError::Read { path: path.to_owned(), cause }),
        }
    }

    /// The name: the file's, without `.bpf.c` or `.c`.
    pub fn name(&self) -> &str {
        match self {
            Source::BuiltIn(algorithm) => algorithm.name,
            Source::File { path, .. } => {
                let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("file");
                name.strip_suffix(".c").map(|n| n.strip_suffix(".bpf").unwrap_or(n)).unwrap_or(name)
            }
        }
    }

    /// The C source.
    pub fn text(&self) -> &str {
        match self {
            Source::BuiltIn(algorithm) => algorithm.text,
            Source::File { text, .. } => text,
        }
    }
}

/// Reads a regular file. A pipe or a device might never end.
fn read(path: &Path) -> io::Result<String> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if about.len() > MAX_SOURCE_BYTES {
        return Err(io::Error::other(format!("larger than {} MB", MAX_SOURCE_BYTES / 1_000_000)));
    }
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_source::kernel_source_file;

    #[test]
    fn each_algorithm_of_the_kernel_lists_its_differences_and_summarizes_them() {
        for algorithm in Algorithm::all() {
            let name = algorithm.name;
            let has_list = algorithm.text.contains("Differences from the kernel's");
            let has_none = algorithm
                .text
                .lines()
                .any(|line| line.contains("Differences from the kernel's") && line.contains(": none"));
            assert_eq!(has_list, kernel_source_file(name).is_some(), "{name}");
            assert_eq!(algorithm.departure().is_some(), has_list && !has_none, "{name}");
        }
        let is_unchanged =
            |name: &str| Algorithm::all().iter().any(|a| a.name == name && a.departure().is_none());
        assert!(["highspeed", "bic", "htcp", "hybla", "reno", "scalable"].into_iter().all(is_unchanged));
    }
}
