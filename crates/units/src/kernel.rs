//! Linux versions and version requirements such as `<6.6`.

use std::{fmt, str::FromStr};

/// A Linux version. Suffixes (`-amd64`, `-rc1`) are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The 6 of 6.18.44.
    pub major: u32,
    /// The 18 of 6.18.44.
    pub minor: u32,
    /// The 44 of 6.18.44; 0 if absent.
    pub patch: u32,
}

/// Text that is not a kernel version, or not a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelVersionError {
    /// Not a version.
    #[error("`{0}` is not a kernel version; write for example 6.1 or 6.18.44")]
    Version(String),
    /// Not a requirement.
    #[error("`{0}` is not a kernel version requirement; write for example <6.6, >=6.6 or 6.1")]
    Requirement(String),
}

impl KernelVersion {
    /// A version without patch level.
    pub const fn new(major: u32, minor: u32) -> Self {
        KernelVersion { major, minor, patch: 0 }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patch = if self.patch > 0 { format!(".{}", self.patch) } else { String::new() };
        f.pad(&format!("{}.{}{patch}", self.major, self.minor))
    }
}

impl FromStr for KernelVersion {
    type Err = KernelVersionError;

    fn from_str(text: &str) -> Result<Self, KernelVersionError> {
        let (version, _) =
            parse_numbers(text.trim()).ok_or_else(|| KernelVersionError::Version(text.into()))?;
        Ok(version)
    }
}

/// The version at the start of `text`, and its number of components (2 or 3).
fn parse_numbers(text: &str) -> Option<(KernelVersion, usize)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut parts = text[..end].trim_end_matches('.').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    match parts.next() {
        Some(patch) => Some((KernelVersion { major, minor, patch: patch.parse().ok()? }, 3)),
        None => Some((KernelVersion { major, minor, patch: 0 }, 2)),
    }
}

/// Sorts releases (`6.1.192`, `7.2.13-1`) by version, oldest first, and removes duplicates. Text that is not
/// a release comes first.
pub fn sorted_releases<'a>(releases: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut sorted: Vec<&str> = releases.into_iter().collect();
    sorted.sort_by_key(|release| (release.parse::<KernelVersion>().ok(), *release));
    sorted.dedup();
    sorted
}

/// A kernel version requirement: `<6.6`, `>=6.6`, `6.1`.
///
/// Only the components that the requirement gives are compared: 6.6.30 satisfies `6.6` and `<=6.6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRequirement {
    comparison: Comparison,
    version: KernelVersion,
    /// Components given: 2 or 3.
    components: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Comparison {
    /// Longer operators come before their prefixes.
    const OPERATORS: [(&str, Comparison); 6] = [
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
        ("", Comparison::Equal),
    ];
}

impl KernelRequirement {
    /// Whether `kernel` satisfies the requirement.
    pub fn matches(&self, kernel: KernelVersion) -> bool {
        let patch = if self.components == 3 { kernel.patch } else { 0 };
        let kernel = KernelVersion { patch, ..kernel };
        match self.comparison {
            Comparison::Less => kernel < self.version,
            Comparison::LessOrEqual => kernel <= self.version,
            Comparison::Equal => kernel == self.version,
            Comparison::GreaterOrEqual => kernel >= self.version,
            Comparison::Greater => kernel > self.version,
        }
    }

    /// A version that satisfies the requirement: the given one, or the next lower or higher one.
    ///
    /// `None` for `<0.0`, which no version satisfies, and above the largest number (`>6.4294967295`).
    pub fn example(&self) -> Option<KernelVersion> {
        let KernelVersion { major, minor, patch } = self.version;
        match (self.comparison, self.components) {
            (Comparison::Less, 3) if patch > 0 => Some(KernelVersion { major, minor, patch: patch - 1 }),
            (Comparison::Less, _) if minor > 0 => Some(KernelVersion::new(major, minor - 1)),
            // A late minor version of the previous major version: 5.19 preceded 6.0, and the highest minor
            // version of any is 20 (4.20).
            (Comparison::Less, _) => major.checked_sub(1).map(|major| KernelVersion::new(major, 19)),
            (Comparison::Greater, 3) => {
                patch.checked_add(1).map(|patch| KernelVersion { major, minor, patch })
            }
            (Comparison::Greater, _) => minor.checked_add(1).map(|minor| KernelVersion::new(major, minor)),
            _ => Some(self.version),
        }
    }
}

