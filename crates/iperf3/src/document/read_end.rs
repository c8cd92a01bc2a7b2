//! Reads `end` of a document.

use super::{Error, read_intervals::read_datagrams, read_start::Sockets, source::Object};
use crate::report::{
    Cpu, Datagrams, Direction, End, Interval, Role, ServerOutput, Start, StreamEnd, StreamTotals, TcpSummary,
};

/// The end of a test; `None` if the document has no streams there.
pub(super) fn read_end(
    top: &Object<'_>,
    start: &Start,
    sockets: &Sockets,
    intervals: &[Interval],
) -> Result<Option<End>, Error> {
    let Some(end) = top.object("end")?.filter(|end| end.has("streams")) else { return Ok(None) };
    let mut streams = Vec::new();
    for stream in end.objects("streams")? {
        let one = match stream.object("udp")? {
            Some(udp) => read_udp(&end, &udp, start, sockets, intervals)?,
            None => read_tcp(&stream, start, sockets)?,
        };
        streams.push(one);
    }
    let json = top.value("server_output_json").map(|value| ServerOutput::Json(value.clone()));
    Ok(Some(End {
        streams,
        cpu_local: cpu(&end, "host")?,
        cpu_remote: cpu(&end, "remote")?,
        sender_congestion: end.text("sender_tcp_congestion")?,
        receiver_congestion: end.text("receiver_tcp_congestion")?,
        file_bytes: None,
        server_output: json.or(top.text("server_output_text")?.map(ServerOutput::Text)),
    }))
}

fn cpu(end: &Object<'_>, which: &str) -> Result<Cpu, Error> {
    let Some(cpu) = end.object("cpu_utilization_percent")? else { return Ok(Cpu::default()) };
    let share = |what: &str| cpu.real(&format!("{which}_{what}")).map(Option::unwrap_or_default);
    Ok(Cpu { total: share("total")?, user: share("user")?, system: share("system")? })
}

/// Longfat's number of the stream, and whether its data is sent from client to server.
fn identity(side: &Object<'_>, start: &Start, sockets: &Sockets) -> Result<(u32, bool), Error> {
    let socket = side.count("socket")?.ok_or_else(|| side.error("socket", "missing"))?;
    let sender = match side.flag("sender")? {
        Some(sender) => sender,
        None => sockets.sender(socket).unwrap_or(true),
    };
    Ok((sockets.id(socket).unwrap_or(1), sender == (start.role == Role::Client)))
}

fn totals(object: &Object<'_>) -> Result<StreamTotals, Error> {
    Ok(StreamTotals {
        start_s: object.real("start")?.unwrap_or(0.0),
        end_s: object.required("end")?,
        bytes: object.count("bytes")?.unwrap_or(0),
        udp: None,
    })
}

/// A stream with its two ends; a missing end is assumed to equal the other.
fn read_tcp(stream: &Object<'_>, start: &Start, sockets: &Sockets) -> Result<StreamEnd, Error> {
    let (sender, receiver) = (stream.object("sender")?, stream.object("receiver")?);
    let (Some(one), Some(other)) =
        (sender.as_ref().or(receiver.as_ref()), receiver.as_ref().or(sender.as_ref()))
    else {
        return Err(stream.error("sender", "missing, as is the receiver"));
    };
    let (id, forward) = identity(one, start, sockets)?;
    let mut tcp = None;
    if one.has("retransmits") || one.has("max_snd_cwnd") {
        let count = |key: &str| one.count(key).map(Option::unwrap_or_default);
        tcp = Some(TcpSummary {
            retransmits: one.count("retransmits")?,
            reorder: count("reorder")?,
            max_snd_cwnd_bytes: count("max_snd_cwnd")?,
            max_snd_wnd_bytes: count("max_snd_wnd")?,
            max_rtt_us: count("max_rtt")?,
            min_rtt_us: count("min_rtt")?,
            mean_rtt_us: count("mean_rtt")?,
        });
    }
    Ok(StreamEnd { id, forward, sent: totals(one)?, received: totals(other)?, tcp })
}

/// A stream whose two ends are in one object. The receiver's part comes from what is available: the sum of a
/// single stream, the intervals of a receiving end, or the blocks that were not lost.
fn read_udp(
    end: &Object<'_>,
    udp: &Object<'_>,
    start: &Start,
    sockets: &Sockets,
    intervals: &[Interval],
) -> Result<StreamEnd, Error> {
    let (id, forward) = identity(udp, start, sockets)?;
    let datagrams_of_both = read_datagrams(udp)?;
    let backward = start.spec.direction == Direction::Both && !forward;
    let sum = |name: &str| {
        let sum = end.object(&format!("{name}{}", if backward { "_bidir_reverse" } else { "" }))?;
        sum.map(|sum| Ok::<_, Error>((totals(&sum)?, read_datagrams(&sum)?))).transpose()
    };
    // A receiving server does not get the sender's count, and its `packets` are the received ones.
    let sent_packets = match sum("sum_sent")? {
        Some((_, sum)) if sum.packets == 0 || start.spec.streams == 1 => sum.packets,
        _ => datagrams_of_both.packets,
    };
    let sent = StreamTotals {
        udp: Some(Datagrams { packets: sent_packets, ..Datagrams::default() }),
        ..totals(udp)?
    };
    let mut received = StreamTotals { udp: Some(datagrams_of_both), ..sent };
    let interval_bytes: Vec<u64> = intervals
        .iter()
        .flat_map(|interval| &interval.streams)
        .filter(|stream| stream.id == id && !stream.sender && !stream.omitted)
        .map(|stream| stream.bytes)
        .collect();
    received.bytes = match interval_bytes.is_empty() {
        true => {
            let arrived = i128::from(datagrams_of_both.packets) - i128::from(datagrams_of_both.lost);
            u64::try_from(arrived.max(0)).unwrap_or(u64::MAX).saturating_mul(start.spec.block.0)
        }
        false => interval_bytes.into_iter().fold(0, u64::saturating_add),
    };
    if let Some((sum, datagrams)) = sum("sum_received")? {
        (received.start_s, received.end_s) = (sum.start_s, sum.end_s);
        if start.spec.streams == 1 {
            received.bytes = sum.bytes;
            received.udp = Some(Datagrams { packets: datagrams.packets, ..datagrams_of_both });
        }
    }
    Ok(StreamEnd { id, forward, sent, received, tcp: None })
}
