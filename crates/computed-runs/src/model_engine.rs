//! The model as an engine: closed forms for each flow, from the scenario and the kernel's version alone.

mod scope;
mod small_sizes;
#[cfg(test)]
mod tests;

pub use scope::ignored as ignored_effect;

use std::str::FromStr;

use model::{
    Aimd, CompetingFlow, ControlLaw, DatagramPackets, DeviceQueue, PathInputs, Prediction, SocketBuffer,
    Transport, buffer_defaults, predict,
};
use net::{Discipline, PipeSpec};
use scenario::{Cc, EngineKind, FlowKind, FlowSpec, Host, PathMtu, Scenario, TcpSpec, UdpSpec, XcpSpec};
use schema::{Cause, FlowSummary, Limited, RunSummary};
use units::{BitRate, Bytes, KernelVersion, Time};

use crate::{
    Sysctls,
    cc_law::control_law,
    congestion::{default_cc, settings},
    flow_context::{FlowPath, buffers, setting},
    host_costs::busy_hosts,
    nothing_arrived,
};

/// Assumed if the kernel's version is unknown.
pub const FALLBACK_KERNEL: KernelVersion = KernelVersion { major: 6, minor: 18, patch: 0 };
/// Since this version a window grows per acknowledged segment, not per ACK (`tcp_cong_avoid_ai`,
/// net/ipv4/tcp_cong.c).
const FIRST_KERNEL_COUNTING_SEGMENTS: KernelVersion = KernelVersion { major: 4, minor: 0, patch: 0 };
/// Since this version TCP does not fill its own device's queue (TCP small queues, net/ipv4/tcp_output.c).
const FIRST_KERNEL_WITH_SMALL_QUEUES: KernelVersion = KernelVersion { major: 3, minor: 6, patch: 0 };
/// Since this version hosts send and receive super-packets (TSO 2.5, GSO 2.6.18, GRO 2.6.29).
const FIRST_KERNEL_WITH_OFFLOADS: KernelVersion = KernelVersion { major: 2, minor: 6, patch: 0 };
/// A receiver sends an ACK for at least this number of segments (RFC 5681 section 4.2), or for a
/// super-packet.
const SEGMENTS_PER_ACK: f64 = 2.0;
/// IP bytes of an address request or its reply as a link counts them: an ARP packet has 28 after its Ethernet
/// header (RFC 826).
const ADDRESS_REQUEST_BYTES: u32 = 28;
/// Delay of a small packet inside both hosts, in addition to the path, seconds.
const HOST_TIME_S: f64 = 0.0001;

/// Without this sysctl windows stay below 64 KiB.
const WINDOW_SCALING: &str = "net.ipv4.tcp_window_scaling";
/// The sysctls that the model applies.
const SYSCTLS: [&str; 5] = [
    WINDOW_SCALING,
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mtu_probing",
];

/// Completes `summary` with the model's figures. `kernel` is the version of the kernel of hosts without the
/// key `kernel`.
pub fn run(sysctls: Sysctls<'_>, scenario: &Scenario, mut summary: RunSummary, kernel: &str) -> RunSummary {
    // An unreadable version counts as a new kernel.
    let kernel = KernelVersion::from_str(kernel).unwrap_or(FALLBACK_KERNEL);
    summary.flows = predict_flows(sysctls, scenario, kernel);
    let goodputs: Vec<f64> =
        summary.flows.iter().filter(|f| f.is_bulk_transfer()).filter_map(|f| f.goodput_bps).collect();
    summary.fairness_jain = model::jain_index(&goodputs);
    let applies = |_: &Host, name: &str| SYSCTLS.contains(&name);
    summary.quality.notes.extend(scenario.not_modelled(EngineKind::Model, applies));
    let slow_for_acks = |flow| slow_ack_link(scenario, flow, &summary.flows, kernel);
    let notes: Vec<String> = scenario.flows.iter().filter_map(slow_for_acks).collect();
    summary.quality.notes.extend(notes);
    let small = scenario.flows.iter().flat_map(|flow| small_sizes::notes(sysctls, scenario, flow, kernel));
    summary.quality.notes.extend(small);
    nothing_arrived::explain(scenario, &mut summary);
    if goodputs.len() > 1 {
        let note = "the model treats each flow as alone on its path, unless all are like Reno (AIMD) and share one slowest link";
        summary.quality.notes.push(note.into());
    }
    summary
}

