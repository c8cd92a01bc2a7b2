//! What the parts of a scenario say of each other: names that exist, a network without loops, flows that can flow.
//!
//! Runs on a scenario whose single values are right already. The tree gives the places of mistakes.

use net::{PipeSpec, QueueLimit};

use crate::{
    decode_scenario::START,
    error::Problems,
    tree::{
        Span,
        Step::{Index, Key},
        Table,
    },
    types::Scenario,
    validate_flows::check_flows,
    validate_topology::check_topology,
};

/// Smallest MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU_IPV6: u32 = 1280;

/// Notes every contradiction in `scenario`, which was decoded from `root`.
pub(crate) fn validate(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    check_hosts(scenario, root, problems);
    check_names(scenario, root, problems);
    check_queues(scenario, root, problems);
    let linked = check_topology(scenario, root, problems);
    check_flows(scenario, root, linked, problems);
}

fn check_hosts(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    if scenario.hosts.is_empty() {
        problems.add_help(START, "the scenario has no hosts", "write for example [hosts.h1]");
    }
    for (i, host) in scenario.hosts.iter().enumerate() {
        let place = |key| root.place(&[Key("hosts"), Key(&host.name), Key(key)]).unwrap_or(START);
        if host.address().is_ipv6() && host.mtu < MIN_MTU_IPV6 {
            let message = format!("IPv6 does not work at an MTU of {}", host.mtu);
            problems.add_help(place("mtu"), message, format!("write at least {MIN_MTU_IPV6}"));
        }
        if let Some(other) = scenario.hosts[..i].iter().find(|h| h.address() == host.address()) {
            let message = format!("{} has the address {} too", other.name, host.address());
            problems.add_help(place("address"), message, "give each host its own");
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
    let largest_mtu = scenario.hosts.iter().map(|h| h.mtu).max().unwrap_or(0);
    for (i, link) in scenario.links.iter().enumerate() {
        for (side, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
            let place = |key| root.place(&[Key("links"), Index(i), Key(side), Key(key)]).unwrap_or(START);
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
