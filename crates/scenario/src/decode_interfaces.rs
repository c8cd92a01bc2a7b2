//! Decodes addresses of interfaces and static routes, whose keys hosts and routers share.

use std::net::IpAddr;

use crate::{
    address::{parse_address, parse_network, parse_via},
    error::Problems,
    read::{Keys, Reader, texts},
    suggest::suggest,
    tree::{Entry, Node, Span},
    types::{Cidr, Interface, Link, StaticRoute},
};

pub(crate) const ROUTE: Keys = Keys { what: "a route", known: &["to", "via"], nested: None };
const ROUTES_EXAMPLE: &str = "write for example routes = [{ to = \"10.2.0.0/16\", via = \"10.0.0.254\" }]";

/// The indices of the links of `name`, in the links' order. Each link is one interface.
pub(crate) fn links_of(name: &str, links: &[Link]) -> Vec<usize> {
    (0..links.len()).filter(|i| links[*i].ends.iter().any(|end| end == name)).collect()
}

/// Decodes the addresses of one interface from `node`, the value of `key`.
pub(crate) fn decode_addresses(node: &Node, key: &str, problems: &mut Problems) -> Vec<Cidr> {
    let mut addresses = Vec::new();
    for (text, span) in texts(node, key, problems) {
        match parse_address(text) {
            Ok(address) => addresses.push(address),
            Err(message) => {
                problems.add_help(span, format!("{key}: {message}"), "write for example \"10.0.0.1/8\"");
            }
        }
    }
    addresses
}

/// Decodes `interfaces = { eth1 = "10.1.0.1/24" }` into `interfaces`, which has one entry for each link.
pub(crate) fn decode_interfaces(owner: &str, reader: &mut Reader, interfaces: &mut [Interface]) {
    let Some(node) = reader.node("interfaces") else { return };
    let Some(table) = node.table() else {
        let message = format!("\"interfaces\" is a table of interfaces, not {}", node.kind());
        reader.report("interfaces", message, "write for example interfaces = { eth1 = \"10.1.0.1/24\" }");
        return;
    };
    for entry in &table.0 {
        let short = entry.key.strip_prefix(owner).and_then(|k| k.strip_prefix('-')).unwrap_or(&entry.key);
        let digits = short.strip_prefix("eth").filter(|n| *n == "0" || !n.starts_with('0'));
        let Some(number) = digits.and_then(|n| n.parse::<usize>().ok()) else {
            let help = "an interface is called eth0, eth1 and so on, in the order of the links";
            reader.problems().add_help(entry.key_span, format!("unknown interface \"{}\"", entry.key), help);
            continue;
        };
        if number >= interfaces.len() {
            let help = format!("it has {} in the order of the links", numbered(interfaces.len()));
            let message = format!("{owner} has no interface eth{number}");
            reader.problems().add_help(entry.key_span, message, help);
            continue;
        }
        set(entry, &mut interfaces[number], reader.problems());
    }
}

/// Decodes `ports = { s1 = "10.0.1.254/24" }`, which names an interface by the other end of its link.
pub(crate) fn decode_ports(owner: &str, reader: &mut Reader, links: &[Link], interfaces: &mut [Interface]) {
    let Some(node) = reader.node("ports") else { return };
    let Some(table) = node.table() else {
        let message = format!("\"ports\" is a table of neighbours, not {}", node.kind());
        reader.report("ports", message, "write for example ports = { s1 = \"10.0.1.254/24\" }");
        return;
    };
    let neighbours: Vec<&str> = links_of(owner, links)
        .into_iter()
        .map(|i| links[i].ends.iter().find(|end| *end != owner).map_or(owner, String::as_str))
        .collect();
    for entry in &table.0 {
        let found: Vec<usize> = (0..neighbours.len()).filter(|i| neighbours[*i] == entry.key).collect();
        match found[..] {
            [] => {
                let help = suggest(&entry.key, neighbours.iter().copied());
                let message = format!("no link joins {owner} with \"{}\"", entry.key);
                reader.problems().add_help(entry.key_span, message, help);
            }
            [one] => set(entry, &mut interfaces[one], reader.problems()),
            _ => {
                let message = format!("several links join {owner} with {}", entry.key);
                let help = "name the interface: interfaces = { eth0 = .. }";
                reader.problems().add_help(entry.key_span, message, help);
            }
        }
    }
}

fn set(entry: &Entry, interface: &mut Interface, problems: &mut Problems) {
    if !interface.addresses.is_empty() {
        problems.add_help(entry.key_span, "the address of this interface is set twice", "remove one of them");
    }
    interface.addresses = decode_addresses(&entry.node, "address", problems);
}

fn numbered(count: usize) -> String {
    match count {
        0 => "no link, so no interface,".into(),
        1 => "one link, so only eth0,".into(),
        n => format!("{n} links, so eth0 to eth{},", n - 1),
    }
}

/// Decodes `routes = [{ to = "10.2.0.0/16", via = "10.0.0.254" }]`.
pub(crate) fn decode_routes(reader: &mut Reader) -> Vec<StaticRoute> {
    let Some(node) = reader.node("routes") else { return Vec::new() };
    let Some(items) = node.list() else {
        reader.report(
            "routes",
            format!("\"routes\" is a list of tables, not {}", node.kind()),
            ROUTES_EXAMPLE,
        );
        return Vec::new();
    };
    items.iter().filter_map(|item| decode_route(item, reader.problems())).collect()
}

fn decode_route(node: &Node, problems: &mut Problems) -> Option<StaticRoute> {
    let mut reader = Reader::new(node, &ROUTE, problems)?;
    let to = reader.required_text("to", "\"10.2.0.0/16\"");
    let via = reader.required_text("via", "\"10.0.0.254\"");
    let via = parse_via(&via?).map_err(|e| reader.report("via", format!("via: {e}"), ROUTES_EXAMPLE)).ok()?;
    let to =
        parse_network(&to?, via).map_err(|e| reader.report("to", format!("to: {e}"), ROUTES_EXAMPLE)).ok()?;
    if to.address.is_ipv4() != via.is_ipv4() {
        let message = format!("the route to {to} cannot have the next hop {via}: their IP versions differ");
        reader.report("via", message, ROUTES_EXAMPLE);
    }
    Some(StaticRoute { to, via })
}

/// Decodes `gateway = "10.0.0.254"`, or a list with one of each IP version.
pub(crate) fn decode_gateways(reader: &mut Reader) -> Vec<(IpAddr, Span)> {
    let mut gateways: Vec<(IpAddr, Span)> = Vec::new();
    for (text, span) in reader.texts("gateway") {
        let gateway = match parse_via(text) {
            Ok(gateway) => gateway,
            Err(message) => {
                let help = "write for example gateway = \"10.0.0.254\"";
                reader.problems().add_help(span, format!("gateway: {message}"), help);
                continue;
            }
        };
        if gateways.iter().any(|(other, _)| other.is_ipv4() == gateway.is_ipv4()) {
            let message = "two gateways of the same IP version";
            reader.problems().add_help(span, message, "write one for IPv4 and one for IPv6 at most");
        }
        gateways.push((gateway, span));
    }
    gateways
}