/// A note on a link that is too slow for the ACKs of a TCP flow with its predicted goodput, which ignores
/// them. A receiver sends an ACK for two segments, or for a super-packet.
fn slow_ack_link(
    scenario: &Scenario,
    flow: &FlowSpec,
    flows: &[FlowSummary],
    kernel: KernelVersion,
) -> Option<String> {
    let FlowKind::Tcp(_) = flow.kind else { return None };
    let result = flows.iter().find(|result| result.name == flow.name)?;
    let path = FlowPath::of(scenario, flow)?;
    let (from, to) = (scenario.host(&flow.from)?, scenario.host(&flow.to)?);
    let has_super_packets = has_offloads(from, kernel)
        && !from.nic.has_no_super_packets(path.mtu)
        && !from.nic.software_gso
        && to.nic.gro.is_none();
    let bytes_per_s = result.steady_goodput_bps? / 8.0;
    let mss = u32::try_from(result.mss_bytes?).ok().filter(|mss| *mss > 0)?;
    let segs_per_ack = match has_super_packets {
        true => model::super_packet_segs(bytes_per_s, path.rtt, mss),
        false => SEGMENTS_PER_ACK,
    };
    let acks_per_s = bytes_per_s / (segs_per_ack * f64::from(mss));
    let ack_bytes = path.ip.header_bytes() + Transport::Tcp.header_bytes();
    let (link, ..) = path.reverse.iter().find(|(_, _, pipe)| {
        let bits_per_s = acks_per_s * f64::from(ack_bytes + pipe.overhead) * 8.0;
        pipe.rate.mean().is_some_and(|rate| rate.as_f64() < bits_per_s)
    })?;
    Some(format!("the model ignores that link {link} is too slow for the ACKs of flow {}", flow.name))
}

/// Predicts all flows; `kernel` is the kernel of hosts without the key `kernel`.
pub fn predict_flows(sysctls: Sysctls<'_>, scenario: &Scenario, kernel: KernelVersion) -> Vec<FlowSummary> {
    let mut flows: Vec<FlowSummary> =
        scenario.flows.iter().filter_map(|flow| predict_flow(sysctls, scenario, flow, kernel)).collect();
    share_bottlenecks(sysctls, scenario, kernel, &mut flows);
    flows
}

/// Limits AIMD flows that share one slowest link to their shares of it, assuming that all lose packets at the
/// same instants. Does nothing if a TCP flow is not AIMD or the flows have no common bottleneck.
fn share_bottlenecks(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    kernel: KernelVersion,
    flows: &mut [FlowSummary],
) {
    // A flow that delivers nothing takes no share.
    let competes =
        |flow: &&FlowSpec| matches!(flow.kind, FlowKind::Tcp(_)) && !is_blocked(sysctls, scenario, flow);
    let competing: Vec<&FlowSpec> = scenario.flows.iter().filter(competes).collect();
    let sharers: Vec<(&FlowSpec, FlowPath<'_>, CompetingFlow)> =
        competing.iter().filter_map(|flow| sharer(sysctls, scenario, flow, kernel)).collect();
    if sharers.len() < 2 || sharers.len() < competing.len() {
        return;
    }
    let paths: Vec<&FlowPath<'_>> = sharers.iter().map(|(_, path, _)| path).collect();
    let Some((bottleneck, rate)) = common_bottleneck(&paths) else { return };
    let shares = model::synchronous_shares(&sharers.iter().map(|(.., sharer)| *sharer).collect::<Vec<_>>());
    // The sawtooth of the sum of all windows, on the path of the flow with the largest share.
    let largest = (0..shares.len()).max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap_or_default();
    let (_, path, sharer) = &sharers[largest];
    let bdp = model::bdp_f64(rate, path.rtt);
    let queue = path.queue_bytes_of(bottleneck);
    let queue_bdps = queue.filter(|_| bdp > 0.0).map(|queue| queue as f64 / bdp);
    let utilization = queue_bdps.map_or(1.0, |queue| model::sawtooth_utilization(sharer.rule, queue));
    for ((flow, ..), share) in sharers.iter().zip(&shares) {
        let Some(result) = flows.iter_mut().find(|f| f.name == flow.name) else { continue };
        let Some(wire) = result.wire_limit_bps else { continue };
        let shared_bps = share * utilization * wire;
        // Buffers or losses can limit a flow to less than its share.
        result.goodput_bps = result.goodput_bps.map(|alone| alone.min(shared_bps));
        result.steady_goodput_bps = result.steady_goodput_bps.map(|alone| alone.min(shared_bps));
        result.evidence.push(format!(
            "shares the link with the other flows (all lose packets at the same instants): {:.0} % of the {:.0} % of the link that their sawtooth uses",
            share * 100.0,
            utilization * 100.0
        ));
    }
}

/// The first link that all paths cross and that is the slowest of each path (ties included), with its rate.
fn common_bottleneck<'a>(paths: &[&FlowPath<'a>]) -> Option<(&'a PipeSpec, BitRate)> {
    let (first, others) = paths.split_first()?;
    first.forward.iter().find_map(|(_, _, direction)| {
        let rate = direction.rate.mean().filter(|_| first.is_slowest(direction))?;
        let crossed = |path: &&FlowPath<'a>| {
            path.is_slowest(direction) && path.forward.iter().any(|(_, _, d)| std::ptr::eq(*d, *direction))
        };
        others.iter().all(crossed).then_some((*direction, rate))
    })
}

