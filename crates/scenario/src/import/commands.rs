//! Addresses, MTUs and routes from start commands of a MiniEdit file: simple uses of `ifconfig`, `ip` and
//! `route`.

use std::net::{IpAddr, Ipv4Addr};

use super::{
    links::MnLink,
    nodes::{MTU, MnNode, Role},
};
use crate::{
    address::{default_route, parse_address, parse_network},
    types::{Cidr, Interface, StaticRoute},
};

/// The effect of one command.
#[derive(Debug, PartialEq)]
enum Effect {
    Address(usize, Cidr),
    Mtu(usize, u32),
    Route(StaticRoute),
    /// None: a router does it anyway, or the command is kept.
    Nothing,
}

/// Applies the start commands of routers, and the MTUs of all nodes. Adds a note for each other command that
/// is not kept.
pub fn apply(nodes: &mut [MnNode], links: &[MnLink], notes: &mut Vec<String>) {
    for node in nodes {
        let ports = links.iter().filter(|l| l.ends.contains(&node.name)).count();
        node.interfaces = vec![Interface::default(); ports];
        node.mtus = vec![MTU; ports];
        for command in node.start.clone().iter().flat_map(|text| commands(text)) {
            let effect = parse_command(&command, node);
            let is_applied = effect.is_some_and(|effect| apply_effect(node, effect));
            if !is_applied && node.role != Role::Host {
                notes.push(format!("{}: the start command `{command}` is not imported", node.name));
            }
        }
        if let (Some(stop), true) = (&node.stop, node.role != Role::Host) {
            notes.push(format!("{}: the stop command `{stop}` is not imported", node.name));
        }
    }
}

/// False if the effect is on an interface that does not exist, or does not apply to the node's role.
fn apply_effect(node: &mut MnNode, effect: Effect) -> bool {
    match (effect, node.role) {
        (Effect::Mtu(port, mtu), _) => match node.mtus.get_mut(port) {
            Some(known) => *known = mtu,
            None => return false,
        },
        // A host keeps its other settings as commands.
        (_, Role::Host) | (Effect::Nothing, Role::Router) => {}
        (_, Role::Switch) => return false,
        (Effect::Address(port, address), Role::Router) => match node.interfaces.get_mut(port) {
            Some(interface) => interface.addresses.push(address),
            None => return false,
        },
        (Effect::Route(route), Role::Router) => node.routes.push(route),
    }
    true
}

/// The single commands of a line.
fn commands(text: &str) -> Vec<String> {
    let parts = text.split(['\n', ';']).flat_map(|line| line.split("&&"));
    parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn parse_command(command: &str, node: &MnNode) -> Option<Effect> {
    let words: Vec<&str> = command.split_whitespace().filter(|w| *w != "sudo").collect();
    let mtu = |text: &str| text.parse::<u32>().ok().filter(|mtu| (68..=65521).contains(mtu));
    let port = |device: &str| port(device, node);
    match words[..] {
        ["ifconfig", device, "mtu", n] => Some(Effect::Mtu(port(device)?, mtu(n)?)),
        ["ip", "link", "set", "dev", device, "mtu", n] | ["ip", "link", "set", device, "mtu", n] => {
            Some(Effect::Mtu(port(device)?, mtu(n)?))
        }
        ["ifconfig", _, "up"] | ["ip", "link", "set", "dev", _, "up"] | ["ip", "link", "set", _, "up"] => {
            Some(Effect::Nothing)
        }
        ["ifconfig", device, address, "netmask", mask]
        | ["ifconfig", device, address, "netmask", mask, "up"] => {
            let address = format!("{address}/{}", prefix_of(mask)?);
            Some(Effect::Address(port(device)?, parse_address(&address).ok()?))
        }
        ["ifconfig", device, address] | ["ifconfig", device, address, "up"] => {
            Some(Effect::Address(port(device)?, parse_address(address).ok()?))
        }
        ["ip", "addr" | "address" | "a", "add", address, "dev", device]
        | ["ip", "addr" | "address" | "a", "add", "dev", device, address] => {
            Some(Effect::Address(port(device)?, parse_address(address).ok()?))
        }
        ["ip", "route", "add", to, "via", via] | ["ip", "route", "add", to, "via", via, "dev", _] => {
            route(to, via)
        }
        ["route", "add", "-net", to, "netmask", mask, "gw", via]
        | ["route", "add", "-net", to, "netmask", mask, "gw", via, _] => {
            route(&format!("{to}/{}", prefix_of(mask)?), via)
        }
        ["route", "add", "-net", to, "gw", via] | ["route", "add", "-net", to, "gw", via, _] => {
            route(to, via)
        }
        ["route", "add", "default", "gw", via] | ["route", "add", "default", "gw", via, _] => {
            route("default", via)
        }
        ["sysctl", .., "net.ipv4.ip_forward=1"] | ["echo", "1", ">", "/proc/sys/net/ipv4/ip_forward"] => {
            Some(Effect::Nothing)
        }
        _ => None,
    }
}

fn route(to: &str, via: &str) -> Option<Effect> {
    let via: IpAddr = via.parse().ok()?;
    let to = if to == "default" { default_route(via) } else { parse_network(to, via).ok()? };
    (to.address.is_ipv4() == via.is_ipv4()).then_some(Effect::Route(StaticRoute { to, via }))
}

/// The index of `NAME-ethN` among the node's ports. A switch's ports begin at 1 in Mininet.
fn port(device: &str, node: &MnNode) -> Option<usize> {
    let number: usize = device.strip_prefix(&node.old_name)?.strip_prefix("-eth")?.parse().ok()?;
    if node.role == Role::Switch { number.checked_sub(1) } else { Some(number) }
}

/// The prefix length of a mask: 24 for `255.255.255.0`.
fn prefix_of(mask: &str) -> Option<u32> {
    let bits = u32::from(mask.parse::<Ipv4Addr>().ok()?);
    let prefix = bits.leading_ones();
    (bits.count_ones() == prefix).then_some(prefix)
}
