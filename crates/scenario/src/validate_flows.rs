//! Each flow goes from one known host to another over links and routers, within the run's time.

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
/// Where links or addresses are wrong already (not `linked`), missing paths are their fault and not noted.
pub(crate) fn check_flows(scenario: &Scenario, root: &Table, linked: bool, problems: &mut Problems) {
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
        let Some((_, address)) = scenario.flow_addresses(flow) else {
            let message = format!("{} and {} have no IP version in common", shown(from), shown(to));
            problems.add_help(place("to"), message, "give both an address of one IP version");
            continue;
        };
        let way = |a: &Host, b: &Host| scenario.path(&a.name, &b.name).is_some();
        if !linked || (way(from, to) && way(to, from)) {
            continue;
        }
        let beside = from.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.contains(address));
        let (message, help) = match (beside, scenario.routers.is_empty()) {
            (true, _) => (format!("no links lead from {} to {}", from.name, to.name), "add the missing link"),
            (false, true) => (
                format!("{} and {} are not in one subnet", shown(from), shown(to)),
                "give both the same network, or join them by a router",
            ),
            (false, false) => (
                format!("no route leads from {} to {} and back", shown(from), shown(to)),
                "look at the gateways and routes, and at the links of the routers between them",
            ),
        };
        problems.add_help(place("to"), message, help);
    }
}

fn shown(host: &Host) -> String {
    format!("{} ({})", host.name, host.cidr())
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
        let switch = scenario.switches.iter().any(|s| s == name).then_some("switch");
        let router = scenario.routers.iter().any(|r| r.name == name).then_some("router");
        if let Some(what) = switch.or(router) {
            let known = hosts.collect::<Vec<_>>().join(", ");
            problems.add_help(
                place,
                format!("\"{name}\" is a {what}, not a host"),
                format!("hosts are {known}"),
            );
        } else {
            problems.add_help(place, format!("unknown host \"{name}\""), suggest(name, hosts));
        }
    }
    host
}