fn sharer<'a>(
    sysctls: Sysctls<'_>,
    scenario: &'a Scenario,
    flow: &'a FlowSpec,
    kernel: KernelVersion,
) -> Option<(&'a FlowSpec, FlowPath<'a>, CompetingFlow)> {
    let FlowKind::Tcp(tcp) = &flow.kind else { return None };
    let path = FlowPath::of(scenario, flow)?;
    let inputs = inputs(sysctls, scenario, flow, tcp, &path, kernel, &cc_of(sysctls, scenario, flow, tcp));
    let ControlLaw::Aimd(rule) = inputs.law else { return None };
    // Without delay only the hosts take time.
    let rtt = if path.rtt > Time::ZERO { path.rtt } else { Time::from_secs_f64(HOST_TIME_S) };
    let sharer = CompetingFlow { rule, rtt, mss: model::mss(path.mtu, path.ip, tcp.mss) };
    Some((flow, path, sharer))
}

/// The kernel of a host; `default` if it has no key `kernel`.
fn kernel_of(scenario: &Scenario, host: &str, default: KernelVersion) -> KernelVersion {
    let own = scenario.host(host).and_then(|host| host.kernel);
    own.map_or(default, |(major, minor)| KernelVersion::new(major.into(), minor.into()))
}

/// The congestion control of a flow: the flow's, else the default of its sending host.
fn cc_of(sysctls: Sysctls<'_>, scenario: &Scenario, flow: &FlowSpec, tcp: &TcpSpec) -> Cc {
    tcp.cc.clone().unwrap_or_else(|| Cc::Named(default_cc(sysctls, scenario.host(&flow.from))))
}

/// Adapts a control law to a kernel. Windows of old kernels grow per ACK, and receivers send one ACK for two
/// segments.
fn on_kernel(law: ControlLaw, kernel: KernelVersion) -> ControlLaw {
    match law {
        ControlLaw::Aimd(rule) if kernel < FIRST_KERNEL_COUNTING_SEGMENTS => {
            ControlLaw::Aimd(Aimd { increase_segs: rule.increase_segs / 2.0, ..rule })
        }
        law => law,
    }
}

