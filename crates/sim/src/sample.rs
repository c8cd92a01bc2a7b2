//! Samples flows as the lab's sampler does: a row from both ends' `tcp_info`, and the events since the
//! previous sample.

use engine_common::{bulk_events, bulk_row, datagram_row, micros, time_us};
use schema::{Event, EventKind, FlowSample};
use tcp::EndpointInfo;
use units::Instant;

use crate::{bulk::BulkFlow, ping::Ping, transfer::Transfer, udp::DatagramFlow, xcp::XcpFlow};

/// The state of a flow between two samples.
#[derive(Debug, Default)]
pub(crate) struct SampleState {
    received: u64,
    /// When the flow was last sampled.
    sampled_us: Option<i64>,
    pub(crate) started: Option<Instant>,
    pub(crate) ended: Option<Instant>,
}

impl SampleState {
    /// The rate at which bytes were received since the previous sample; `None` for the first sample.
    fn goodput_bps(&mut self, now_us: i64, received: u64) -> Option<i64> {
        let since = self.sampled_us.replace(now_us);
        let bits = u128::from(received - std::mem::replace(&mut self.received, received)) * 8;
        let span_us = (now_us - since?).max(1) as u128;
        i64::try_from(bits * 1_000_000 / span_us).ok()
    }
}

/// Samples a TCP connection; `None` until it is established. Its events are added in any case.
pub(crate) fn sample_transfer(
    name: &str,
    transfer: &mut Transfer,
    now: Instant,
    state: &mut SampleState,
    events: &mut Vec<Event>,
) -> Option<FlowSample> {
    while let Some(event) = transfer.sender.next_event() {
        record_events(&event, |at, kind, value| {
            add_event(events, name, Instant::from_nanos(at), kind, value)
        });
    }
    if !transfer.is_connected() {
        return None;
    }
    let (sender, receiver) = (transfer.sender.info(now.as_nanos()), transfer.receiver.info(now.as_nanos()));
    let mut row = row(&sender, &receiver);
    row.flow = name.into();
    row.time_us = time_us(now);
    row.goodput_bps = state.goodput_bps(row.time_us, transfer.received());
    Some(row)
}

/// A row for each reply that arrived since the previous sample.
pub(crate) fn sample_ping<'a>(
    name: &'a str,
    ping: &'a mut Ping,
) -> impl Iterator<Item = FlowSample> + use<'a> {
    ping.replies.drain(..).map(|(at, rtt)| FlowSample {
        time_us: time_us(at),
        flow: name.into(),
        srtt_us: i64::try_from(rtt.as_micros()).ok(),
        ..FlowSample::default()
    })
}

/// Samples a UDP flow.
pub(crate) fn sample_datagrams(
    name: &str,
    flow: &mut DatagramFlow,
    now: Instant,
    state: &mut SampleState,
) -> FlowSample {
    let (source, counts) = (&flow.source, &mut flow.receiver.counts);
    FlowSample {
        goodput_bps: state.goodput_bps(time_us(now), counts.bytes),
        ..datagram_row(name, now, (source.sent, source.sent_bytes), counts)
    }
}

/// Samples an XCP flow.
pub(crate) fn sample_xcp(
    name: &str,
    xcp: &mut XcpFlow,
    now: Instant,
    state: &mut SampleState,
    events: &mut Vec<Event>,
) -> FlowSample {
    for (at, kind, value) in xcp.events.drain(..) {
        add_event(events, name, at, kind, value);
    }
    let count = |number: u64| i64::try_from(number).ok();
    let time_us = time_us(now);
    let window = &xcp.window;
    let rtt = window.rtt();
    FlowSample {
        time_us,
        flow: name.into(),
        goodput_bps: state.goodput_bps(time_us, xcp.received),
        snd_cwnd_segs: Some(window.cwnd_packets()),
        snd_ssthresh_segs: window.ssthresh_packets(),
        snd_mss_bytes: Some(i64::from(xcp.payload)),
        unacked_segs: Some(i64::from(window.inflight())),
        total_retrans_segs: count(xcp.retransmitted),
        bytes_acked: count(xcp.acked_bytes),
        bytes_sent: count(xcp.sent_bytes),
        segs_out: count(xcp.sent_packets),
        data_segs_out_segs: count(xcp.sent_packets),
        srtt_us: rtt.map(|(srtt, _)| micros(srtt)),
        rttvar_us: rtt.map(|(_, rttvar)| micros(rttvar)),
        min_rtt_us: window.min_rtt.map(micros),
        rto_us: Some(micros(window.rto())),
        total_rto: count(xcp.timeouts),
        bytes_received: count(xcp.received),
        ..FlowSample::default()
    }
}

/// Samples a udt or tsunami flow; `None` until data can be sent.
pub(crate) fn sample_bulk(
    name: &str,
    bulk: &mut BulkFlow,
    now: Instant,
    state: &mut SampleState,
    events: &mut Vec<Event>,
) -> Option<FlowSample> {
    let (sender, receiver) = (bulk.sender.counts(), bulk.receiver.counts());
    events.extend(bulk_events(name, now, &bulk.sampled, &sender));
    bulk.sampled = sender;
    bulk.started?;
    let mut row = bulk_row(name, now, &sender, &receiver);
    if let Some(control) = &bulk.control {
        [row.srtt_us, row.rttvar_us, row.min_rtt_us] = control.rtt_us(now);
    }
    row.goodput_bps = state.goodput_bps(row.time_us, receiver.received_bytes);
    Some(row)
}

