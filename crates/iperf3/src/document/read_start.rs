//! Reads `start` of a document, and the mapping of sockets to streams.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use units::{BitRate, Bytes};

use super::{Error, source::Object};
use crate::report::{Amount, Connection, Direction, Protocol, Role, Start, TestSpec};

/// Longfat's number of each `socket`, and whether this end sends on it.
#[derive(Debug, Default)]
pub(super) struct Sockets(BTreeMap<u64, (u32, bool)>);

impl Sockets {
    pub(super) fn id(&self, socket: u64) -> Option<u32> {
        self.0.get(&socket).map(|known| known.0)
    }

    pub(super) fn sender(&self, socket: u64) -> Option<bool> {
        self.0.get(&socket).map(|known| known.1)
    }
}

/// The start of a test; `None` if it did not begin.
pub(super) fn read_start(top: &Object<'_>) -> Result<Option<(Start, Sockets)>, Error> {
    let Some(start) = top.object("start")? else { return Ok(None) };
    let Some(requested) = start.object("test_start")? else { return Ok(None) };
    let (peer, role) = match start.object("accepted_connection")? {
        Some(peer) => (Some(peer), Role::Server),
        None => (start.object("connecting_to")?, Role::Client),
    };
    let (mut peer_name, mut port) = (String::new(), 0);
    if let Some(peer) = peer {
        peer_name = peer.text("host")?.unwrap_or_default();
        port = peer.fitting_count("port")?.unwrap_or(0);
    }
    let spec = read_spec(top, &start, &requested)?;
    let sockets = number(top, &start, &spec, role)?;
    let connections = start
        .objects("connected")?
        .iter()
        .map(|one| connection(one, &sockets))
        .collect::<Result<Vec<Connection>, Error>>()?;
    let peer = connections.first().map(|connection| connection.remote.ip());
    let peer = peer.or_else(|| ip(&peer_name)).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let text = |key: &str| start.text(key).map(Option::unwrap_or_default);
    let count = |key: &str| start.count(key).map(Option::unwrap_or_default);
    let begun = Start {
        role,
        peer,
        port,
        peer_name,
        version: text("version")?,
        system_info: text("system_info")?,
        time: time(&start)?,
        cookie: text("cookie")?,
        mss: start.fitting_count("tcp_mss_default")?.or(spec.mss).unwrap_or(0),
        sndbuf_actual: count("sndbuf_actual")?,
        rcvbuf_actual: count("rcvbuf_actual")?,
        spec,
        connections,
    };
    Ok(Some((begun, sockets)))
}

fn time(start: &Object<'_>) -> Result<SystemTime, Error> {
    let Some(stamp) = start.object("timestamp")? else { return Ok(SystemTime::UNIX_EPOCH) };
    let since = match stamp.count("timemillisecs")? {
        Some(millis) => Duration::from_millis(millis),
        None => Duration::from_secs(stamp.count("timesecs")?.unwrap_or(0)),
    };
    SystemTime::UNIX_EPOCH
        .checked_add(since)
        .filter(|time| jiff::Timestamp::try_from(*time).is_ok())
        .ok_or_else(|| stamp.error("timesecs", "outside the calendar"))
}

fn read_spec(top: &Object<'_>, start: &Object<'_>, requested: &Object<'_>) -> Result<TestSpec, Error> {
    let protocol = match requested.text("protocol")?.as_deref() {
        Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some(other) => return Err(requested.error("protocol", &format!("{other:?} is neither TCP nor UDP"))),
        None => return Err(requested.error("protocol", "missing")),
    };
    let set = |key: &str| requested.flag(key).map(|flag| flag == Some(true));
    let direction = match (set("bidir")? || has_both(top)?, set("reverse")?) {
        (true, _) => Direction::Both,
        (false, true) => Direction::Reverse,
        (false, false) => Direction::Forward,
    };
    // 0 means that it was not requested.
    let some = |object: &Object<'_>, key: &str| object.count(key).map(|count| count.filter(|n| *n > 0));
    let amount = match (some(requested, "bytes")?, some(requested, "blocks")?) {
        (Some(bytes), _) => Amount::Bytes(Bytes(bytes)),
        (None, Some(blocks)) => Amount::Blocks(blocks),
        (None, None) => Amount::Time(requested.duration("duration")?.unwrap_or_default()),
    };
    let fq_rate = some(start, "fq_rate")?.or(some(requested, "fqrate")?);
    let rate = some(start, "target_bitrate")?.or(some(requested, "target_bitrate")?);
    Ok(TestSpec {
        direction,
        streams: requested.fitting_count("num_streams")?.unwrap_or(1),
        omit: requested.duration("omit")?.unwrap_or_default(),
        block: Bytes(requested.count("blksize")?.unwrap_or(0)),
        interval: interval(top, requested)?,
        rate: rate.map(BitRate),
        fq_rate: fq_rate.map(BitRate),
        send_buffer: None,
        receive_buffer: None,
        window: some(start, "sock_bufsize")?.map(Bytes),
        mss: start.fitting_count("tcp_mss")?,
        tos: requested.fitting_count("tos")?.unwrap_or(0),
        get_server_output: top.has("server_output_json") || top.has("server_output_text"),
        title: top.text("title")?,
        extra_data: top.text("extra_data")?,
        ..TestSpec::new(protocol, amount)
    })
}

