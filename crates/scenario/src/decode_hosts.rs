//! Decodes hosts.

use std::collections::BTreeMap;

use units::{KernelVersion, Time};

use crate::{
    address::default_route,
    decode_cost::decode_cost,
    decode_interfaces::{decode_addresses, decode_gateways, decode_interfaces, decode_routes, links_of},
    decode_nic::decode_nic,
    error::Problems,
    host_location::HostLocation,
    name::{NamedKind, check_name, check_sysctl},
    read::{Keys, Reader},
    tree::{Entry, Node, Table, Value},
    types::{Host, Interface, Link, StaticRoute},
};

pub(crate) const HOST: Keys = Keys {
    what: "a host",
    known: &[
        "address",
        "mtu",
        "kernel",
        "hz",
        "local_congestion",
        "turnaround",
        "receive_jitter",
        "cost",
        "sysctl",
        "interfaces",
        "gateway",
        "routes",
        "nic",
        "tx_queue",
        "tso",
        "gso",
        "gso_segs",
        "segmentation",
        "gro",
        "at",
        "start",
        "stop",
    ],
    nested: None,
};
/// The suffix of a kernel with web100's patch.
pub(crate) const WEB100_SUFFIX: &str = "-web100";
/// Length of the device queue of the Linux 2.4 with web100, packets (`txqueuelen` of a gigabit card of
/// 2004; Hirabaru, e-VLBI workshop 2004).
const WEB100_TX_QUEUE: u32 = 100;
const DEFAULT_MTU: u64 = 1500;
/// From the smallest MTU of IPv4 (RFC 791) to the largest of a TAP device (65,535 less its Ethernet header).
pub(crate) const MTU: std::ops::RangeInclusive<u64> = 68..=65521;
/// Longest value of a sysctl, which the kernel reads at once.
const MAX_SYSCTL_VALUE_BYTES: usize = 4096;

/// Longest command; rejects a file that was pasted by mistake.
const MAX_COMMAND_BYTES: usize = 65536;

/// Decodes the hosts of a normalised tree with these links.
pub(crate) fn decode_hosts(root: &Table, links: &[Link], problems: &mut Problems) -> Vec<Host> {
    let Some(node) = root.get("hosts") else { return Vec::new() };
    let Some(table) = node.table() else {
        problems.add(node.span, format!("\"hosts\" is a table of hosts, not {}", node.kind()));
        return Vec::new();
    };
    table.0.iter().filter_map(|entry| decode_host(entry, links, problems)).collect()
}

fn decode_host(entry: &Entry, links: &[Link], problems: &mut Problems) -> Option<Host> {
    check_name(NamedKind::Host, &entry.key, entry.key_span, problems);
    let mut reader = Reader::new(&entry.node, &HOST, problems)?;
    let name = entry.key.clone();
    let mtu = reader.integer("mtu", MTU, " bytes").unwrap_or(DEFAULT_MTU) as u32;
    let kernel = decode_kernel(&mut reader);
    let hz = decode_hz(&mut reader, kernel);
    let sysctl = reader.node("sysctl").map(|node| decode_sysctl(node, reader.problems()));
    let interfaces = decode_host_interfaces(&name, links, &mut reader);
    let gateways = decode_gateways(&mut reader).into_iter();
    let mut routes: Vec<StaticRoute> =
        gateways.map(|(via, _)| StaticRoute { to: default_route(via), via }).collect();
    routes.extend(decode_routes(&mut reader));
    let mut nic = decode_nic(&mut reader, mtu);
    if kernel.is_some_and(|kernel| kernel.web100) {
        nic.tx_queue = nic.tx_queue.or(Some(WEB100_TX_QUEUE));
    }
    let local_congestion = reader.boolean("local_congestion").unwrap_or(true);
    let turnaround = decode_processing_time("turnaround", "15us", &mut reader).unwrap_or_default();
    let receive_jitter = decode_processing_time("receive_jitter", "2us", &mut reader);
    let cost = decode_cost(&mut reader);
    let at = decode_host_location(&mut reader);
    let (start, stop) = (command("start", &mut reader), command("stop", &mut reader));
    Some(Host {
        name,
        interfaces: interfaces?,
        mtu,
        kernel: kernel.map(|kernel| kernel.version),
        web100: kernel.is_some_and(|kernel| kernel.web100),
        hz,
        local_congestion,
        turnaround,
        receive_jitter,
        cost,
        sysctl: sysctl.unwrap_or_default(),
        routes,
        nic,
        at,
        start,
        stop,
    })
}

/// Longest turnaround or jitter of a host: catches a wrong unit.
const MAX_PROCESSING_TIME: Time = Time::from_secs(1);

/// Decodes `"node2:5201"`: where the host is in runs between real hosts.
fn decode_host_location(reader: &mut Reader) -> Option<HostLocation> {
    let text = reader.text("at")?;
    match text.parse() {
        Ok(location) => Some(location),
        Err(message) => {
            reader.report(
                "at",
                message,
                "write for example \"node2.example.org:5201\", or \"here\" for this machine",
            );
            None
        }
    }
}

