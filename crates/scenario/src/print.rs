//! A resolved scenario as a file again, with every value exact: it parses to an equal scenario.

use std::fmt::Write;

use net::{LossModel, PipeSpec, QueueLimit, Rate};

use crate::types::{Flow, Host, Kind, Link, Scenario};

impl Scenario {
    /// The scenario as TOML. Parsed under the same file name, it resolves to an equal scenario.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        put(&mut out, "title", quote(&self.title));
        put(&mut out, "duration", quote(self.duration));
        put(&mut out, "sample", quote(self.sample));
        put(&mut out, "seed", self.seed);
        put(&mut out, "repeat", self.repeat);
        self.hosts.iter().for_each(|h| put_host(&mut out, h));
        if !self.switches.is_empty() {
            let names: Vec<String> = self.switches.iter().map(quote).collect();
            out.push_str("\n[switches]\n");
            put(&mut out, "names", format!("[{}]", names.join(", ")));
        }
        self.links.iter().for_each(|l| put_link(&mut out, l));
        self.flows.iter().for_each(|f| put_flow(&mut out, f));
        out
    }
}

fn put_host(out: &mut String, host: &Host) {
    let _ = writeln!(out, "\n[hosts.{}]", host.name);
    put(out, "address", quote(host.cidr()));
    put(out, "mtu", host.mtu);
    if !host.sysctl.is_empty() {
        let settings: Vec<String> =
            host.sysctl.iter().map(|(k, v)| format!("{} = {}", quote(k), quote(v))).collect();
        put(out, "sysctl", format!("{{ {} }}", settings.join(", ")));
    }
}

fn put_link(out: &mut String, link: &Link) {
    out.push_str("\n[[links]]\n");
    put(out, "name", quote(&link.name));
    put(out, "ends", format!("[{}, {}]", quote(&link.ends[0]), quote(&link.ends[1])));
    for (side, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
        if *direction != PipeSpec::default() {
            put(out, side, inline(direction));
        }
    }
}

pub(crate) fn inline(direction: &PipeSpec) -> String {
    let mut fields = Vec::new();
    if let Rate::Constant(rate) = direction.rate {
        fields.push(format!("rate = {}", quote(rate)));
    }
    fields.push(format!("delay = {}", quote(direction.delay)));
    match direction.queue {
        QueueLimit::Unlimited => {}
        QueueLimit::Bytes(bytes) => fields.push(format!("queue = {}", quote(bytes))),
        QueueLimit::Packets(packets) => fields.push(format!("queue = \"{packets}p\"")),
    }
    if let LossModel::Independent(loss) = direction.loss {
        // {:?} keeps every digit and the point, so it stays a TOML float.
        fields.push(format!("loss = {loss:?}"));
    }
    if let Some(burst) = direction.burst {
        fields.push(format!("burst = {}", quote(burst)));
    }
    fields.push(format!("overhead = {}", direction.overhead));
    format!("{{ {} }}", fields.join(", "))
}

fn put_flow(out: &mut String, flow: &Flow) {
    out.push_str("\n[[flows]]\n");
    put(out, "name", quote(&flow.name));
    put(out, "from", quote(&flow.from));
    put(out, "to", quote(&flow.to));
    put(out, "kind", quote(flow.kind.name()));
    put(out, "start", quote(flow.start));
    put_some(out, "stop", flow.stop.map(quote));
    match &flow.kind {
        Kind::Tcp(tcp) => {
            put_some(out, "cc", tcp.cc.as_ref().map(quote));
            put_some(out, "size", tcp.size.map(quote));
            put_some(out, "mss", tcp.mss);
            put_some(out, "send_buffer", tcp.send_buffer.map(quote));
            put_some(out, "receive_buffer", tcp.receive_buffer.map(quote));
            put_some(out, "pacing", tcp.pacing.map(quote));
            put_some(out, "read_rate", tcp.read_rate.map(quote));
            put_some(out, "write_rate", tcp.write_rate.map(quote));
        }
        Kind::Ping(ping) => {
            put(out, "interval", quote(ping.interval));
            put_some(out, "count", ping.count);
            put(out, "payload", quote(ping.payload));
        }
    }
}

fn put(out: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{key} = {value}");
}

fn put_some(out: &mut String, key: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        put(out, key, value);
    }
}

/// A TOML string on one line. (Quantities of `units` print exactly.)
fn quote(value: impl std::fmt::Display) -> String {
    let mut quoted = String::from('"');
    for c in value.to_string().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
