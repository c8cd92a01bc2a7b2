//! The configuration of built kernels: one list of options, in the file `kernel.config`, and the check that a
//! kernel supports them.

use std::collections::BTreeSet;

use units::KernelVersion;

use crate::{Error, Result};

/// The options for all versions.
const OPTIONS: &str = include_str!("../kernel.config");
/// Options of versions before 6.12: a tunnel increases `MAX_TCP_HEADER` from 256 to 320 bytes, the value of
/// Debian's 6.1. Its device is not created in the namespaces of hosts (`FALLBACK_TUNNELS` of init.rs).
const BEFORE_6_12: &str = "CONFIG_NET_IPIP=y\n";
/// A kernel must support each option before this line; it may lack those after it.
const OPTIONAL: &str = "# ---- optional ----";

/// The options of a version, in kconfig's syntax.
pub(crate) fn options(version: KernelVersion) -> String {
    if version >= KernelVersion::new(6, 12) { OPTIONS.into() } else { format!("{BEFORE_6_12}{OPTIONS}") }
}

/// Compares a `.config` with the version's options and returns the optional lines that it lacks.
///
/// # Errors
/// If it lacks a required line.
pub(crate) fn check(version: KernelVersion, config: &str) -> Result<Vec<String>> {
    check_options(&options(version), &version.to_string(), config)
}

fn check_options(options: &str, version: &str, config: &str) -> Result<Vec<String>> {
    let lines: BTreeSet<&str> = config.lines().collect();
    let (required, optional) = options.split_once(OPTIONAL).unwrap_or((options, ""));
    let absent = |part: &str| -> Vec<String> {
        part.lines().filter(|line| !has(&lines, line)).map(String::from).collect()
    };
    match absent(required) {
        refused if !refused.is_empty() => {
            Err(Error::Configuration { version: version.into(), options: refused })
        }
        _ => Ok(absent(optional)),
    }
}

/// Whether a configuration satisfies `line`. An option that should be off may be unknown to the kernel.
fn has(lines: &BTreeSet<&str>, line: &str) -> bool {
    if line.starts_with("CONFIG_") {
        return lines.contains(line);
    }
    match line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set")) {
        None => true,
        Some(option) => ["y", "m"].iter().all(|value| !lines.contains(format!("{option}={value}").as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &str = "\
# why
CONFIG_NET=y
# CONFIG_MODULES is not set
# ---- optional ----
CONFIG_TCP_CONG_BBR=y
CONFIG_CON_CHAN=\"null\"
# CONFIG_AUDIT is not set
";

    #[test]
    fn options_are_compared_one_by_one() {
        let whole =
            "CONFIG_NET=y\nCONFIG_TCP_CONG_BBR=y\nCONFIG_CON_CHAN=\"null\"\n# CONFIG_AUDIT is not set\n";
        assert!(check_options(SOME, "6.1", whole).unwrap().is_empty());
        let poor = "CONFIG_NET=y\nCONFIG_NET_NS=y\nCONFIG_AUDIT=y\nCONFIG_CON_CHAN=\"pty\"\n";
        assert_eq!(
            check_options(SOME, "6.1", poor).unwrap(),
            ["CONFIG_TCP_CONG_BBR=y", "CONFIG_CON_CHAN=\"null\"", "# CONFIG_AUDIT is not set"]
        );
        let bad = check_options(SOME, "6.1", "CONFIG_MODULES=y\n").unwrap_err().to_string();
        assert!(bad.contains("CONFIG_NET=y, # CONFIG_MODULES is not set"), "{bad}");
    }

    #[test]
    fn the_list_names_each_option_once() {
        let name = |line: &str| {
            let line = line.strip_prefix("# ").unwrap_or(line);
            line.starts_with("CONFIG_").then(|| line.split(['=', ' ']).next().unwrap_or("").to_string())
        };
        let names: Vec<String> = OPTIONS.lines().filter_map(name).collect();
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), different.len());
        assert!(names.len() > 100);
        assert_eq!(OPTIONS.matches(OPTIONAL).count(), 1);
        let (required, _) = OPTIONS.split_once(OPTIONAL).unwrap();
        for option in ["UML_TIME_TRAVEL_SUPPORT=y", "HZ=250", "NET_NS=y", "TUN=y", "HOSTFS=y"] {
            assert!(required.contains(&format!("CONFIG_{option}\n")), "{option}");
        }
    }
}
