//! `end`: each stream by both ends, the sums, and the processor time.

use serde_json::{Map, Value, json};

use super::{
    directions::{Group, groups},
    object::{percent, real, span},
};
use crate::report::{Datagrams, End, Protocol, Role, Start, StreamEnd, StreamTotals, TcpSummary};

/// The object under `end`, which is also the data of the event `end`.
pub fn end_json(start: &Start, end: &End) -> Value {
    let mut object = Map::new();
    object.insert("streams".into(), Value::Array(Vec::new()));
    let mut streams = Vec::new();
    for group in groups(start) {
        let own = of_group(start, end, group);
        for stream in &own {
            streams.push(match start.spec.protocol {
                Protocol::Tcp => tcp_stream(start, end, stream, group),
                Protocol::Udp => udp_stream(stream, group),
            });
        }
        let sums = EndSum::of(&own);
        match start.spec.protocol {
            Protocol::Tcp => tcp_sums(&mut object, group, &sums),
            Protocol::Udp => udp_sums(&mut object, group, &sums),
        }
    }
    object.insert("streams".into(), Value::Array(streams));
    object.insert(
        "cpu_utilization_percent".into(),
        json!({
            "host_total": real(end.cpu_local.total),
            "host_user": real(end.cpu_local.user),
            "host_system": real(end.cpu_local.system),
            "remote_total": real(end.cpu_remote.total),
            "remote_user": real(end.cpu_remote.user),
            "remote_system": real(end.cpu_remote.system),
        }),
    );
    let congestion = [
        ("sender_tcp_congestion", &end.sender_congestion),
        ("receiver_tcp_congestion", &end.receiver_congestion),
    ];
    for (key, name) in congestion {
        if let Some(name) = name {
            object.insert(key.into(), name.as_str().into());
        }
    }
    Value::Object(object)
}

/// The streams of one direction.
pub(super) fn of_group<'a>(start: &Start, end: &'a End, group: Group) -> Vec<&'a StreamEnd> {
    let forward = group.sender == (start.role == Role::Client);
    end.streams.iter().filter(|stream| stream.forward == forward).collect()
}

fn tcp_stream(start: &Start, end: &End, stream: &StreamEnd, group: Group) -> Value {
    let mut sender = totals(stream.id, &stream.sent);
    if let Some(tcp) = &stream.tcp {
        if let Some(retransmits) = tcp.retransmits {
            sender.insert("retransmits".into(), retransmits.into());
        }
        sender.insert("reorder".into(), tcp.reorder.into());
        sender.insert("max_snd_cwnd".into(), tcp.max_snd_cwnd_bytes.into());
        sender.insert("max_snd_wnd".into(), tcp.max_snd_wnd_bytes.into());
        sender.insert("max_rtt".into(), tcp.max_rtt_us.into());
        sender.insert("min_rtt".into(), tcp.min_rtt_us.into());
        sender.insert("mean_rtt".into(), tcp.mean_rtt_us.into());
    }
    let mut receiver = totals(stream.id, &stream.received);
    for side in [&mut sender, &mut receiver] {
        side.insert("sender".into(), group.sender.into());
    }
    let mut object = Map::from_iter([("sender".into(), Value::Object(sender))]);
    if let (Some(path), Some(size)) = (&start.spec.file, end.file_bytes) {
        // Whole per cent, as in iperf3.
        let share = |bytes: u64| (bytes as f64 / (size as f64).max(1.0) * 100.0) as u64;
        let (sent, received) = (stream.sent.bytes, stream.received.bytes);
        object.insert(
            "diskfile".into(),
            json!({
                "sent": sent,
                "received": received,
                "size": size,
                "percent_sent": share(sent),
                "percent_received": share(received),
                "filename": path.display().to_string(),
            }),
        );
    }
    object.insert("receiver".into(), Value::Object(receiver));
    Value::Object(object)
}

/// One object for both ends, as in iperf3: the sender's bytes and packets with the receiver's losses.
fn udp_stream(stream: &StreamEnd, group: Group) -> Value {
    let (sent, received) = (datagrams(&stream.sent), datagrams(&stream.received));
    let packets = if sent.packets > 0 { sent.packets } else { received.packets };
    let mut udp = totals(stream.id, &stream.sent);
    let mut put = |key: &str, value: Value| drop(udp.insert(key.into(), value));
    put("jitter_ms", real(received.jitter_s * 1e3));
    put("lost_packets", received.lost.into());
    put("packets", packets.into());
    put("lost_percent", real(percent(received.lost, packets)));
    put("out_of_order", received.out_of_order.into());
    put("sender", group.sender.into());
    json!({ "udp": udp })
}

