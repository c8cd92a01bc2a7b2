//! An iperf3 report as the record's rows: a flow per stream, a row per interval; values that iperf3 does not
//! report stay empty.

use iperf3::report::{Protocol, Report, Start, StreamInterval};
use schema::FlowSample;

/// A stream and the name of its flow in the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its number in iperf3's document.
    pub id: u32,
    /// `stream-1`, `stream-3` and so on.
    pub name: String,
    /// Whether the client sends.
    pub forward: bool,
    /// Payload of the sender's segments, bytes; `None` if unknown.
    pub mss_bytes: Option<u64>,
}

/// The streams of a report, those that the client sends first.
pub fn streams(report: &Report) -> Vec<Stream> {
    let Some(start) = &report.start else { return Vec::new() };
    let client = start.role == iperf3::report::Role::Client;
    let mut found: Vec<(u32, bool)> = Vec::new();
    let ended = report.end.iter().flat_map(|end| &end.streams).map(|stream| (stream.id, stream.forward));
    let connected = start.connections.iter().map(|one| (one.id, one.sender == client));
    let seen = report.intervals.iter().flat_map(|i| &i.streams).map(|one| (one.id, one.sender == client));
    for one in ended.chain(connected).chain(seen) {
        if !found.iter().any(|known| known.0 == one.0) {
            found.push(one);
        }
    }
    found.sort_by_key(|(id, forward)| (!forward, *id));
    let named = |(id, forward)| Stream {
        id,
        name: iperf3::flow_name(id),
        forward,
        mss_bytes: mss(report, start, id),
    };
    found.into_iter().map(named).collect()
}

/// IP and TCP headers, bytes: IPv4 and IPv6, with and without timestamps.
const HEADERS_BYTES: [u64; 4] = [52, 40, 72, 60];
/// TCP timestamps, which reduce the payload below the negotiated MSS, bytes.
const TIMESTAMPS_BYTES: u64 = 12;

/// The segment size. iperf3 reports the congestion window in bytes (segments times segment size) but not the
/// segment size, which is therefore the first plausible size that divides all windows; otherwise the control
/// connection's.
fn mss(report: &Report, start: &Start, id: u32) -> Option<u64> {
    if start.spec.protocol == Protocol::Udp {
        return None;
    }
    let agreed = u64::from(start.mss);
    let states: Vec<_> =
        of_stream(report, id).filter_map(|one| one.tcp).filter(|tcp| tcp.snd_cwnd_bytes > 0).collect();
    let pmtu = states.iter().map(|tcp| tcp.pmtu_bytes).max().unwrap_or(0);
    let pmtu_mss = HEADERS_BYTES.into_iter().filter_map(|headers| pmtu.checked_sub(headers));
    let mut plausible = agreed.checked_sub(TIMESTAMPS_BYTES).into_iter().chain([agreed]).chain(pmtu_mss);
    let fits = |size: &u64| *size > 0 && states.iter().all(|tcp| tcp.snd_cwnd_bytes.is_multiple_of(*size));
    let found = if states.is_empty() { None } else { plausible.find(fits) };
    found.or((agreed > 0).then_some(agreed))
}

fn of_stream(report: &Report, id: u32) -> impl Iterator<Item = &StreamInterval> {
    report.intervals.iter().flat_map(|interval| &interval.streams).filter(move |stream| stream.id == id)
}

/// Start of the counted part, seconds since the data began: iperf3's times restart after `-O`.
pub fn counted_from(report: &Report) -> f64 {
    let all = || report.intervals.iter().flat_map(|interval| &interval.streams);
    if !all().any(|stream| stream.omitted) {
        return 0.0;
    }
    let omitted_s = report.start.as_ref().map_or(0.0, |start| start.spec.omit.as_secs_f64());
    let first_s = all().find(|stream| !stream.omitted).map_or(0.0, |stream| stream.start_s);
    // Times that restarted begin near 0, others near the end of the omitted part.
    if first_s < omitted_s / 2.0 { omitted_s } else { 0.0 }
}

/// The rows of all streams in the order of time.
pub fn rows(report: &Report, streams: &[Stream]) -> Vec<FlowSample> {
    let shift_s = counted_from(report);
    let mut rows: Vec<FlowSample> =
        streams.iter().flat_map(|stream| stream_rows(report, stream, shift_s)).collect();
    rows.sort_by_key(|row| row.time_us);
    rows
}

fn stream_rows(report: &Report, stream: &Stream, shift_s: f64) -> Vec<FlowSample> {
    let mut totals = Totals::default();
    // Start of the first interval.
    let begun = FlowSample { flow: stream.name.clone(), ..FlowSample::default() };
    let intervals = of_stream(report, stream.id);
    std::iter::once(begun)
        .chain(intervals.map(|interval| row(interval, stream, shift_s, &mut totals)))
        .collect()
}

/// Counts since the start.
#[derive(Debug, Default)]
struct Totals {
    bytes: u64,
    retransmits: u64,
    packets: u64,
    lost: i64,
    reordered: u64,
}

fn row(interval: &StreamInterval, stream: &Stream, shift_s: f64, totals: &mut Totals) -> FlowSample {
    let shift_s = if interval.omitted { 0.0 } else { shift_s };
    let seconds = interval.end_s - interval.start_s;
    totals.bytes = totals.bytes.saturating_add(interval.bytes);
    let mut row = FlowSample {
        time_us: ((interval.end_s + shift_s) * 1e6).round() as i64,
        flow: stream.name.clone(),
        goodput_bps: (seconds > 0.0).then(|| (interval.bytes as f64 * 8.0 / seconds).round() as i64),
        snd_mss_bytes: stream.mss_bytes.map(signed),
        ..FlowSample::default()
    };
    if !interval.sender {
        row.bytes_received = Some(signed(totals.bytes));
    }
    // iperf3 reports 0 for unknown values.
    let known = |value: u64| (value > 0).then(|| signed(value));
    if let Some(tcp) = &interval.tcp {
        totals.retransmits = totals.retransmits.saturating_add(tcp.retransmits);
        row.total_retrans_segs = Some(signed(totals.retransmits));
        row.srtt_us = known(tcp.rtt_us);
        row.rttvar_us = known(tcp.rttvar_us);
        row.snd_wnd_bytes = known(tcp.snd_wnd_bytes);
        row.snd_cwnd_segs = stream
            .mss_bytes
            .filter(|mss| *mss > 0)
            .and_then(|mss| known((tcp.snd_cwnd_bytes as f64 / mss as f64).round() as u64));
    }
    if let Some(udp) = &interval.udp {
        totals.packets = totals.packets.saturating_add(udp.packets);
        totals.lost = totals.lost.saturating_add(udp.lost);
        totals.reordered = totals.reordered.saturating_add(udp.out_of_order);
        match interval.sender {
            true => row.datagrams_sent = Some(signed(totals.packets)),
            false => {
                row.datagrams_received = Some(signed(totals.packets).saturating_sub(totals.lost).max(0));
                row.datagrams_lost = Some(totals.lost);
                row.datagrams_reordered = (totals.reordered > 0).then(|| signed(totals.reordered));
                row.jitter_us = Some((udp.jitter_s * 1e6).round() as i64);
            }
        }
    }
    row
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
