//! `start`: the two ends and the requested test.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::object::real;
use crate::report::{Amount, Connection, Direction, Protocol, Role, Start, TestSpec};

/// Appends some of the keys.
type Part = fn(&Start, &mut Map<String, Value>);

/// The object under `start`, which is also the data of the event `start`.
pub fn start_json(start: &Start) -> Value {
    let mut object = Map::new();
    object.insert("connected".into(), start.connections.iter().map(connected).collect());
    object.insert("version".into(), start.version.as_str().into());
    object.insert("system_info".into(), start.system_info.as_str().into());
    // iperf3's server adds the rate, and with TCP the buffer sizes, before it accepts the client, so they
    // come first.
    let order: [Part; 3] = match (start.role, start.spec.protocol) {
        (Role::Client, _) => [peer, rates, buffers],
        (Role::Server, Protocol::Tcp) => [rates, buffers, peer],
        (Role::Server, Protocol::Udp) => [rates, peer, buffers],
    };
    order.iter().for_each(|add| add(start, &mut object));
    object.insert("test_start".into(), test_start(&start.spec));
    Value::Object(object)
}

/// The other end, and the time.
fn peer(start: &Start, object: &mut Map<String, Value>) {
    object.insert("timestamp".into(), timestamp(start.time));
    let peer = match start.role {
        Role::Client => "connecting_to",
        Role::Server => "accepted_connection",
    };
    object.insert(peer.into(), json!({ "host": start.peer_name, "port": start.port }));
    object.insert("cookie".into(), start.cookie.as_str().into());
    if start.spec.protocol == Protocol::Tcp {
        match start.spec.mss {
            Some(mss) => object.insert("tcp_mss".into(), mss.into()),
            None => object.insert("tcp_mss_default".into(), start.mss.into()),
        };
    }
}

fn rates(start: &Start, object: &mut Map<String, Value>) {
    object.insert("target_bitrate".into(), start.spec.rate.map_or(0, |rate| rate.0).into());
    object.insert("fq_rate".into(), start.spec.fq_rate.map_or(0, |rate| rate.0).into());
}

fn buffers(start: &Start, object: &mut Map<String, Value>) {
    object.insert("sock_bufsize".into(), start.spec.window.map_or(0, |window| window.0).into());
    object.insert("sndbuf_actual".into(), start.sndbuf_actual.into());
    object.insert("rcvbuf_actual".into(), start.rcvbuf_actual.into());
}

fn connected(connection: &Connection) -> Value {
    json!({
        "socket": connection.id,
        "local_host": plain_ip(connection.local.ip()).to_string(),
        "local_port": connection.local.port(),
        "remote_host": plain_ip(connection.remote.ip()).to_string(),
        "remote_port": connection.remote.port(),
    })
}

/// An IPv4 address without the prefix `::ffff:` of an IPv6 socket.
fn plain_ip(address: std::net::IpAddr) -> std::net::IpAddr {
    address.to_canonical()
}

fn timestamp(time: SystemTime) -> Value {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    json!({ "time": http_date(time), "timesecs": since.as_secs(), "timemillisecs": millis })
}

/// Such as `Sat, 21 Nov 2026 20:00:27 GMT` (RFC 1123). Empty for a time outside the calendar.
pub(super) fn http_date(time: SystemTime) -> String {
    let date = jiff::Timestamp::try_from(time);
    date.map(|date| date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).unwrap_or_default()
}

fn test_start(spec: &TestSpec) -> Value {
    let (mut duration, mut bytes, mut blocks) = (Duration::ZERO, 0, 0);
    match spec.amount {
        Amount::Time(time) => duration = time,
        Amount::Bytes(size) => bytes = size.0,
        Amount::Blocks(count) => blocks = count,
    }
    json!({
        "protocol": match spec.protocol { Protocol::Tcp => "TCP", Protocol::Udp => "UDP" },
        "num_streams": spec.streams,
        "blksize": spec.block.0,
        "omit": real(spec.omit.as_secs_f64()),
        "duration": real(duration.as_secs_f64()),
        "bytes": bytes,
        "blocks": blocks,
        "reverse": u8::from(spec.direction == Direction::Reverse),
        "tos": spec.tos,
        "target_bitrate": spec.rate.map_or(0, |rate| rate.0),
        "bidir": u8::from(spec.direction == Direction::Both),
        "fqrate": spec.fq_rate.map_or(0, |rate| rate.0),
        "interval": real(spec.interval.as_secs_f64()),
        // The effect of --gsro of iperf 3.21: longfat uses the kernel's segmentation whenever possible.
        "gso": 0,
        "gro": 0,
    })
}
