//! Hosts, switches and routers of a MiniEdit file.

use std::net::{IpAddr, Ipv4Addr};

use super::{
    json::{ImportError, JsonNode},
    names::allowed_name,
};
use crate::{
    address::{parse_address, parse_via},
    types::{Cidr, Interface, StaticRoute},
};

/// Longest names: a device `NAME-eth0` has 15 characters, a switch has no device.
const MAX_HOST_NAME_CHARS: usize = 10;
const MAX_SWITCH_NAME_CHARS: usize = 15;
/// MiniEdit's default, and the prefix that Mininet gives an address without one (`Node.setIP`).
const IP_BASE: &str = "10.0.0.0/8";
const DEFAULT_PREFIX: u8 = 8;
/// Mininet's ports are veth pairs with the MTU of Ethernet.
pub const MTU: u32 = 1500;

/// The type of a node in the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Host,
    Switch,
    Router,
}

/// A node.
#[derive(Debug, Clone)]
pub struct MnNode {
    /// The name in the MiniEdit file.
    pub old_name: String,
    pub name: String,
    pub role: Role,
    pub address: Option<Cidr>,
    pub gateway: Option<IpAddr>,
    pub start: Option<String>,
    pub stop: Option<String>,
    /// Interfaces, MTUs and routes that the start commands set; `commands.rs` adds them.
    pub interfaces: Vec<Interface>,
    pub mtus: Vec<u32>,
    pub routes: Vec<StaticRoute>,
}

/// Settings without a counterpart, and the nodes that have them.
#[derive(Default)]
struct Unsupported(Vec<(&'static str, Vec<String>)>);

impl Unsupported {
    fn add(&mut self, what: &'static str, node: &str) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, nodes)) => nodes.push(node.to_owned()),
            None => self.0.push((what, vec![node.to_owned()])),
        }
    }
}

/// Reads all hosts, then all switches and routers, and gives them valid names.
pub fn read_nodes(root: &JsonNode, notes: &mut Vec<String>) -> Result<Vec<MnNode>, ImportError> {
    let base = ip_base(root)?;
    let mut nodes = Vec::new();
    let mut unsupported = Unsupported::default();
    for at in root.required("hosts")?.list()? {
        let host = read_host(&at, base, &mut unsupported)?;
        add(host, &at, &mut nodes, notes)?;
    }
    for at in root.required("switches")?.list()? {
        let switch = read_switch(&at, &mut unsupported)?;
        add(switch, &at, &mut nodes, notes)?;
    }
    for (what, who) in unsupported.0 {
        notes.push(format!("{what} not imported: {}", who.join(", ")));
    }
    Ok(nodes)
}

fn add(
    mut node: MnNode,
    at: &JsonNode,
    nodes: &mut Vec<MnNode>,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    if nodes.iter().any(|n| n.old_name == node.old_name) {
        return Err(at.error(format!("two nodes are called \"{}\"", node.old_name)));
    }
    let max = if node.role == Role::Switch { MAX_SWITCH_NAME_CHARS } else { MAX_HOST_NAME_CHARS };
    let taken: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    node.name = allowed_name(&node.old_name, max, &taken);
    if node.name != node.old_name {
        notes.push(format!("{:?} is called {} here; its commands are not changed", node.old_name, node.name));
    }
    nodes.push(node);
    Ok(())
}

/// The options of a node, its name (`hostname`, or the letter and its number), and its number.
fn options<'a>(
    at: &JsonNode<'a>,
    letter: &str,
) -> Result<(Option<JsonNode<'a>>, String, Option<f64>), ImportError> {
    let opts = at.field("opts")?;
    let given = opts.as_ref().map_or(Ok(None), |o| o.some_text("hostname"))?;
    let own = opts.as_ref().map_or(Ok(None), |o| o.some_number("nodeNum"))?;
    let number = match own {
        Some(number) => Some(number),
        None => at.some_number("number")?,
    };
    let name = match (given, at.field("number")?) {
        (Some(name), _) => name,
        (None, Some(number)) => format!("{letter}{}", number.scalar()?),
        (None, None) => return Err(at.error("neither \"number\" nor \"opts.hostname\" names this node")),
    };
    Ok((opts, name, number))
}

fn node(old_name: String, role: Role) -> MnNode {
    MnNode {
        name: old_name.clone(),
        old_name,
        role,
        address: None,
        gateway: None,
        start: None,
        stop: None,
        interfaces: Vec::new(),
        mtus: Vec::new(),
        routes: Vec::new(),
    }
}

