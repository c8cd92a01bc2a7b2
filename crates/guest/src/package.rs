//! Source packages of kernels: parses their names and versions, and chooses the requested one.

use units::{KernelRequirement, KernelVersion};

/// Prefix of the names of source packages in Debian and Ubuntu: linux-source-6.1, linux-source-6.8.0.
pub(crate) const PREFIX: &str = "linux-source-";

/// A version of a source package that apt can get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name of the package.
    pub(crate) name: String,
    /// The version of the package, such as 6.12.117-1~deb12u1.
    pub(crate) version: String,
    /// The kernel's version.
    pub(crate) kernel: KernelVersion,
}

impl Package {
    /// Parses a line of `apt-cache madison`: `linux-source-6.1 | 6.1.192-2 | http://... Packages`.
    fn parse(line: &str) -> Option<Package> {
        let mut fields = line.split('|').map(str::trim);
        let (name, version) = (fields.next()?, fields.next()?);
        if !is_kernel_source(name) || !fields.next()?.ends_with("Packages") {
            return None;
        }
        Some(Package { name: name.into(), version: version.into(), kernel: upstream(version).parse().ok()? })
    }

    /// The argument for apt: `name=version`.
    pub(crate) fn request(&self) -> String {
        format!("{}={}", self.name, self.version)
    }
}

/// The packages that `apt-cache madison` lists.
pub(crate) fn listed(text: &str) -> Vec<Package> {
    text.lines().filter_map(Package::parse).collect()
}

/// True for linux-source-6.1, false for linux-source and linux-source-6.1-rt.
pub(crate) fn is_kernel_source(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|version| {
        version.contains('.') && version.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

/// The kernel's part of a package version: without epoch and Debian's revision (Debian Policy, 5.6.12).
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

/// Parses a requested version: `6.1` is any 6.1.x, `6.1.187` exactly this one. Rejects `<6.6` and names.
pub(crate) fn version_request(text: &str) -> Option<KernelRequirement> {
    let is_version = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| is_version)
}

/// Chooses the package for a request: `6.1` is the newest 6.1.x, `6.1.187` exactly this one, `None` the
/// newest of all.
pub(crate) fn choose<'a>(packages: &'a [Package], request: Option<&str>) -> Option<&'a Package> {
    let requested = request.map(version_request);
    let is_requested = |package: &&Package| match requested {
        None => true,
        Some(requested) => requested.is_some_and(|requested| requested.matches(package.kernel)),
    };
    // apt lists the newest revision of a package first, but max_by_key returns the last maximum.
    packages.iter().rev().filter(is_requested).max_by_key(|package| package.kernel)
}

/// The available series, in order: 6.1, 6.12.
pub(crate) fn series(packages: &[Package]) -> Vec<String> {
    let mut all: Vec<KernelVersion> =
        packages.iter().map(|p| KernelVersion::new(p.kernel.major, p.kernel.minor)).collect();
    all.sort();
    all.dedup();
    all.iter().map(KernelVersion::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADISON: &str = "\
linux-source-6.1 |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-source-6.1 |  6.1.192-1 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-source-6.1 |  6.1.176-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-source-6.12 | 6.12.117-1~deb12u1 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-source-6.9 | 1:6.9~rc3-1~exp1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-source | 6.1.192-2 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-source-6.8.0 | 6.8.0-45.45 | http://archive.ubuntu.com/ubuntu noble/main amd64 Packages
     linux | 6.1.192-2 | http://deb.debian.org/debian bookworm/main Sources
N: nothing
";

    #[test]
    fn packages_are_parsed_and_chosen() {
        let packages = listed(MADISON);
        assert_eq!(packages.len(), 6, "{packages:?}");
        let chosen = |request| choose(&packages, request).map(Package::request);
        assert_eq!(chosen(Some("6.1")), Some("linux-source-6.1=6.1.192-2".into()));
        assert_eq!(chosen(Some("6.1.192")), Some("linux-source-6.1=6.1.192-2".into()));
        assert_eq!(chosen(Some("6.1.176")), Some("linux-source-6.1=6.1.176-1".into()));
        assert_eq!(chosen(Some("6.9")), Some("linux-source-6.9=1:6.9~rc3-1~exp1".into()));
        assert_eq!(chosen(Some("6.8")), Some("linux-source-6.8.0=6.8.0-45.45".into()));
        assert_eq!(chosen(None), Some("linux-source-6.12=6.12.117-1~deb12u1".into()));
        for none in ["6.2", "6.1.1", "7", ""] {
            assert_eq!(chosen(Some(none)), None, "{none}");
        }
        assert_eq!(series(&packages), ["6.1", "6.8", "6.9", "6.12"]);
    }

    #[test]
    fn names_of_other_packages_are_ignored() {
        for (name, is) in [
            ("linux-source-6.1", true),
            ("linux-source-6.8.0", true),
            ("linux-source", false),
            ("linux-source-6.1-rt", false),
            ("linux-source-", false),
            ("linux-image-6.1", false),
        ] {
            assert_eq!(is_kernel_source(name), is, "{name}");
        }
    }
}
