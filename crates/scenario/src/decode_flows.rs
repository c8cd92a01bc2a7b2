//! Decodes flows.

use units::{Bytes, Instant, Time};

use crate::{
    decode_bulk::{QUIC, STREAM, TSUNAMI, UDT, decode_quic, decode_stream, decode_tsunami, decode_udt},
    decode_cc::decode_cc,
    error::Problems,
    name::{NamedKind, check_name},
    read::{Keys, Reader},
    suggest::suggest,
    trace_file::Files,
    tree::{Node, Table},
    types::{BurstLengths, Bursts, FlowKind, FlowSpec, PingSpec, TcpSpec, UdpSpec, XcpSpec},
};

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
        "write_size",
        "reader_stops",
        "reader_resumes",
        // Expanded before decoding (`streams.rs`).
        "streams",
    ],
    nested: None,
};
pub(crate) const PING: Keys = Keys {
    what: "a ping flow",
    known: &["name", "from", "to", "kind", "start", "stop", "interval", "count", "payload"],
    nested: None,
};
pub(crate) const UDP: Keys = Keys {
    what: "a udp flow",
    known: &["name", "from", "to", "kind", "start", "stop", "rate", "packet", "size", "on", "off", "random"],
    nested: None,
};
pub(crate) const XCP: Keys = Keys {
    what: "an xcp flow",
    known: &["name", "from", "to", "kind", "start", "stop", "size"],
    nested: None,
};
const KINDS: [&str; 8] = ["tcp", "ping", "udp", "xcp", "udt", "tsunami", "stream", "quic"];

/// Valid values of TCP_MAXSEG: TCP_MIN_MSS to MAX_TCP_WINDOW (include/net/tcp.h).
const MSS: std::ops::RangeInclusive<u64> = 88..=32767;
/// Largest SO_SNDBUF and SO_RCVBUF: the kernel doubles the value and stores it in an int (net/core/sock.c).
const MAX_SOCKET_BUFFER: Bytes = Bytes((i32::MAX / 2) as u64);
/// Largest write of an application.
const MAX_WRITE: Bytes = Bytes(1 << 20);
/// Largest payload of an IPv4 packet after its IP and ICMP headers.
const MAX_PING_PAYLOAD: Bytes = Bytes(65535 - 20 - 8);
/// Largest payload of an IPv4 packet after its IP and UDP headers.
const MAX_DATAGRAM: Bytes = MAX_PING_PAYLOAD;
/// Shortest time between two datagrams: the resolution of the clock.
const MIN_SPACING_NS: u128 = 1;
/// Shortest burst.
const MIN_BURST: Time = Time::from_nanos(10_000);
const MIN_PING_INTERVAL: Time = Time::from_millis(1);

/// Decodes the flows of a normalised tree.
pub(crate) fn decode_flows(root: &Table, files: &Files, problems: &mut Problems) -> Vec<FlowSpec> {
    let Some(node) = root.get("flows") else { return Vec::new() };
    let Some(items) = node.list() else {
        let message = format!("\"flows\" is a list of tables, not {}", node.kind());
        problems.add_help(node.span, message, "write [[flows]] above each flow");
        return Vec::new();
    };
    items.iter().filter_map(|item| decode_flow(item, files, problems)).collect()
}

fn decode_flow(node: &Node, files: &Files, problems: &mut Problems) -> Option<FlowSpec> {
    let kind = node.table().and_then(|t| t.get("kind")).and_then(Node::text).unwrap_or("tcp");
    let keys = match kind {
        "ping" => &PING,
        "udp" => &UDP,
        "xcp" => &XCP,
        "udt" => &UDT,
        "tsunami" => &TSUNAMI,
        "stream" => &STREAM,
        "quic" => &QUIC,
        _ => &TCP,
    };
    let mut reader = Reader::new(node, keys, problems)?;
    reader.text("kind");
    if !KINDS.contains(&kind) {
        reader.report("kind", format!("unknown kind of flow \"{kind}\""), suggest(kind, KINDS));
    }
    if let Some(name) = reader.text("name") {
        let span = reader.node("name").map_or(node.span, |n| n.span);
        check_name(NamedKind::Flow, &name, span, reader.problems());
    }
    let start = reader.instant("start").unwrap_or_default();
    let stop = reader.instant("stop");
    if stop.is_some_and(|stop| stop <= start) {
        reader.report("stop", "the flow stops before it starts", format!("write a time after {start}"));
    }
    let kind = match kind {
        "ping" => FlowKind::Ping(decode_ping(&mut reader)),
        "udp" => FlowKind::Udp(decode_udp(&mut reader)),
        "xcp" => FlowKind::Xcp(XcpSpec { size: reader.size("size") }),
        "udt" => FlowKind::Udt(decode_udt(&mut reader)),
        "tsunami" => FlowKind::Tsunami(decode_tsunami(&mut reader)),
        "stream" => FlowKind::Stream(decode_stream(&mut reader)),
        "quic" => FlowKind::Quic(decode_quic(&mut reader, files)),
        _ => FlowKind::Tcp(decode_tcp(&mut reader, files)),
    };
    let name = reader.required_text("name", "\"bulk\"");
    let from = reader.required_text("from", "\"h1\"");
    let to = reader.required_text("to", "\"h2\"");
    Some(FlowSpec { name: name?, from: from?, to: to?, kind, start, stop })
}

