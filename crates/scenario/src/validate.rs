//! What the parts of a scenario say of each other: names that exist, networks that fit, flows that can flow.
//!
//! Runs on a scenario whose single values are right already. The tree gives the places of mistakes.

use net::{PipeSpec, QueueLimit};

use crate::{
    decode_scenario::START,
    error::Problems,
    suggest::suggest,
    tree::{
        Span,
        Step::{Index, Key},
        Table,
    },
    types::Scenario,
    validate_addresses::{check_addresses, check_networks},
    validate_flows::check_flows,
    validate_topology::check_topology,
};

/// Notes every contradiction in `scenario`, which was decoded from `root`.
pub(crate) fn validate(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    if scenario.hosts.is_empty() {
        problems.add_help(START, "the scenario has no hosts", "write for example [hosts.h1]");
    }
    let before = problems.len();
    check_addresses(scenario, root, problems);
    let addressed = problems.len() == before;
    check_names(scenario, root, problems);
    check_captures(scenario, root, problems);
    check_queues(scenario, root, problems);
    let linked = check_topology(scenario, root, problems);
    let before = problems.len();
    if linked && addressed {
        check_networks(scenario, root, problems);
    }
    let fine = linked && addressed && problems.len() == before;
    check_flows(scenario, root, fine, problems);
}

/// Names of routers, and what is to be captured.
fn check_captures(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
    let known: Vec<&str> = hosts.chain(scenario.links.iter().map(|l| l.name.as_str())).collect();
    for (i, name) in scenario.captures.iter().enumerate() {
        let span = root.place(&[Key("capture"), Index(i)]).unwrap_or(START);
        if !known.contains(&name.as_str()) {
            let help = suggest(name, known.iter().copied());
            problems.add_help(span, format!("no host or link is called \"{name}\""), help);
        } else if scenario.captures[..i].contains(name) {
            problems.add_help(span, format!("\"{name}\" is captured already"), "name it once");
        }
    }
}

fn check_names(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let switch = |i| root.place(&[Key("switches"), Key("names"), Index(i)]).unwrap_or(START);
    for (i, name) in scenario.switches.iter().enumerate() {
        if scenario.host(name).is_some() {
            problems.add(switch(i), format!("\"{name}\" is a host already"));
        }
    }
    note_twice(scenario.switches.iter(), "switch", switch, problems);
    for router in &scenario.routers {
        let what = if scenario.host(&router.name).is_some() {
            "host"
        } else if scenario.switches.contains(&router.name) {
            "switch"
        } else {
            continue;
        };
        let span = root.place(&[Key("routers"), Key(&router.name)]).unwrap_or(START);
        problems.add(span, format!("\"{}\" is a {what} already", router.name));
    }
    let link = |i| root.place(&[Key("links"), Index(i), Key("name")]).unwrap_or(START);
    note_twice(scenario.links.iter().map(|l| &l.name), "link", link, problems);
    let flow = |i| root.place(&[Key("flows"), Index(i), Key("name")]).unwrap_or(START);
    note_twice(scenario.flows.iter().map(|f| &f.name), "flow", flow, problems);
}

fn note_twice<'a>(
    names: impl Iterator<Item = &'a String>,
    word: &str,
    place: impl Fn(usize) -> Span,
    problems: &mut Problems,
) {
    let names: Vec<&String> = names.collect();
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            problems.add_help(place(i), format!("a second {word} called \"{name}\""), "give it another name");
        }
    }
}

fn check_queues(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    for (i, link) in scenario.links.iter().enumerate() {
        for (side, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
            let place = |key| root.place(&[Key("links"), Index(i), Key(side), Key(key)]).unwrap_or(START);
            check_room(scenario, direction, place, problems);
        }
        for change in &link.changes {
            let place = |_| root.place(&[Key("links"), Index(i), Key("changes")]).unwrap_or(START);
            check_room(scenario, &change.forward, place, problems);
            check_room(scenario, &change.backward, place, problems);
        }
    }
}

/// What must hold a packet holds the largest.
fn check_room(
    scenario: &Scenario,
    direction: &PipeSpec,
    place: impl Fn(&'static str) -> Span,
    problems: &mut Problems,
) {
    let largest_sent = scenario.hosts.iter().map(|h| h.mtu).max().unwrap_or(0);
    let largest_mtu = direction.mtu.unwrap_or(largest_sent).min(largest_sent);
    let packet = u64::from(largest_mtu) + u64::from(direction.overhead);
    for (key, bytes) in byte_limits(direction) {
        if bytes < packet {
            problems.add_help(
                place(key),
                format!("a {key} of {bytes} B has no room for one packet"),
                format!("the largest is {largest_mtu} + {} = {packet} B", direction.overhead),
            );
        }
    }
}

/// What of a direction must hold at least one packet.
fn byte_limits(direction: &PipeSpec) -> Vec<(&'static str, u64)> {
    let mut limits = Vec::new();
    if let QueueLimit::Bytes(bytes) = direction.queue {
        limits.push(("queue", bytes.0));
    }
    if let Some(bytes) = direction.burst {
        limits.push(("burst", bytes.0));
    }
    limits
}