fn read_host(at: &JsonNode, base: Cidr, unsupported: &mut Unsupported) -> Result<MnNode, ImportError> {
    let (opts, name, number) = options(at, "h")?;
    let mut host = node(name, Role::Host);
    let given = opts.as_ref().map_or(Ok(None), |o| o.some_text("ip"))?;
    let ip_node = opts.as_ref().map_or(Ok(None), |o| o.field("ip"))?.unwrap_or_else(|| at.clone());
    host.address = Some(match given {
        Some(text) => {
            let whole = if text.contains('/') { text } else { format!("{text}/{DEFAULT_PREFIX}") };
            parse_address(&whole).map_err(|e| ip_node.error(e))?
        }
        None => numbered(base, number).ok_or_else(|| {
            at.error(format!("the host has no address: neither \"opts.ip\" nor a node number within {base}"))
        })?,
    });
    let Some(opts) = opts else { return Ok(host) };
    if let Some(route) = opts.some_text("defaultRoute")? {
        match parse_via(route.trim_start_matches("via ").trim()) {
            Ok(via) => host.gateway = Some(via),
            Err(_) => unsupported.add("default routes that are not addresses", &host.old_name),
        }
    }
    host.start = opts.some_text("startCommand")?;
    host.stop = opts.some_text("stopCommand")?;
    for (key, what) in [
        ("externalInterfaces", "external interfaces"),
        ("vlanInterfaces", "VLAN interfaces"),
        ("privateDirectory", "private directories"),
    ] {
        let list = opts.field(key)?.map_or(Ok(Vec::new()), |at| at.list())?;
        if !list.is_empty() {
            unsupported.add(what, &host.old_name);
        }
    }
    let limited =
        opts.some_number("cpu")?.is_some_and(|cpu| cpu > 0.0) || !scalar(&opts, "cores")?.is_empty();
    let scheduled = !matches!(scalar(&opts, "sched")?.as_str(), "" | "host");
    if limited || scheduled {
        unsupported.add("processor limits", &host.old_name);
    }
    Ok(host)
}

fn read_switch(at: &JsonNode, unsupported: &mut Unsupported) -> Result<MnNode, ImportError> {
    let (opts, name, _) = options(at, "s")?;
    let Some(opts) = opts else { return Ok(node(name, Role::Switch)) };
    let role = match scalar(&opts, "switchType")?.as_str() {
        "legacyRouter" => Role::Router,
        _ => Role::Switch,
    };
    let mut switch = node(name, role);
    switch.start = opts.some_text("startCommand")?;
    switch.stop = opts.some_text("stopCommand")?;
    let external = opts.field("externalInterfaces")?.map_or(Ok(Vec::new()), |at| at.list())?;
    if !external.is_empty() {
        unsupported.add("external interfaces", &switch.old_name);
    }
    for (key, what) in [("sflow", "sFlow"), ("netflow", "NetFlow")] {
        if scalar(&opts, key)? == "1" {
            unsupported.add(what, &switch.old_name);
        }
    }
    if !scalar(&opts, "switchIP")?.is_empty() {
        unsupported.add("addresses of switches", &switch.old_name);
    }
    Ok(switch)
}

/// A key's value as text; empty if it is missing.
fn scalar(opts: &JsonNode, key: &str) -> Result<String, ImportError> {
    opts.field(key)?.map_or(Ok(String::new()), |at| at.scalar())
}

/// The network from which hosts without an address get one.
fn ip_base(root: &JsonNode) -> Result<Cidr, ImportError> {
    let application = root.field("application")?;
    let text = application.as_ref().map_or(Ok(None), |a| a.some_text("ipBase"))?;
    let text = text.unwrap_or_else(|| IP_BASE.to_owned());
    let wrong = || match &application {
        Some(at) => at.error(format!("ipBase: {text:?} is not an IPv4 network such as {IP_BASE:?}")),
        None => root.error("ipBase is not a network"),
    };
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address: Ipv4Addr = address.trim().parse().map_err(|_| wrong())?;
    let prefix: u8 = prefix.trim().parse().ok().filter(|p| (1..=32).contains(p)).ok_or_else(wrong)?;
    Ok(Cidr { address: address.into(), prefix })
}

/// The address with this number in the network.
fn numbered(base: Cidr, number: Option<f64>) -> Option<Cidr> {
    let number = number.filter(|n| (1.0..4e9).contains(n) && libm::floor(*n) == *n)? as u32;
    let IpAddr::V4(first) = base.first() else { return None };
    let address = Ipv4Addr::from(u32::from(first).checked_add(number)?);
    let text = format!("{address}/{}", base.prefix);
    parse_address(&text).ok().filter(|cidr| base.contains(cidr.address))
}

/// Adds notes for settings of the whole file without a counterpart.
pub fn note_application(root: &JsonNode, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let controllers = match root.field("controllers")? {
        // Version "1" has an object of one, c0.
        Some(at) if at.is_object() => at.object()?.len(),
        Some(at) => at.list()?.len(),
        None => 0,
    };
    if controllers > 0 {
        let s = if controllers == 1 { "" } else { "s" };
        notes.push(format!("{controllers} controller{s} not imported: switches learn by themselves"));
    }
    let Some(application) = root.field("application")? else { return Ok(()) };
    for (key, key_of_target, what) in
        [("sflow", "sflowTarget", "sFlow"), ("netflow", "nflowTarget", "NetFlow")]
    {
        let target = application.field(key)?.map_or(Ok(None), |at| at.some_text(key_of_target))?;
        if let Some(collector) = target {
            notes.push(format!("the {what} collector {collector} is not imported"));
        }
    }
    Ok(())
}

/// Whether hosts have static ARP entries. Only the stand-in for Mininet's modules writes this key.
pub fn has_static_arp(root: &JsonNode) -> Result<bool, ImportError> {
    let Some(application) = root.field("application")? else { return Ok(false) };
    Ok(application.some_text("staticArp")?.is_some())
}
