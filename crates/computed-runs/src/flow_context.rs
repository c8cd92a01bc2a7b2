//! The path and the buffers of a flow: context for the verdict and input of the model.

use std::collections::BTreeSet;

use model::{DatagramPackets, IpVersion, Transport};
use net::{Direction, LossUnit, PipeSpec};
use scenario::{FlowKind, FlowSpec, Host, Scenario, TcpSpec, UdpSpec};
use units::{BitRate, Time};
use verdict::{Buffer, FlowContext, Generator, PathLink, SendingDevice};

use crate::{Sysctls, sysctl_defaults};

/// Maximum size of a packet that a host with segmentation offload sends to its device (GSO_LEGACY_MAX_SIZE,
/// linux/netdevice.h).
const SUPER_PACKET_BYTES: u32 = 65_536;

/// A flow's path through the network, in both directions.
pub struct FlowPath<'a> {
    /// The link directions that data crosses, with the names of the links.
    pub forward: Vec<(&'a str, Direction, &'a PipeSpec)>,
    /// The link directions that ACKs cross.
    pub reverse: Vec<(&'a str, Direction, &'a PipeSpec)>,
    /// Two-way propagation delay and the turnaround of both hosts.
    pub rtt: Time,
    /// Two-way propagation delay.
    pub propagation: Time,
    /// Path MTU: the MTU of both hosts (of a udp flow: of its sender) after routers have reported links with
    /// a smaller MTU.
    pub mtu: u32,
    /// MTU of the sender's host, which determines the size of UDP datagrams (the path MTU does not).
    pub host_mtu: u32,
    /// IP version.
    pub ip: IpVersion,
}

impl<'a> FlowPath<'a> {
    /// The path of a flow; `None` without a path (a resolved scenario always has one).
    pub fn of(scenario: &'a Scenario, flow: &FlowSpec) -> Option<Self> {
        let directions = |from: &str, to: &str| -> Option<Vec<(&'a str, Direction, &'a PipeSpec)>> {
            let hops = scenario.path(from, to)?;
            let direction = |hop: &scenario::PathHop| {
                let link = &scenario.links[hop.link];
                (link.name.as_str(), hop.direction, link.pipe(hop.direction))
            };
            Some(hops.iter().map(direction).collect())
        };
        let forward = directions(&flow.from, &flow.to)?;
        let reverse = directions(&flow.to, &flow.from)?;
        let propagation = forward.iter().chain(&reverse).map(|(_, _, d)| d.delay.as_nanos()).sum();
        let (from, to) = (scenario.host(&flow.from)?, scenario.host(&flow.to)?);
        let (address, _) = scenario.flow_addresses(flow)?;
        let ip = if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        // A host sends datagrams up to its own MTU; TCP and the bulk transports use the smaller one of both
        // hosts.
        let largest = if matches!(flow.kind, FlowKind::Udp(_)) { from.mtu } else { from.mtu.min(to.mtu) };
        let mtu = scenario.path_mtu_from(flow, largest)?.mtu;
        let propagation = Time::from_nanos(propagation);
        let rtt = propagation + from.turnaround + to.turnaround;
        Some(FlowPath { forward, reverse, rtt, propagation, mtu, host_mtu: from.mtu, ip })
    }

    /// Time from the sender to the receiver of a datagram that is alone on the path, seconds: propagation,
    /// and transmission at each link, which forwards whole packets.
    pub fn one_way_s(&self, datagram: DatagramPackets) -> f64 {
        transit_s(&self.forward, datagram)
    }

    /// Time from the sender to the receiver and back, seconds; the reply is as large as the request.
    pub fn two_way_s(&self, request: DatagramPackets) -> f64 {
        transit_s(&self.forward, request) + transit_s(&self.reverse, request)
    }

    /// The direction that passes the fewest packets of the path's MTU per second, and its rate.
    pub fn slowest(&self) -> Option<(&'a PipeSpec, BitRate)> {
        self.slowest_with(self.mtu)
    }

