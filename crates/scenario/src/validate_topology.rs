//! Checks the topology: the ends of links exist, and each host and router has a link.

use crate::{
    decode_interfaces::links_of,
    error::Problems,
    suggest::suggest,
    tree::{
        FILE_START, Span,
        Step::{Index, Key},
        Table,
    },
    types::Scenario,
};

/// Longest name of a Linux network device (`IFNAMSIZ` less the final zero).
const MAX_DEVICE_NAME_CHARS: usize = 15;

/// Reports mistakes in the links of `scenario`, which was decoded from `root`. True without mistakes.
pub(crate) fn check_topology(scenario: &Scenario, root: &Table, problems: &mut Problems) -> bool {
    let before = problems.len();
    let end =
        |link, end| root.span_at(&[Key("links"), Index(link), Key("ends"), Index(end)]).unwrap_or(FILE_START);
    if check_ends(scenario, end, problems) {
        let hosts = scenario.hosts.iter().map(|h| ("host", "hosts", &h.name));
        let routers = scenario.routers.iter().map(|r| ("router", "routers", &r.name));
        for (word, key, name) in hosts.chain(routers) {
            check_links_of(scenario, root, word, key, name, problems);
        }
    }
    problems.len() == before
}

/// True if every end exists and both ends of each link differ.
fn check_ends(scenario: &Scenario, span: impl Fn(usize, usize) -> Span, problems: &mut Problems) -> bool {
    let nodes: Vec<&str> = nodes(scenario);
    let mut is_valid = true;
    for (i, link) in scenario.links.iter().enumerate() {
        for (e, end) in link.ends.iter().enumerate() {
            if !nodes.contains(&end.as_str()) {
                let help = suggest(end, nodes.iter().copied());
                let message = format!("unknown host, switch or router \"{end}\"");
                problems.add_help(span(i, e), message, help);
                is_valid = false;
            }
        }
        if link.ends[0] == link.ends[1] {
            let message = format!("the link joins {} with itself", link.ends[0]);
            problems.add_help(span(i, 1), message, "name two different ends");
            is_valid = false;
        }
    }
    is_valid
}

/// Checks that a host or router has a link, and that its last device's name is not too long.
fn check_links_of(
    scenario: &Scenario,
    root: &Table,
    word: &str,
    key: &str,
    name: &str,
    problems: &mut Problems,
) {
    let span = root.span_at(&[Key(key), Key(name)]).unwrap_or(FILE_START);
    match links_of(name, &scenario.links).len() {
        0 => {
            let help = format!("for example ends = [\"{name}\", \"s1\"] under [[links]]");
            problems.add_help(span, format!("the {word} {name} has no link"), help);
        }
        n => {
            let last = format!("{name}-eth{}", n - 1);
            if last.len() > MAX_DEVICE_NAME_CHARS {
                let message = format!("the name {name} is too long for a {word} of {n} links");
                let help =
                    format!("its device {last} would have more than {MAX_DEVICE_NAME_CHARS} characters");
                problems.add_help(span, message, help);
            }
        }
    }
}

/// The names of all possible ends of links.
pub(crate) fn nodes(scenario: &Scenario) -> Vec<&str> {
    let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
    let routers = scenario.routers.iter().map(|r| r.name.as_str());
    hosts.chain(scenario.switches.iter().map(String::as_str)).chain(routers).collect()
}
