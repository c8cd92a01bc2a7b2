//! From a tree to flows.

use units::{Bytes, Time};

use crate::{
    decode_cc::decode_cc,
    error::Problems,
    name::{Named, check_name},
    read::{Keys, Reader},
    suggest::suggest,
    trace_file::Files,
    tree::{Node, Table},
    types::{BurstLengths, Bursts, Flow, Kind, Ping, Tcp, Udp, Xcp},
};

const LATER: &[&str] = &["ecn", "mtu", "cc_params", "parameters", "rate", "protocol"];
pub(crate) const TCP: Keys = Keys {
    what: "a flow",
    known: &[
        "name",
        "from",
        "to",
        "kind",
        "start",
        "stop",
        "cc",
        "size",
        "mss",
        "send_buffer",
        "receive_buffer",
        "pacing",
        "read_rate",
        "write_rate",
        "reader_stops",
        "reader_resumes",
        // Written out before.
        "streams",
    ],
    later: LATER,
};
pub(crate) const PING: Keys = Keys {
    what: "a ping flow",
    known: &["name", "from", "to", "kind", "start", "stop", "interval", "count", "payload"],
    later: LATER,
};
pub(crate) const UDP: Keys = Keys {
    what: "a udp flow",
    known: &["name", "from", "to", "kind", "start", "stop", "rate", "packet", "size", "on", "off", "random"],
    later: &["ecn", "mtu", "protocol"],
};
pub(crate) const XCP: Keys = Keys {
    what: "an xcp flow",
    known: &["name", "from", "to", "kind", "start", "stop", "size"],
    later: LATER,
};
const KINDS: [&str; 4] = ["tcp", "ping", "udp", "xcp"];
const KINDS_LATER: [&str; 3] = ["tsunami", "sabul", "udt"];

/// What TCP_MAXSEG takes: TCP_MIN_MSS to MAX_TCP_WINDOW (include/net/tcp.h).
const MSS: std::ops::RangeInclusive<u64> = 88..=32767;
/// What SO_SNDBUF and SO_RCVBUF take: the kernel doubles it and keeps it in an int (net/core/sock.c).
const MAX_SOCKET_BUFFER: Bytes = Bytes((i32::MAX / 2) as u64);
/// What fits an IPv4 packet behind the IP and ICMP headers.
const MAX_PING_PAYLOAD: Bytes = Bytes(65535 - 20 - 8);
/// The same behind the IP and UDP headers.
const MAX_DATAGRAM: Bytes = MAX_PING_PAYLOAD;
/// A shorter time between two datagrams would not move the clock.
const MIN_SPACING_NS: u128 = 1;
/// Shorter bursts would be no bursts.
const MIN_BURST: Time = Time(10_000);
const MIN_PING_INTERVAL: Time = Time::from_millis(1);

/// The flows of a normalised tree.
pub(crate) fn decode_flows(root: &Table, files: &Files, problems: &mut Problems) -> Vec<Flow> {
    let Some(node) = root.get("flows") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"flows\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[flows]] above each flow");
        return Vec::new();
    };
    items.iter().filter_map(|item| decode_flow(item, files, problems)).collect()
}

fn decode_flow(node: &Node, files: &Files, problems: &mut Problems) -> Option<Flow> {
    let kind = node.table().and_then(|t| t.get("kind")).and_then(Node::text).unwrap_or("tcp");
    let keys = match kind {
        "ping" => &PING,
        "udp" => &UDP,
        "xcp" => &XCP,
        _ => &TCP,
    };
    let mut reader = Reader::new(node, keys, problems)?;
    reader.text("kind");
    if !KINDS.contains(&kind) {
        note_kind(kind, &mut reader);
    }
    if let Some(name) = reader.text("name") {
        let place = reader.node("name").map_or(node.span, |n| n.span);
        check_name(Named::Flow, &name, place, reader.problems());
    }
    let start = reader.time("start").unwrap_or_default();
    let stop = reader.time("stop");
    if stop.is_some_and(|stop| stop <= start) {
        reader.note("stop", "the flow stops before it has started", format!("write a time after {start}"));
    }
    let kind = match kind {
        "ping" => Kind::Ping(decode_ping(&mut reader)),
        "udp" => Kind::Udp(decode_udp(&mut reader)),
        "xcp" => Kind::Xcp(Xcp { size: reader.size("size") }),
        _ => Kind::Tcp(decode_tcp(&mut reader, files)),
    };
    let name = reader.required_text("name", "\"bulk\"");
    let from = reader.required_text("from", "\"h1\"");
    let to = reader.required_text("to", "\"h2\"");
    Some(Flow { name: name?, from: from?, to: to?, kind, start, stop })
}

