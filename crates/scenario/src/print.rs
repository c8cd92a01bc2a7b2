//! Prints a resolved scenario as a scenario file with exact values: it parses to an equal scenario.

use std::fmt::Write;

use net::PipeSpec;
use units::{Picoseconds, Time};

use crate::{
    cc::{Cc, CcValues},
    decode_hosts::WEB100_SUFFIX,
    host_cost::HostCost,
    print_pipe::{Detail, inline},
    quote::{quote, quote_lines},
    types::{
        BurstLengths, FlowKind, FlowSpec, Host, Interface, Link, Nic, Router, Scenario, StaticRoute,
        SysctlDefaults,
    },
};

impl Scenario {
    /// The scenario as TOML. Parsed under the same file name, it resolves to an equal scenario.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        put(&mut out, "title", quote(&self.title));
        if self.duration > Time::ZERO {
            put(&mut out, "duration", quote(self.duration));
        }
        put(&mut out, "sample", quote(self.sample));
        put(&mut out, "seed", self.seed);
        put(&mut out, "repeat", self.repeat);
        put_some(&mut out, "sysctl", self.sysctl.map(|of| quote(sysctl_defaults(of))));
        if self.fixed_neighbours {
            put(&mut out, "fixed_neighbours", true);
        }
        if !self.captures.is_empty() {
            let names: Vec<String> = self.captures.iter().map(quote).collect();
            put(&mut out, "capture", format!("[{}]", names.join(", ")));
        }
        self.hosts.iter().for_each(|h| put_host(&mut out, h));
        if !self.switches.is_empty() {
            let names: Vec<String> = self.switches.iter().map(quote).collect();
            out.push_str("\n[switches]\n");
            put(&mut out, "names", format!("[{}]", names.join(", ")));
        }
        self.routers.iter().for_each(|r| put_router(&mut out, r));
        self.links.iter().for_each(|l| put_link(&mut out, l));
        self.flows.iter().for_each(|f| put_flow(&mut out, f));
        out
    }
}

fn sysctl_defaults(of: SysctlDefaults) -> String {
    match of {
        SysctlDefaults::Machine => "machine".into(),
        SysctlDefaults::Linux((major, minor)) => format!("{major}.{minor}"),
    }
}

fn put_host(out: &mut String, host: &Host) {
    let _ = writeln!(out, "\n[hosts.{}]", host.name);
    put(out, "address", addresses(&host.interfaces[..1.min(host.interfaces.len())]));
    put_interfaces(out, &host.interfaces, 1);
    put(out, "mtu", host.mtu);
    let suffix = if host.web100 { WEB100_SUFFIX } else { "" };
    put_some(out, "kernel", host.kernel.map(|(major, minor)| quote(format!("{major}.{minor}{suffix}"))));
    put_some(out, "hz", host.hz);
    put_some(out, "local_congestion", (!host.local_congestion).then_some(false));
    put_some(out, "turnaround", (host.turnaround > Time::ZERO).then(|| quote(host.turnaround)));
    put_some(out, "receive_jitter", host.receive_jitter.map(quote));
    put_cost(out, &host.cost);
    put_routes(out, &host.routes);
    put_nic(out, &host.nic);
    put_some(out, "at", host.at.as_ref().map(quote));
    put_some(out, "start", host.start.as_ref().map(quote));
    put_some(out, "stop", host.stop.as_ref().map(quote));
    if !host.sysctl.is_empty() {
        let settings: Vec<String> =
            host.sysctl.iter().map(|(k, v)| format!("{} = {}", quote(k), quote(v))).collect();
        put(out, "sysctl", format!("{{ {} }}", settings.join(", ")));
    }
}

fn put_router(out: &mut String, router: &Router) {
    let _ = writeln!(out, "\n[routers.{}]", router.name);
    put_interfaces(out, &router.interfaces, 0);
    put_routes(out, &router.routes);
}

