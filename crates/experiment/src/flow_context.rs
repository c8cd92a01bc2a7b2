//! What the verdict and the model need to know of a flow beside its samples: its path and its buffers.

use std::fs;

use model::{Ip, Transport};
use net::{LossUnit, PipeSpec};
use scenario::{Flow, Host, Kind, Scenario, Tcp, Udp};
use units::{BitRate, Time};
use verdict::{Buffer, FlowContext, Generator, PathLink};

/// The most that a host with segmentation offload hands over at once (GSO_LEGACY_MAX_SIZE, linux/netdevice.h).
const SUPER_PACKET_BYTES: u32 = 65_536;

/// A flow's way through the network and back.
pub struct FlowPath<'a> {
    /// The directions of links that data crosses, with the links' names.
    pub there: Vec<(&'a str, bool, &'a PipeSpec)>,
    /// Two-way propagation delay.
    pub rtt: Time,
    /// MTU that both hosts keep to once routers have reported smaller links.
    pub mtu: u32,
    /// MTU of the sender's host, which knows nothing else when it makes a datagram.
    pub host_mtu: u32,
    /// IP version.
    pub ip: Ip,
}

impl<'a> FlowPath<'a> {
    /// The path of a flow; `None` where there is none (a resolved scenario always has one).
    pub fn of(scenario: &'a Scenario, flow: &Flow) -> Option<Self> {
        let directions = |from: &str, to: &str| -> Option<Vec<(&'a str, bool, &'a PipeSpec)>> {
            let hops = scenario.path(from, to)?;
            let direction = |hop: &scenario::Hop| {
                let link = &scenario.links[hop.link];
                (link.name.as_str(), hop.reversed, link.direction(hop.reversed))
            };
            Some(hops.iter().map(direction).collect())
        };
        let there = directions(&flow.from, &flow.to)?;
        let back = directions(&flow.to, &flow.from)?;
        let rtt = there.iter().chain(&back).map(|(_, _, d)| d.delay.0).sum();
        let (from, to) = (scenario.host(&flow.from)?, scenario.host(&flow.to)?);
        let (address, _) = scenario.flow_addresses(flow)?;
        let ip = if address.is_ipv4() { Ip::V4 } else { Ip::V6 };
        let mtu = scenario.path_mtu_from(flow, from.mtu.min(to.mtu))?.mtu;
        Some(FlowPath { there, rtt: Time(rtt), mtu, host_mtu: from.mtu, ip })
    }

    /// The slowest direction that has a rate.
    pub fn slowest(&self) -> Option<(&'a PipeSpec, BitRate)> {
        self.there.iter().filter_map(|(_, _, d)| Some((*d, d.rate.mean()?))).min_by_key(|(_, rate)| *rate)
    }

    /// Goodput of TCP that the links allow with this MSS.
    pub fn wire_limit_bps(&self, asked_mss: Option<u32>) -> Option<f64> {
        let mss = model::mss(self.mtu, self.ip, asked_mss);
        let headers = self.ip.header_bytes() + Transport::Tcp.header_bytes();
        self.there
            .iter()
            .filter_map(|(_, _, d)| Some(model::goodput_bps(d.rate.mean()?, mss, headers, d.overhead)))
            .reduce(f64::min)
    }

    /// Payload that the links allow to datagrams of this size.
    pub fn datagram_limit_bps(&self, payload: u32) -> Option<f64> {
        self.there
            .iter()
            .filter_map(|(_, _, d)| {
                Some(model::datagram_goodput_bps(d.rate.mean()?, payload, self.mtu, self.ip, d.overhead))
            })
            .reduce(f64::min)
    }

    /// Goodput that the links allow to XCP with full packets.
    pub fn xcp_limit_bps(&self) -> Option<f64> {
        let headers = self.ip.header_bytes() + sim::XCP_HEADER_BYTES;
        let payload = self.mtu.saturating_sub(headers);
        self.there
            .iter()
            .filter_map(|(_, _, d)| Some(model::goodput_bps(d.rate.mean()?, payload, headers, d.overhead)))
            .reduce(f64::min)
    }

