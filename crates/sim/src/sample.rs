//! A look at a flow as the lab's sampler has it: a row of what both ends say, and the events since the last look.

use scenario::rows::micros;
use schema::{Event, EventKind, FlowSample};
use tcp::Info;
use units::Time;

use crate::{ping::Ping, transfer::Transfer};

/// What is remembered of a flow between two looks.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    received: u64,
    seen_us: Option<i64>,
    pub(crate) started: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) retransmitted: Vec<u32>,
}

/// Looks at a connection.
pub(crate) fn look_at_transfer(
    name: &str,
    transfer: &mut Transfer,
    now: Time,
    memory: &mut Memory,
    events: &mut Vec<Event>,
) -> Option<FlowSample> {
    while let Some(event) = transfer.sender.next_event() {
        if let tcp::Event::Retransmit { seq, segs, .. } = event {
            let (config, mss) = (transfer.sender.config(), transfer.sender.sk.mss_cache);
            // The SYN has the first sequence number.
            let first = seq.wrapping_sub(config.initial_seq).wrapping_sub(1);
            memory.retransmitted.extend((0..segs).map(|segment| first.wrapping_add(segment * mss)));
        }
        events.extend(translated(name, &event));
    }
    if !transfer.is_connected() {
        return None;
    }
    let (sender, receiver) = (transfer.sender.info(now.0), transfer.receiver.info(now.0));
    let mut row = row(&sender, &receiver);
    row.flow = name.into();
    row.time_us = micros(now);
    let received = transfer.received();
    if let Some(before) = memory.seen_us {
        let span_us = (row.time_us - before).max(1) as u128;
        let bits = u128::from(received - memory.received) * 8;
        row.goodput_bps = i64::try_from(bits * 1_000_000 / span_us).ok();
    }
    memory.received = received;
    memory.seen_us = Some(row.time_us);
    Some(row)
}

/// Takes the replies that have come.
pub(crate) fn look_at_ping<'a>(
    name: &'a str,
    ping: &'a mut Ping,
) -> impl Iterator<Item = FlowSample> + use<'a> {
    ping.replies.drain(..).map(|(at, rtt)| FlowSample {
        time_us: micros(at),
        flow: name.into(),
        srtt_us: i64::try_from(rtt.0 / 1000).ok(),
        ..FlowSample::default()
    })
}

/// An event of the record; what the record does not know of is left out.
fn translated(name: &str, event: &tcp::Event) -> Option<Event> {
    let (at, kind, value) = match *event {
        tcp::Event::CaState { at, state } => (at, EventKind::CaState, state as i64),
        tcp::Event::Retransmit { at, segs, .. } => (at, EventKind::Retransmit, i64::from(segs)),
        tcp::Event::Rto { at } => (at, EventKind::Rto, 1),
        _ => return None,
    };
    Some(Event { time_us: micros(Time(at)), subject: name.into(), kind, value })
}

fn row(sender: &Info, receiver: &Info) -> FlowSample {
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
        notsent_bytes: long(sender.notsent_bytes),
        srtt_us: int(sender.srtt_us),
        rttvar_us: int(sender.rttvar_us),
        min_rtt_us: sender.min_rtt_us.map(i64::from),
        rto_us: int(sender.rto_us),
        pacing_rate_bps: sender.pacing_rate_bps.and_then(long),
        delivery_rate_bps: long(sender.delivery_rate_bps),
        delivery_rate_app_limited: Some(i64::from(sender.delivery_rate_app_limited)),
        total_rto: int(sender.total_rto),
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
        ..FlowSample::default()
    }
}