    /// The same with packets of `ip_bytes`. With the same rate, a link that counts more bytes per packet is
    /// slower.
    pub fn slowest_with(&self, ip_bytes: u32) -> Option<(&'a PipeSpec, BitRate)> {
        self.forward
            .iter()
            .filter_map(|(_, _, d)| Some((*d, d.rate.mean()?, packets_per_s(d, ip_bytes)?)))
            .min_by(|(.., a), (.., b)| a.total_cmp(b))
            .map(|(direction, rate, _)| (direction, rate))
    }

    /// Whether no direction passes fewer packets of the path's MTU per second than `direction`.
    pub fn is_slowest(&self, direction: &PipeSpec) -> bool {
        let slowest = self.slowest().and_then(|(slowest, _)| packets_per_s(slowest, self.mtu));
        let own = packets_per_s(direction, self.mtu);
        own.zip(slowest).is_some_and(|(own, slowest)| own <= slowest)
    }

    /// Maximum TCP goodput on the links with this MSS.
    pub fn wire_limit_bps(&self, requested_mss: Option<u32>) -> Option<f64> {
        let mss = model::mss(self.mtu, self.ip, requested_mss);
        let headers = self.ip.header_bytes() + Transport::Tcp.header_bytes();
        let (slowest, rate) = self.slowest_with(mss + headers)?;
        Some(model::goodput_bps(rate, mss, headers, slowest.overhead))
    }

    /// Maximum UDP goodput on the links with datagrams of this size.
    pub fn datagram_limit_bps(&self, payload: u32) -> Option<f64> {
        self.forward
            .iter()
            .filter_map(|(_, _, d)| {
                Some(model::datagram_goodput_bps(d.rate.mean()?, payload, self.mtu, self.ip, d.overhead))
            })
            .reduce(f64::min)
    }

    /// Maximum XCP goodput on the links with full-sized packets.
    pub fn xcp_limit_bps(&self) -> Option<f64> {
        let headers = self.ip.header_bytes() + net::XCP_HEADER_BYTES;
        let payload = self.mtu.saturating_sub(headers);
        let (slowest, rate) = self.slowest_with(payload + headers)?;
        Some(model::goodput_bps(rate, payload, headers, slowest.overhead))
    }

    /// Maximum goodput of a udt, tsunami, stream or quic flow on the links.
    fn bulk_limit_bps(&self, scenario: &Scenario, flow: &FlowSpec) -> Option<f64> {
        let plan = engine_common::bulk_plan(scenario, flow, 0)?;
        let payload = plan.payload_bytes();
        // A datagram larger than the path's MTU travels in fragments.
        let share = f64::from(payload) / f64::from(payload + plan.header_bytes());
        Some(self.datagram_limit_bps(payload + plan.header_bytes())? * share)
    }

    /// Payload of a udp flow's datagrams.
    pub fn datagram_payload(&self, udp: &UdpSpec) -> u32 {
        let max_payload = model::payload_bytes(self.host_mtu, self.ip, Transport::Udp);
        udp.packet.map_or(max_payload, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX))
    }

    /// Bytes that the queue of the slowest link holds, with packets of the path's MTU.
    pub fn queue_bytes(&self) -> Option<u64> {
        self.queue_bytes_of(self.slowest()?.0)
    }

    /// Bytes that the queue of `direction` holds, with packets of the path's MTU.
    pub fn queue_bytes_of(&self, direction: &PipeSpec) -> Option<u64> {
        direction.queue.bytes(u64::from(self.mtu + direction.overhead)).map(|bytes| bytes.0)
    }

    /// Probability that a segment is lost or corrupted on the forward path: receivers discard corrupted ones.
    /// The loss of a whole super-packet counts as one.
    pub fn loss(&self) -> f64 {
        let lost = |d: &PipeSpec| match d.loss_unit {
            LossUnit::Segment => d.loss.mean(),
            LossUnit::SuperPacket => d.loss.mean() / f64::from((SUPER_PACKET_BYTES / self.mtu.max(1)).max(1)),
        };
        1.0 - self.forward.iter().map(|(_, _, d)| (1.0 - lost(d)) * (1.0 - d.corrupt)).product::<f64>()
    }
}

