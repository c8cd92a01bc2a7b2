//! Reads `intervals` of a document.

use super::{Error, read_start::Sockets, source::Object};
use crate::report::{Datagrams, Interval, Protocol, Start, StreamInterval, TcpState};

/// The intervals. An interval without streams has the times of its sum, if it has one.
pub(super) fn read_intervals(
    top: &Object<'_>,
    start: &Start,
    sockets: &Sockets,
) -> Result<Vec<Interval>, Error> {
    top.objects("intervals")?.iter().map(|interval| read_interval(interval, start, sockets)).collect()
}

fn read_interval(interval: &Object<'_>, start: &Start, sockets: &Sockets) -> Result<Interval, Error> {
    let streams = interval
        .objects("streams")?
        .iter()
        .map(|stream| read_stream(stream, start, sockets))
        .collect::<Result<Vec<StreamInterval>, Error>>()?;
    let sum = interval.object("sum")?.or(interval.object("sum_bidir_reverse")?);
    let (start_s, end_s) = match (sum, streams.first()) {
        (Some(sum), _) => span(&sum)?,
        (None, Some(first)) => (first.start_s, first.end_s),
        (None, None) => (0.0, 0.0),
    };
    Ok(Interval { start_s, end_s, streams })
}

/// Maximum difference of `seconds` from the difference of the times: these are rounded, and clocks are read
/// twice.
const SLACK_S: f64 = 1e-3;

/// Start and end. For the first interval after an omitted beginning iperf3 counts the bytes of the counted
/// part, but its start is the time from the end of the last omitted interval to the beginning of the counted
/// part, and its length the sum of both.
fn span(object: &Object<'_>) -> Result<(f64, f64), Error> {
    let (start_s, end_s) = (object.required("start")?, object.required("end")?);
    match object.real("seconds")? {
        Some(seconds) if (end_s - start_s - seconds).abs() > SLACK_S => {
            Ok(((end_s - seconds).max(0.0), end_s))
        }
        _ => Ok((start_s, end_s)),
    }
}

fn read_stream(stream: &Object<'_>, start: &Start, sockets: &Sockets) -> Result<StreamInterval, Error> {
    let socket = stream.count("socket")?.ok_or_else(|| stream.error("socket", "missing"))?;
    let sender = match stream.flag("sender")? {
        Some(sender) => sender,
        None => sockets.sender(socket).unwrap_or(true),
    };
    let (start_s, end_s) = span(stream)?;
    let (mut tcp, mut udp) = (None, None);
    match start.spec.protocol {
        Protocol::Tcp => tcp = read_tcp(stream)?,
        Protocol::Udp => udp = Some(read_datagrams(stream)?),
    }
    Ok(StreamInterval {
        id: sockets.id(socket).unwrap_or(1),
        sender,
        start_s,
        end_s,
        bytes: stream.count("bytes")?.ok_or_else(|| stream.error("bytes", "missing"))?,
        omitted: stream.flag("omitted")?.unwrap_or(false),
        tcp,
        udp,
    })
}

/// The sender's TCP_INFO; values that older versions do not have are 0.
fn read_tcp(stream: &Object<'_>) -> Result<Option<TcpState>, Error> {
    if !stream.has("retransmits") && !stream.has("snd_cwnd") {
        return Ok(None);
    }
    let count = |key: &str| stream.count(key).map(Option::unwrap_or_default);
    Ok(Some(TcpState {
        retransmits: count("retransmits")?,
        snd_cwnd_bytes: count("snd_cwnd")?,
        snd_wnd_bytes: count("snd_wnd")?,
        rtt_us: count("rtt")?,
        rttvar_us: count("rttvar")?,
        pmtu_bytes: count("pmtu")?,
        reorder: count("reorder")?,
    }))
}

/// The datagrams of a stream or of a sum.
pub(super) fn read_datagrams(object: &Object<'_>) -> Result<Datagrams, Error> {
    Ok(Datagrams {
        packets: object.count("packets")?.unwrap_or(0),
        lost: object.signed("lost_packets")?.unwrap_or(0),
        out_of_order: object.count("out_of_order")?.unwrap_or(0),
        jitter_s: object.real("jitter_ms")?.unwrap_or(0.0) / 1e3,
    })
}
