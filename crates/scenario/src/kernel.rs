//! Which kernels a published figure holds for, as in `<6.6`.

/// An operator and a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelRange {
    operator: &'static str,
    version: (u32, u32),
}

/// Longer ones first, so that `<=` is not read as `<`.
const OPERATORS: [&str; 5] = ["<=", ">=", "<", ">", "="];

impl KernelRange {
    /// Reads `<6.6`, `>=5.10` and the like.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let operator = OPERATORS.into_iter().find(|o| text.starts_with(o))?;
        let (major, minor) = text[operator.len()..].trim().split_once('.')?;
        Some(KernelRange { operator, version: (number(major)?, number(minor)?) })
    }

    /// True where the kernel of this `release` (`uname -r`) is in the range; patch levels do not count.
    pub fn contains(self, release: &str) -> bool {
        let Some(version) = version_of(release) else { return false };
        match self.operator {
            "<=" => version <= self.version,
            ">=" => version >= self.version,
            "<" => version < self.version,
            ">" => version > self.version,
            _ => version == self.version,
        }
    }
}

/// Major and minor version of a release such as `6.1.0-18-amd64`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.trim().split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((number(major)?, number(&rest[..digits])?))
}

fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (range, release, inside) in [
            ("<6.6", "6.1.0-18-amd64", true),
            ("<6.6", "6.6.0", false),
            ("<6.6", "6.18.5", false),
            ("<= 6.6", "6.6.99", true),
            (">=5.10", "5.4", false),
            (">=5.10", "5.10-rc1", true),
            (">6.6", "6.6.1", false),
            ("=6.6", "6.6.1", true),
            ("<6.6", "weird", false),
        ] {
            assert_eq!(KernelRange::parse(range).unwrap().contains(release), inside, "{range} {release}");
        }
    }

    #[test]
    fn refuses() {
        for bad in ["", "6.6", "<6", "<6.x", "<-6.6", "<6.6.1", "~6.6", "<6.+6"] {
            assert!(KernelRange::parse(bad).is_none(), "{bad}");
        }
    }
}