fn predict_flow(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    flow: &FlowSpec,
    kernel: KernelVersion,
) -> Option<FlowSummary> {
    let path = FlowPath::of(scenario, flow)?;
    let summary = FlowSummary {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        kind: flow.kind.name().into(),
        ..FlowSummary::default()
    };
    Some(match &flow.kind {
        FlowKind::Tcp(tcp) => {
            let cc = cc_of(sysctls, scenario, flow, tcp);
            let inputs = inputs(sysctls, scenario, flow, tcp, &path, kernel, &cc);
            let summary = FlowSummary { cc: Some(cc.name().into()), cc_set: settings(&cc), ..summary };
            let result = tcp_summary(summary, &inputs, &predict(&inputs));
            if is_blocked(sysctls, scenario, flow) { blocked(scenario, flow, result) } else { result }
        }
        FlowKind::Udp(udp) => {
            let host_bps = host_ceiling(scenario, flow, &path, kernel);
            let result = udp_summary(summary, udp, &path, active_time(scenario, flow), host_bps);
            if is_blocked(sysctls, scenario, flow) { blocked(scenario, flow, result) } else { result }
        }
        FlowKind::Xcp(xcp) => {
            let host_bps = host_ceiling(scenario, flow, &path, kernel);
            let result = xcp_summary(summary, xcp, &path, active_time(scenario, flow), host_bps);
            if is_blocked(sysctls, scenario, flow) { blocked(scenario, flow, result) } else { result }
        }
        // There is no closed form for them, as the run's notes state.
        FlowKind::Udt(_) | FlowKind::Tsunami(_) | FlowKind::Stream(_) | FlowKind::Quic(_) => return None,
        FlowKind::Ping(ping) if is_blocked(sysctls, scenario, flow) => {
            let sent = ping.count.map(u64::from);
            FlowSummary { pings_sent: sent, pings_lost: sent, ..summary }
        }
        FlowKind::Ping(ping) => {
            let turnaround_s = path.rtt.minus(path.propagation).as_secs_f64();
            let hosts_s = if turnaround_s > 0.0 { turnaround_s } else { HOST_TIME_S };
            let payload = u32::try_from(ping.payload.0).unwrap_or(u32::MAX);
            let request = model::datagram_packets(payload, path.mtu, path.ip);
            let rtt_us = (path.two_way_s(request) + hosts_s) * 1e6;
            // The first echo waits for an address resolution of one round trip.
            let resolution_s = path.two_way_s(DatagramPackets::single(ADDRESS_REQUEST_BYTES)) + hosts_s;
            let resolution_us = if scenario.fixed_neighbours { 0.0 } else { resolution_s * 1e6 };
            let first = rtt_us + resolution_us;
            // One value of 1 + x and n - 1 of 1 have the mean 1 + x/n and the deviation x sqrt(n - 1) / n.
            let echoes = ping.count.map(f64::from);
            FlowSummary {
                min_rtt_us: Some(rtt_us),
                mean_rtt_us: echoes.map(|n| rtt_us + resolution_us / n),
                mdev_rtt_us: echoes.map(|n| resolution_us * (n - 1.0).sqrt() / n),
                median_rtt_us: Some(rtt_us),
                max_rtt_us: Some(first),
                first_rtt_us: Some(first),
                ..summary
            }
        }
    })
}

/// Whether no packet of a flow can arrive: a link passes none, or all packets are too large for a link that
/// does not report it.
fn is_blocked(sysctls: Sysctls<'_>, scenario: &Scenario, flow: &FlowSpec) -> bool {
    let is_dead = nothing_arrived::dead_link(scenario, flow).is_some();
    let probes_mtu = setting(sysctls, scenario.host(&flow.from), "net.ipv4.tcp_mtu_probing")
        .is_some_and(|value| value.trim() != "0")
        && matches!(flow.kind, FlowKind::Tcp(_));
    let is_black_hole =
        scenario.path_mtu(flow).is_some_and(|PathMtu { black_hole, .. }| black_hole.is_some());
    is_dead || is_black_hole && !probes_mtu
}

/// The prediction for a flow that delivers nothing. Only packets of a TCP handshake, which are small, have a
/// round-trip time on a path with a black hole.
fn blocked(scenario: &Scenario, flow: &FlowSpec, result: FlowSummary) -> FlowSummary {
    let is_connected =
        matches!(flow.kind, FlowKind::Tcp(_)) && nothing_arrived::dead_link(scenario, flow).is_none();
    let mut limited = Limited::default();
    *limited.share_mut(Cause::Loss) = 1.0;
    FlowSummary {
        goodput_bps: Some(0.0),
        steady_goodput_bps: Some(0.0),
        bytes: Some(0),
        loss_share: result.loss_share.map(|_| 1.0),
        limited: result.verdict.map_or(result.limited, |_| limited),
        limited_steady: result.verdict.map_or(result.limited_steady, |_| limited),
        verdict: result.verdict.map(|_| Cause::Loss),
        evidence: Vec::new(),
        min_rtt_us: result.min_rtt_us.filter(|_| is_connected),
        min_owd_us: None,
        ..result
    }
}

