//! Writes the imported network as a scenario file in the style of a hand-written one.

use std::fmt::Write;

use units::{BitRate, Time};

use super::{
    links::MnLink,
    nodes::{MTU, MnNode, Role},
};
use crate::{
    quote::quote,
    types::{Interface, StaticRoute},
};

/// The text of the scenario file.
pub fn write(name: &str, static_arp: bool, nodes: &[MnNode], links: &[MnLink]) -> String {
    let mut out = String::from("# Imported from MiniEdit. Add [[flows]] and a duration to run it.\n\n");
    let _ = writeln!(out, "title = {}", quote(name));
    if static_arp {
        out.push_str("fixed_neighbours = true\n");
    }
    let of = |role| nodes.iter().filter(move |n| n.role == role);
    of(Role::Host).for_each(|host| write_host(&mut out, host));
    let switches: Vec<String> = of(Role::Switch).map(|s| quote(&s.name)).collect();
    if !switches.is_empty() {
        let _ = write!(out, "\n[switches]\nnames = [{}]\n", switches.join(", "));
    }
    of(Role::Router).for_each(|router| write_router(&mut out, router));
    for (i, link) in links.iter().enumerate() {
        write_link(&mut out, link, link_mtu(nodes, links, i));
    }
    out
}

fn write_host(out: &mut String, host: &MnNode) {
    let _ = writeln!(out, "\n[hosts.{}]", host.name);
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    };
    put("address", host.address.map(quote));
    put("gateway", host.gateway.map(quote));
    put("mtu", host.mtus.first().filter(|mtu| **mtu != MTU).map(u32::to_string));
    put("start", host.start.as_ref().map(quote));
    put("stop", host.stop.as_ref().map(quote));
}

fn write_router(out: &mut String, router: &MnNode) {
    let _ = writeln!(out, "\n[routers.{}]", router.name);
    let written = |(i, interface): (usize, &Interface)| {
        let addresses: Vec<String> = interface.addresses.iter().map(quote).collect();
        (!addresses.is_empty()).then(|| format!("eth{i} = [{}]", addresses.join(", ")))
    };
    let interfaces: Vec<String> = router.interfaces.iter().enumerate().filter_map(written).collect();
    if !interfaces.is_empty() {
        let _ = writeln!(out, "interfaces = {{ {} }}", interfaces.join(", "));
    }
    let route = |r: &StaticRoute| format!("{{ to = {}, via = {} }}", quote(r.to), quote(r.via));
    let routes: Vec<String> = router.routes.iter().map(route).collect();
    if !routes.is_empty() {
        let _ = writeln!(out, "routes = [{}]", routes.join(", "));
    }
}

/// The smaller MTU of both ends of a link, as of a veth pair.
fn link_mtu(nodes: &[MnNode], links: &[MnLink], index: usize) -> u32 {
    let at_end = |end: &String| {
        let port = links[..index].iter().filter(|l| l.ends.contains(end)).count();
        let node = nodes.iter().find(|n| n.name == *end);
        node.and_then(|n| n.mtus.get(port)).copied().unwrap_or(MTU)
    };
    links[index].ends.iter().map(at_end).min().unwrap_or(MTU)
}

fn write_link(out: &mut String, link: &MnLink, mtu: u32) {
    out.push_str("\n[[links]]\n");
    if let Some(name) = &link.name {
        let _ = writeln!(out, "name = {}", quote(name));
    }
    let _ = writeln!(out, "ends = [{}, {}]", quote(&link.ends[0]), quote(&link.ends[1]));
    let fields = [
        link.rate_bps.map(|bps| format!("rate = {}", quote(BitRate(bps)))),
        link.delay_ns.map(|ns| format!("delay = {}", quote(Time::from_nanos(ns)))),
        // With netem's jitter packets overtake each other.
        link.jitter_ns.map(|ns| format!("jitter = {}, jitter_reorders = true", quote(Time::from_nanos(ns)))),
        link.queue_packets.map(|packets| format!("queue = \"{packets}p\"")),
        link.loss_percent.map(|percent| {
            // netem drops whole super-packets.
            format!("loss = {{ rate = \"{percent}%\", unit = \"super-packet\" }}")
        }),
        Some(format!("mtu = {mtu}")),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    let _ = writeln!(out, "both = {{ {} }}", fields.join(", "));
}
