//! What start commands of a MiniEdit file say of addresses, MTUs and routes: `ifconfig`, `ip` and `route` where
//! they are simple.

use std::net::{IpAddr, Ipv4Addr};

use super::{
    links::MnLink,
    nodes::{MTU, MnNode, Role},
};
use crate::{
    address::{default_route, parse_address, parse_network},
    types::{Cidr, Interface, StaticRoute},
};

/// What one command does.
#[derive(Debug, PartialEq)]
enum Effect {
    Address(usize, Cidr),
    Mtu(usize, u32),
    Route(StaticRoute),
    /// What a router does anyway, or what is kept as a command.
    Nothing,
}

/// Applies the start commands of routers and the MTUs of all; notes what is not understood and not kept.
pub fn apply(nodes: &mut [MnNode], links: &[MnLink], notes: &mut Vec<String>) {
    for node in nodes {
        let ports = links.iter().filter(|l| l.ends.contains(&node.name)).count();
        node.interfaces = vec![Interface::default(); ports];
        node.mtus = vec![MTU; ports];
        for command in node.start.clone().iter().flat_map(|text| commands(text)) {
            let effect = understand(&command, node);
            let done = effect.is_some_and(|effect| change(node, effect));
            if !done && node.role != Role::Host {
                notes.push(format!("{}: the start command `{command}` is left out", node.name));
            }
        }
        if let (Some(stop), true) = (&node.stop, node.role != Role::Host) {
            notes.push(format!("{}: the stop command `{stop}` is left out", node.name));
        }
    }
}

/// False where the effect is on what does not exist, or is not the node's to have.
fn change(node: &mut MnNode, effect: Effect) -> bool {
    match (effect, node.role) {
        (Effect::Mtu(port, mtu), _) => match node.mtus.get_mut(port) {
            Some(known) => *known = mtu,
            None => return false,
        },
        // A host's other settings stay commands.
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

fn understand(command: &str, node: &MnNode) -> Option<Effect> {
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

/// The number of `NAME-ethN` among the node's ports. A switch's ports begin at 1 in Mininet.
fn port(device: &str, node: &MnNode) -> Option<usize> {
    let number: usize = device.strip_prefix(&node.old_name)?.strip_prefix("-eth")?.parse().ok()?;
    if node.role == Role::Switch { number.checked_sub(1) } else { Some(number) }
}

/// 24 of `255.255.255.0`.
fn prefix_of(mask: &str) -> Option<u32> {
    let bits = u32::from(mask.parse::<Ipv4Addr>().ok()?);
    let prefix = bits.leading_ones();
    (bits.count_ones() == prefix).then_some(prefix)
}