fn note_kind(kind: &str, reader: &mut Reader) {
    if KINDS_LATER.contains(&kind) {
        let help = format!("supported: {}", KINDS.join(", "));
        reader.note("kind", format!("flows of kind \"{kind}\" are not supported yet"), help);
    } else {
        reader.note("kind", format!("unknown kind of flow \"{kind}\""), suggest(kind, KINDS));
    }
}

fn decode_tcp(reader: &mut Reader, files: &Files) -> Tcp {
    let (reader_stops, reader_resumes) = reader_pause(reader);
    Tcp {
        cc: decode_cc(reader, files),
        size: reader.size("size"),
        mss: reader.integer("mss", MSS, " bytes").map(|bytes| bytes as u32),
        send_buffer: socket_buffer("send_buffer", reader),
        receive_buffer: socket_buffer("receive_buffer", reader),
        pacing: reader.rate("pacing"),
        read_rate: reader.rate("read_rate"),
        write_rate: reader.rate("write_rate"),
        reader_stops,
        reader_resumes,
    }
}

/// When the receiving application stops reading, and when it reads on.
fn reader_pause(reader: &mut Reader) -> (Option<Time>, Option<Time>) {
    let (stops, resumes) = (reader.time("reader_stops"), reader.time("reader_resumes"));
    if reader.node("reader_resumes").is_some() && reader.node("reader_stops").is_none() {
        reader.note("reader_resumes", "the reader never stopped", "write \"reader_stops\" too");
    }
    if let (Some(stops), Some(resumes)) = (stops, resumes)
        && resumes <= stops
    {
        let help = format!("write a time after {stops}");
        reader.note("reader_resumes", "the reader reads on before it has stopped", help);
    }
    (stops, resumes)
}

fn socket_buffer(key: &str, reader: &mut Reader) -> Option<Bytes> {
    let size = reader.size(key)?;
    if size > MAX_SOCKET_BUFFER {
        reader.note(key, format!("no socket buffer can be {size}"), "write less than 1GiB");
    }
    Some(size)
}

fn decode_ping(reader: &mut Reader) -> Ping {
    let default = Ping::default();
    let interval = reader.time("interval").unwrap_or(default.interval);
    if interval < MIN_PING_INTERVAL {
        reader.note("interval", format!("\"interval\" cannot be {interval}"), "write at least 1ms");
    }
    let payload = reader.quantity("payload").unwrap_or(default.payload);
    if payload > MAX_PING_PAYLOAD {
        let help = format!("write at most {}B", MAX_PING_PAYLOAD.0);
        reader.note("payload", format!("no echo request carries {payload}"), help);
    }
    let count = reader.integer("count", 1..=u32::MAX.into(), "").map(|count| count as u32);
    Ping { interval, count, payload }
}

fn decode_udp(reader: &mut Reader) -> Udp {
    reader.required("rate", "\"100mbit\"");
    let rate = reader.rate("rate").unwrap_or_default();
    let packet = reader.size("packet");
    if let Some(packet) = packet {
        if packet > MAX_DATAGRAM {
            let help = format!("write at most {}B", MAX_DATAGRAM.0);
            reader.note("packet", format!("no datagram carries {packet}"), help);
        } else if u128::from(packet.0) * 8_000_000_000 < MIN_SPACING_NS * u128::from(rate.0) {
            let message = format!("{rate} are more than a datagram of {packet} each nanosecond");
            reader.note("packet", message, "write larger datagrams or a lower rate");
        }
    }
    Udp { rate, packet, size: reader.size("size"), bursts: decode_bursts(reader) }
}

/// How long the source sends and is silent: both or neither.
fn decode_bursts(reader: &mut Reader) -> Option<Bursts> {
    let (on, off) = (reader.positive_time("on"), reader.positive_time("off"));
    if on.is_some_and(|on| on < MIN_BURST) {
        reader.note("on", "these bursts are too short", "write at least 10us");
    }
    let lengths = match reader.boolean("random") {
        Some(true) => BurstLengths::Exponential,
        _ => BurstLengths::Fixed,
    };
    for (key, other) in [("on", "off"), ("off", "on"), ("random", "on")] {
        if reader.node(key).is_some() && reader.node(other).is_none() {
            let help = format!("write for example {other} = \"1s\"");
            reader.note(key, format!("\"{key}\" needs \"{other}\""), help);
        }
    }
    Some(Bursts { on: on?, off: off?, lengths })
}
