//! Linux versions and requirements on them, as in `<6.6`.

use std::{fmt, str::FromStr};

/// A Linux version; what follows the numbers (`-amd64`, `-rc1`) is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The 6 of 6.18.44.
    pub major: u32,
    /// The 18.
    pub minor: u32,
    /// The 44; 0 where absent.
    pub patch: u32,
}

/// Text that is no kernel version or no requirement on one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// No version.
    #[error("`{0}` is no kernel version; write for example 6.1 or 6.18.44")]
    Version(String),
    /// No requirement.
    #[error("`{0}` is no requirement on a kernel; write for example <6.6, >=6.6 or 6.1")]
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
    type Err = KernelError;

    fn from_str(text: &str) -> Result<Self, KernelError> {
        let (version, _) = numbers(text.trim()).ok_or_else(|| KernelError::Version(text.into()))?;
        Ok(version)
    }
}

/// The version at the start of `text` and how many numbers it has (2 or 3).
fn numbers(text: &str) -> Option<(KernelVersion, usize)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut parts = text[..end].trim_end_matches('.').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    match parts.next() {
        Some(patch) => Some((KernelVersion { major, minor, patch: patch.parse().ok()? }, 3)),
        None => Some((KernelVersion { major, minor, patch: 0 }, 2)),
    }
}

/// Releases (`6.1.192`, `7.2.13-1`) in order of their versions, the oldest first, each once. What is no release comes first.
pub fn sorted_releases<'a>(releases: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut sorted: Vec<&str> = releases.into_iter().collect();
    sorted.sort_by_key(|release| (release.parse::<KernelVersion>().ok(), *release));
    sorted.dedup();
    sorted
}

/// A requirement on a kernel: `<6.6`, `>=6.6`, `6.1`.
///
/// Versions are compared in the numbers that the requirement gives: 6.6.30 satisfies `6.6` and `<=6.6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRequirement {
    comparison: Comparison,
    version: KernelVersion,
    numbers: usize,
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
    /// With the longer spellings before those that begin them.
    const SPELLED: [(&str, Comparison); 6] = [
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
        let patch = if self.numbers == 3 { kernel.patch } else { 0 };
        let kernel = KernelVersion { patch, ..kernel };
        match self.comparison {
            Comparison::Less => kernel < self.version,
            Comparison::LessOrEqual => kernel <= self.version,
            Comparison::Equal => kernel == self.version,
            Comparison::GreaterOrEqual => kernel >= self.version,
            Comparison::Greater => kernel > self.version,
        }
    }

    /// A version that satisfies the requirement: the one named, or the next on its side.
    ///
    /// `None` for `<0.0`, which nothing satisfies.
    pub fn example(&self) -> Option<KernelVersion> {
        let KernelVersion { major, minor, patch } = self.version;
        match (self.comparison, self.numbers) {
            (Comparison::Less, 3) if patch > 0 => Some(KernelVersion { major, minor, patch: patch - 1 }),
            (Comparison::Less, _) if minor > 0 => Some(KernelVersion::new(major, minor - 1)),
            // The last of the series before: 5.19 came before 6.0, and no series went beyond 20.
            (Comparison::Less, _) => major.checked_sub(1).map(|major| KernelVersion::new(major, 19)),
            (Comparison::Greater, 3) => Some(KernelVersion { major, minor, patch: patch + 1 }),
            (Comparison::Greater, _) => Some(KernelVersion::new(major, minor + 1)),
            _ => Some(self.version),
        }
    }
}

impl fmt::Display for KernelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelled =
            Comparison::SPELLED.iter().rev().find(|(_, c)| *c == self.comparison).map_or("", |(s, _)| s);
        write!(f, "{spelled}{}.{}", self.version.major, self.version.minor)?;
        if self.numbers == 3 { write!(f, ".{}", self.version.patch) } else { Ok(()) }
    }
}

impl FromStr for KernelRequirement {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<Self, KernelError> {
        let trimmed = text.trim();
        let wrong = || KernelError::Requirement(text.into());
        let parsed =
            Comparison::SPELLED.iter().find_map(|(s, c)| trimmed.strip_prefix(s).map(|rest| (*c, rest)));
        let (comparison, rest) = parsed.ok_or_else(wrong)?;
        let rest = rest.trim_start();
        if !rest.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            || rest.ends_with('.')
            || rest.split('.').count() > 3
        {
            return Err(wrong());
        }
        let (version, numbers) = numbers(rest).ok_or_else(wrong)?;
        Ok(KernelRequirement { comparison, version, numbers })
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
    }
}
