//! The network's shape: links join known things, and each host and router has one at least.

use crate::{
    decode_interfaces::links_of,
    decode_scenario::START,
    error::Problems,
    suggest::suggest,
    tree::{
        Span,
        Step::{Index, Key},
        Table,
    },
    types::Scenario,
};

/// Longest name of a Linux network device (`IFNAMSIZ` less the final zero).
const DEVICE_NAME_MAX: usize = 15;

/// Notes what is wrong with the links of `scenario`, which was decoded from `root`; true where nothing is.
pub(crate) fn check_topology(scenario: &Scenario, root: &Table, problems: &mut Problems) -> bool {
    let before = problems.len();
    let end = |link, end| root.place(&[Key("links"), Index(link), Key("ends"), Index(end)]).unwrap_or(START);
    if check_ends(scenario, end, problems) {
        let hosts = scenario.hosts.iter().map(|h| ("host", "hosts", &h.name));
        let routers = scenario.routers.iter().map(|r| ("router", "routers", &r.name));
        for (word, key, name) in hosts.chain(routers) {
            check_links_of(scenario, root, word, key, name, problems);
        }
    }
    problems.len() == before
}

/// True where every end is known and no link joins a thing with itself.
fn check_ends(scenario: &Scenario, place: impl Fn(usize, usize) -> Span, problems: &mut Problems) -> bool {
    let nodes: Vec<&str> = nodes(scenario);
    let mut fine = true;
    for (i, link) in scenario.links.iter().enumerate() {
        for (e, end) in link.ends.iter().enumerate() {
            if !nodes.contains(&end.as_str()) {
                let help = suggest(end, nodes.iter().copied());
                let message = format!("unknown host, switch or router \"{end}\"");
                problems.add_help(place(i, e), message, help);
                fine = false;
            }
        }
        if link.ends[0] == link.ends[1] {
            let message = format!("the link joins {} with itself", link.ends[0]);
            problems.add_help(place(i, 1), message, "name two different ends");
            fine = false;
        }
    }
    fine
}

/// At least one link, and not so many that the last device's name is too long.
fn check_links_of(
    scenario: &Scenario,
    root: &Table,
    word: &str,
    key: &str,
    name: &str,
    problems: &mut Problems,
) {
    let span = root.place(&[Key(key), Key(name)]).unwrap_or(START);
    match links_of(name, &scenario.links).len() {
        0 => {
            let help = format!("for example ends = [\"{name}\", \"s1\"] under [[links]]");
            problems.add_help(span, format!("the {word} {name} has no link"), help);
        }
        n => {
            let last = format!("{name}-eth{}", n - 1);
            if last.len() > DEVICE_NAME_MAX {
                let message = format!("the name {name} is too long for a {word} of {n} links");
                let help = format!("its device {last} would have more than {DEVICE_NAME_MAX} characters");
                problems.add_help(span, message, help);
            }
        }
    }
}

/// The names that a link can join.
pub(crate) fn nodes(scenario: &Scenario) -> Vec<&str> {
    let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
    let routers = scenario.routers.iter().map(|r| r.name.as_str());
    hosts.chain(scenario.switches.iter().map(String::as_str)).chain(routers).collect()
}
