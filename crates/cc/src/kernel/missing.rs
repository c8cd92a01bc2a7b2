//! What a machine lacks for loading congestion controls, and what can be done about it.
//!
//! Looked at before anything is tried, so that the answer is a sentence and not an error number.

use std::{fmt, fs, sync::OnceLock};

use libbpf_rs::btf::{Btf, types::Struct};

/// Where the kernel describes its own types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Capabilities (linux/capability.h) by their bits, and whether CAP_SYS_ADMIN stands in for them.
const NEEDED: [(&str, u32, bool); 3] =
    [("CAP_BPF", 39, true), ("CAP_PERFMON", 38, true), ("CAP_NET_ADMIN", 12, false)];
const SYS_ADMIN: u32 = 21;

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The kernel's description of its types.
    TypeInformation,
    /// These capabilities, in the machine's own user namespace.
    Privilege(String),
    /// Something that this kernel does not do.
    Feature(String),
    /// A clang that writes BPF as the kernel wants it.
    Compiler(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedy) = match self {
            Missing::TypeInformation => (
                format!(
                    "congestion controls cannot be loaded: this kernel does not describe its types ({TYPES})"
                ),
                "a kernel with CONFIG_DEBUG_INFO_BTF is needed, as Debian, Ubuntu and Fedora have",
            ),
            Missing::Privilege(which) => (
                format!("congestion controls cannot be loaded: {which} missing"),
                "run as root, or have root do `longfat cc load NAME` once and use its name",
            ),
            Missing::Feature(which) => {
                (format!("congestion controls cannot be loaded: {which}"), "Linux 6.4 or newer is needed")
            }
            Missing::Compiler(found) => (
                format!("a file cannot be compiled for the kernel: {found}"),
                "install clang 16 or newer (Debian: apt install clang-16)",
            ),
        };
        write!(f, "{what}; {remedy}; the simulator still works")
    }
}

/// What this process lacks for loading congestion controls; `None` where it can. The compiler is not looked at: the
/// program's own algorithms need none.
pub fn missing() -> Option<Missing> {
    if !fs::exists(TYPES).unwrap_or(false) {
        return Some(Missing::TypeInformation);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    missing_privilege(&status, &map).or_else(|| {
        // Tens of milliseconds, and the same answer as long as the machine runs.
        static FEATURE: OnceLock<Option<Missing>> = OnceLock::new();
        FEATURE.get_or_init(missing_feature).clone()
    })
}

/// From /proc/self/status and /proc/self/uid_map.
fn missing_privilege(status: &str, map: &str) -> Option<Missing> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    let lacking: Vec<&str> = NEEDED
        .iter()
        .filter(|(_, bit, admin_will_do)| !(has(*bit) || *admin_will_do && has(SYS_ADMIN)))
        .map(|(name, ..)| *name)
        .collect();
    if !lacking.is_empty() {
        return Some(Missing::Privilege(format!("{} {}", lacking.join(", "), are(lacking.len()))));
    }
    // In a user namespace of its own a process has every capability, and none that BPF heeds.
    let all_users = map.split_whitespace().eq(["0", "0", "4294967295"]);
    (!all_users).then(|| Missing::Privilege("privilege in the machine's own user namespace is".into()))
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn missing_feature() -> Option<Missing> {
    let Ok(types) = Btf::from_vmlinux() else {
        return Some(Missing::TypeInformation);
    };
    let has = |name: &str| types.type_by_name::<Struct<'_>>(name).is_some();
    let feature = if !has("bpf_struct_ops_tcp_congestion_ops") {
        "this kernel takes none by BPF"
    } else if !has("bpf_struct_ops_link") {
        "in this kernel they would outlive the program"
    } else {
        return None;
    };
    Some(Missing::Feature(feature.into()))
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
    fn privilege_is_three_capabilities_of_the_whole_machine() {
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
