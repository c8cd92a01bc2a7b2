//! Checks a scenario as a whole: names exist, networks fit together, flows have paths.
//!
//! Each single value must already have been checked. The tree has the positions of mistakes.

use net::{PipeSpec, QueueLimit};

use crate::{
    error::Problems,
    suggest::suggest,
    tree::{
        FILE_START, Span,
        Step::{Index, Key},
        Table,
    },
    types::Scenario,
    validate_addresses::{check_addresses, check_networks},
    validate_flows::check_flows,
    validate_topology::check_topology,
};

/// Reports every mistake in `scenario`, which was decoded from `root`.
pub(crate) fn validate(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    if scenario.hosts.is_empty() {
        problems.add_help(FILE_START, "the scenario has no hosts", "write for example [hosts.h1]");
    }
    let before = problems.len();
    check_addresses(scenario, root, problems);
    let addresses_are_valid = problems.len() == before;
    check_names(scenario, root, problems);
    check_captures(scenario, root, problems);
    check_queues(scenario, root, problems);
    let links_are_valid = check_topology(scenario, root, problems);
    let before = problems.len();
    if links_are_valid && addresses_are_valid {
        check_networks(scenario, root, problems);
    }
    let networks_are_valid = links_are_valid && addresses_are_valid && problems.len() == before;
    check_flows(scenario, root, networks_are_valid, problems);
}

/// Checks the names of hosts and links to capture.
fn check_captures(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
    let known: Vec<&str> = hosts.chain(scenario.links.iter().map(|l| l.name.as_str())).collect();
    for (i, name) in scenario.captures.iter().enumerate() {
        let span = root.span_at(&[Key("capture"), Index(i)]).unwrap_or(FILE_START);
        if !known.contains(&name.as_str()) {
            let help = suggest(name, known.iter().copied());
            problems.add_help(span, format!("no host or link is called \"{name}\""), help);
        } else if scenario.captures[..i].contains(name) {
            problems.add_help(span, format!("\"{name}\" is listed twice"), "list it once");
        }
    }
}

fn check_names(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let switch = |i| root.span_at(&[Key("switches"), Key("names"), Index(i)]).unwrap_or(FILE_START);
    for (i, name) in scenario.switches.iter().enumerate() {
        if scenario.host(name).is_some() {
            problems.add(switch(i), format!("\"{name}\" is already a host"));
        }
    }
    report_duplicates(scenario.switches.iter(), "switches", switch, problems);
    for router in &scenario.routers {
        let what = if scenario.host(&router.name).is_some() {
            "host"
        } else if scenario.switches.contains(&router.name) {
            "switch"
        } else {
            continue;
        };
        let span = root.span_at(&[Key("routers"), Key(&router.name)]).unwrap_or(FILE_START);
        problems.add(span, format!("\"{}\" is already a {what}", router.name));
    }
    let link = |i| root.span_at(&[Key("links"), Index(i), Key("name")]).unwrap_or(FILE_START);
    report_duplicates(scenario.links.iter().map(|l| &l.name), "links", link, problems);
    let flow = |i| root.span_at(&[Key("flows"), Index(i), Key("name")]).unwrap_or(FILE_START);
    report_duplicates(scenario.flows.iter().map(|f| &f.name), "flows", flow, problems);
}

fn report_duplicates<'a>(
    names: impl Iterator<Item = &'a String>,
    plural: &str,
    span: impl Fn(usize) -> Span,
    problems: &mut Problems,
) {
    let names: Vec<&String> = names.collect();
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            problems.add_help(span(i), format!("two {plural} are called \"{name}\""), "give it another name");
        }
    }
}

fn check_queues(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    for (i, link) in scenario.links.iter().enumerate() {
        for (side, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
            let span =
                |key| root.span_at(&[Key("links"), Index(i), Key(side), Key(key)]).unwrap_or(FILE_START);
            check_byte_limits(scenario, direction, span, problems);
        }
        for change in &link.changes {
            let span = |_| root.span_at(&[Key("links"), Index(i), Key("changes")]).unwrap_or(FILE_START);
            check_byte_limits(scenario, &change.forward, span, problems);
            check_byte_limits(scenario, &change.backward, span, problems);
        }
    }
}

/// Checks that queue and burst can hold the largest packet.
fn check_byte_limits(
    scenario: &Scenario,
    direction: &PipeSpec,
    span: impl Fn(&'static str) -> Span,
    problems: &mut Problems,
) {
    let largest_sent = scenario.hosts.iter().map(|h| h.mtu).max().unwrap_or(0);
    let largest_mtu = direction.mtu.unwrap_or(largest_sent).min(largest_sent);
    let packet = u64::from(largest_mtu) + u64::from(direction.overhead);
    for (key, bytes) in byte_limits(direction) {
        if bytes < packet {
            problems.add_help(
                span(key),
                format!("a {key} of {bytes} B is too small for one packet"),
                format!("the largest is {largest_mtu} + {} = {packet} B", direction.overhead),
            );
        }
    }
}

/// The limits in bytes of a direction.
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