/// The model's inputs for a TCP flow.
fn inputs(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    flow: &FlowSpec,
    tcp: &TcpSpec,
    path: &FlowPath<'_>,
    default_kernel: KernelVersion,
    cc: &Cc,
) -> PathInputs {
    let kernel = kernel_of(scenario, &flow.from, default_kernel);
    let receiver_kernel = kernel_of(scenario, &flow.to, default_kernel);
    let (send, receive) = buffers(sysctls, scenario, flow, tcp);
    let default_send = buffer_defaults(kernel).tcp_wmem_max;
    let buffer = |known: verdict::Buffer, default: Bytes, fixed: fn(Bytes) -> SocketBuffer| match known {
        verdict::Buffer::Tuned([_, _, largest]) => SocketBuffer::Tuned { largest: Bytes(largest) },
        verdict::Buffer::Fixed(requested) => fixed(Bytes(requested)),
        // TCP has none.
        verdict::Buffer::FlowControl(_) | verdict::Buffer::Unknown => {
            SocketBuffer::Tuned { largest: default }
        }
    };
    let packet_bytes =
        model::mss(path.mtu, path.ip, tcp.mss) + path.ip.header_bytes() + Transport::Tcp.header_bytes();
    let slowest = path.slowest_with(packet_bytes);
    let device = device_queue(scenario, flow, path);
    // The card accepts packets no faster than its link sends them: they wait in the device's queue, not in
    // the link's.
    let own_is_slowest = path.forward.first().is_some_and(|(_, _, own)| path.is_slowest(own));
    let waits_in_device = device.is_some() && own_is_slowest;
    PathInputs {
        rate: slowest.map(|(_, rate)| rate),
        overhead: slowest.map_or(0, |(direction, _)| direction.overhead),
        queue: path.queue_bytes().map(Bytes).filter(|_| !waits_in_device),
        device: device.filter(|_| kernel < FIRST_KERNEL_WITH_SMALL_QUEUES),
        rtt: path.rtt,
        mtu: path.mtu,
        mss: tcp.mss,
        ip: path.ip,
        loss: path.loss(),
        kernel,
        receiver_kernel,
        cc: cc.name().into(),
        law: on_kernel(control_law(cc, path.rtt, path.mtu), kernel),
        receive_buffer: buffer(
            receive,
            buffer_defaults(receiver_kernel).tcp_rmem_max,
            SocketBuffer::fixed_receive,
        ),
        window_scaling: [&flow.from, &flow.to].iter().all(|host| {
            let value = setting(sysctls, scenario.host(host), WINDOW_SCALING);
            value.is_none_or(|value| value.trim() != "0")
        }),
        send_buffer: if overfills_buffer(tcp, path, kernel) {
            SocketBuffer::Tuned { largest: default_send }
        } else {
            buffer(send, default_send, SocketBuffer::fixed_send)
        },
        read_rate: tcp.read_rate,
        write_rate: tcp.write_rate,
        pacing: tcp.pacing,
        size: tcp.size,
        duration: active_time(scenario, flow),
        hosts: busy_hosts(scenario, flow, path, |host| has_offloads(host, default_kernel)),
    }
}

/// Whether the sender's writes fill its buffer beyond the size that it has requested. The kernel appends a
/// write to the last unsent packet (up to 64 KiB) without regard to the size, and only a new packet waits for
/// space (`tcp_sendmsg_locked`, net/ipv4/tcp.c). If writes end with a partial segment, Nagle's algorithm
/// holds that back, so there always is a last packet.
fn overfills_buffer(tcp: &TcpSpec, path: &FlowPath<'_>, kernel: KernelVersion) -> bool {
    let (Some(write), Some(requested)) = (tcp.write_size, tcp.send_buffer) else { return false };
    let segment = u64::from(model::mss(path.mtu, path.ip, tcp.mss));
    kernel >= FIRST_KERNEL_WITH_OFFLOADS && write.0 % segment != 0 && write.0 < 2 * requested.0
}

/// Whether a host's kernel has super-packets; `default` is the kernel of hosts without the key `kernel`.
fn has_offloads(host: &Host, default: KernelVersion) -> bool {
    let own = host.kernel.map(|(major, minor)| KernelVersion::new(major.into(), minor.into()));
    own.unwrap_or(default) >= FIRST_KERNEL_WITH_OFFLOADS
}

/// The transmit queue of a flow's sender, where its link has a rate.
fn device_queue(scenario: &Scenario, flow: &FlowSpec, path: &FlowPath<'_>) -> Option<DeviceQueue> {
    let host = scenario.host(&flow.from)?;
    let (_, _, own_link) = path.forward.first()?;
    Some(DeviceQueue {
        packets: host.nic.tx_queue?,
        rate: own_link.rate.mean()?,
        is_congestion: host.local_congestion,
    })
}

/// The maximum time from a flow's start to its end.
fn active_time(scenario: &Scenario, flow: &FlowSpec) -> Time {
    let end = flow.stop.unwrap_or(scenario.end()).min(scenario.end());
    end.saturating_since(flow.start)
}