    /// Payload of a udp flow's datagrams.
    pub fn datagram_payload(&self, udp: &Udp) -> u32 {
        let most = model::payload_bytes(self.host_mtu, self.ip, Transport::Udp);
        udp.packet.map_or(most, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX))
    }

    /// Bytes that the queue of the slowest link holds, with packets of the path's MTU.
    pub fn queue_bytes(&self) -> Option<u64> {
        self.queue_bytes_of(self.slowest()?.0)
    }

    /// Bytes that the queue of `direction` holds, with packets of the path's MTU.
    pub fn queue_bytes_of(&self, direction: &PipeSpec) -> Option<u64> {
        direction.queue.bytes(u64::from(self.mtu + direction.overhead)).map(|bytes| bytes.0)
    }

    /// How often losses happen on the way there, by segment: super-packets that are lost whole are one loss each.
    pub fn loss(&self) -> f64 {
        let per_segment = |d: &PipeSpec| match d.loss_unit {
            LossUnit::Segment => d.loss.mean(),
            LossUnit::SuperPacket => d.loss.mean() / f64::from((SUPER_PACKET_BYTES / self.mtu.max(1)).max(1)),
        };
        1.0 - self.there.iter().map(|(_, _, d)| 1.0 - per_segment(d)).product::<f64>()
    }
}

/// The verdict's view of a flow.
pub fn flow_context(scenario: &Scenario, flow: &Flow) -> FlowContext {
    let mut context = FlowContext {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        ..FlowContext::default()
    };
    if let Some(path) = FlowPath::of(scenario, flow) {
        context.wire_limit_bps = match &flow.kind {
            Kind::Tcp(tcp) => path.wire_limit_bps(tcp.mss),
            Kind::Udp(udp) => path.datagram_limit_bps(path.datagram_payload(udp)),
            Kind::Xcp(_) => path.xcp_limit_bps(),
            Kind::Ping(_) => return context,
        };
        context.path = path
            .there
            .iter()
            .filter_map(|(name, reversed, direction)| {
                Some(PathLink {
                    name: (*name).into(),
                    direction: if *reversed { "backward" } else { "forward" }.into(),
                    rate_bps: direction.rate.mean()?.as_f64(),
                })
            })
            .collect();
    }
    let Kind::Tcp(tcp) = &flow.kind else { return context };
    context.pacing_bps = tcp.pacing.map(BitRate::as_f64);
    context.pacing_option = "the flow's pacing".into();
    context.generator = Some(Generator {
        write_bps: tcp.write_rate.map(BitRate::as_f64),
        read_bps: tcp.read_rate.map(BitRate::as_f64),
        reader_pauses: tcp.reader_stops.is_some(),
        uses_file: false,
        size_bytes: tcp.size.map(|size| size.0),
    });
    (context.send_buffer, context.receive_buffer) = buffers(scenario, flow, tcp);
    context
}

/// The sender's and the receiver's buffers.
pub fn buffers(scenario: &Scenario, flow: &Flow, tcp: &Tcp) -> (Buffer, Buffer) {
    let buffer = |asked: Option<units::Bytes>, host: &str, name: &str| match asked {
        Some(asked) => Buffer::Fixed(asked.0),
        None => scenario.host(host).and_then(|h| tuned(h, name)).map_or(Buffer::Unknown, Buffer::Tuned),
    };
    (
        buffer(tcp.send_buffer, &flow.from, "net.ipv4.tcp_wmem"),
        buffer(tcp.receive_buffer, &flow.to, "net.ipv4.tcp_rmem"),
    )
}

/// A host's three values of a setting: its own, else the machine's, which namespaces begin with.
fn tuned(host: &Host, name: &str) -> Option<[u64; 3]> {
    let text = setting(Some(host), name)?;
    let values: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
    values.try_into().ok()
}

/// A host's setting: its own, else that of the Linux 2.4 which the scenario gives it, else the machine's.
pub fn setting(host: Option<&Host>, name: &str) -> Option<String> {
    let old = host.is_some_and(|host| host.kernel == Some((2, 4)));
    match host.and_then(|host| host.sysctl.get(name)) {
        Some(text) => Some(text.clone()),
        None if old => setting_24(name),
        None => fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok(),
    }
}

/// What Linux 2.4 begins with; its congestion control is in the stack.
fn setting_24(name: &str) -> Option<String> {
    let config = tcp::Config::linux24();
    let three = |[least, default, most]: [u32; 3]| format!("{least} {default} {most}");
    match name {
        "net.ipv4.tcp_congestion_control" => Some("reno".into()),
        "net.ipv4.tcp_rmem" => Some(three(config.rmem)),
        "net.ipv4.tcp_wmem" => Some(three(config.wmem)),
        _ => None,
    }
}