fn decode_tcp(reader: &mut Reader, files: &Files) -> TcpSpec {
    let (reader_stops, reader_resumes) = reader_pause(reader);
    TcpSpec {
        cc: decode_cc(reader, files),
        size: reader.size("size"),
        mss: reader.integer("mss", MSS, " bytes").map(|bytes| bytes as u32),
        send_buffer: socket_buffer("send_buffer", reader),
        receive_buffer: socket_buffer("receive_buffer", reader),
        pacing: reader.rate("pacing"),
        read_rate: reader.rate("read_rate"),
        write_rate: reader.rate("write_rate"),
        write_size: write_size(reader),
        reader_stops,
        reader_resumes,
    }
}

/// Size of the application's writes.
fn write_size(reader: &mut Reader) -> Option<Bytes> {
    let size = reader.size("write_size")?;
    if size > MAX_WRITE {
        reader.report("write_size", format!("a write cannot be {size}"), "write 1B to 1MiB");
    }
    Some(size)
}

/// When the receiving application stops reading, and when it resumes.
fn reader_pause(reader: &mut Reader) -> (Option<Instant>, Option<Instant>) {
    let (stops, resumes) = (reader.instant("reader_stops"), reader.instant("reader_resumes"));
    if reader.node("reader_resumes").is_some() && reader.node("reader_stops").is_none() {
        reader.report("reader_resumes", "the reader never stops", "add \"reader_stops\"");
    }
    if let (Some(stops), Some(resumes)) = (stops, resumes)
        && resumes <= stops
    {
        let help = format!("write a time after {stops}");
        reader.report("reader_resumes", "the reader resumes before it stops", help);
    }
    (stops, resumes)
}

fn socket_buffer(key: &str, reader: &mut Reader) -> Option<Bytes> {
    let size = reader.size(key)?;
    if size > MAX_SOCKET_BUFFER {
        reader.report(key, format!("a socket buffer cannot be {size}"), "write less than 1GiB");
    }
    Some(size)
}

fn decode_ping(reader: &mut Reader) -> PingSpec {
    let default = PingSpec::default();
    let interval = reader.time("interval").unwrap_or(default.interval);
    if interval < MIN_PING_INTERVAL {
        reader.report("interval", format!("\"interval\" cannot be {interval}"), "write at least 1ms");
    }
    let payload = reader.quantity("payload").unwrap_or(default.payload);
    if payload > MAX_PING_PAYLOAD {
        let help = format!("write at most {}B", MAX_PING_PAYLOAD.0);
        reader.report("payload", format!("an echo request cannot carry {payload}"), help);
    }
    let count = reader.integer("count", 1..=u32::MAX.into(), "").map(|count| count as u32);
    PingSpec { interval, count, payload }
}

fn decode_udp(reader: &mut Reader) -> UdpSpec {
    reader.required("rate", "\"100mbit\"");
    let rate = reader.rate("rate").unwrap_or_default();
    let packet = reader.size("packet");
    if let Some(packet) = packet {
        if packet > MAX_DATAGRAM {
            let help = format!("write at most {}B", MAX_DATAGRAM.0);
            reader.report("packet", format!("a datagram cannot carry {packet}"), help);
        } else if u128::from(packet.0) * 8_000_000_000 < MIN_SPACING_NS * u128::from(rate.0) {
            let message = format!("{rate} is more than one datagram of {packet} per nanosecond");
            reader.report("packet", message, "write larger datagrams or a lower rate");
        }
    }
    UdpSpec { rate, packet, size: reader.size("size"), bursts: decode_bursts(reader) }
}

/// The lengths of bursts and pauses; a flow must have both or neither.
fn decode_bursts(reader: &mut Reader) -> Option<Bursts> {
    let (on, off) = (reader.positive_time("on"), reader.positive_time("off"));
    if on.is_some_and(|on| on < MIN_BURST) {
        reader.report("on", "\"on\" is too short", "write at least 10us");
    }
    let lengths = match reader.boolean("random") {
        Some(true) => BurstLengths::Exponential,
        _ => BurstLengths::Fixed,
    };
    for (key, other) in [("on", "off"), ("off", "on"), ("random", "on")] {
        if reader.node(key).is_some() && reader.node(other).is_none() {
            let help = format!("write for example {other} = \"1s\"");
            reader.report(key, format!("\"{key}\" needs \"{other}\""), help);
        }
    }
    Some(Bursts { on: on?, off: off?, lengths })
}
