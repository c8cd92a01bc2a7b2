//! Flows of UDT, Tsunami and QUIC, and real-time streams: converts the scenario's flow to the protocol's
//! plan, and the protocol's counts to rows.

use bulk::{
    flow::{Plan, Protocol, ReceiverCounts, SenderCounts, full_block_bytes, full_stream_payload},
    stream,
    tsunami::wire::Parameters,
    udt::RateChoice,
};
use datagrams::Draws;
use scenario::{FlowKind, FlowSpec, Scenario};
use schema::{Event, EventKind, FlowSample};
use units::Instant;

use crate::{micros, time_us};

/// Bytes of the headers of IPv4 and IPv6.
const IP_HEADERS: [u32; 2] = [20, 40];
/// Tsunami's unit of error rates: 1/1000 %.
const ERROR_UNITS: f64 = 100_000.0;

/// The plan of the udt, tsunami, stream or quic flow with this `index` in the scenario; `None` for flows of
/// other kinds, and for quic flows in WebAssembly.
pub fn bulk_plan(scenario: &Scenario, flow: &FlowSpec, index: usize) -> Option<Plan> {
    if !is_bulk(&flow.kind) {
        return None;
    }
    let (from, _) = scenario.flow_addresses(flow)?;
    let ip_header = IP_HEADERS[usize::from(from.is_ipv6())];
    let mtu = scenario.host(&flow.from)?.mtu.min(scenario.host(&flow.to)?.mtu);
    let (protocol, size) = match &flow.kind {
        FlowKind::Udt(udt) => {
            let rate = match (udt.rate, udt.tolerate_loss) {
                _ if udt.sabul => RateChoice::Sabul,
                (Some(rate), _) => RateChoice::Fixed(rate),
                (None, Some(share)) => RateChoice::Tolerant(share),
                (None, None) => RateChoice::Automatic,
            };
            let packets = |buffer: units::Bytes| (buffer.0 / u64::from(mtu.max(1))).max(1) as u32;
            (Protocol::Udt { rate, receive_packets: udt.receive_buffer.map(packets) }, udt.size)
        }
        FlowKind::Tsunami(tsunami) => {
            let default = Parameters::default();
            let parameters = Parameters {
                block_bytes: tsunami.block.map_or(full_block_bytes(mtu, ip_header), |block| block.0 as u32),
                target_bps: tsunami.rate.map_or(default.target_bps, |rate| rate.0 as u32),
                error_threshold: tsunami
                    .error_threshold
                    .map_or(default.error_threshold, |share| (share * ERROR_UNITS) as u32),
                ..default
            };
            (Protocol::Tsunami(parameters), tsunami.size)
        }
        FlowKind::Stream(spec) => {
            let payload_bytes =
                spec.packet.map_or(full_stream_payload(mtu, ip_header), |packet| packet.0 as u32);
            let parameters = stream::Parameters {
                rate: spec.rate,
                payload_bytes,
                deadline: spec.deadline,
                repairs: spec.repair,
                packets: spec.size.map(|size| size.0.div_ceil(u64::from(payload_bytes))),
                vdif: None,
            };
            (Protocol::Stream(parameters), spec.size)
        }
        #[cfg(not(target_arch = "wasm32"))]
        FlowKind::Quic(quic) => {
            let window = |buffer: units::Bytes| u32::try_from(buffer.0).unwrap_or(u32::MAX);
            (Protocol::Quic { receive_window: quic.receive_buffer.map(window) }, quic.size)
        }
        _ => return None,
    };
    let seed = Draws::draw_once(scenario.seed, 2 * index as u32);
    Some(Plan { protocol, bytes: size.map(|size| size.0), mtu, ip_header, seed })
}

/// Whether flows of this kind have a protocol of `bulk::flow`.
pub fn is_bulk(kind: &FlowKind) -> bool {
    matches!(kind, FlowKind::Udt(_) | FlowKind::Tsunami(_) | FlowKind::Stream(_) | FlowKind::Quic(_))
}

/// A row from the counts of both ends; it lacks the goodput.
pub fn bulk_row(name: &str, now: Instant, sender: &SenderCounts, receiver: &ReceiverCounts) -> FlowSample {
    let count = |number: u64| i64::try_from(number).ok();
    let payload = u64::from(sender.payload_bytes);
    let rtt = sender.rtt.or(receiver.rtt);
    FlowSample {
        time_us: time_us(now),
        flow: name.into(),
        snd_cwnd_segs: sender.window_packets.and_then(count),
        snd_mss_bytes: count(payload),
        snd_wnd_bytes: sender.peer_window_packets.and_then(|packets| count(packets * payload)),
        unacked_segs: sender.unacked_packets.and_then(count),
        lost_segs: sender.waiting_lost_packets.and_then(count),
        total_retrans_segs: count(sender.retransmitted_packets),
        bytes_acked: sender.acked_bytes.and_then(count),
        bytes_sent: count(sender.sent_bytes),
        data_segs_out_segs: count(sender.sent_packets),
        srtt_us: rtt.map(|(srtt, _)| micros(srtt)),
        rttvar_us: rtt.map(|(_, deviation)| micros(deviation)),
        min_rtt_us: sender.min_rtt.or(receiver.min_rtt).map(micros),
        pacing_rate_bps: sender.rate_bps.and_then(count),
        delivery_rate_bps: sender.arrival_rate_bps.and_then(count),
        total_rto: count(sender.timeouts),
        rcv_queue_bytes: receiver.playout.and_then(|playout| count(playout.buffered * payload)),
        bytes_received: count(receiver.received_bytes),
        ..FlowSample::default()
    }
}

/// The events between the counts of two samples, at the time of the second.
pub fn bulk_events(
    name: &str,
    now: Instant,
    before: &SenderCounts,
    after: &SenderCounts,
) -> impl Iterator<Item = Event> {
    let grown = [
        (EventKind::Nak, after.naks.saturating_sub(before.naks)),
        (EventKind::Lost, after.lost_packets.saturating_sub(before.lost_packets)),
        (EventKind::Retransmit, after.retransmitted_packets.saturating_sub(before.retransmitted_packets)),
        (EventKind::Rto, after.timeouts.saturating_sub(before.timeouts)),
    ];
    grown.into_iter().filter(|(_, count)| *count > 0).map(move |(kind, count)| Event {
        time_us: time_us(now),
        subject: name.into(),
        kind,
        value: i64::try_from(count).unwrap_or(i64::MAX),
    })
}
