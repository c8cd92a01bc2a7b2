//! The network's shape: links join known things, each host has one link, and switches form no loop.

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
};

/// Notes what is wrong with the links of `scenario`, which was decoded from `root`; true where nothing is.
pub(crate) fn check_topology(scenario: &Scenario, root: &Table, problems: &mut Problems) -> bool {
    let before = problems.len();
    let end = |link, end| root.place(&[Key("links"), Index(link), Key("ends"), Index(end)]).unwrap_or(START);
    if check_ends(scenario, end, problems) {
        check_one_link_a_host(scenario, root, end, problems);
        check_loops(scenario, root, problems);
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
                problems.add_help(place(i, e), format!("unknown host or switch \"{end}\""), help);
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

fn check_one_link_a_host(
    scenario: &Scenario,
    root: &Table,
    place: impl Fn(usize, usize) -> Span,
    problems: &mut Problems,
) {
    for host in &scenario.hosts {
        let mut ends = Vec::new();
        for (i, link) in scenario.links.iter().enumerate() {
            ends.extend(link.ends.iter().position(|end| *end == host.name).map(|e| (i, e)));
        }
        match ends[..] {
            [] => {
                let span = root.place(&[Key("hosts"), Key(&host.name)]).unwrap_or(START);
                let help = format!("for example ends = [\"{}\", \"s1\"] under [[links]]", host.name);
                problems.add_help(span, format!("the host {} has no link", host.name), help);
            }
            [_] => {}
            [_, (i, e), ..] => {
                let message = format!("a second link of the host {} is not supported yet", host.name);
                problems.add_help(place(i, e), message, "join them through a switch");
            }
        }
    }
}

/// Joins the nodes link by link; a link within what is joined already closes a loop.
fn check_loops(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let nodes = nodes(scenario);
    let mut group: Vec<usize> = (0..nodes.len()).collect();
    for (i, link) in scenario.links.iter().enumerate() {
        let [a, b] = link.ends.each_ref().map(|end| nodes.iter().position(|n| n == end));
        let (Some(a), Some(b)) = (a, b) else { continue };
        let (a, b) = (group[a], group[b]);
        if a == b {
            let span = root.place(&[Key("links"), Index(i), Key("ends")]).unwrap_or(START);
            problems.add_help(
                span,
                format!("the link {} closes a loop", link.name),
                "a broadcast would circle in it for ever, and spanning trees are not supported: remove a link",
            );
        }
        group.iter_mut().filter(|g| **g == b).for_each(|g| *g = a);
    }
}

/// The names that a link can join.
fn nodes(scenario: &Scenario) -> Vec<&str> {
    let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
    hosts.chain(scenario.switches.iter().map(String::as_str)).collect()
}