/// Packets of `ip_bytes` that a direction passes per second, with the bytes that it counts in addition;
/// `None` if it has no rate.
fn packets_per_s(direction: &PipeSpec, ip_bytes: u32) -> Option<f64> {
    let bytes = (u64::from(ip_bytes) + u64::from(direction.overhead)).max(1);
    Some(direction.rate.mean()?.bytes_per_sec_f64() / bytes as f64)
}

/// Time until the last packet of a datagram, whose packets are sent at once, has crossed these link
/// directions, seconds.
fn transit_s(directions: &[(&str, Direction, &PipeSpec)], datagram: DatagramPackets) -> f64 {
    let mut arrivals = vec![0.0; datagram.count as usize];
    for (_, _, direction) in directions {
        let mut free = 0.0_f64;
        for (arrival, ip_bytes) in arrivals.iter_mut().zip(datagram.sizes()) {
            let bytes = f64::from(ip_bytes) + f64::from(direction.overhead);
            let transmission = direction.rate.mean().map_or(0.0, |rate| bytes / rate.bytes_per_sec_f64());
            free = free.max(*arrival) + transmission;
            *arrival = free + direction.delay.as_secs_f64();
        }
    }
    arrivals.last().copied().unwrap_or_default()
}

/// The context of a flow for the verdict.
pub fn flow_context(sysctls: Sysctls<'_>, scenario: &Scenario, flow: &FlowSpec) -> FlowContext {
    let mut context = FlowContext {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        ..FlowContext::default()
    };
    if let Some(path) = FlowPath::of(scenario, flow) {
        context.wire_limit_bps = match &flow.kind {
            FlowKind::Tcp(tcp) => path.wire_limit_bps(tcp.mss),
            FlowKind::Udp(udp) => path.datagram_limit_bps(path.datagram_payload(udp)),
            FlowKind::Xcp(_) => path.xcp_limit_bps(),
            FlowKind::Udt(_) | FlowKind::Tsunami(_) | FlowKind::Stream(_) | FlowKind::Quic(_) => {
                path.bulk_limit_bps(scenario, flow)
            }
            FlowKind::Ping(_) => return context,
        };
        context.path = path_links(scenario, &path.forward);
    }
    if let Some(plan) = engine_common::bulk_plan(scenario, flow, 0) {
        context.is_rate_controlled = !plan.has_congestion_control();
        context.pacing_bps = plan.requested_payload_bps();
        context.pacing_option = "the flow's rate".into();
        context.generator = Some(Generator::default());
        if let FlowKind::Quic(quic) = &flow.kind {
            let window = quic.receive_buffer.map_or(bulk::flow::QUIC_WINDOW_BYTES.into(), |buffer| buffer.0);
            context.receive_buffer = Buffer::FlowControl(window);
        }
        return context;
    }
    let FlowKind::Tcp(tcp) = &flow.kind else { return context };
    context.device = SendingDevice {
        queue_packets: scenario.host(&flow.from).and_then(|host| host.nic.tx_queue),
        round_trip_packets: device_round_trip_packets(scenario, flow),
        ..SendingDevice::default()
    };
    context.pacing_bps = tcp.pacing.map(BitRate::as_f64);
    context.pacing_option = "the flow's pacing".into();
    context.generator = Some(Generator {
        write_bps: tcp.write_rate.map(BitRate::as_f64),
        read_bps: tcp.read_rate.map(BitRate::as_f64),
        reader_pauses: tcp.reader_stops.is_some(),
        uses_file: false,
        size_bytes: tcp.size.map(|size| size.0),
    });
    (context.send_buffer, context.receive_buffer) = buffers(sysctls, scenario, flow, tcp);
    context
}

/// The link directions that data of any flow crosses.
pub(crate) struct DataPaths<'a>(BTreeSet<(&'a str, bool)>);

impl<'a> DataPaths<'a> {
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let flows = scenario.flows.iter().filter(|flow| !matches!(flow.kind, FlowKind::Ping(_)));
        let paths = flows.filter_map(|flow| FlowPath::of(scenario, flow));
        DataPaths(
            paths.flat_map(|path| path.forward).map(|(name, direction, _)| key(name, direction)).collect(),
        )
    }

    /// The link directions with a rate that a flow's ACKs cross, and no flow's data.
    pub(crate) fn ack_path(&self, scenario: &'a Scenario, flow: &FlowSpec) -> Vec<PathLink> {
        let Some(mut path) = FlowPath::of(scenario, flow) else { return Vec::new() };
        path.reverse.retain(|(name, direction, _)| !self.0.contains(&key(name, *direction)));
        path_links(scenario, &path.reverse)
    }
}