/// The addresses of one interface: a string, or a list.
fn addresses(interfaces: &[Interface]) -> String {
    let all: Vec<String> = interfaces.iter().flat_map(|i| &i.addresses).map(quote).collect();
    match &all[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

fn put_interfaces(out: &mut String, interfaces: &[Interface], first: usize) {
    let numbered = interfaces.iter().enumerate().skip(first).filter(|(_, i)| !i.addresses.is_empty());
    let all: Vec<String> =
        numbered.map(|(n, i)| format!("eth{n} = {}", addresses(std::slice::from_ref(i)))).collect();
    if !all.is_empty() {
        put(out, "interfaces", format!("{{ {} }}", all.join(", ")));
    }
}

fn put_routes(out: &mut String, routes: &[StaticRoute]) {
    let all: Vec<String> =
        routes.iter().map(|r| format!("{{ to = {}, via = {} }}", quote(r.to), quote(r.via))).collect();
    if !all.is_empty() {
        put(out, "routes", format!("[{}]", all.join(", ")));
    }
}

fn put_nic(out: &mut String, nic: &Nic) {
    let fields = [
        nic.tx_queue.map(|n| format!("tx_queue = {n}")),
        nic.gso.map(|bytes| format!("gso = {}", quote(bytes))),
        nic.gso_segs.map(|n| format!("gso_segs = {n}")),
        nic.software_gso.then(|| "segmentation = \"software\"".into()),
        nic.gro.map(|n| format!("gro = {n}")),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    if !fields.is_empty() {
        put(out, "nic", format!("{{ {} }}", fields.join(", ")));
    }
}

fn put_cost(out: &mut String, cost: &HostCost) {
    let time = |name: &str, time: Picoseconds| (time.0 > 0).then(|| format!("{name} = {}", quote(time)));
    let delay = |name: &str, time: Time| (time > Time::ZERO).then(|| format!("{name} = {}", quote(time)));
    let count = |name: &str, count: Option<u32>| count.map(|count| format!("{name} = {count}"));
    let fields = [
        time("per_packet", cost.per_packet),
        time("per_frame", cost.per_frame),
        time("per_byte", cost.per_byte),
        time("per_interrupt", cost.per_interrupt),
        delay("rx_delay", cost.rx.delay),
        count("rx_frames", cost.rx.frames),
        delay("tx_delay", cost.tx.delay),
        count("tx_frames", cost.tx.frames),
        cost.bus.map(|rate| format!("bus = {}", quote(rate))),
        count("rx_queue", cost.rx_queue),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    if !fields.is_empty() {
        put(out, "cost", format!("{{ {} }}", fields.join(", ")));
    }
}

fn put_link(out: &mut String, link: &Link) {
    out.push_str("\n[[links]]\n");
    put(out, "name", quote(&link.name));
    put(out, "ends", format!("[{}, {}]", quote(&link.ends[0]), quote(&link.ends[1])));
    for (side, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
        if *direction != PipeSpec::default() {
            put(out, side, inline(direction, Detail::NonDefault));
        }
    }
    for change in &link.changes {
        out.push_str("[[links.changes]]\n");
        put(out, "at", quote(change.at));
        put(out, "forward", inline(&change.forward, Detail::All));
        put(out, "backward", inline(&change.backward, Detail::All));
    }
}

fn put_flow(out: &mut String, flow: &FlowSpec) {
    out.push_str("\n[[flows]]\n");
    put(out, "name", quote(&flow.name));
    put(out, "from", quote(&flow.from));
    put(out, "to", quote(&flow.to));
    put(out, "kind", quote(flow.kind.name()));
    put(out, "start", quote(flow.start));
    put_some(out, "stop", flow.stop.map(quote));
    match &flow.kind {
        FlowKind::Tcp(tcp) => {
            put_some(out, "cc", tcp.cc.as_ref().map(cc));
            put_some(out, "size", tcp.size.map(quote));
            put_some(out, "mss", tcp.mss);
            put_some(out, "send_buffer", tcp.send_buffer.map(quote));
            put_some(out, "receive_buffer", tcp.receive_buffer.map(quote));
            put_some(out, "pacing", tcp.pacing.map(quote));
            put_some(out, "read_rate", tcp.read_rate.map(quote));
            put_some(out, "write_rate", tcp.write_rate.map(quote));
            put_some(out, "write_size", tcp.write_size.map(quote));
            put_some(out, "reader_stops", tcp.reader_stops.map(quote));
            put_some(out, "reader_resumes", tcp.reader_resumes.map(quote));
        }
        FlowKind::Ping(ping) => {
            put(out, "interval", quote(ping.interval));
            put_some(out, "count", ping.count);
            put(out, "payload", quote(ping.payload));
        }
        FlowKind::Udp(udp) => {
            put(out, "rate", quote(udp.rate));
            put_some(out, "packet", udp.packet.map(quote));
            put_some(out, "size", udp.size.map(quote));
            if let Some(bursts) = udp.bursts {
                put(out, "on", quote(bursts.on));
                put(out, "off", quote(bursts.off));
                put(out, "random", bursts.lengths == BurstLengths::Exponential);
            }
        }
        FlowKind::Xcp(xcp) => put_some(out, "size", xcp.size.map(quote)),
        FlowKind::Udt(udt) => {
            put_some(out, "size", udt.size.map(quote));
            put(out, "control", quote(if udt.sabul { "sabul" } else { "udt" }));
            put_some(out, "rate", udt.rate.map(quote));
            put_some(out, "tolerate_loss", udt.tolerate_loss.map(decimal));
            put_some(out, "receive_buffer", udt.receive_buffer.map(quote));
        }
        FlowKind::Quic(quic) => {
            put_some(out, "size", quic.size.map(quote));
            put_some(out, "cc", quic.cc.as_ref().map(cc));
            put_some(out, "receive_buffer", quic.receive_buffer.map(quote));
        }
        FlowKind::Tsunami(tsunami) => {
            put_some(out, "size", tsunami.size.map(quote));
            put_some(out, "rate", tsunami.rate.map(quote));
            put_some(out, "block", tsunami.block.map(quote));
            put_some(out, "error_threshold", tsunami.error_threshold.map(decimal));
        }
        FlowKind::Stream(stream) => {
            put(out, "rate", quote(stream.rate));
            put_some(out, "packet", stream.packet.map(quote));
            put_some(out, "size", stream.size.map(quote));
            put(out, "deadline", quote(stream.deadline));
            put(out, "repair", stream.repair);
            put(out, "tolerate_loss", decimal(stream.tolerate_loss));
        }
    }
}

/// `{:?}` prints all digits of a share and a decimal point, so it parses as a TOML float.
fn decimal(share: f64) -> String {
    format!("{share:?}")
}

/// A congestion control; a file includes its text.
fn cc(cc: &Cc) -> String {
    let values =
        |set: &CcValues| set.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>();
    let mut fields = Vec::new();
    match cc {
        Cc::Named(name) => return quote(name),
        Cc::Own { name, .. } => fields.push(format!("name = {}", quote(name))),
        Cc::File { path, text, name, .. } => {
            fields.push(format!("file = {}", quote(path)));
            fields.extend(name.as_ref().map(|name| format!("name = {}", quote(name))));
            fields.push(format!("text = {}", quote_lines(text)));
        }
    }
    if !cc.set().is_empty() {
        fields.push(format!("set = {{ {} }}", values(cc.set()).join(", ")));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn put(out: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{key} = {value}");
}

fn put_some(out: &mut String, key: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        put(out, key, value);
    }
}