/// The goodput that a flow's hosts allow, bit/s; infinite if its packets cost them nothing.
fn host_ceiling(scenario: &Scenario, flow: &FlowSpec, path: &FlowPath<'_>, kernel: KernelVersion) -> f64 {
    let hosts = busy_hosts(scenario, flow, path, |host| has_offloads(host, kernel));
    let ceilings = hosts.iter().filter_map(|host| host.cost.ceiling_bps(host.role, &host.stream));
    ceilings.map(|(bps, _)| bps).fold(f64::INFINITY, f64::min)
}

/// Goodput is limited by the slowest link and by the hosts, and then reduced by losses on the wire, which
/// come after the queue.
fn udp_summary(
    summary: FlowSummary,
    udp: &UdpSpec,
    path: &FlowPath<'_>,
    active: Time,
    host_bps: f64,
) -> FlowSummary {
    let (rate, payload) = (udp.rate.as_f64(), path.datagram_payload(udp));
    let limit = path.datagram_limit_bps(payload);
    let packets = model::datagram_packets(payload, path.mtu, path.ip);
    let complete = (1.0 - path.loss()).powi(i32::try_from(packets.count).unwrap_or(i32::MAX));
    let passed = (limit.unwrap_or(f64::INFINITY).min(host_bps) / rate).min(1.0) * complete;
    let goodput = rate * udp.duty() * passed;
    let offered = rate * udp.duty() * active.as_secs_f64() / 8.0;
    let sent = udp.size.map_or(offered, |size| offered.min(size.0 as f64));
    FlowSummary {
        goodput_bps: Some(goodput),
        steady_goodput_bps: Some(goodput),
        bytes: Some((sent * passed) as u64),
        wire_limit_bps: limit,
        loss_share: Some(1.0 - passed),
        min_owd_us: Some(path.one_way_s(packets) * 1e6),
        ..summary
    }
}

/// XCP fills a lossless path within a few round trips if the slowest link's queue runs XCP.
fn xcp_summary(
    summary: FlowSummary,
    xcp: &XcpSpec,
    path: &FlowPath<'_>,
    active: Time,
    host_bps: f64,
) -> FlowSummary {
    let runs_xcp = |d: &PipeSpec| matches!(d.discipline, Discipline::Xcp(_));
    let limit = path.xcp_limit_bps();
    let goodput = limit.filter(|_| path.loss() == 0.0 && path.slowest().is_some_and(|(d, _)| runs_xcp(d)));
    let goodput = goodput.map(|bps| bps.min(host_bps));
    let size_bytes = xcp.size.map_or(f64::INFINITY, |size| size.0 as f64);
    FlowSummary {
        goodput_bps: goodput,
        steady_goodput_bps: goodput,
        bytes: goodput.map(|bps| (bps * active.as_secs_f64() / 8.0).min(size_bytes) as u64),
        min_rtt_us: Some(path.rtt.as_micros_f64()),
        wire_limit_bps: limit,
        ..summary
    }
}

fn tcp_summary(summary: FlowSummary, inputs: &PathInputs, prediction: &Prediction) -> FlowSummary {
    let cause = prediction.verdict;
    let duration = inputs.duration.as_secs_f64();
    let ramp = if duration > 0.0 { (prediction.settled_s / duration).min(1.0) } else { 0.0 };
    let mut limited = Limited::default();
    *limited.share_mut(Cause::SlowStart) += ramp;
    *limited.share_mut(cause) += 1.0 - ramp;
    let mut steady = Limited::default();
    *steady.share_mut(cause) = 1.0;
    let finite = |bps: f64| bps.is_finite().then_some(bps);
    let rtt_us = inputs.rtt.as_micros_f64();
    FlowSummary {
        goodput_bps: finite(prediction.goodput_bps),
        steady_goodput_bps: finite(prediction.steady_goodput_bps),
        steady_from_s: finite(prediction.settled_s),
        bytes: prediction.bytes.is_finite().then_some(prediction.bytes as u64),
        min_rtt_us: Some(rtt_us),
        mss_bytes: Some(u64::from(prediction.mss_bytes)),
        max_rcv_wnd_bytes: Some(prediction.receive_window_bytes as u64),
        binding_window_bytes: prediction.window_bytes.is_finite().then_some(prediction.window_bytes as u64),
        window_share: Some((prediction.window_share * 1e4).round() / 1e4),
        wire_limit_bps: prediction.wire_limit_bps,
        limited,
        limited_steady: steady,
        verdict: Some(cause),
        verdict_also: prediction.verdict_also,
        evidence: prediction.limits.iter().map(|l| l.sentence.clone()).collect(),
        ..summary
    }
}