/// A link's direction, in an order for sets.
fn key(link: &str, direction: Direction) -> (&str, bool) {
    (link, direction == Direction::Forward)
}

/// The directions that have a rate.
fn path_links(scenario: &Scenario, directions: &[(&str, Direction, &PipeSpec)]) -> Vec<PathLink> {
    let link = |(name, direction, pipe): &(&str, Direction, &PipeSpec)| {
        Some(PathLink {
            name: (*name).into(),
            direction: direction.name().into(),
            rate_bps: pipe.rate.mean()?.as_f64(),
            rate_changes: rate_changes(scenario, name, *direction),
        })
    };
    directions.iter().filter_map(link).collect()
}

/// How busy the sending and the receiving threads of a flow were (shares of the time, 0 to 1), as sentences.
pub fn describe_host_use(from: &str, to: &str, busy: [Option<f64>; 2]) -> Vec<String> {
    [("sender", from, busy[0]), ("receiver", to, busy[1])]
        .into_iter()
        .filter_map(|(what, host, busy)| {
            let percent = busy? * 100.0;
            Some(format!("the {what} on {host} ran, or waited for a CPU, {percent:.0} % of the time"))
        })
        .collect()
}

/// The later rates of a link's direction, each with its time in microseconds. A direction without a rate is
/// infinitely fast.
fn rate_changes(scenario: &Scenario, name: &str, direction: Direction) -> Vec<(i64, f64)> {
    let link = scenario.links.iter().find(|link| link.name == name);
    let changes = link.into_iter().flat_map(|link| &link.changes).map(|change| {
        let pipe = if direction == Direction::Forward { &change.forward } else { &change.backward };
        let rate = pipe.rate.mean().map_or(f64::INFINITY, BitRate::as_f64);
        (change.at.as_micros() as i64, rate)
    });
    changes.collect()
}

/// The transmit queue that the sending host's link needs, packets.
fn device_round_trip_packets(scenario: &Scenario, flow: &FlowSpec) -> Option<u64> {
    let path = FlowPath::of(scenario, flow)?;
    let (_, _, own_link) = path.forward.first()?;
    let frame_bytes = path.mtu + own_link.overhead;
    Some(model::transmit_queue_packets(own_link.rate.mean()?, path.rtt, frame_bytes))
}

/// The sender's and the receiver's buffers.
pub fn buffers(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    flow: &FlowSpec,
    tcp: &TcpSpec,
) -> (Buffer, Buffer) {
    let buffer = |requested: Option<units::Bytes>, host: &str, name: &str| match requested {
        Some(bytes) => Buffer::Fixed(bytes.0),
        None => {
            scenario.host(host).and_then(|h| tuned(sysctls, h, name)).map_or(Buffer::Unknown, Buffer::Tuned)
        }
    };
    (
        buffer(tcp.send_buffer, &flow.from, "net.ipv4.tcp_wmem"),
        buffer(tcp.receive_buffer, &flow.to, "net.ipv4.tcp_rmem"),
    )
}

/// The three values of a host's sysctl (minimum, default, maximum): the host's, else the machine's, as a new
/// namespace has them.
fn tuned(sysctls: Sysctls<'_>, host: &Host, name: &str) -> Option<[u64; 3]> {
    let text = setting(sysctls, Some(host), name)?;
    let values: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
    values.try_into().ok()
}

/// A host's sysctl: the host's value, else the default of Linux 2.4 if the scenario simulates it, else the
/// machine's value.
pub fn setting(sysctls: Sysctls<'_>, host: Option<&Host>, name: &str) -> Option<String> {
    let is_linux_24 = host.is_some_and(|host| host.kernel == Some((2, 4)));
    match host.and_then(|host| host.sysctl.get(name)) {
        Some(text) => Some(text.clone()),
        None if is_linux_24 => sysctl_defaults::linux_default((2, 4), name),
        None => sysctls(name),
    }
}