fn decode_processing_time(key: &str, example: &str, reader: &mut Reader) -> Option<Time> {
    let time = reader.time(key)?;
    if time > MAX_PROCESSING_TIME {
        reader.report(
            key,
            format!("\"{key}\" is over {MAX_PROCESSING_TIME}"),
            format!("write for example \"{example}\"; longfat lab check measures this machine's turnaround"),
        );
    }
    Some(time)
}

/// A kernel that the simulator has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimulatedKernel {
    /// Major and minor version.
    pub(crate) version: (u8, u8),
    /// With the patch of web100, for 2.4 only.
    pub(crate) web100: bool,
}

/// Parses `2.4`, `6.1`, `linux-2.4-web100`.
pub(crate) fn simulated_kernel(text: &str) -> Option<SimulatedKernel> {
    let text = text.trim();
    let text = text.strip_prefix("linux-").unwrap_or(text);
    let (number, web100) = match text.strip_suffix(WEB100_SUFFIX) {
        Some(number) => (number, true),
        None => (text, false),
    };
    let version = number.parse::<KernelVersion>().ok()?;
    let version = (u8::try_from(version.major).ok()?, u8::try_from(version.minor).ok()?);
    let is_known = if web100 { version == (2, 4) } else { is_simulated(version) };
    is_known.then_some(SimulatedKernel { version, web100 })
}

/// Decodes `"2.4"`: the kernel whose TCP the host has in the simulator.
fn decode_kernel(reader: &mut Reader) -> Option<SimulatedKernel> {
    const HELP: &str =
        "the simulator has 2.4, 2.4-web100, and 5.0 and later; write for example \"2.4\" or \"6.1\"";
    let text = reader.text("kernel")?;
    let simulated = simulated_kernel(&text);
    if simulated.is_none() {
        reader.report("kernel", format!("kernel {text:?} is not simulated"), HELP);
    }
    simulated
}

/// `CONFIG_HZ` of distributions: 100, 250, 300, 1000.
const HZ: std::ops::RangeInclusive<u64> = 100..=1000;

/// Decodes the timer ticks per second of a host with this kernel.
fn decode_hz(reader: &mut Reader, kernel: Option<SimulatedKernel>) -> Option<u32> {
    let hz = reader.integer("hz", HZ, " ticks per second")? as u32;
    if kernel.is_some_and(|kernel| kernel.version == (2, 4)) {
        reader.report("hz", "Linux 2.4 always has 100 ticks per second", "remove \"hz\"");
    }
    Some(hz)
}

/// True if the simulator has the TCP of a kernel, by major and minor version.
pub fn is_simulated(kernel: (u8, u8)) -> bool {
    kernel == (2, 4) || kernel >= (5, 0)
}

/// One interface for each link, or one without a link. The first must have an address.
fn decode_host_interfaces(name: &str, links: &[Link], reader: &mut Reader) -> Option<Vec<Interface>> {
    let mut interfaces = vec![Interface::default(); links_of(name, links).len().max(1)];
    if let Some(node) = reader.node("address") {
        interfaces[0].addresses = decode_addresses(node, "address", reader.problems());
        if node.list().is_some_and(|items| items.is_empty()) {
            reader.report("address", "\"address\" is an empty list", "write for example \"10.0.0.1/8\"");
        }
    }
    decode_interfaces(name, reader, &mut interfaces);
    if interfaces[0].addresses.is_empty() {
        let first = reader.node("interfaces").and_then(Node::table).and_then(|t| t.get("eth0"));
        if first.is_none() {
            reader.required("address", "\"10.0.0.1/8\"");
        }
        return None;
    }
    Some(interfaces)
}

fn command(key: &str, reader: &mut Reader) -> Option<String> {
    let text = reader.text(key)?;
    if text.trim().is_empty() || text.len() > MAX_COMMAND_BYTES || text.contains('\0') {
        let message =
            format!("\"{key}\" is empty, longer than {MAX_COMMAND_BYTES} bytes, or has a NUL character");
        reader.report(key, message, format!("write for example {key} = \"ping -c1 10.0.0.2\""));
    }
    Some(text)
}

fn decode_sysctl(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Some(table) = node.table() else {
        problems.add(node.span, format!("\"sysctl\" is a table, not {}", node.kind()));
        return settings;
    };
    for entry in &table.0 {
        check_sysctl(&entry.key, entry.key_span, problems);
        let value = match &entry.node.value {
            Value::Text(s) => s.clone(),
            Value::Integer(i) => i.to_string(),
            _ => {
                let message =
                    format!("a sysctl's value is a string or an integer, not {}", entry.node.kind());
                problems.add(entry.node.span, message);
                continue;
            }
        };
        if value.len() > MAX_SYSCTL_VALUE_BYTES || value.chars().any(|c| c.is_control() && c != '\t') {
            let help = format!("write one line of at most {MAX_SYSCTL_VALUE_BYTES} bytes");
            problems.add_help(entry.node.span, format!("this cannot be the value of {}", entry.key), help);
        }
        settings.insert(entry.key.clone(), value);
    }
    settings
}
