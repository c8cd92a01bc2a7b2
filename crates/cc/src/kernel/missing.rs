//! Requirements of loading congestion controls that a machine may lack, and remedies.
//!
//! They are checked before an attempt, so that the message is a sentence and not an error number.

use std::{fmt, fs, sync::OnceLock};

use libbpf_rs::btf::{Btf, types::Struct};

/// The kernel's type information (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Required capabilities (linux/capability.h): name, bit, and whether CAP_SYS_ADMIN includes it.
const NEEDED: [(&str, u32, bool); 3] =
    [("CAP_BPF", 39, true), ("CAP_PERFMON", 38, true), ("CAP_NET_ADMIN", 12, false)];
const SYS_ADMIN: u32 = 21;

/// A missing requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingRequirement {
    /// The kernel's type information.
    TypeInformation,
    /// Capabilities in the initial user namespace.
    Privilege(String),
    /// A feature of the kernel.
    Feature(String),
    /// A clang that can compile to BPF.
    Compiler(String),
}

impl fmt::Display for MissingRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedy) = match self {
            MissingRequirement::TypeInformation => (
                format!(
                    "congestion controls cannot be loaded: this kernel has no type information ({TYPES})"
                ),
                "a kernel with CONFIG_DEBUG_INFO_BTF is needed, as in Debian, Ubuntu and Fedora",
            ),
            MissingRequirement::Privilege(which) => (
                format!("congestion controls cannot be loaded: {which} missing"),
                "run as root, or have root do `longfat cc load NAME` once and use its name",
            ),
            MissingRequirement::Feature(which) => {
                (format!("congestion controls cannot be loaded: {which}"), "Linux 6.4 or newer is needed")
            }
            MissingRequirement::Compiler(found) => (
                format!("a file cannot be compiled for the kernel: {found}"),
                "install clang 16 or newer (Debian: apt install clang-16)",
            ),
        };
        write!(f, "{what}; {remedy}; the simulator still works")
    }
}

/// The requirement for loading congestion controls that this process lacks; `None` if it can load them. The
/// compiler is not checked: built-in algorithms do not need one.
pub fn missing_requirement() -> Option<MissingRequirement> {
    if !fs::exists(TYPES).unwrap_or(false) {
        return Some(MissingRequirement::TypeInformation);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    missing_privilege(&status, &map).or_else(|| {
        // The check takes tens of milliseconds, and its result does not change while the machine runs.
        static FEATURE: OnceLock<Option<MissingRequirement>> = OnceLock::new();
        FEATURE.get_or_init(missing_feature).clone()
    })
}

/// Checks the contents of /proc/self/status and /proc/self/uid_map.
fn missing_privilege(status: &str, map: &str) -> Option<MissingRequirement> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    let lacking: Vec<&str> = NEEDED
        .iter()
        .filter(|(_, bit, included_in_admin)| !(has(*bit) || *included_in_admin && has(SYS_ADMIN)))
        .map(|(name, ..)| *name)
        .collect();
    if !lacking.is_empty() {
        return Some(MissingRequirement::Privilege(format!("{} {}", lacking.join(", "), are(lacking.len()))));
    }
    // In another user namespace a process has every capability, but BPF checks those of the initial one.
    let all_users = map.split_whitespace().eq(["0", "0", "4294967295"]);
    (!all_users).then(|| MissingRequirement::Privilege("privilege in the initial user namespace is".into()))
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn missing_feature() -> Option<MissingRequirement> {
    let Ok(types) = Btf::from_vmlinux() else {
        return Some(MissingRequirement::TypeInformation);
    };
    let has = |name: &str| types.type_by_name::<Struct<'_>>(name).is_some();
    let feature = if !has("bpf_struct_ops_tcp_congestion_ops") {
        "this kernel does not support congestion controls in BPF"
    } else if !has("bpf_struct_ops_link") {
        "in this kernel registrations would outlive the program"
    } else {
        return None;
    };
    Some(MissingRequirement::Feature(feature.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "         0          0 4294967295\n";

    fn with(bits: &[u32]) -> String {
        let mask = bits.iter().fold(0u64, |mask, bit| mask | 1 << bit);
        format!("Name:\tlongfat\nCapPrm:\t0000000000000000\nCapEff:\t{mask:016x}\n")
    }

    #[test]
    fn loading_needs_three_capabilities_in_the_initial_user_namespace() {
        assert_eq!(missing_privilege(&with(&[12, 38, 39]), ALL), None);
        assert_eq!(missing_privilege(&with(&[12, 21]), ALL), None, "CAP_SYS_ADMIN contains the newer two");
        let of = |status: &str, map| missing_privilege(status, map).unwrap().to_string();
        let none = of(&with(&[]), ALL);
        assert!(none.contains("CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN are missing"), "{none}");
        assert!(none.contains("the simulator still works"), "{none}");
        assert!(of(&with(&[21]), ALL).contains("CAP_NET_ADMIN is missing"));
        let namespace = of(&with(&[12, 21, 38, 39]), "0 1000 1\n");
        assert!(namespace.contains("user namespace is missing"), "{namespace}");
    }
}
