//! Each flow goes from one known host to another in its subnet, over links, within the run's time.

use crate::{
    decode_scenario::START,
    error::Problems,
    suggest::suggest,
    tree::{
        Span,
        Step::{Index, Key},
        Table,
    },
    types::{Host, Scenario},
};

/// Notes what is wrong with the flows of `scenario`, which was decoded from `root`.
///
/// Where the links are wrong already (not `linked`), missing paths are their fault and not noted.
pub(crate) fn check_flows(scenario: &Scenario, root: &Table, linked: bool, problems: &mut Problems) {
    if scenario.flows.is_empty() {
        problems.add_help(
            START,
            "the scenario has no flows",
            "write for example [[flows]] with name, from and to",
        );
    }
    for (i, flow) in scenario.flows.iter().enumerate() {
        let place = |key| root.place(&[Key("flows"), Index(i), Key(key)]).unwrap_or(START);
        if flow.start >= scenario.duration {
            let help = format!("the run lasts {}", scenario.duration);
            problems.add_help(place("start"), "the flow never starts", help);
        }
        let from = known_host(scenario, &flow.from, place("from"), problems);
        let to = known_host(scenario, &flow.to, place("to"), problems);
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from.name == to.name {
            let message = format!("the flow goes from {} to itself", from.name);
            problems.add_help(place("to"), message, "name another host");
            continue;
        }
        check_subnet(from, to, place("to"), problems);
        if linked && scenario.path(&from.name, &to.name).is_none() {
            let message = format!("no links lead from {} to {}", from.name, to.name);
            problems.add_help(place("to"), message, "add the missing link");
        }
    }
}

fn known_host<'a>(
    scenario: &'a Scenario,
    name: &str,
    place: Span,
    problems: &mut Problems,
) -> Option<&'a Host> {
    let host = scenario.host(name);
    if host.is_none() {
        let hosts = scenario.hosts.iter().map(|h| h.name.as_str());
        if scenario.switches.iter().any(|s| s == name) {
            let known = hosts.collect::<Vec<_>>().join(", ");
            problems.add_help(
                place,
                format!("\"{name}\" is a switch, not a host"),
                format!("hosts are {known}"),
            );
        } else {
            problems.add_help(place, format!("unknown host \"{name}\""), suggest(name, hosts));
        }
    }
    host
}

fn check_subnet(from: &Host, to: &Host, place: Span, problems: &mut Problems) {
    if from.cidr().contains(to.address()) && to.cidr().contains(from.address()) {
        return;
    }
    let network = |h: &Host| format!("{} ({})", h.name, h.cidr());
    problems.add_help(
        place,
        format!("{} and {} are not in one subnet", network(from), network(to)),
        "routers are not supported yet: give both the same network",
    );
}
