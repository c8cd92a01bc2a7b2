//! What things in a scenario may be called.

use crate::{error::Problems, tree::Span};

/// Longest name of a Linux network device (`IFNAMSIZ` less the final zero).
const DEVICE_NAME_MAX: usize = 15;
/// What the lab appends to a host's name for its device.
const DEVICE_SUFFIX: &str = "-eth0";
/// Longest name of a congestion control (`TCP_CA_NAME_MAX` less the final zero, include/net/tcp.h).
const CC_NAME_MAX: usize = 15;

/// What is being named.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named {
    Host,
    Switch,
    Router,
    Link,
    Flow,
    Variant,
}

impl Named {
    fn word(self) -> &'static str {
        match self {
            Named::Host => "host",
            Named::Switch => "switch",
            Named::Router => "router",
            Named::Link => "link",
            Named::Flow => "flow",
            Named::Variant => "variant",
        }
    }

    fn max_chars(self) -> usize {
        match self {
            Named::Host | Named::Router => DEVICE_NAME_MAX - DEVICE_SUFFIX.len(),
            Named::Switch => DEVICE_NAME_MAX,
            Named::Link | Named::Flow | Named::Variant => 64,
        }
    }
}

/// Notes what is wrong with `name`; `where_` is where it is written.
pub(crate) fn check_name(named: Named, name: &str, where_: Span, problems: &mut Problems) {
    let word = named.word();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(allowed) || name.starts_with('-') {
        problems.add_help(
            where_,
            format!("{name:?} cannot name a {word}"),
            "write letters, digits, _ and -, and no - in front",
        );
    } else if name.len() > named.max_chars() {
        let why = match named {
            Named::Host | Named::Router => format!(" (its device is called {name}{DEVICE_SUFFIX})"),
            _ => String::new(),
        };
        problems.add_help(
            where_,
            format!("the {word} name \"{name}\" is too long"),
            format!("write at most {} characters{why}", named.max_chars()),
        );
    }
}

/// Notes what is wrong with the name of a sysctl.
pub(crate) fn check_sysctl(name: &str, where_: Span, problems: &mut Problems) {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
    if !name.starts_with("net.") {
        problems.add_help(
            where_,
            format!("{name:?} is not a setting of one host's network"),
            "only names that begin with \"net.\" are, for example \"net.ipv4.tcp_rmem\"",
        );
    } else if !name.chars().all(allowed) || name.split('.').any(str::is_empty) {
        problems.add_help(
            where_,
            format!("{name:?} cannot name a sysctl"),
            "write lower-case letters, digits, _, - and single dots",
        );
    }
}

/// Notes what is wrong with the name of a congestion control.
pub(crate) fn check_cc(name: &str, where_: Span, problems: &mut Problems) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > CC_NAME_MAX || !name.chars().all(allowed) {
        problems.add_help(
            where_,
            format!("{name:?} cannot name a congestion control"),
            format!("write up to {CC_NAME_MAX} letters, digits, _ and -, for example \"cubic\""),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine(check: impl Fn(Span, &mut Problems)) -> bool {
        let mut problems = Problems::default();
        check(Span { source: 0, start: 0, end: 0 }, &mut problems);
        problems.is_empty()
    }

    #[test]
    fn names() {
        let named = |named, name: &str| fine(|s, p| check_name(named, name, s, p));
        assert!(named(Named::Host, "h1") && named(Named::Host, "a_long-one"));
        assert!(!named(Named::Host, "eleven_char") && named(Named::Switch, "eleven_char"));
        for bad in ["", "h 1", "h.1", "-h", "h/1", "hé", "*"] {
            assert!(!named(Named::Host, bad), "{bad}");
        }
    }

    #[test]
    fn sysctls() {
        let sysctl = |name: &str| fine(|s, p| check_sysctl(name, s, p));
        assert!(sysctl("net.ipv4.tcp_rmem") && sysctl("net.ipv6.conf.h1-eth0.mtu"));
        for bad in
            ["kernel.pid_max", "net.", "net..ipv4", "net.ipv4/tcp_rmem", "net.IPV4", "net.a b", "../net."]
        {
            assert!(!sysctl(bad), "{bad}");
        }
    }

    #[test]
    fn congestion_controls() {
        let cc = |name: &str| fine(|s, p| check_cc(name, s, p));
        assert!(cc("cubic") && cc("a23456789012345"));
        assert!(!cc("") && !cc("a234567890123456") && !cc("bbr 2"));
    }
}