/// Whether there are sums of both directions: `bidir` exists only since 3.14.
fn has_both(top: &Object<'_>) -> Result<bool, Error> {
    let both = |object: &Object<'_>| object.has("sum_bidir_reverse") || object.has("sum_sent_bidir_reverse");
    let ended = top.object("end")?.is_some_and(|end| both(&end));
    Ok(ended || top.objects("intervals")?.first().is_some_and(both))
}

/// The report interval: in the document since 3.17; before that, the length of the first interval.
fn interval(top: &Object<'_>, requested: &Object<'_>) -> Result<Duration, Error> {
    if let Some(interval) = requested.duration("interval")? {
        return Ok(interval);
    }
    let intervals = top.objects("intervals")?;
    let streams = match intervals.first() {
        Some(first) => first.objects("streams")?,
        None => Vec::new(),
    };
    match streams.first() {
        Some(stream) => Ok(stream.duration("seconds")?.unwrap_or_default()),
        None => Ok(Duration::ZERO),
    }
}

/// Numbers the sockets in the order of their appearance in the document.
fn number(top: &Object<'_>, start: &Object<'_>, spec: &TestSpec, role: Role) -> Result<Sockets, Error> {
    let mut order: Vec<u64> = Vec::new();
    let mut is_sender: BTreeMap<u64, bool> = BTreeMap::new();
    for connected in start.objects("connected")? {
        order.extend(connected.count("socket")?);
    }
    for interval in top.objects("intervals")? {
        for stream in interval.objects("streams")? {
            let Some(socket) = stream.count("socket")? else { continue };
            order.push(socket);
            if let Some(sender) = known_direction(&stream)? {
                is_sender.insert(socket, sender);
            }
        }
    }
    let end = top.object("end")?;
    for stream in end.iter().map(|end| end.objects("streams")).collect::<Result<Vec<_>, _>>()?.concat() {
        for side in ["sender", "receiver", "udp"] {
            let Some(side) = stream.object(side)? else { continue };
            let Some(socket) = side.count("socket")? else { continue };
            order.push(socket);
            if let Some(sender) = side.flag("sender")? {
                is_sender.insert(socket, sender);
            }
        }
    }
    let mut sockets = Sockets::default();
    for socket in order {
        let before = sockets.0.len();
        let sender = is_sender.get(&socket).copied().unwrap_or_else(|| sends(spec, role, before));
        sockets.0.entry(socket).or_insert((id(before), sender));
    }
    Ok(sockets)
}

/// The direction of an interval's stream, from its `sender` key or (before 3.7) from its other keys; `None`
/// if unknown.
fn known_direction(stream: &Object<'_>) -> Result<Option<bool>, Error> {
    if let Some(sender) = stream.flag("sender")? {
        return Ok(Some(sender));
    }
    if stream.has("snd_cwnd") || stream.has("retransmits") {
        return Ok(Some(true));
    }
    Ok(stream.has("jitter_ms").then_some(false))
}

/// Whether this end sends on its stream `index`, by default: in a test of both directions the client's
/// streams come first.
fn sends(spec: &TestSpec, role: Role, index: usize) -> bool {
    let forward = match spec.direction {
        Direction::Forward => true,
        Direction::Reverse => false,
        Direction::Both => (index as u64) < u64::from(spec.streams),
    };
    forward == (role == Role::Client)
}

/// iperf3's numbers of streams: 1, 3, 4, 5, ...
fn id(index: usize) -> u32 {
    let number = if index == 0 { 1 } else { index + 2 };
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn connection(connected: &Object<'_>, sockets: &Sockets) -> Result<Connection, Error> {
    let socket = connected.count("socket")?.ok_or_else(|| connected.error("socket", "missing"))?;
    let address = |host: &str, port: &str| {
        let text = connected.text(host)?.unwrap_or_default();
        let ip = ip(&text).ok_or_else(|| connected.error(host, &format!("{text:?} is not an address")))?;
        Ok::<_, Error>(SocketAddr::new(ip, connected.fitting_count(port)?.unwrap_or(0)))
    };
    Ok(Connection {
        id: sockets.id(socket).unwrap_or(1),
        sender: sockets.sender(socket).unwrap_or(true),
        local: address("local_host", "local_port")?,
        remote: address("remote_host", "remote_port")?,
    })
}

/// An address, with or without the interface of a link-local one.
fn ip(text: &str) -> Option<IpAddr> {
    text.split('%').next()?.parse().ok()
}
