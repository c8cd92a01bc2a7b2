//! Checks flows: both hosts exist, a path joins them, and the flow starts within the run.

use crate::{
    error::Problems,
    suggest::suggest,
    tree::{
        FILE_START, Span,
        Step::{Index, Key},
        Table,
    },
    types::{FlowKind, Host, Scenario},
};

/// Smallest UDP payload that a QUIC path must carry (RFC 9000, section 14), bytes.
const MIN_QUIC_PAYLOAD: u32 = 1_200;
/// Bytes of a UDP header.
const UDP_HEADER: u32 = 8;

/// Reports mistakes in the flows of `scenario`, which was decoded from `root`.
///
/// Reports missing paths only if networks are valid; otherwise the mistake is theirs.
pub(crate) fn check_flows(
    scenario: &Scenario,
    root: &Table,
    networks_are_valid: bool,
    problems: &mut Problems,
) {
    for (i, flow) in scenario.flows.iter().enumerate() {
        let span = |key| root.span_at(&[Key("flows"), Index(i), Key(key)]).unwrap_or(FILE_START);
        if flow.start >= scenario.end() {
            let help = format!("the run lasts {}", scenario.duration);
            problems.add_help(span("start"), "the flow never starts", help);
        }
        let from = known_host(scenario, &flow.from, span("from"), problems);
        let to = known_host(scenario, &flow.to, span("to"), problems);
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from.name == to.name {
            let message = format!("the flow goes from {} to itself", from.name);
            problems.add_help(span("to"), message, "name another host");
            continue;
        }
        let Some((_, address)) = scenario.flow_addresses(flow) else {
            let message = format!("{} and {} have no common IP version", shown(from), shown(to));
            problems.add_help(span("to"), message, "give both an address of one IP version");
            continue;
        };
        let min_mtu = MIN_QUIC_PAYLOAD + UDP_HEADER + if address.is_ipv4() { 20 } else { 40 };
        let smaller = if from.mtu <= to.mtu { from } else { to };
        if matches!(flow.kind, FlowKind::Quic(_)) && smaller.mtu < min_mtu {
            let message = format!(
                "QUIC needs packets of {min_mtu} bytes, and {} has an MTU of {}",
                smaller.name, smaller.mtu
            );
            problems.add_help(span("kind"), message, format!("write mtu = {min_mtu} or more for it"));
        }
        let has_path = |a: &Host, b: &Host| scenario.path(&a.name, &b.name).is_some();
        if !networks_are_valid || (has_path(from, to) && has_path(to, from)) {
            continue;
        }
        let is_same_network = from.interfaces.iter().flat_map(|i| &i.addresses).any(|a| a.contains(address));
        let (message, help) = match (is_same_network, scenario.routers.is_empty()) {
            (true, _) => (format!("no links connect {} to {}", from.name, to.name), "add the missing link"),
            (false, true) => (
                format!("{} and {} are not in the same subnet", shown(from), shown(to)),
                "give both the same network, or join them by a router",
            ),
            (false, false) => (
                format!("no route from {} to {} and back", shown(from), shown(to)),
                "check the gateways, the routes and the links of the routers between them",
            ),
        };
        problems.add_help(span("to"), message, help);
    }
}

fn shown(host: &Host) -> String {
    format!("{} ({})", host.name, host.cidr())
}

fn known_host<'a>(
    scenario: &'a Scenario,
    name: &str,
    span: Span,
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
                span,
                format!("\"{name}\" is a {what}, not a host"),
                format!("hosts are {known}"),
            );
        } else {
            problems.add_help(span, format!("unknown host \"{name}\""), suggest(name, hosts));
        }
    }
    host
}