impl fmt::Display for KernelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator =
            Comparison::OPERATORS.iter().rev().find(|(_, c)| *c == self.comparison).map_or("", |(s, _)| s);
        write!(f, "{operator}{}.{}", self.version.major, self.version.minor)?;
        if self.components == 3 { write!(f, ".{}", self.version.patch) } else { Ok(()) }
    }
}

impl FromStr for KernelRequirement {
    type Err = KernelVersionError;

    fn from_str(text: &str) -> Result<Self, KernelVersionError> {
        let trimmed = text.trim();
        let error = || KernelVersionError::Requirement(text.into());
        let parsed = Comparison::OPERATORS
            .iter()
            .find_map(|(s, c)| trimmed.strip_prefix(s).map(|version| (*c, version)));
        let (comparison, version) = parsed.ok_or_else(error)?;
        let version = version.trim_start();
        if !version.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            || version.ends_with('.')
            || version.split('.').count() > 3
        {
            return Err(error());
        }
        let (version, components) = parse_numbers(version).ok_or_else(error)?;
        Ok(KernelRequirement { comparison, version, components })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KernelVersion {
        text.parse().unwrap()
    }

    #[test]
    fn parses_versions() {
        assert_eq!(version("6.18.44-fc-v657"), KernelVersion { major: 6, minor: 18, patch: 44 });
        assert_eq!(version("6.1.0-25-amd64"), KernelVersion::new(6, 1));
        assert_eq!(version("6.6-rc1"), KernelVersion::new(6, 6));
        assert_eq!(version("6.1\n"), KernelVersion::new(6, 1));
        assert_eq!(version("5.10.0+"), KernelVersion::new(5, 10));
        for bad in ["", "6", "six", "v6.1", "6.x", "6..1", "99999999999.1"] {
            assert!(bad.parse::<KernelVersion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn orders_versions() {
        assert!(version("6.5.13") < version("6.6"));
        assert!(version("6.18") > version("6.6"));
        assert!(version("5.19") < version("6.1"));
        assert_eq!(version("6.18.44-x").to_string(), "6.18.44");
    }

    #[test]
    fn requirements_match() {
        for (requirement, yes, no) in [
            ("<6.6", "6.5.13", "6.6"),
            (">=6.6", "6.6.1", "6.5.99"),
            ("6.1", "6.1.192", "6.2"),
            ("=6.1.5", "6.1.5", "6.1.6"),
            ("<=6.6", "6.6.30", "6.7"),
            ("> 6.6", "6.7", "6.6.30"),
            (">6.6.2", "6.6.3", "6.6.2"),
        ] {
            let parsed: KernelRequirement = requirement.parse().unwrap();
            assert!(parsed.matches(version(yes)), "{requirement} {yes}");
            assert!(!parsed.matches(version(no)), "{requirement} {no}");
            let example = parsed.example().unwrap();
            assert!(parsed.matches(example), "{requirement} {example}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for bad in ["", "<", "~6.6", "<6", "6.6-rc1", "<6.6.", "6.1.2.3", "<<6.6"] {
            assert!(bad.parse::<KernelRequirement>().is_err(), "{bad}");
        }
        assert_eq!("<6.0".parse::<KernelRequirement>().unwrap().example(), Some(KernelVersion::new(5, 19)));
        for none in ["<0.0", ">6.4294967295", ">6.1.4294967295"] {
            assert_eq!(none.parse::<KernelRequirement>().unwrap().example(), None, "{none}");
        }
    }
}
