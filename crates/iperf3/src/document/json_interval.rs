//! An entry of `intervals`: the streams, and the sums of each direction.

use serde_json::{Map, Value};

use super::{
    directions::{Group, groups},
    object::{percent, real, span},
};
use crate::report::{Interval, Start, StreamInterval};

/// One entry of `intervals`, which is also the data of the event `interval`.
pub fn interval_json(start: &Start, interval: &Interval) -> Value {
    let mut object = Map::new();
    object.insert("streams".into(), Value::Array(Vec::new()));
    let mut streams = Vec::new();
    for group in groups(start) {
        let own: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.sender == group.sender).collect();
        streams.extend(own.iter().map(|one| stream(one)));
        object.insert(group.key("sum"), sum(start, interval, group, &own));
    }
    object.insert("streams".into(), Value::Array(streams));
    Value::Object(object)
}

fn stream(stream: &StreamInterval) -> Value {
    let mut object = Map::new();
    object.insert("socket".into(), stream.id.into());
    span(&mut object, stream.start_s, stream.end_s, stream.bytes);
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    if let Some(tcp) = &stream.tcp {
        put("retransmits", tcp.retransmits.into());
        put("snd_cwnd", tcp.snd_cwnd_bytes.into());
        put("snd_wnd", tcp.snd_wnd_bytes.into());
        put("rtt", tcp.rtt_us.into());
        put("rttvar", tcp.rttvar_us.into());
        put("pmtu", tcp.pmtu_bytes.into());
        put("reorder", tcp.reorder.into());
    }
    if let Some(udp) = &stream.udp {
        if !stream.sender {
            put("jitter_ms", real(udp.jitter_s * 1e3));
            put("lost_packets", udp.lost.into());
        }
        put("packets", udp.packets.into());
        if !stream.sender {
            put("lost_percent", real(percent(udp.lost, udp.packets)));
        }
    }
    put("omitted", stream.omitted.into());
    put("sender", stream.sender.into());
    Value::Object(object)
}

fn sum(start: &Start, interval: &Interval, group: Group, streams: &[&StreamInterval]) -> Value {
    let total = IntervalSum::of(streams);
    let mut object = Map::new();
    span(&mut object, interval.start_s, interval.end_s, total.bytes);
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    if group.has_retransmits(start) {
        put("retransmits", total.retransmits.into());
    }
    if start.spec.protocol == crate::report::Protocol::Udp {
        if !group.sender {
            put("jitter_ms", real(total.jitter_s * 1e3));
            put("lost_packets", total.lost.into());
        }
        put("packets", total.packets.into());
        if !group.sender {
            put("lost_percent", real(percent(total.lost, total.packets)));
        }
    }
    put("omitted", streams.first().is_some_and(|stream| stream.omitted).into());
    put("sender", group.sender.into());
    Value::Object(object)
}

/// The sum of the streams of one direction; jitter is the mean.
#[derive(Debug, Default)]
pub(super) struct IntervalSum {
    pub bytes: u64,
    pub retransmits: u64,
    pub packets: u64,
    pub lost: i64,
    pub jitter_s: f64,
}

impl IntervalSum {
    pub(super) fn of(streams: &[&StreamInterval]) -> Self {
        let mut sum = IntervalSum::default();
        for stream in streams {
            sum.bytes = sum.bytes.saturating_add(stream.bytes);
            if let Some(tcp) = &stream.tcp {
                sum.retransmits = sum.retransmits.saturating_add(tcp.retransmits);
            }
            if let Some(udp) = &stream.udp {
                sum.packets = sum.packets.saturating_add(udp.packets);
                sum.lost = sum.lost.saturating_add(udp.lost);
                sum.jitter_s += udp.jitter_s / streams.len() as f64;
            }
        }
        sum
    }
}
