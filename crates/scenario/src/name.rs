//! Checks names in a scenario.

use crate::{error::Problems, tree::Span};

/// Longest name of a Linux network device (`IFNAMSIZ` less the final zero).
const MAX_DEVICE_NAME_CHARS: usize = 15;
/// Suffix that the lab appends to a host's name to name its device.
const DEVICE_SUFFIX: &str = "-eth0";
/// Longest name of a congestion control (`TCP_CA_NAME_MAX` less the final zero, include/net/tcp.h).
const MAX_CC_NAME_CHARS: usize = 15;

/// The kind of object that has a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NamedKind {
    Host,
    Switch,
    Router,
    Link,
    Flow,
    Variant,
}

impl NamedKind {
    fn word(self) -> &'static str {
        match self {
            NamedKind::Host => "host",
            NamedKind::Switch => "switch",
            NamedKind::Router => "router",
            NamedKind::Link => "link",
            NamedKind::Flow => "flow",
            NamedKind::Variant => "variant",
        }
    }

    fn max_chars(self) -> usize {
        match self {
            NamedKind::Host | NamedKind::Router => MAX_DEVICE_NAME_CHARS - DEVICE_SUFFIX.len(),
            NamedKind::Switch => MAX_DEVICE_NAME_CHARS,
            NamedKind::Link | NamedKind::Flow | NamedKind::Variant => 64,
        }
    }
}

/// Reports an invalid `name`, which is written at `span`.
pub(crate) fn check_name(named: NamedKind, name: &str, span: Span, problems: &mut Problems) {
    let word = named.word();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(allowed) || name.starts_with('-') {
        problems.add_help(
            span,
            format!("{name:?} cannot name a {word}"),
            "write letters, digits, _ and -, and no - at the start",
        );
    } else if name.len() > named.max_chars() {
        let why = match named {
            NamedKind::Host | NamedKind::Router => format!(" (its device is called {name}{DEVICE_SUFFIX})"),
            _ => String::new(),
        };
        problems.add_help(
            span,
            format!("the {word} name \"{name}\" is too long"),
            format!("write at most {} characters{why}", named.max_chars()),
        );
    }
}

/// A sysctl of web100: whether a full device queue is congestion.
const WAD_IFQ: &str = "net.ipv4.WAD_IFQ";

/// Reports an invalid name of a sysctl.
pub(crate) fn check_sysctl(name: &str, span: Span, problems: &mut Problems) {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
    if !name.starts_with("net.") {
        problems.add_help(
            span,
            format!("{name:?} is not a network setting of a host"),
            "write a name that begins with \"net.\", for example \"net.ipv4.tcp_rmem\"",
        );
    } else if name == WAD_IFQ {
        // web100 has the only one with capital letters.
    } else if !name.chars().all(allowed) || name.split('.').any(str::is_empty) {
        problems.add_help(
            span,
            format!("{name:?} cannot name a sysctl"),
            "write lower-case letters, digits, _, - and single dots",
        );
    }
}

/// Reports an invalid name of a congestion control.
pub(crate) fn check_cc(name: &str, span: Span, problems: &mut Problems) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > MAX_CC_NAME_CHARS || !name.chars().all(allowed) {
        problems.add_help(
            span,
            format!("{name:?} cannot name a congestion control"),
            format!("write up to {MAX_CC_NAME_CHARS} letters, digits, _ and -, for example \"cubic\""),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted(check: impl Fn(Span, &mut Problems)) -> bool {
        let mut problems = Problems::default();
        check(Span { source: 0, start: 0, end: 0 }, &mut problems);
        problems.is_empty()
    }

    #[test]
    fn names() {
        let named = |named, name: &str| is_accepted(|s, p| check_name(named, name, s, p));
        assert!(named(NamedKind::Host, "h1") && named(NamedKind::Host, "a_long-one"));
        assert!(!named(NamedKind::Host, "eleven_char") && named(NamedKind::Switch, "eleven_char"));
        for bad in ["", "h 1", "h.1", "-h", "h/1", "hé", "*"] {
            assert!(!named(NamedKind::Host, bad), "{bad}");
        }
    }

    #[test]
    fn sysctls() {
        let sysctl = |name: &str| is_accepted(|s, p| check_sysctl(name, s, p));
        assert!(sysctl("net.ipv4.tcp_rmem") && sysctl("net.ipv6.conf.h1-eth0.mtu"));
        for bad in
            ["kernel.pid_max", "net.", "net..ipv4", "net.ipv4/tcp_rmem", "net.IPV4", "net.a b", "../net."]
        {
            assert!(!sysctl(bad), "{bad}");
        }
    }

    #[test]
    fn congestion_controls() {
        let cc = |name: &str| is_accepted(|s, p| check_cc(name, s, p));
        assert!(cc("cubic") && cc("a23456789012345"));
        assert!(!cc("") && !cc("a234567890123456") && !cc("bbr 2"));
    }
}
