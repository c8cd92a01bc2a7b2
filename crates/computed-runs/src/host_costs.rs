//! The processing costs of a flow's packets at its hosts: input of the closed form.

use model::{BusyHost, HostRole, InterruptModeration, PacketStream, Transport};
use scenario::{FlowKind, FlowSpec, Host, HostCost, Moderation, Scenario, TcpSpec};

use crate::flow_context::FlowPath;

/// Bytes of a super-packet without the headers that Linux reserves (sk_gso_max_size less MAX_TCP_HEADER,
/// net/core/sock.c).
const SUPER_PACKET_PAYLOAD: u32 = 65_536 - 321;
/// Option bytes of each TCP segment: timestamps.
const TIMESTAMP_BYTES: u32 = 12;
/// A receiver sends an ACK for at least this number of segments (RFC 5681 section 4.2), or for a
/// super-packet.
const SEGMENTS_PER_ACK: f64 = 2.0;

/// The hosts of a flow whose packets cost time, each with the flow's packets. `has_offloads` is false for
/// kernels without super-packets.
pub(crate) fn busy_hosts(
    scenario: &Scenario,
    flow: &FlowSpec,
    path: &FlowPath<'_>,
    has_offloads: impl Fn(&Host) -> bool,
) -> Vec<BusyHost> {
    let ends = [(&flow.from, HostRole::Sender), (&flow.to, HostRole::Receiver)];
    let hosts = ends.map(|(name, role)| scenario.host(name).map(|host| (host, role)));
    let [Some((from, _)), Some((to, _))] = hosts else { return Vec::new() };
    let Some(stream) = stream(flow, path, [from, to], has_offloads) else { return Vec::new() };
    hosts
        .into_iter()
        .flatten()
        .filter(|(host, _)| host.cost != HostCost::default())
        .map(|(host, role)| BusyHost { name: host.name.clone(), role, cost: cost(&host.cost), stream })
        .collect()
}

/// The packets of a flow; `None` for echoes.
fn stream(
    flow: &FlowSpec,
    path: &FlowPath<'_>,
    [from, to]: [&Host; 2],
    has_offloads: impl Fn(&Host) -> bool,
) -> Option<PacketStream> {
    let ip = path.ip.header_bytes();
    match &flow.kind {
        FlowKind::Tcp(TcpSpec { mss, .. }) => {
            let payload = model::mss(path.mtu, path.ip, *mss);
            let headers = ip + Transport::Tcp.header_bytes();
            let max_bytes =
                from.nic.gso.map_or(SUPER_PACKET_PAYLOAD, |gso| (gso.0 as u32).min(SUPER_PACKET_PAYLOAD));
            let frames = if has_offloads(from) { (max_bytes / payload.max(1)).max(1) } else { 1 };
            let frames = frames.min(from.nic.gso_segs.unwrap_or(u32::MAX));
            let merged = if has_offloads(to) { to.nic.gro.unwrap_or(u32::MAX).max(1) } else { 1 };
            let received_as = frames.div_ceil(merged);
            let per_part = f64::from(frames) / f64::from(received_as);
            Some(PacketStream {
                frames,
                received_as,
                payload,
                frame_bytes: payload + headers,
                acks: f64::from(received_as) * (per_part / SEGMENTS_PER_ACK).min(1.0),
                ack_bytes: ip + 20 + TIMESTAMP_BYTES,
            })
        }
        FlowKind::Udp(udp) => {
            let payload = path.datagram_payload(udp);
            let packets = model::datagram_packets(payload, path.mtu, path.ip);
            let frames = packets.count;
            let payload = payload / frames;
            let frame_bytes = (packets.ip_bytes() / u64::from(frames)) as u32;
            Some(PacketStream { frames, received_as: 1, payload, frame_bytes, acks: 0.0, ack_bytes: 0 })
        }
        FlowKind::Xcp(_) => {
            let frame_bytes = path.mtu;
            let headers = ip + net::XCP_HEADER_BYTES;
            let payload = frame_bytes.saturating_sub(headers);
            Some(PacketStream {
                frames: 1,
                received_as: 1,
                payload,
                frame_bytes,
                acks: 1.0,
                ack_bytes: headers,
            })
        }
        // Only the model's closed forms need it, and they have none for these.
        FlowKind::Ping(_)
        | FlowKind::Udt(_)
        | FlowKind::Tsunami(_)
        | FlowKind::Stream(_)
        | FlowKind::Quic(_) => None,
    }
}

fn cost(cost: &HostCost) -> model::HostCost {
    let moderation =
        |of: &Moderation| InterruptModeration { delay: of.delay.as_secs_f64(), frames: of.frames };
    model::HostCost {
        per_packet: cost.per_packet.as_secs_f64(),
        per_frame: cost.per_frame.as_secs_f64(),
        per_byte: cost.per_byte.as_secs_f64(),
        per_interrupt: cost.per_interrupt.as_secs_f64(),
        rx: moderation(&cost.rx),
        tx: moderation(&cost.tx),
        bus: cost.bus,
    }
}