fn totals(id: u32, totals: &StreamTotals) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("socket".into(), id.into());
    span(&mut object, totals.start_s, totals.end_s, totals.bytes);
    object
}

fn datagrams(totals: &StreamTotals) -> Datagrams {
    totals.udp.unwrap_or_default()
}

fn tcp_sums(object: &mut Map<String, Value>, group: Group, sums: &EndSum) {
    let mut sent = Map::new();
    span(&mut sent, sums.sent.start_s, sums.sent.end_s, sums.sent.bytes);
    if let Some(retransmits) = sums.retransmits {
        sent.insert("retransmits".into(), retransmits.into());
    }
    sent.insert("sender".into(), group.sender.into());
    let mut received = Map::new();
    span(&mut received, sums.received.start_s, sums.received.end_s, sums.received.bytes);
    received.insert("sender".into(), group.sender.into());
    object.insert(group.key("sum_sent"), Value::Object(sent));
    object.insert(group.key("sum_received"), Value::Object(received));
}

fn udp_sums(object: &mut Map<String, Value>, group: Group, sums: &EndSum) {
    let (sent, received) = (datagrams(&sums.sent), datagrams(&sums.received));
    let lost = received.lost;
    let packets = if sent.packets > 0 { sent.packets } else { received.packets };
    let one = |side: &StreamTotals, jitter_s: f64, lost: i64, packets: u64, sender: bool| {
        let mut sum = Map::new();
        span(&mut sum, side.start_s, side.end_s, side.bytes);
        sum.insert("jitter_ms".into(), real(jitter_s * 1e3));
        sum.insert("lost_packets".into(), lost.into());
        sum.insert("packets".into(), packets.into());
        sum.insert("lost_percent".into(), real(percent(lost, packets)));
        sum.insert("sender".into(), sender.into());
        Value::Object(sum)
    };
    // The old sum of both ends: the receiver's time, the sender's bytes.
    let both = StreamTotals { bytes: sums.sent.bytes, ..sums.received };
    object.insert(group.key("sum"), one(&both, received.jitter_s, lost, packets, group.sender));
    object.insert(group.key("sum_sent"), one(&sums.sent, 0.0, 0, sent.packets, true));
    object.insert(
        group.key("sum_received"),
        one(&sums.received, received.jitter_s, lost, received.packets, false),
    );
}

/// The sum of the streams of one direction; jitter is the mean.
#[derive(Debug, Default)]
pub(super) struct EndSum {
    pub sent: StreamTotals,
    pub received: StreamTotals,
    /// `None` if no stream has it.
    pub retransmits: Option<u64>,
}

impl EndSum {
    pub(super) fn of(streams: &[&StreamEnd]) -> Self {
        let mut sum = EndSum::default();
        if let Some(first) = streams.first() {
            sum.sent = StreamTotals { bytes: 0, udp: None, ..first.sent };
            sum.received = StreamTotals { bytes: 0, udp: None, ..first.received };
        }
        for stream in streams {
            add(&mut sum.sent, &stream.sent, streams.len());
            add(&mut sum.received, &stream.received, streams.len());
            let known = stream.tcp.as_ref().and_then(|tcp: &TcpSummary| tcp.retransmits);
            if let Some(retransmits) = known {
                sum.retransmits = Some(sum.retransmits.unwrap_or(0).saturating_add(retransmits));
            }
        }
        sum
    }
}

fn add(sum: &mut StreamTotals, one: &StreamTotals, count: usize) {
    sum.bytes = sum.bytes.saturating_add(one.bytes);
    if let Some(udp) = &one.udp {
        let total = sum.udp.get_or_insert_default();
        total.packets = total.packets.saturating_add(udp.packets);
        total.lost = total.lost.saturating_add(udp.lost);
        total.out_of_order = total.out_of_order.saturating_add(udp.out_of_order);
        total.jitter_s += udp.jitter_s / count as f64;
    }
}