/// Adds an event. Losses at the same instant become one row; so do retransmissions.
fn add_event(events: &mut Vec<Event>, name: &str, at: Instant, kind: EventKind, value: i64) {
    let time_us = time_us(at);
    let is_summed = matches!(kind, EventKind::Lost | EventKind::Retransmit);
    // During recovery losses and retransmissions alternate, so the row may be the last but one.
    let same = events
        .iter_mut()
        .rev()
        .take(2)
        .find(|e| is_summed && e.time_us == time_us && e.kind == kind && e.subject == name);
    match same {
        Some(event) => event.value += value,
        None => events.push(Event { time_us, subject: name.into(), kind, value }),
    }
}

/// Converts an endpoint's event to none, one or two events of the record, and calls `record` with each.
fn record_events(event: &tcp::EndpointEvent, mut record: impl FnMut(u64, EventKind, i64)) {
    use tcp::{CaState, EndpointEvent as TcpEvent};
    let is_recovering = |state: CaState| matches!(state, CaState::Recovery | CaState::Loss);
    match *event {
        TcpEvent::Established { .. } => {}
        TcpEvent::CaState { at, old, state, cwnd, ssthresh } => {
            record(at, EventKind::CaState, state as i64);
            match state {
                CaState::Recovery => record(at, EventKind::RecoveryEnter, i64::from(ssthresh)),
                CaState::Cwr => record(at, EventKind::Reduction, i64::from(ssthresh)),
                _ if is_recovering(old) && !is_recovering(state) => {
                    record(at, EventKind::RecoveryLeave, i64::from(cwnd))
                }
                _ => {}
            }
        }
        TcpEvent::Retransmit { at, segs, .. } => record(at, EventKind::Retransmit, i64::from(segs)),
        TcpEvent::Lost { at, segs, .. } => record(at, EventKind::Lost, i64::from(segs)),
        TcpEvent::Rto { at } => record(at, EventKind::Rto, 1),
        TcpEvent::Probe { at } => record(at, EventKind::Probe, 1),
        TcpEvent::Undo { at, cwnd } => record(at, EventKind::Undo, i64::from(cwnd)),
        TcpEvent::ZeroWindow { at, waiting } => {
            record(at, EventKind::ZeroWindow, i64::try_from(waiting).unwrap_or(i64::MAX));
        }
        TcpEvent::WindowOpen { at, window } => record(at, EventKind::WindowOpen, i64::from(window)),
        TcpEvent::HandshakeRetry { at, times } => record(at, EventKind::HandshakeRetry, i64::from(times)),
    }
}

fn row(sender: &EndpointInfo, receiver: &EndpointInfo) -> FlowSample {
    let long = |value: u64| i64::try_from(value).ok();
    let int = |value: u32| Some(i64::from(value));
    FlowSample {
        state: Some(i64::from(sender.state)),
        ca_state: Some(i64::from(sender.ca_state)),
        snd_cwnd_segs: int(sender.snd_cwnd_segs),
        snd_ssthresh_segs: sender.snd_ssthresh_segs.map(i64::from),
        snd_mss_bytes: int(sender.snd_mss_bytes),
        snd_wnd_bytes: int(sender.snd_wnd_bytes),
        unacked_segs: int(sender.unacked_segs),
        sacked_segs: int(sender.sacked_segs),
        lost_segs: int(sender.lost_segs),
        retrans_segs: int(sender.retrans_segs),
        total_retrans_segs: int(sender.total_retrans_segs),
        bytes_acked: long(sender.bytes_acked),
        bytes_sent: long(sender.bytes_sent),
        bytes_retrans: long(sender.bytes_retrans),
        segs_out: int(sender.segs_out),
        data_segs_out_segs: int(sender.data_segs_out_segs),
        delivered_segs: int(sender.delivered_segs),
        delivered_ce_segs: int(sender.delivered_ce_segs),
        notsent_bytes: long(sender.notsent_bytes),
        srtt_us: int(sender.srtt_us),
        rttvar_us: int(sender.rttvar_us),
        min_rtt_us: sender.min_rtt_us.map(i64::from),
        rto_us: int(sender.rto_us),
        pacing_rate_bps: sender.pacing_rate_bps.and_then(long),
        delivery_rate_bps: long(sender.delivery_rate_bps),
        delivery_rate_app_limited: Some(i64::from(sender.delivery_rate_app_limited)),
        total_rto: int(sender.total_rto),
        reord_seen: int(sender.reord_seen),
        busy_time_us: long(sender.busy_time_us),
        rwnd_limited_us: long(sender.rwnd_limited_us),
        sndbuf_limited_us: long(sender.sndbuf_limited_us),
        sndbuf_bytes: int(sender.sndbuf_bytes),
        wmem_queued_bytes: int(sender.wmem_queued_bytes),
        rcvbuf_bytes: int(receiver.rcvbuf_bytes),
        rcv_wnd_bytes: int(receiver.rcv_wnd_bytes),
        rcv_space_bytes: int(receiver.rcv_space_bytes),
        rcv_ssthresh_bytes: int(receiver.rcv_ssthresh_bytes),
        rcv_queue_bytes: long(receiver.rcv_queue_bytes),
        rcv_rtt_us: int(receiver.rcv_rtt_us),
        rmem_alloc_bytes: int(receiver.rmem_alloc_bytes),
        bytes_received: long(receiver.bytes_received),
        rcv_ooopack_segs: int(receiver.rcv_ooopack),
        rcv_ce_segs: int(receiver.received_ce),
        ..FlowSample::default()
    }
}
